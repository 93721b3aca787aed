/* SPDX-License-Identifier: MIT */
/*
 * torch: the format of files of torch.save that one process wrote. A checkpoint
 * is one file with a state dict, several independent files, or the pieces of
 * one state dict. Pieces may have an index, as transformers wrote it before
 * safetensors. The load runs in one thread (struct ck_torch_load); the state
 * that remains is in torch_state.c.
 */
#include "format/load/load_gather.h"
#include "format/load/numbered.h"
#include "format/ranks/ranks_flat.h"
#include "torch_beside.h"
#include "torch_kind.h"

#include <errno.h>
#include <inttypes.h>

#define INDEX ".bin.index.json"
#define WHOLE "pytorch_model.bin"

/* --- names ------------------------------------------------------------------------------- */

static bool is_index(const char *name)
{
	return ck_name_ends(name, INDEX);
}

static bool is_whole(const char *name)
{
	return strcmp(name, WHOLE) == 0;
}

static bool is_piece(const char *name)
{
	return ck_numbered_of(name, ".bin", &(struct ck_numbered_name){ 0 });
}

/* --- the kind ------------------------------------------------------------------------------ */

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
	int rc = ck_torch_names_find(ck_src_dir(src), called, false, &names);

	if (rc == 0)
		rc = names.n > 0;
	ck_dir_names_fini(&names);
	return rc;
}

static int has_here(const struct ck_src *src, bool (*called)(const char *name))
{
	struct wanted w = { src->dirfd, called };

	return ck_dir_each(ck_src_dir(src),
			   src->by_search ? CK_DIR_BRIEF : SIZE_MAX, entry_is,
			   &w);
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
	return has_files(src, ck_torch_is_name, d);
}

