/* SPDX-License-Identifier: MIT */
/*
 * torch: the format of files of torch.save that one process wrote. A checkpoint is one
 * file with a state dict, several independent files, or the pieces of one state dict.
 * Pieces may have an index, as transformers wrote it before safetensors. The load runs
 * in one thread (struct ck_torch_load); the state that remains is in own.c.
 */
#include "format/load/load_gather.h"
#include "format/ranks/ranks_flat.h"
#include "torch_kind.h"

#include <errno.h>
#include <inttypes.h>

#define INDEX ".bin.index.json"

/* --- names ------------------------------------------------------------------------------- */

static bool is_index(const char *name)
{
	return ck_name_ends(name, INDEX);
}

static bool is_called_so(const char *name)
{
	return ck_name_ends(name, ".pt") || ck_name_ends(name, ".pth") ||
	       ck_name_ends(name, ".bin") || ck_name_ends(name, ".ckpt");
}

/* Returns the end of the digits at p; NULL without digits. */
static const char *skip_number(const char *p)
{
	const char *begin = p;

	while (*p >= '0' && *p <= '9')
		p++;
	return p > begin ? p : NULL;
}

static const char *last_of(const char *name)
{
	const char *found = NULL, *p = name;

	while ((p = strstr(p, "-of-")))
		found = p++;
	return found;
}

/* True for `*-<i>-of-<n>.bin`. */
static bool is_piece(const char *name)
{
	const char *of = ck_name_ends(name, ".bin") ? last_of(name) : NULL;
	const char *end = of ? skip_number(of + 4) : NULL, *begin = of;

	while (begin && begin > name && begin[-1] >= '0' && begin[-1] <= '9')
		begin--;
	return end && strcmp(end, ".bin") == 0 && begin < of && begin > name &&
	       begin[-1] == '-';
}

/* --- the kind ------------------------------------------------------------------------------ */

/* Lists the torch files of a directory with such names, in natural order. */
static int names_find(struct ck_directory dir, bool (*called)(const char *name),
		      size_t entries, struct ck_dir_names *out)
{
	const struct ck_dir_want want = { called, SIZE_MAX, entries };
	int rc = ck_dir_names_read(dir, &want, out);

	return rc ? rc : ck_dir_names_begin(dir, ck_torch_begins, out);
}

struct wanted {
	int dirfd;
	bool (*called)(const char *name);
};

/* Returns 1 for a torch file with such a name, 0 for another entry, or a negative
 * errno. */
static int entry_is(void *arg, const struct dirent *e)
{
	const struct wanted *w = arg;

	return e->d_name[0] == '.' || !w->called(e->d_name)
		       ? 0
		       : ck_dir_begins(w->dirfd, e->d_name, ck_torch_begins);
}

/* Checks over several hosts, whose names are requested together. */
static int has_elsewhere(const struct ck_src *src,
			 bool (*called)(const char *name))
{
	struct ck_dir_names names = { 0 };
	int rc = names_find(ck_src_dir(src), called, SIZE_MAX, &names);

	if (rc == 0)
		rc = names.n > 0;
	ck_dir_names_fini(&names);
	return rc;
}

static int has_here(const struct ck_src *src, bool (*called)(const char *name))
{
	struct wanted w = { src->dirfd, called };

	return ck_dir_each(ck_src_dir(src),
			   src->brief ? CK_DIR_BRIEF : SIZE_MAX, entry_is, &w);
}

static int has_files(const struct ck_src *src, bool (*called)(const char *name),
		     struct ck_diag *d)
{
	int rc = 0;

	if (!src->file)
		rc = src->elsewhere ? has_elsewhere(src, called)
				    : has_here(src, called);
	return rc < 0 ? ck_fail(d, -rc, "%s", strerror(-rc)) : rc;
}

int ck_torch_has_index(const struct ck_src *src, struct ck_diag *d)
{
	return ck_src_has_name(src, is_index, d);
}

int ck_torch_has_pieces(const struct ck_src *src, struct ck_diag *d)
{
	return has_files(src, is_piece, d);
}

int ck_torch_has_files(const struct ck_src *src, struct ck_diag *d)
{
	return has_files(src, is_called_so, d);
}

int ck_torch_is_file(const struct ck_src *src, struct ck_diag *d)
{
	int rc = src->file
			 ? ck_dir_begins(src->dirfd, src->file, ck_torch_begins)
			 : 0;

	return rc < 0 ? ck_fail(d, -rc, "%s", strerror(-rc)) : rc;
}

/* --- files ------------------------------------------------------------------------------------ */

int ck_torch_file_add(struct ck_torch_load *l, const char *path)
{
	struct ck_torch_file *files = ck_grow(l->files, &l->files_cap,
					      l->nfiles, 1, sizeof(*files));
	struct ck_torch_file *f;

	if (files)
		l->files = files;
	if (!files || ck_dir_names_add(&l->paths, path))
		return ck_fail(l->d, ENOMEM, "out of memory");
	f = &files[l->nfiles++];
	*f = (struct ck_torch_file){ .name = l->paths.all[l->paths.n - 1],
				     .above = { "", 0 },
				     .rank = CK_NO_RANK,
				     .family = CK_RANK_NO_FAMILY };
	if (ck_files_add(l->cp->files, ck_str_from(path), &f->number))
		return ck_fail(l->d, ENOMEM, "out of memory");
	return 0;
}

/* --- loading ------------------------------------------------------------------------------------ */

static int load_index(struct ck_torch_load *l, const char *name,
		      const struct ck_format_options *options)
{
	int rc = ck_index_read(l->cp, l->c, name, options, &l->index, l->d);

	l->has_index = l->is_union = true;
	for (size_t i = 0; i < l->index.map.nfiles && rc == 0; i++)
		rc = ck_torch_file_add(l, l->index.map.files[i]);
	return rc;
}

