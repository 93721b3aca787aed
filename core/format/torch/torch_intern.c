/* SPDX-License-Identifier: MIT */
/*
 * torch_intern: stores equal facts of several files once. The ranks of a job
 * have the same names in their files, and the same descriptions of the tensors
 * with these names. The maps are in struct ck_torch_load.
 */
#include "entries.h"

#include <errno.h>

static struct ck_str text_at(const void *arg, uint32_t i)
{
	const struct ck_torch_intern *k = arg;

	return k->all[i].text;
}

int ck_torch_intern_find(struct ck_torch_intern *k, struct ck_arena *arena,
			 struct ck_str text, struct ck_torch_interned **as)
{
	struct ck_torch_interned *all = ck_grow(k->all, &k->cap, k->n, 1,
						sizeof(*all));
	uint32_t n = (uint32_t)k->n, number;
	int64_t at;

	if (!all)
		return -ENOMEM;
	k->all = all;
	k->table.key = text_at;
	k->table.arg = k;
	at = ck_table_find(&k->table, text);
	if (at >= 0) {
		*as = &all[at];
		return 0;
	}
	text = ck_arena_copy(arena, text);
	if (!text.p || ck_table_add(&k->table, text, n, &number))
		return -ENOMEM;
	*as = &all[k->n++];
	**as = (struct ck_torch_interned){ .text = text };
	return 0;
}

void ck_torch_intern_fini(struct ck_torch_intern *k)
{
	ck_table_fini(&k->table);
	free(k->all);
	*k = (struct ck_torch_intern){ 0 };
}

void ck_torch_known_free(struct ck_torch_load *l)
{
	ck_torch_intern_fini(&l->known_paths);
	ck_torch_intern_fini(&l->known_specs);
	ck_torch_intern_fini(&l->known_strides);
	ck_torch_intern_fini(&l->known_values);
	ck_buf_fini(&l->text);
	free(l->reads);
	l->reads = NULL;
	l->nreads = l->reads_cap = 0;
}

/* --- paths ---------------------------------------------------------------------------------- */

/* Makes the text of a path: its key, then length and type of each part, and their
 * number. */
static void text_make(const struct ck_torch_path *path, struct ck_buf *text)
{
	text->len = 0;
	ck_buf_str(text, path->key);
	for (uint32_t i = 0; i < path->nparts; i++) {
		ck_buf_u32(text, path->parts[i].len);
		ck_buf_u8(text, path->parts[i].type);
	}
	ck_buf_u32(text, path->nparts);
}

/* Copies a path. Its key becomes the beginning of `text`, which is its text in the
 * map. */
static struct ck_torch_path *copy(struct ck_arena *arena, struct ck_str text,
				  const struct ck_torch_path *path)
{
	struct ck_torch_path *own = ck_arena_alloc(arena, sizeof(*own));
	struct ck_path_part *parts =
		ck_arena_alloc(arena, path->nparts * sizeof(*parts));

	if (!own || !parts)
		return NULL;
	*own = *path;
	own->key.p = text.p;
	own->parts = parts;
	for (uint32_t i = 0; i < path->nparts; i++) {
		parts[i] = path->parts[i];
		parts[i].p = text.p + (path->parts[i].p - path->key.p);
	}
	return own;
}

/* False if a part is an object: different objects may have equal texts. Rows of ranks
 * are joined by these texts nevertheless. */
static bool is_path_known(const struct ck_torch_load *l,
			  const struct ck_torch_path *path)
{
	for (uint32_t i = 0; i < path->nparts && !l->by_rank; i++)
		if (path->parts[i].type == CK_PATH_OTHER)
			return false;
	return true;
}

int ck_torch_path_know(struct ck_torch_load *l, struct ck_torch_row *row,
		       bool *twice)
{
	struct ck_buf *text = &l->text;
	struct ck_torch_interned *as;
	struct ck_torch_path *path;
	int rc;

	text_make(row->path, text);
	if (text->err)
		return -ENOMEM;
	rc = ck_torch_intern_find(&l->known_paths, &l->arena,
				  (struct ck_str){ text->data, text->len },
				  &as);
	if (rc)
		return rc;
	if (!as->is)
		as->is = copy(&l->arena, as->text, row->path);
	path = as->is;
	if (!path)
		return -ENOMEM;
	*twice = path->file == row->file + 1 && is_path_known(l, path);
	path->file = row->file + 1;
	row->path = path;
	return 0;
}

int ck_torch_twice(const struct ck_torch_path *path, struct ck_diag *d)
{
	return ck_fail(d, EBADMSG, "two entries are called %s",
		       ck_show(path->key));
}

/* A list of pairs can have one key twice. */
int ck_torch_paths_know(struct ck_torch_load *l, size_t first,
			struct ck_diag *d)
{
	bool twice = false;
	int rc = 0;

	for (size_t i = first; i < l->nrows && rc == 0; i++) {
		rc = ck_torch_path_know(l, &l->rows[i], &twice);
		if (rc)
			rc = ck_fail(d, ENOMEM, "out of memory");
		else if (twice)
			rc = ck_torch_twice(l->rows[i].path, d);
	}
	return rc;
}
