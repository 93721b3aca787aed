/* SPDX-License-Identifier: MIT */
/*
 * tckpt: the format torch_checkpointing. Detection; the files of a checkpoint; their load. Torch
 * files are read as those of ranks (ranks/), with the parts of tensors from metadata.pkl.
 *
 * The package writes metadata.pkl for the first save of a run only, and only if an item can be
 * loaded by another number of ranks. A directory without it is read as files of ranks.
 */
#include "format/load/load_gather.h"
#include "format/ranks/ranks_show.h"
#include "tckpt_internal.h"
#include "tckpt_kind.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

/* --- the kind ------------------------------------------------------------------------ */

static bool is_metadata(const char *name)
{
	return strcmp(name, CK_TCKPT_METADATA) == 0;
}

/* Reads metadata.pkl as a pickle. Returns 1 if it is that of the package, else 0, or an error. */
static int text_look(const struct ck_metadata_text *text, struct ck_diag *d)
{
	struct ck_pickle p = { 0 };
	int rc = ck_pickle_read(&p, text->pages, text->len, NULL, d);

	if (rc == 0)
		rc = ck_tckpt_is_metadata(&p);
	ck_pickle_fini(&p);
	return rc;
}

int ck_tckpt_is_here(const struct ck_src *src, struct ck_diag *d)
{
	struct ck_metadata_text text = { 0 };
	int fd, rc = ck_src_has_name(src, is_metadata, d);

	/* Over several hosts the file may be on another one: it is read by load(). */
	if (rc <= 0 || src->elsewhere)
		return rc;
	fd = ck_template_file(src->dirfd, CK_TCKPT_METADATA);
	if (fd < 0)
		return ck_fail(d, -fd, CK_TCKPT_METADATA ": %s", strerror(-fd));
	rc = ck_metadata_text_of(fd, CK_TCKPT_METADATA, CK_TCKPT_METADATA_MOST,
				 &text, d);
	close(fd);
	if (rc == 0)
		rc = text_look(&text, d);
	ck_metadata_text_fini(&text);
	if (rc < 0)
		ck_diag_prefix(d, CK_TCKPT_METADATA);
	return rc;
}

static bool is_safetensors(const char *name)
{
	return ck_name_ends(name, ".safetensors");
}

/* Lists the safetensors files of rank_0. */
static void rank_files(const struct ck_src *src, struct ck_dir_names *out)
{
	const struct ck_dir_want want = { is_safetensors, CK_DIR_BRIEF,
					  CK_DIR_BRIEF };
	ck_auto_fd int fd = ck_open_beneath(src->dirfd, CK_STR("rank_0"),
					    O_RDONLY | O_DIRECTORY | O_NONBLOCK,
					    CK_BENEATH_NO_SYMLINKS);

	/* After an error, the names read so far count. */
	if (fd >= 0)
		(void)!ck_dir_names_read((struct ck_directory){ fd, NULL },
					 &want, out);
}