int ck_torch_names_find(struct ck_directory dir, bool brief,
			struct ck_dir_names *out)
{
	return names_find(dir, is_called_so, brief ? CK_DIR_BRIEF : SIZE_MAX,
			  out);
}

int ck_torch_files_find(struct ck_torch_load *l)
{
	struct ck_dir_names names = { 0 };
	int rc = 0;

	if (l->cp->file)
		return ck_torch_file_add(l, l->cp->file);
	if (!l->by_rank)
		rc = names_find(ck_checkpoint_dir(l->cp), is_piece, SIZE_MAX,
				&names);
	l->is_union = names.n > 0;
	if (rc == 0 && !l->is_union)
		rc = ck_torch_names_find(ck_checkpoint_dir(l->cp), false,
					 &names);
	if (rc)
		rc = ck_fail(l->d, -rc, "%s", strerror(-rc));
	for (size_t i = 0; i < names.n && rc == 0; i++)
		rc = ck_torch_file_add(l, names.all[i]);
	ck_dir_names_fini(&names);
	return rc;
}

static int files_choose(struct ck_torch_load *l,
			const struct ck_format_options *options)
{
	const struct ck_dir_want want = { is_index, SIZE_MAX, SIZE_MAX };
	struct ck_dir_names indexes = { 0 };
	const char *index = NULL;
	int rc = 0;

	if (!l->cp->file)
		rc = ck_dir_names_read(ck_checkpoint_dir(l->cp), &want,
				       &indexes);
	if (rc)
		rc = ck_fail(l->d, -rc, "%s", strerror(-rc));
	else
		rc = ck_index_pick(&indexes, "pytorch_model" INDEX, &index,
				   l->d);
	l->c->is_model = index;
	if (rc == 0 && index) {
		rc = load_index(l, index, options);
	} else if (rc == 0) {
		rc = ck_torch_files_find(l);
		if (rc == 0)
			rc = ck_metadata_open_first(l->cp, l->c, &l->paths,
						    options, l->d);
	}
	ck_dir_names_fini(&indexes);
	return rc;
}

void ck_torch_load_fini(struct ck_torch_load *l)
{
	for (size_t i = 0; i < l->nfiles; i++)
		ck_torch_file_fini(&l->files[i]);
	free(l->files);
	ck_dir_names_fini(&l->paths);
	ck_index_fini(&l->index);
	ck_torch_rows_fini(l);
}

/* Shows pieces of flat parameters one by one: each path has one file. */
static int pieces_show(struct ck_torch_load *l)
{
	int rc = 0;

	for (size_t i = 0; i < l->nrows && rc == 0; i++) {
		const struct ck_torch_row *row = &l->rows[i];

		if (row->piece && !row->unread)
			rc = ck_rank_pieces_show(l, &row, 1);
	}
	return rc;
}

/* Finds optimizer states, and the number of ranks as the files have it. */
static int trees_find(struct ck_torch_load *l)
{
	for (size_t i = 0; i < l->nfiles; i++)
		l->world = ck_max(l->world, l->files[i].answer.world);
	return ck_rank_trees_find(l);
}

/* Adds a note if the source is the file of one rank of several. */
static int rank_note(const struct ck_torch_load *l)
{
	const struct ck_torch_file *f = l->files;
	const char *slash = strrchr(l->cp->path, '/');
	int above = slash ? (int)(slash - l->cp->path) : 0;

	if (!l->cp->file || l->nfiles != 1 || f->rank == CK_NO_RANK ||
	    l->world < 2)
		return 0;
	return ck_catalog_doubt_add(
		       l->c,
		       ck_shown("one file: rank %" PRIu64 " of %" PRIu64
				"; whole tensors need the files of all ranks: "
				"try the directory %.*s",
				f->rank, l->world, above, l->cp->path))
		       ? ck_fail(l->d, ENOMEM, "out of memory")
		       : 0;
}

static int load(struct ck_checkpoint *cp, struct ck_catalog *c,
		const struct ck_format_options *options,
		const struct ck_brought *brought, struct ck_diag *d)
{
	struct ck_torch_load l = { .cp = cp, .c = c, .d = d };
	int rc = files_choose(&l, options);

	(void)brought;
	if (rc == 0)
		rc = ck_checkpoint_gather(cp, c, options, NULL, d);
	if (rc == 0)
		rc = ck_flat_said_read(cp, c, options, &l.said, d);
	if (rc == 0)
		rc = ck_torch_files_read(&l);
	if (rc == 0)
		rc = trees_find(&l);
	if (rc == 0)
		rc = rank_note(&l);
	if (rc == 0)
		rc = ck_torch_rows_show(&l);
	if (rc == 0)
		rc = ck_rank_states_show(&l);
	if (rc == 0)
		rc = ck_rank_params_add(&l);
	if (rc == 0)
		rc = pieces_show(&l);
	if (rc == 0)
		rc = ck_torch_own_keep(&l);
	ck_torch_load_fini(&l);
	return rc;
}

/* All bytes of a file are in use, also those between storages. */
uint64_t ck_torch_head(const struct ck_checkpoint *cp, uint32_t file)
{
	return ck_files_info(cp->files, file)->size;
}

bool ck_torch_is_part(const char *name)
{
	return is_called_so(name) || is_index(name);
}

const struct ck_format ck_format_torch = {
	.name = "torch",
	.has_sidecar = true,
	.is_part = ck_torch_is_part,
	.rank = ck_torch_rank,
	.head = ck_torch_head,
	.sum = ck_torch_sum,
	.pickle_sum = ck_torch_pickle_sum,
	.record = ck_torch_record,
	.load = load,
	.forget = ck_torch_forget,
};
