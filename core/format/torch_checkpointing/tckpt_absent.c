/* SPDX-License-Identifier: MIT */
/*
 * tckpt_absent: tensors that metadata.pkl lists and the files do not have become lines of damage.
 * A file of JSON or raw bytes is one value, and so is a tuple: what metadata.pkl lists inside of
 * them is not absent. Used by the thread of the load.
 */
#include "tckpt_internal.h"

#include <inttypes.h>

enum { LINES_MOST = 64 }; /* lines of damage */

/* What metadata.pkl lists, and the files do not have. */
struct absent {
	struct ck_tckpt_load *t;
	uint64_t lines, plain;
	struct ck_str first; /* of the plain ones */
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

/* Looks for one path in the file of one rank. */
static int absent_look(struct absent *a, const struct ck_tckpt_path *path,
		       uint32_t i)
{
	struct ck_tckpt_load *t = a->t;
	uint64_t rank = t->files[i].rank;
	struct ck_loss loss = { .name = path->path.key,
				.file = t->torch.files[i].number,
				.err = ENODATA };
	bool for_all;

	if (path->have[rank / 8] >> rank % 8 & 1 ||
	    !ck_tckpt_promises(path, rank, &for_all))
		return 0;
	if (for_all) {
		if (a->plain++ == 0)
			a->first = path->path.key;
		return 0;
	}
	if (a->lines++ >= LINES_MOST)
		return 0;
	loss.what = CK_STR(CK_TCKPT_METADATA " lists it, the file does not "
					     "have it");
	return ck_catalog_loss_add(t->torch.c, &loss) ? no_memory(a) : 0;
}

/* True if the files of all ranks have it. */
static bool is_complete(const struct ck_tckpt_metadata *m,
			const struct ck_tckpt_path *path)
{
	for (uint64_t i = 0; i < m->world / 8; i++)
		if (path->have[i] != UINT8_MAX)
			return false;
	return m->world % 8 == 0 ||
	       path->have[m->world / 8] == (1U << m->world % 8) - 1;
}

/* True if the file of an item was read, and has tensors. */
static bool has_tensors(const struct ck_tckpt_load *t, uint32_t i,
			struct ck_str item)
{
	enum ck_tckpt_encoding encoding = t->files[i].encoding;

	return t->torch.files[i].good &&
	       (encoding == CK_TCKPT_TORCH ||
		encoding == CK_TCKPT_SAFETENSORS) &&
	       ck_str_eq(t->items[t->files[i].item], item);
}

static int absent_find(struct absent *a)
{
	const struct ck_tckpt_load *t = a->t;
	const struct ck_tckpt_metadata *m = &t->metadata;
	int rc = values_find(a);

	for (size_t k = 0; k < m->npaths && rc == 0; k++) {
		const struct ck_tckpt_path *path = &m->paths[k];
		struct ck_str item = ck_part_text(&path->path.parts[0]);

		if (is_complete(m, path) || is_in_value(a, &path->path))
			continue;
		for (uint32_t i = 0; i < t->nfiles && rc == 0; i++)
			if (has_tensors(t, i, item))
				rc = absent_look(a, path, i);
	}
	return rc;
}

/* A plain tensor is listed for all ranks, even if only some have it: that is a note. */
int ck_tckpt_absent_report(struct ck_tckpt_load *t)
{
	struct absent a = { .t = t };
	int rc = absent_find(&a);

	free(a.values);
	ck_table_fini(&a.by_value);
	ck_arena_fini(&a.texts);
	if (rc == 0 && a.lines > LINES_MOST)
		rc = ck_catalog_note_add(
			t->torch.c, ck_shown("tensors that files lack: %" PRIu64
					     ", the first %d are in damage",
					     a.lines, LINES_MOST));
	if (rc == 0 && a.plain)
		rc = ck_catalog_note_add(
			t->torch.c,
			ck_shown("plain tensors that only some ranks have: "
				 "%s, and %" PRIu64 " more",
				 ck_show(a.first), a.plain - 1));
	return rc;
}
