/* SPDX-License-Identifier: MIT */
/*
 * common: the file `common.pt` of Megatron. Megatron saves tensors by
 * torch.distributed.checkpoint, and values that all ranks share by torch.save, in
 * `common.pt` beside them, if `metadata.json` names this backend. Its entries are shown
 * below `common`.
 *
 * Source: megatron-core 0.16.1, megatron/core/dist_checkpointing/core.py
 * (CheckpointingConfig) and strategies/common.py (COMMON_STATE_FNAME).
 *
 * struct ck_dcp_common is constant after the load; any thread may read it.
 */
#include "dcp_common.h"
#include "format/load/load_gather.h"
#include "format/torch/torch_beside.h"
#include "syntax/json_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define CONFIG "metadata.json"

/* Upper limit of the size of metadata.json, in bytes. */
enum { CONFIG_MOST = 1 << 20 };

/* --- whether Megatron saved the checkpoint ---------------------------------------- */

/* Returns 1 if the backend of tensors is DCP, 0 if not, or: -EBADMSG if the file is
 * malformed; -ENOMEM. */
static int backend_is_dcp(struct ck_json_reader *r)
{
	struct ck_json_value v;
	int found = 0, rc = ck_json_next(r, &v);

	if (rc == 0 && v.type != CK_JSON_OBJECT)
		return ck_json_refuse(r, &v, "no object");
	while (rc == 0) {
		rc = ck_json_next(r, &v);
		if (rc || v.type == CK_JSON_END)
			break;
		if (ck_str_is(v.key, "sharded_backend"))
			found = v.type == CK_JSON_STRING &&
				ck_str_is(v.text, "torch_dist");
		rc = ck_json_skip(r, &v);
	}
	if (rc == 0)
		rc = ck_json_next(r, &v);
	return rc ? rc : found;
}

/* The same of a text; also 0 if it is malformed. */
static int config_parse(struct ck_str text)
{
	struct ck_diag malformed = { 0 };
	ck_auto_free struct ck_json_reader *reader = malloc(sizeof(*reader));
	int rc;

	if (!reader)
		return -ENOMEM;
	ck_json_reader_init(reader, text, &malformed);
	rc = backend_is_dcp(reader);
	ck_json_reader_fini(reader);
	return rc < 0 && !ck_is_shortage(rc) ? 0 : rc;
}

/* Returns 1 if `metadata.json` names the DCP backend; 0 if not, or if the file is
 * missing, cannot be followed or is malformed; or: -ESTALE if hosts have different
 * files; other errors of reading. */
static int config_read(const struct ck_checkpoint *cp, struct ck_diag *d)
{
	struct ck_metadata_text text = { 0 };
	int rc = ck_metadata_read_other(cp, CONFIG, CONFIG_MOST, &text, d);

	if (rc == -ENOENT || rc == -EXDEV || rc == -ELOOP || rc == -EBADMSG)
		rc = 0;
	else if (rc == 0)
		rc = config_parse((struct ck_str){ text.pages, text.len });
	ck_metadata_text_fini(&text);
	if (ck_is_shortage(rc))
		return ck_fail(d, -rc, "%s", strerror(-rc));
	return rc;
}

static bool is_common(const char *name)
{
	return strcmp(name, CK_DCP_COMMON) == 0;
}

static int file_is_here(const struct ck_checkpoint *cp, struct ck_diag *d)
{
	if (faccessat(cp->dirfd, CK_DCP_COMMON, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0
			       : ck_fail(d, errno, CK_DCP_COMMON ": %s",
					 strerror(errno));
}

/* Returns 1 if a host has common.pt, 0 if no host has it, or a negative errno. */
static int file_is_somewhere(const struct ck_checkpoint *cp, struct ck_diag *d)
{
	const struct ck_src src = { .dirfd = cp->dirfd,
				    .elsewhere = cp->elsewhere };

	return ck_src_has_name(&src, is_common, d);
}

/* Returns 1 if a local directory has a common.pt of Megatron, 0 if not, or a negative
 * errno. */
static int is_there(const struct ck_checkpoint *cp, struct ck_diag *d)
{
	int rc = file_is_here(cp, d);

	return rc > 0 ? config_read(cp, d) : rc;
}

/* The same over several hosts. metadata.json, which few checkpoints have, is read
 * first, because listing the names of all hosts takes longer. If hosts disagree about
 * it, common.pt is a loss of the catalog. */
static int is_somewhere(const struct ck_checkpoint *cp, struct ck_catalog *c,
			struct ck_diag *d)
{
	struct ck_diag why = { 0 };
	struct ck_loss loss = { .file = CK_NO_FILE, .err = EBADMSG };
	int says = config_read(cp, &why), rc = 0;

	if (says && !ck_is_shortage(says))
		rc = file_is_somewhere(cp, says > 0 ? &why : NULL);
	if (ck_is_shortage(says) || ck_is_shortage(rc))
		return ck_fail(d, ENOMEM, "out of memory");
	if (rc == 0 || (rc > 0 && says > 0))
		return rc;
	ck_diag_prefix(&why, CK_DCP_COMMON " is not shown");
	loss.what = ck_str_from(why.text);
	return ck_catalog_loss_add(c, &loss)
		       ? ck_fail(d, ENOMEM, "out of memory")
		       : 0;
}

/* --- entries ---------------------------------------------------------------------- */

static int file_show(struct ck_torch_load *l, struct ck_torch_state **own)
{
	int rc = ck_torch_file_add(l, CK_DCP_COMMON);

	if (rc)
		return rc;
	rc = ck_checkpoint_gather_one(l->cp, l->c, l->files[0].number, l->d);
	if (rc == 0)
		rc = ck_torch_beside_add(l);
	return rc ? rc : ck_torch_state_add(l, own);
}

static int common_add(struct ck_checkpoint *cp, struct ck_catalog *c,
		      struct ck_dcp_common *out, struct ck_diag *d)
{
	struct ck_torch_load l = { .cp = cp, .c = c, .d = d };
	int rc = file_show(&l, &out->own);

	if (rc == 0)
		out->file = l.files[0].number;
	ck_torch_load_fini(&l);
	return rc;
}

int ck_dcp_common_load(struct ck_checkpoint *cp, struct ck_catalog *c,
		       struct ck_dcp_common *out, struct ck_diag *d)
{
	int rc = cp->elsewhere ? is_somewhere(cp, c, d) : is_there(cp, d);

	out->file = CK_NO_FILE;
	return rc > 0 ? common_add(cp, c, out, d) : rc;
}

void ck_dcp_common_fini(struct ck_dcp_common *common)
{
	ck_torch_state_free(common->own);
}

/* --- bytes ------------------------------------------------------------------------ */

/* All bytes of common.pt are in use, also those between storages. */
uint64_t ck_dcp_head(const struct ck_checkpoint *cp, uint32_t file)
{
	const struct ck_dcp_common *common = cp->own;

	return common && file == common->file
		       ? ck_files_info(cp->files, file)->size
		       : 0;
}

struct ck_sum *ck_dcp_sum(const struct ck_checkpoint *cp,
			  const struct ck_item *item)
{
	const struct ck_dcp_common *common = cp->own;

	return common && common->own ? ck_torch_state_sum(common->own, item)
				     : NULL;
}

struct ck_sum *ck_dcp_pickle_sum(const struct ck_checkpoint *cp, uint32_t file)
{
	const struct ck_dcp_common *common = cp->own;

	return common && common->own
		       ? ck_torch_state_pickle_sum(common->own, file)
		       : NULL;
}