int ck_torch_is_file(const struct ck_src *src, struct ck_diag *d)
{
	int rc = src->file
			 ? ck_dir_begins(src->dirfd, src->file, ck_torch_begins)
			 : 0;

	return rc < 0 ? ck_fail(d, -rc, "%s", strerror(-rc)) : rc;
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

/* Lists the pieces of a state dict, and adds a line of damage for each missing one. If one
 * of them is a torch file, all are listed, so that the others become damage. */
static int pieces_find(struct ck_torch_load *l, struct ck_dir_names *out)
{
	const struct ck_dir_want want = { is_piece, SIZE_MAX, SIZE_MAX };
	struct ck_directory dir = ck_checkpoint_dir(l->cp);
	int rc = ck_torch_names_find(dir, is_piece, false, out);

	l->is_union = out->n > 0;
	ck_dir_names_fini(out);
	if (rc == 0 && l->is_union)
		rc = ck_dir_names_read(dir, &want, out);
	return rc ? rc : ck_numbered_lose(l->c, out, ".bin");
}

int ck_torch_files_find(struct ck_torch_load *l)
{
	struct ck_dir_names names = { 0 };
	int rc = 0;

	if (l->cp->file)
		return ck_torch_file_add(l, l->cp->file);
	if (!l->by_rank)
		rc = pieces_find(l, &names);
	if (rc == 0 && !l->is_union)
		rc = ck_torch_names_find(ck_checkpoint_dir(l->cp),
					 ck_torch_is_name, false, &names);
	if (rc)
		rc = ck_fail(l->d, -rc, "%s", strerror(-rc));
	for (size_t i = 0; i < names.n && rc == 0; i++)
		rc = ck_torch_file_add(l, names.all[i]);
	ck_dir_names_fini(&names);
	return rc;
}

/* Adds the files of an index, or of the whole model, or else those of the directory. */
static int files_open(struct ck_torch_load *l, const char *index, bool whole,
		      const struct ck_format_options *options)
{
	int rc;

	if (index)
		return load_index(l, index, options);
	rc = whole ? ck_torch_file_add(l, WHOLE) : ck_torch_files_find(l);
	return rc ? rc
		  : ck_metadata_open_first(l->cp, l->c, &l->paths, options,
					   l->d);
}

/* A whole model beside an index is used instead of it, as in transformers. */
static int files_choose(struct ck_torch_load *l,
			const struct ck_format_options *options)
{
	const struct ck_dir_want want = { is_index, SIZE_MAX, SIZE_MAX };
	struct ck_dir_names indexes = { 0 }, whole = { 0 };
	const char *index = NULL;
	int rc = 0;

	if (!l->cp->file)
		rc = ck_dir_names_read(ck_checkpoint_dir(l->cp), &want,
				       &indexes);
	if (rc == 0 && indexes.n)
		rc = ck_torch_names_find(ck_checkpoint_dir(l->cp), is_whole,
					 false, &whole);
	if (rc == 0 && whole.n)
		rc = ck_index_ignore(l->c, &indexes, WHOLE);
	if (rc)
		rc = ck_fail(l->d, -rc, "%s", strerror(-rc));
	else if (whole.n == 0)
		rc = ck_index_pick(&indexes, "pytorch_model" INDEX, &index,
				   l->d);
	l->c->is_model = indexes.n > 0;
	if (rc == 0)
		rc = files_open(l, index, whole.n > 0, options);
	ck_dir_names_fini(&indexes);
	ck_dir_names_fini(&whole);
	return rc;
}

/* Adds a note if the source has the file of one rank of several. */
static int rank_note(const struct ck_torch_load *l)
{
	const struct ck_torch_file *f = l->files;
	const char *slash = strrchr(l->cp->path, '/'), *remedy = "";
	int above = slash ? (int)(slash - l->cp->path) : 0;

	if (l->nfiles != 1 || f->rank == CK_NO_RANK || l->world < 2)
		return 0;
	if (l->cp->file)
		remedy = ck_shown(": try the directory %.*s", above,
				  l->cp->path);
	return ck_catalog_doubt_add(
		       l->c,
		       ck_shown("one file: rank %" PRIu64 " of %" PRIu64
				"; whole tensors need the files of all ranks%s",
				f->rank, l->world, remedy))
		       ? ck_fail(l->d, ENOMEM, "out of memory")
		       : 0;
}

/* Loads the files of l, and those beside them if they are of one model. */
static int load_files(struct ck_torch_load *l, struct ck_torch_load **beside,
		      const struct ck_format_options *options)
{
	int rc = files_choose(l, options);

	if (rc == 0 && (l->is_union || l->c->is_model))
		rc = ck_torch_beside_find(l->cp, l->c, beside, l->d);
	if (rc == 0)
		rc = ck_checkpoint_gather(l->cp, l->c, options, NULL, l->d);
	if (rc == 0)
		rc = ck_sidecar_source_read(l->cp, l->c, options, &l->source,
					    l->d);
	if (rc == 0)
		rc = ck_torch_files_read(l);
	if (rc == 0)
		rc = ck_torch_entries_add(l);
	if (rc == 0)
		rc = rank_note(l);
	if (rc == 0)
		rc = ck_torch_state_keep(l);
	if (rc == 0 && *beside)
		rc = ck_torch_beside_add(*beside);
	return rc || !*beside ? rc : ck_torch_state_keep(*beside);
}

static int load(struct ck_checkpoint *cp, struct ck_catalog *c,
		const struct ck_format_options *options,
		const struct ck_fetched_metadata *fetched, struct ck_diag *d)
{
	struct ck_torch_load l = { .cp = cp, .c = c, .d = d }, *beside = NULL;
	int rc = load_files(&l, &beside, options);

	(void)fetched;
	ck_torch_load_fini(&l);
	ck_torch_beside_free(beside);
	return rc;
}

/* All bytes of a file are in use, also those between storages. */
uint64_t ck_torch_head(const struct ck_checkpoint *cp, uint32_t file)
{
	return ck_files_info(cp->files, file)->size;
}

bool ck_torch_is_part(const char *name)
{
	return ck_torch_is_name(name) || is_index(name);
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
