/* SPDX-License-Identifier: MIT */
/*
 * tckpt_absent: tensors that metadata.pkl lists and the files do not have become lines of damage.
 * A file of JSON or raw bytes is one value, and so is a tuple: what metadata.pkl lists inside of
 * them is not absent. Used by the thread of the load.
 */
#include "tckpt_internal.h"

#include <errno.h>
#include <inttypes.h>

enum {
	LINES_MOST = 64, /* lines of damage */
	VISITS_MOST =
		1 << 28, /* ranks that are looked up, of all paths: about 1 s */
};

/* What metadata.pkl lists, and the files do not have. */
struct absent {
	struct ck_tckpt_load *t;
	uint64_t lines;	     /* of damage, also those that are not written */
	uint64_t plain;	     /* plain tensors that some ranks lack */
	struct ck_str first; /* of these */
	uint64_t several;    /* tensors of several groups of ranks */
	struct ck_str first_several;
	uint64_t visits; /* of a rank in a group */
	/* For each item and rank, the index of its file with tensors, + 1; or 0. */
	uint32_t *files;
	struct ck_tckpt_path *path; /* the present one */
	size_t item;		    /* of path */
	bool some_lack_it;	    /* path is plain, and some ranks lack it */
	/* The paths of values, as struct ck_tckpt_path.exact; and a table of them. */
	struct ck_str *values;
	size_t nvalues, values_cap;
	struct ck_table by_value;
	struct ck_arena texts;
};

static int no_memory(const struct absent *a)
{
	return ck_fail(a->t->torch.d, ENOMEM, "out of memory");
}

/* --- values ---------------------------------------------------------------------------- */

static struct ck_str value_text(const void *arg, uint32_t i)
{
	const struct absent *a = arg;

	return a->values[i];
}

static int value_add(struct absent *a, const struct ck_torch_path *path)
{
	uint32_t n = (uint32_t)a->nvalues, number;
	struct ck_str *values = ck_grow(a->values, &a->values_cap, n, 1,
					sizeof(*values));

	if (!values)
		return no_memory(a);
	a->values = values;
	values[n] = ck_arena_copy(
		&a->texts,
		ck_tckpt_exact(&a->t->metadata, path->parts, path->nparts));
	if (!values[n].p || ck_table_add(&a->by_value, values[n], n, &number))
		return no_memory(a);
	a->nvalues += number == n;
	return 0;
}

/* Finds the paths of all values of torch files. */
static int values_find(struct absent *a)
{
	const struct ck_torch_load *l = &a->t->torch;
	int rc = 0;

	a->by_value = (struct ck_table){ .key = value_text, .arg = a };
	for (size_t i = 0; i < l->nrows && rc == 0; i++)
		if (l->rows[i].is_value)
			rc = value_add(a, l->rows[i].path);
	return rc;
}

/* True if a path is inside of a value. */
static bool is_in_value(struct absent *a, const struct ck_torch_path *path)
{
	for (uint32_t n = 1; n < path->nparts && a->nvalues; n++)
		if (ck_table_find(&a->by_value,
				  ck_tckpt_exact(&a->t->metadata, path->parts,
						 n)) >= 0)
			return true;
	return false;
}

/* --- absent tensors ---------------------------------------------------------------------- */

/* True if file i was read, and has tensors. */
static bool has_tensors(const struct ck_tckpt_load *t, uint32_t i)
{
	enum ck_tckpt_encoding encoding = t->files[i].encoding;

	return t->torch.files[i].good &&
	       (encoding == CK_TCKPT_TORCH || encoding == CK_TCKPT_SAFETENSORS);
}

/* Sets a->files. */
static int files_index(struct absent *a)
{
	const struct ck_tckpt_load *t = a->t;
	size_t n = t->metadata.nitems * (size_t)t->metadata.world;

	a->files = calloc(n + 1, sizeof(*a->files));
	if (!a->files)
		return no_memory(a);
	for (uint32_t i = 0; i < t->nfiles; i++)
		if (t->files[i].item < t->metadata.nitems && has_tensors(t, i))
			a->files[t->files[i].item * t->metadata.world +
				 t->files[i].rank] = i + 1;
	return 0;
}