int ck_tckpt_has_ranks(const struct ck_src *src, struct ck_diag *d)
{
	struct ck_dir_names names = { 0 };
	int rc = 0;

	if (src->file || src->elsewhere)
		return 0;
	rank_files(src, &names);
	for (size_t i = 0; i < names.n && rc == 0; i++) {
		const char *name = ck_show(ck_str_from(names.all[i]));

		if (faccessat(src->dirfd, ck_shown("rank_1/%s", names.all[i]),
			      F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			rc = ck_fail(
				d, EBADMSG,
				"rank_0/%s and rank_1/%s: " CK_TCKPT_UNLISTED,
				name, name);
	}
	ck_dir_names_fini(&names);
	return rc;
}

/* --- files --------------------------------------------------------------------------- */

static int no_memory(const struct ck_tckpt_load *t)
{
	return ck_fail(t->torch.d, ENOMEM, "out of memory");
}

/* Adds the row of the file that t->torch gets next. */
static int of_add(struct ck_tckpt_load *t, const struct ck_tckpt_of *of)
{
	struct ck_tckpt_of *files = ck_grow(t->files, &t->files_cap, t->nfiles,
					    1, sizeof(*files));

	if (!files)
		return no_memory(t);
	t->files = files;
	files[t->nfiles++] = *of;
	return 0;
}

static int file_add(struct ck_tckpt_load *t, const struct ck_tckpt_of *of,
		    struct ck_str name)
{
	int rc = of_add(t, of);

	if (rc == 0)
		rc = ck_torch_file_add(&t->torch, name.p);
	if (rc == 0)
		t->torch.files[t->torch.nfiles - 1].above = t->items[of->item];
	return rc;
}

/* Returns the terminated name of a file. Its p is NULL if memory is short. */
static struct ck_str name_of(struct ck_tckpt_load *t, uint32_t item,
			     uint64_t rank)
{
	const struct ck_tckpt_item *of = &t->metadata.items[item];
	struct ck_str name = of->files[rank].name;

	if (name.len == 0)
		name = ck_str_from(ck_shown("%.*s_%" PRIu64 ".pt",
					    (int)of->name.len, of->name.p,
					    rank));
	return ck_arena_copy(&t->names, name);
}

static int item_add(struct ck_tckpt_load *t, struct ck_str name)
{
	struct ck_str *items = ck_grow(t->items, &t->items_cap, t->nitems, 1,
				       sizeof(*items));

	if (!items)
		return no_memory(t);
	t->items = items;
	items[t->nitems++] = name;
	return 0;
}

/* True if the file of a rank with a default name may be absent: the rank has nothing of the item. */
static bool is_needless(const struct ck_tckpt_load *t,
			const struct ck_tckpt_of *of)
{
	const uint8_t *promised = t->metadata.items[of->item].promised;

	return !t->torch.cp->elsewhere &&
	       !(promised[of->rank / 8] >> of->rank % 8 & 1);
}

/* Adds a file to t->listed, unless it is needless and absent. The memory of all files is bounded by
 * the size of the checkpoint. A file with a default name needs no bytes of metadata.pkl: its own
 * bytes count, or without such a file those of metadata.pkl, up to its limit. */
static int listed_add(struct ck_tckpt_load *t, const struct ck_tckpt_of *of)
{
	enum { FILE_BYTES = 800 }; /* of memory */
	struct ck_tckpt_listed *listed = ck_grow(
		t->listed, &t->listed_cap, t->nlisted, 1, sizeof(*listed));
	struct ck_str name = name_of(t, of->item, of->rank);

	if (listed)
		t->listed = listed;
	if (!listed || !name.p)
		return no_memory(t);
	if (t->metadata.items[of->item].files[of->rank].name.len == 0 &&
	    faccessat(t->torch.cp->dirfd, name.p, F_OK, AT_SYMLINK_NOFOLLOW)) {
		if (is_needless(t, of))
			return 0;
		if (!ck_pickle_spend(&t->metadata.pickle, FILE_BYTES))
			return ck_fail(t->torch.d, EBADMSG,
				       CK_TCKPT_METADATA
				       ": needs more memory than its size "
				       "allows");
	}
	listed[t->nlisted++] = (struct ck_tckpt_listed){ *of, name };
	return 0;
}

/* Lists the files that metadata.pkl names. */
static int listed_find(struct ck_tckpt_load *t)
{
	const struct ck_tckpt_metadata *m = &t->metadata;
	int rc = 0;

	for (uint32_t i = 0; i < m->nitems; i++)
		for (uint64_t rank = 0; rank < m->world && rc == 0; rank++) {
			const struct ck_tckpt_file *f =
				&m->items[i].files[rank];
			const struct ck_tckpt_of of = { i, rank, f->encoding,
							f->type };

			rc = listed_add(t, &of);
		}
	return rc;
}

/* Calls each() for the listed files, torch files or all others. */
static int listed_each(struct ck_tckpt_load *t, bool torch,
		       int (*each)(struct ck_tckpt_load *t,
				   const struct ck_tckpt_of *of,
				   struct ck_str name))
{
	int rc = 0;

	for (size_t i = 0; i < t->nlisted && rc == 0; i++)
		if ((t->listed[i].of.encoding == CK_TCKPT_TORCH) == torch)
			rc = each(t, &t->listed[i].of, t->listed[i].name);
	return rc;
}

/* Adds a file to those of the checkpoint. */
static int number_add(struct ck_tckpt_load *t, const struct ck_tckpt_of *of,
		      struct ck_str name)
{
	struct ck_files *files = t->torch.cp->files;
	uint32_t before = ck_files_count(files), number;

	(void)of;
	if (ck_files_add(files, name, &number))
		return no_memory(t);
	return number == before
		       ? 0
		       : ck_fail(t->torch.d, EBADMSG,
				 CK_TCKPT_METADATA ": malformed: it lists the "
						   "file %s twice",
				 ck_show(name));
}

bool ck_tckpt_is_name(const char *name, const char *suffix, struct ck_str *item,
		      uint64_t *rank)
{
	const char *bar = strrchr(name, '_'), *p = bar ? bar + 1 : NULL;

	*rank = 0;
	if (!bar || bar == name || *p < '0' || *p > '9' ||
	    (*p == '0' && p[1] != '.'))
		return false;
	for (; *p >= '0' && *p <= '9' && *rank < CK_RANK_MAX; p++)
		*rank = *rank * 10 + (uint64_t)(*p - '0');
	*item = (struct ck_str){ name, (size_t)(bar - name) };
	for (size_t i = 0; i < item->len; i++)
		if (!strchr("-_", name[i]) &&
		    !(name[i] >= '0' && name[i] <= '9') &&
		    !((name[i] | 32) >= 'a' && (name[i] | 32) <= 'z'))
			return false;
	return strcmp(p, suffix) == 0;
}

static bool is_default_name(const char *name)
{
	struct ck_str item;
	uint64_t rank;

	return ck_tckpt_is_name(name, ".pt", &item, &rank);
}

/* Returns the number of an item that metadata.pkl does not list, after adding it if it is new;
 * or -ENOMEM. */
static int64_t unlisted_item(struct ck_tckpt_load *t, struct ck_str name)
{
	size_t i = t->metadata.nitems;

	while (i < t->nitems && !ck_str_eq(t->items[i], name))
		i++;
	return i == t->nitems && item_add(t, name) ? -ENOMEM : (int64_t)i;
}

/* Adds a torch file with a default name, unless metadata.pkl lists its item or its name. */
static int unlisted_add(struct ck_tckpt_load *t, const char *name)
{
	struct ck_files *files = t->torch.cp->files;
	uint32_t before = ck_files_count(files), number;
	struct ck_tckpt_of of = { .encoding = CK_TCKPT_TORCH };
	struct ck_str item;
	int64_t at;

	if (!ck_tckpt_is_name(name, ".pt", &item, &of.rank) ||
	    of.rank >= t->metadata.world ||
	    ck_tckpt_item_find(&t->metadata, item) >= 0)
		return 0;
	if (ck_files_add(files, ck_str_from(name), &number))
		return no_memory(t);
	if (number < before)
		return 0;
	at = unlisted_item(t, item);
	of.item = (uint32_t)at;
	return at < 0 ? (int)at : file_add(t, &of, ck_str_from(name));
}

static int unlisted_find(struct ck_tckpt_load *t)
{
	int rc = ck_torch_names_find(ck_checkpoint_dir(t->torch.cp),
				     is_default_name, false, &t->found);

	if (rc)
		return ck_fail(t->torch.d, -rc, "%s", strerror(-rc));
	for (size_t i = 0; i < t->found.n && rc == 0; i++)
		rc = unlisted_add(t, t->found.all[i]);
	return rc;
}

/* Adds all files to the checkpoint, and torch files to the load. */
static int files_find(struct ck_tckpt_load *t)
{
	int rc = 0;

	for (size_t i = 0; i < t->metadata.nitems && rc == 0; i++)
		rc = item_add(t, t->metadata.items[i].name);
	if (rc == 0)
		rc = listed_find(t);
	if (rc == 0)
		rc = listed_each(t, true, number_add);
	if (rc == 0)
		rc = listed_each(t, false, number_add);
	if (rc == 0)
		rc = listed_each(t, true, file_add);
	return rc ? rc : unlisted_find(t);
}

/* --- reading ------------------------------------------------------------------------- */

/* The tensor in a torch file, for ck_tckpt_part(). size: a buffer in the arena. */
static void local_set(const struct ck_torch_tensor *t, int64_t *size,
		      struct ck_tckpt_local *local)
{
	memcpy(size, t->size, t->ndim * sizeof(*size));
	local->size = size;
	local->ndim = t->ndim;
	local->dtype = ck_torch_dtype_name(t);
}

/* struct ck_torch_layout.part */
static int part_listed(void *ctx, struct ck_torch_load *l, uint32_t row,
		       const struct ck_pv *value,
		       const struct ck_rank_part **part)
{
	struct ck_tckpt_load *t = ctx;
	struct ck_torch_file *f = &l->files[l->rows[row].file];
	uint64_t rank = t->files[l->rows[row].file].rank;
	struct ck_tckpt_path *path = ck_tckpt_path_find(&t->metadata,
							l->rows[row].path);
	struct ck_tckpt_local local = { .value = value, .own = *part };
	const struct ck_rank_part *listed;
	struct ck_torch_tensor tensor;
	int64_t *size;

	if (!path)
		return t->metadata.text.err ? -ENOMEM : 0;
	path->have[rank / 8] |= (uint8_t)(1U << rank % 8);
	if (*part && (*part)->npieces != 1)
		return 0;
	if (*part)
		value = &(*part)->pieces[0].tensor;
	/* A malformed local tensor is reported when its row is held. */
	if (ck_torch_tensor_take(&f->pickle, value, &tensor, NULL) <= 0)
		return 0;
	size = ck_arena_alloc(&f->arena, (tensor.ndim + 1UL) * sizeof(*size));
	if (!size)
		return -ENOMEM;
	local_set(&tensor, size, &local);
	local.is_plain = !*part;
	if (ck_tckpt_part(path, rank, &local, &t->seen, &f->pickle, &f->arena,
			  &listed))
		return -ENOMEM;
	*part = listed ? listed : *part;
	return 0;
}

/* Reads all files. Fails if no file can be read. */
static int files_read(struct ck_tckpt_load *t)
{
	struct ck_torch_load *l = &t->torch;
	uint32_t first = (uint32_t)l->nfiles;
	bool some;
	int rc = ck_torch_files_try(l, &some);

	if (rc == 0)
		rc = listed_each(t, false, file_add);
	for (uint32_t i = first; i < l->nfiles && rc == 0; i++) {
		rc = ck_tckpt_item_read(t, i);
		some |= l->files[i].good;
	}
	ck_torch_known_free(l);
	if (rc || some || l->nfiles == 0)
		return rc;
	return ck_fail_none_usable(l->c, l->files[0].name, l->nfiles, l->d);
}

/* --- the load ------------------------------------------------------------------------- */

static int rows_show(struct ck_tckpt_load *t)
{
	struct ck_rank_files r = { .is_listed = true,
				   .world = t->metadata.world };
	int rc = ck_rank_files_init(&r, &t->torch);

	for (size_t i = 0; i < t->nfiles && rc == 0; i++)
		r.names[i] = (struct ck_rank_name){
			.family = t->files[i].item,
			.number = t->files[i].rank,
		};
	if (rc == 0)
		rc = ck_rank_families_set(&r, (uint32_t)t->nitems);
	if (rc == 0)
		rc = ck_rank_files_show(&r);
	ck_rank_files_fini(&r);
	return rc;
}

static int metadata_read(struct ck_tckpt_load *t,
			 const struct ck_format_options *options)
{
	struct ck_torch_load *l = &t->torch;
	int rc = ck_metadata_read(l->cp, l->c, CK_TCKPT_METADATA,
				  CK_TCKPT_METADATA_MOST, options, &t->text,
				  l->d);

	if (rc)
		return rc;
	rc = ck_tckpt_metadata_read(
		&t->metadata, (struct ck_str){ t->text.pages, t->text.len },
		l->d);
	if (rc)
		ck_diag_prefix(l->d, CK_TCKPT_METADATA);
	return rc || ck_tckpt_promised_find(&t->metadata) == 0 ? rc
							       : no_memory(t);
}

static int load_all(struct ck_tckpt_load *t,
		    const struct ck_format_options *options)
{
	struct ck_torch_load *l = &t->torch;
	int rc = metadata_read(t, options);

	if (rc == 0)
		rc = files_find(t);
	if (rc == 0)
		rc = ck_checkpoint_gather(l->cp, l->c, options, NULL, l->d);
	if (rc == 0)
		rc = files_read(t);
	if (rc == 0)
		rc = ck_tckpt_absent_report(t);
	if (rc == 0)
		rc = rows_show(t);
	return rc ? rc : ck_torch_state_keep(l);
}

static int load(struct ck_checkpoint *cp, struct ck_catalog *c,
		const struct ck_format_options *options,
		const struct ck_fetched_metadata *fetched, struct ck_diag *d)
{
	struct ck_tckpt_load *t = calloc(1, sizeof(*t));
	int rc;

	(void)fetched;
	if (!t)
		return ck_fail(d, ENOMEM, "out of memory");
	t->layout = (struct ck_torch_layout){ t, part_listed };
	t->torch = (struct ck_torch_load){
		.cp = cp, .c = c, .d = d, .by_rank = true, .layout = &t->layout
	};
	rc = load_all(t, options);
	ck_torch_load_fini(&t->torch);
	ck_tckpt_metadata_fini(&t->metadata);
	ck_metadata_text_fini(&t->text);
	ck_dir_names_fini(&t->found);
	ck_arena_fini(&t->names);
	free(t->items);
	free(t->listed);
	free(t->files);
	free(t);
	return rc;
}

static bool is_part(const char *name)
{
	return is_metadata(name) || is_default_name(name);
}

const struct ck_format ck_format_torch_checkpointing = {
	.name = "torch_checkpointing",
	.is_part = is_part,
	.names_others = true,
	.rank = ck_torch_rank,
	.head = ck_torch_head,
	.sum = ck_torch_sum,
	.pickle_sum = ck_torch_pickle_sum,
	.record = ck_torch_record,
	.load = load,
	.is_sure = true,
	.forget = ck_torch_forget,
};
