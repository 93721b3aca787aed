/* SPDX-License-Identifier: MIT */
/*
 * producers: recognises, by names in the directory, checkpoints of DeepSpeed, Megatron's
 * legacy format and Orbax. They are not read: their files of torch.save look like files of
 * ranks, but hold slices that only those programs put together. It also finds the directory
 * where verl saves config.json. Stateless.
 *
 * Source: DeepSpeed 0.19.8, deepspeed/runtime/engine.py (save_checkpoint,
 * _get_zero_ckpt_name, _get_ckpt_name); Megatron-LM, megatron/training/checkpointing.py
 * (get_checkpoint_name); Orbax 0.12.8, orbax/checkpoint/_src/metadata/checkpoint.py and the
 * driver OCDBT of TensorStore.
 */
#include "detect.h"
#include "format/load/load_gather.h"
#include "format/run/run.h"
#include "format/run/run_kind.h"
#include "warn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* --- names ------------------------------------------------------------------------ */

/* True if the name begins with the text, and a digit follows. */
static bool is_numbered(const char *name, const char *text)
{
	size_t len = strlen(text);

	return strncmp(name, text, len) == 0 && name[len] >= '0' &&
	       name[len] <= '9';
}

static bool is_zero(const char *name)
{
	return is_numbered(name, "zero_pp_rank_") ||
	       is_numbered(name, "bf16_zero_pp_rank_");
}

static bool is_model_states(const char *name)
{
	const char *at = strstr(name, "mp_rank_");

	return at && is_numbered(at, "mp_rank_") &&
	       ck_name_ends(name, "_model_states.pt");
}

static bool is_mp_rank(const char *name)
{
	return is_numbered(name, "mp_rank_");
}

static bool is_orbax(const char *name)
{
	return strcmp(name, "_CHECKPOINT_METADATA") == 0 ||
	       strcmp(name, "manifest.ocdbt") == 0;
}

static bool is_latest(const char *name)
{
	return strcmp(name, "latest") == 0;
}

static bool is_global_step(const char *name)
{
	return is_numbered(name, "global_step");
}

#define CONVERT                                                                \
	"zero_to_fp32.py DIR OUT, which DeepSpeed saves in the directory DIR " \
	"that has latest, writes files that are read"

enum { LATEST, GLOBAL_STEP, SURE, NMARKS = 6 };

/* The first two together are DeepSpeed's. Each of the others is sure. In the order in which
 * they are reported. */
static const struct mark {
	bool (*is)(const char *name);
	const char *program, *advice;
} marks[NMARKS] = {
	{ is_latest, "DeepSpeed", CONVERT },
	{ is_global_step, "DeepSpeed", CONVERT },
	{ is_zero, "DeepSpeed", CONVERT },
	{ is_model_states, "DeepSpeed",
	  "load it with DeepSpeed and save the state_dict() of its module, or "
	  "give one of the files" },
	{ is_mp_rank, "Megatron's legacy format",
	  "save it with Megatron's --ckpt-format torch_dist" },
	{ is_orbax, "Orbax",
	  "load it with orbax.checkpoint and save it as safetensors" },
};

/* --- directories ------------------------------------------------------------------- */

/* For each mark the first of its names, and their number. */
struct found {
	char first[NMARKS][NAME_MAX + 1];
	size_t n[NMARKS];
};

static int entry_look(void *arg, const struct dirent *e)
{
	struct found *f = arg;

	for (size_t i = 0; i < NMARKS; i++) {
		char *first = f->first[i];

		if (!marks[i].is(e->d_name))
			continue;
		if (f->n[i]++ == 0 ||
		    ck_str_natural_cmp(ck_str_from(e->d_name),
				       ck_str_from(first)) < 0)
			snprintf(first, NAME_MAX + 1, "%s", e->d_name);
	}
	return 0;
}

static int look(const struct ck_src *src, struct found *f)
{
	*f = (struct found){ 0 };
	return src->file ? 0
			 : ck_dir_each(ck_src_dir(src),
				       src->by_search ? CK_DIR_BRIEF : SIZE_MAX,
				       entry_look, f);
}

/* The first sure mark that was found; NMARKS if no such mark was found. */
static size_t sure_mark(const struct found *f)
{
	size_t i = SURE;

	while (i < NMARKS && !f->n[i])
		i++;
	return i;
}

const char *ck_producer_name(const struct ck_src *src)
{
	struct found f;
	size_t i;

	/* After an error, the entries read so far decide. */
	(void)!look(src, &f);
	i = sure_mark(&f);
	if (i < NMARKS)
		return marks[i].program;
	return f.n[LATEST] && f.n[GLOBAL_STEP] ? marks[LATEST].program : NULL;
}

static int refuse(const struct found *f, size_t i, const char *and,
		  struct ck_diag *d)
{
	const char *more = f->n[i] > 1 ? ck_shown(" and %zu more", f->n[i] - 1)
				       : "";

	return ck_fail(d, EBADMSG, "%s, not read: found %s%s%s; %s",
		       marks[i].program, and, ck_show(ck_str_from(f->first[i])),
		       more, marks[i].advice);
}

int ck_producers_are_sure(const struct ck_src *src, struct ck_diag *d)
{
	struct found f;
	int rc = look(src, &f);
	size_t i = sure_mark(&f);

	if (rc)
		return ck_fail(d, -rc, "%s", strerror(-rc));
	return i < NMARKS ? refuse(&f, i, "", d) : 0;
}

int ck_producers_have_latest(const struct ck_src *src, struct ck_diag *d)
{
	struct found f;
	int rc = look(src, &f);

	if (rc)
		return ck_fail(d, -rc, "%s", strerror(-rc));
	if (!f.n[LATEST] || !f.n[GLOBAL_STEP] || ck_run_is_sure(src, NULL) > 0)
		return 0;
	return refuse(&f, GLOBAL_STEP, "latest, ", d);
}

int ck_deepspeed_note(const struct ck_checkpoint *cp, struct ck_catalog *c)
{
	const struct ck_src src = { .dirfd = cp->dirfd, .file = cp->file };
	struct found f;

	if (cp->elsewhere || ck_checkpoint_run(cp) ||
	    faccessat(cp->dirfd, "latest", F_OK, AT_SYMLINK_NOFOLLOW) ||
	    look(&src, &f) || !f.n[LATEST] || !f.n[GLOBAL_STEP])
		return 0;
	return ck_catalog_doubt_add(
		c,
		ck_shown("DeepSpeed: %s/%s is not read; " CONVERT,
			 ck_show(ck_str_from(f.first[GLOBAL_STEP])),
			 f.n[GLOBAL_STEP] > 1 ? ck_shown(" and %zu more",
							 f.n[GLOBAL_STEP] - 1)
					      : ""));
}

/* --- verl ------------------------------------------------------------------------- */

static bool has(const struct ck_checkpoint *cp, const char *name)
{
	return faccessat(cp->dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int ck_huggingface_note(const struct ck_checkpoint *cp, struct ck_catalog *c)
{
	ck_auto_free char *path = NULL;

	if (cp->file || cp->elsewhere || has(cp, "config.json") ||
	    !has(cp, "huggingface/config.json"))
		return 0;
	if (asprintf(&path, "%s/huggingface", cp->path) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return ck_catalog_note_add(c, ck_shown("hf: config.json is in a "
					       "subdirectory: use "
					       "-o hf_template=%s",
					       ck_show(ck_str_from(path))));
}