static int line_add(struct absent *a, uint32_t file)
{
	struct ck_loss loss = {
		.name = a->path->path.key,
		.file = a->t->torch.files[file].number,
		.err = ENODATA,
		.what = CK_STR(CK_TCKPT_METADATA
			       " lists it, the file does not have it"),
	};

	if (a->lines++ >= LINES_MOST)
		return 0;
	return ck_catalog_loss_add(a->t->torch.c, &loss) ? no_memory(a) : 0;
}

/* Looks for a->path in the file of a rank that a group has. for_all: the group has the record of a
 * plain tensor. Returns 1 to stop. */
static int rank_look(void *arg, uint64_t rank, bool for_all)
{
	struct absent *a = arg;
	uint64_t world = a->t->metadata.world;
	uint8_t *have, bit = (uint8_t)(1U << rank % 8);
	uint32_t file;

	if (a->visits++ >= VISITS_MOST)
		return 1;
	if (rank >= world)
		return 0;
	have = &a->path->have[rank / 8];
	file = a->files[a->item * world + rank];
	if (*have & bit || !file)
		return 0;
	*have |= bit;
	if (!for_all)
		return line_add(a, file - 1);
	a->some_lack_it = true;
	return 0;
}

static int path_look(struct absent *a, struct ck_tckpt_path *path)
{
	const struct ck_tckpt_metadata *m = &a->t->metadata;
	int64_t item = ck_tckpt_item_find(m,
					  ck_part_text(&path->path.parts[0]));
	int rc;

	if (ck_tckpt_meshes(path) > 1 && a->several++ == 0)
		a->first_several = path->path.key;
	if (item < 0 || is_in_value(a, &path->path))
		return 0;
	a->path = path;
	a->item = (size_t)item;
	a->some_lack_it = false;
	rc = ck_tckpt_ranks_each(path, rank_look, a);
	if (a->some_lack_it && a->plain++ == 0)
		a->first = path->path.key;
	return rc;
}

static int absent_find(struct absent *a)
{
	const struct ck_tckpt_metadata *m = &a->t->metadata;
	int rc = values_find(a);

	if (rc == 0)
		rc = files_index(a);
	for (size_t k = 0; k < m->npaths && rc == 0; k++)
		rc = path_look(a, &m->paths[k]);
	return rc > 0 ? 0 : rc;
}

static int note_add(const struct absent *a, const char *text)
{
	return ck_catalog_note_add(a->t->torch.c, text);
}

static int notes_add(const struct absent *a)
{
	int rc = 0;

	if (a->lines > LINES_MOST)
		rc = note_add(a, ck_shown("tensors that files lack: %" PRIu64
					  ", the first %d are in damage",
					  a->lines, LINES_MOST));
	if (rc == 0 && a->plain)
		rc = note_add(
			a, a->plain == 1
				   ? ck_shown("a plain tensor that only some "
					      "ranks have: %s",
					      ck_show(a->first))
				   : ck_shown("plain tensors that only some "
					      "ranks have: %s, and %" PRIu64
					      " more",
					      ck_show(a->first), a->plain - 1));
	if (rc == 0 && a->several)
		rc = note_add(
			a, ck_shown("tensors of several groups of ranks, each "
				    "with a mesh of its own: %" PRIu64
				    ", such as %s; of equal boxes that of the "
				    "lowest rank is shown, check --full "
				    "compares them",
				    a->several, ck_show(a->first_several)));
	if (rc == 0 && a->visits > VISITS_MOST)
		rc = note_add(a, "tensors that files lack: too many ranks and "
				 "tensors to look for all");
	return rc;
}

/* A plain tensor is listed for all ranks, even if only some have it: that is a note. */
int ck_tckpt_absent_report(struct ck_tckpt_load *t)
{
	struct absent a = { .t = t };
	int rc = absent_find(&a);

	free(a.files);
	free(a.values);
	ck_table_fini(&a.by_value);
	ck_arena_fini(&a.texts);
	return rc ? rc : notes_add(&a);
}
