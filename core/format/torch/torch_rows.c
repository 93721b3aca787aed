/* SPDX-License-Identifier: MIT */
/* torch_rows: the rows of all files: reads them, and adds those that are shown to the
 * catalog under unique names. The state is in struct ck_torch_load. */
#include "format/ranks/ranks_flat.h"
#include "source/head.h"
#include "torch_listed.h"

#include <errno.h>
#include <inttypes.h>

static int no_memory(const struct ck_torch_load *l)
{
	return ck_fail(l->d, ENOMEM, "out of memory");
}

/* --- reading ----------------------------------------------------------------------------- */

struct reading {
	struct ck_torch_load *l;
	uint32_t file;
	/* The only file. Its paths are stored directly: if it cannot be read, the load
	 * fails. */
	bool alone;
	/* a path that the only file has twice */
	const struct ck_torch_path *twice;
	struct ck_diag *d;
};

struct ck_torch_path *ck_torch_path_make(struct ck_arena *arena,
					 struct ck_str key,
					 const struct ck_path_part *parts,
					 uint32_t nparts)
{
	struct ck_torch_path *path = ck_arena_alloc(arena, sizeof(*path));
	struct ck_path_part *own = ck_arena_alloc(arena, nparts * sizeof(*own));
	size_t at = 0;

	key = ck_arena_copy(arena, key);
	if (!path || !own || !key.p)
		return NULL;
	for (uint32_t i = 0; i < nparts; i++) {
		own[i] = parts[i];
		own[i].p = key.p + at;
		at += own[i].len + 1UL;
	}
	*path = (struct ck_torch_path){ .key = key,
					.parts = own,
					.nparts = nparts };
	return path;
}

/* Stores a path in the load without such a copy. */
static struct ck_torch_path *path_know(struct reading *r,
				       const struct ck_torch_leaf *leaf)
{
	struct ck_torch_path path = { .key = leaf->key,
				      .parts = leaf->path,
				      .nparts = leaf->nparts };
	struct ck_torch_row row = { .path = &path, .file = r->file };
	bool twice = false;

	if (ck_torch_path_know(r->l, &row, &twice))
		return NULL;
	if (twice && !r->twice)
		r->twice = row.path;
	return row.path;
}

static int leaf_add(void *arg, const struct ck_torch_leaf *leaf)
{
	struct reading *r = arg;
	struct ck_torch_load *l = r->l;
	struct ck_torch_row *rows = ck_grow(l->rows, &l->rows_cap, l->nrows, 1,
					    sizeof(*rows));
	struct ck_torch_read *reads = ck_grow(l->reads, &l->reads_cap,
					      l->nreads, 1, sizeof(*reads));
	struct ck_torch_path *path =
		r->alone ? path_know(r, leaf)
			 : ck_torch_path_make(&l->files[r->file].arena,
					      leaf->key, leaf->path,
					      leaf->nparts);

	if (rows)
		l->rows = rows;
	if (reads)
		l->reads = reads;
	if (!rows || !reads || !path)
		return ck_fail(r->d, ENOMEM, "out of memory");
	rows[l->nrows++] = (struct ck_torch_row){ .path = path,
						  .file = r->file };
	reads[l->nreads++] = (struct ck_torch_read){ .value = leaf->value };
	return 0;
}

/* Returns the name of a file without directories and the last extension. */
static struct ck_str stem_of(const char *name)
{
	const char *slash = strrchr(name, '/');
	const char *base = slash ? slash + 1 : name;
	const char *dot = strrchr(base, '.');

	return (struct ck_str){ base, dot && dot > base ? (size_t)(dot - base)
							: strlen(base) };
}

/* Reads bytes of storages while the rows of a file are read. */
struct storages {
	struct ck_files *files;
	const struct ck_torch_file *f;
};

static int storage_read(void *ctx, struct ck_str key, void *buf, size_t len,
			uint64_t at, struct ck_diag *d)
{
	const struct storages *s = ctx;
	struct ck_torch_storage storage;
	struct ck_item item = { .file = s->f->number, .length = len };
	struct ck_stored stored;
	int rc = ck_torch_storage_find(s->f, key, &storage, d);

	if (rc == 0 &&
	    (storage.bad || storage.len < len || at > storage.len - len))
		rc = ck_fail(d, EBADMSG, "storage %s is too short, or lost",
			     ck_show(key));
	if (rc)
		return rc;
	item.fpos = storage.fpos + at;
	rc = ck_stored_get(s->files, &item, &stored, d);
	if (rc)
		return rc;
	rc = ck_files_head_read(s->files, &stored.file, buf, len, item.fpos);
	if (rc)
		rc = ck_fail(d, -rc, "%s", strerrordesc_np(-rc));
	return ck_stored_put(&stored, rc, d);
}

/* Replaces read->part by what the checkpoint lists for a tensor. */
static int part_listed(struct ck_torch_load *l, uint32_t row,
		       struct ck_torch_read *read, struct ck_diag *d)
{
	const struct ck_torch_file *f = &l->files[l->rows[row].file];
	struct ck_torch_tensor t;

	if (!l->layout)
		return 0;
	if (!read->part &&
	    ck_torch_tensor_take(&f->pickle, read->value, &t, NULL) <= 0)
		return 0;
	return l->layout->part(l->layout->ctx, l, row, read->value, &read->part)
		       ? ck_fail(d, ENOMEM, "out of memory")
		       : 0;
}

/* Sets read->part to the part of a rank, if the value is a sharded tensor. */
static int part_read(struct ck_torch_file *f, struct ck_torch_read *read,
		     const struct ck_rank_storages *storages, struct ck_diag *d)
{
	struct ck_rank_part part, *own;
	int rc = ck_rank_part_read(&f->pickle, read->value, storages, &f->arena,
				   &part, d);

	if (rc <= 0)
		return rc;
	ck_rank_answer_join(&f->answer, &part.answer);
	own = ck_arena_alloc(&f->arena, sizeof(*own));
	if (!own)
		return ck_fail(d, ENOMEM, "out of memory");
	*own = part;
	read->part = own;
	return 0;
}

/* Reads the parts of all rows of a file, and its rank. */
static int parts_read(struct ck_torch_load *l, uint32_t file, size_t first,
		      struct ck_diag *d)
{
	struct ck_torch_file *f = &l->files[file];
	struct storages s = { l->cp->files, f };
	struct ck_rank_seen seen = { 0 };
	const struct ck_rank_storages storages = { &s, storage_read, f->big,
						   &seen };
	int rc = 0;

	f->answer = (struct ck_rank_answer){ CK_NO_RANK, 0, 0 };
	for (size_t i = 0; i < l->nreads && rc == 0; i++) {
		struct ck_torch_row *row = &l->rows[first + i];

		rc = part_read(f, &l->reads[i], &storages, d);
		if (rc == 0)
			rc = part_listed(l, (uint32_t)(first + i), &l->reads[i],
					 d);
		if (rc && !ck_is_shortage(rc)) {
			rc = ck_torch_row_lose(l, row->path->key, row,
					       ck_diag_what(d));
			row->unread = true;
		}
	}
	return rc;
}

int ck_torch_rows_read(struct ck_torch_load *l, uint32_t file,
		       struct ck_str above, struct ck_diag *d)
{
	struct ck_torch_file *f = &l->files[file];
	struct reading r = {
		.l = l, .file = file, .alone = l->nfiles == 1, .d = d
	};
	size_t before = l->nrows;
	int rc;

	l->nreads = 0;
	rc = ck_torch_flatten(&f->pickle, above, stem_of(f->name), leaf_add, &r,
			      d);
	f->known = rc == 0;
	if (rc == 0 && r.twice)
		rc = ck_torch_twice(r.twice, d);
	if (rc == 0 && !r.alone)
		rc = ck_torch_paths_know(l, before, d);
	/* The load has its own copies of the paths now. */
	if (rc == 0)
		ck_arena_fini(&f->arena);
	if (rc == 0)
		rc = parts_read(l, file, before, d);
	if (rc == 0)
		rc = ck_rank_pieces_find(l, before);
	if (rc == 0)
		rc = ck_torch_rows_hold(l, before, d);
	if (rc)
		l->nrows = before;
	f->row = before;
	f->nrows = l->nrows - before;
	return rc;
}

void ck_torch_rows_fini(struct ck_torch_load *l)
{
	ck_arena_fini(&l->arena);
	ck_table_fini(&l->names);
	ck_table_fini(&l->same);
	ck_torch_known_free(l);
	free(l->rows);
	for (size_t i = 0; i < l->nsums; i++)
		ck_torch_sums_free(l->sums[i]);
	free(l->sums);
	free(l->shown);
	free(l->bytes);
	for (size_t i = 0; i < l->nflats; i++)
		free(l->flats[i].shards);
	free(l->flats);
	ck_sidecar_source_fini(&l->source);
	ck_rank_trees_free(l->trees);
}

/* --- names ---------------------------------------------------------------------------------- */

static struct ck_str shown_name(const void *arg, uint32_t i)
{
	const struct ck_torch_load *l = arg;

	return l->shown[i].name;
}

/* Takes a name for a row, unless another row has it: sets *other to that row, or to
 * NULL. Returns 0, or: -ENOMEM. */
static int name_take(struct ck_torch_load *l, struct ck_str name,
		     const struct ck_torch_row *row,
		     const struct ck_torch_row **other)
{
	struct ck_torch_shown *shown = ck_grow(l->shown, &l->shown_cap,
					       l->nshown, 1, sizeof(*shown));
	uint32_t number;

	if (!shown)
		return -ENOMEM;
	l->shown = shown;
	l->names.key = shown_name;
	l->names.arg = l;
	if (ck_table_add(&l->names, name, (uint32_t)l->nshown, &number))
		return -ENOMEM;
	*other = NULL;
	if (number < l->nshown)
		*other = shown[number].row;
	else
		shown[l->nshown++] = (struct ck_torch_shown){ .name = name,
							      .row = row };
	return 0;
}

static uint32_t next_of(const struct ck_torch_shown *shown)
{
	return shown->tried ? shown->tried + 1 : 2;
}

/* Writes the first free name `<key>~<n>`, with n from `from` on, to text. */
static int name_free(const struct ck_torch_load *l, struct ck_str key,
		     uint32_t from, struct ck_buf *text, uint32_t *n)
{
	for (*n = from;; ++*n) {
		text->len = 0;
		ck_buf_str(text, key);
		ck_buf_printf(text, "~%" PRIu32, *n);
		if (text->err)
			return -ENOMEM;
		if (ck_table_find(&l->names,
				  (struct ck_str){ text->data, text->len }) < 0)
			return 0;
	}
}

/* Gives a row the first free name from `<key>~2` on. Numbers that were tried for
 * another row are skipped: a small file can have very many rows of one key. */
static int name_other(struct ck_torch_load *l, const struct ck_torch_row *row,
		      struct ck_str *name)
{
	const struct ck_torch_row *other;
	int64_t first = ck_table_find(&l->names, row->path->key);
	struct ck_buf text = { 0 };
	uint32_t n;
	int rc = name_free(l, row->path->key, next_of(&l->shown[first]), &text,
			   &n);

	if (rc == 0) {
		l->shown[first].tried = n;
		*name = ck_arena_copy(&l->arena,
				      (struct ck_str){ text.data, text.len });
		rc = name->p ? name_take(l, *name, row, &other) : -ENOMEM;
	}
	ck_buf_fini(&text);
	return rc;
}

int ck_torch_name_take(struct ck_torch_load *l, const struct ck_torch_row *row,
		       struct ck_str *name)
{
	const struct ck_torch_row *other;

	*name = row->path->key;
	if (name_take(l, row->path->key, row, &other) ||
	    (other && name_other(l, row, name)))
		return no_memory(l);
	return 0;
}

int ck_torch_names_reserve(struct ck_torch_load *l)
{
	/* A row without a path: different from all rows. */
	static const struct ck_torch_row none;
	const struct ck_catalog *c = l->c;
	const struct ck_torch_row *other;
	int rc = 0;

	for (size_t i = 0; i < c->listing->n && rc == 0; i++)
		rc = name_take(l,
			       ck_catalog_entry(c, c->listing->entries[i])->key,
			       &none, &other);
	return rc ? no_memory(l) : 0;
}

static int row_show(struct ck_torch_load *l, const struct ck_torch_row *row)
{
	const struct ck_torch_row *other;
	struct ck_str name = row->path->key;

	if (name_take(l, name, row, &other))
		return no_memory(l);
	if (other && other->also && other->file != row->file)
		return 0;
	if (other && name_other(l, row, &name))
		return no_memory(l);
	return ck_torch_entry_add(l, row, name);
}

/* --- rows that an index names ----------------------------------------------------- */

static struct ck_str row_key(const void *arg, uint32_t i)
{
	const struct ck_torch_load *l = arg;

	return l->rows[i].path->key;
}

static int lose(const struct ck_torch_load *l, const struct ck_weight_row *row)
{
	const struct ck_torch_file *f = &l->files[row->file];

	return ck_index_lose(l->c, row, f->number, f->good,
			     CK_STR("the index names it, its file has no such "
				    "entry"))
		       ? no_memory(l)
		       : 0;
}

/* Makes a table of the rows of each file, by key. */
static int tables_make(struct ck_torch_load *l, struct ck_table *tables)
{
	for (size_t i = 0; i < l->nfiles; i++)
		tables[i] = (struct ck_table){ .key = row_key, .arg = l };
	for (uint32_t i = 0; i < l->nrows; i++) {
		uint32_t number;

		/* If a key occurs twice, the index means the first one. */
		if (ck_table_add(&tables[l->rows[i].file], l->rows[i].path->key,
				 i, &number))
			return no_memory(l);
	}
	return 0;
}

static int index_show(struct ck_torch_load *l, const struct ck_table *tables)
{
	size_t more = l->nrows;
	int rc = 0;

	for (size_t i = 0; i < l->index.map.nrows && rc == 0; i++) {
		const struct ck_weight_row *named = &l->index.map.rows[i];
		int64_t at = ck_table_find(&tables[named->file], named->name);

		if (at >= 0 && !l->rows[at].shown) {
			l->rows[at].shown = true;
			more--;
			rc = l->rows[at].unread ? 0 : row_show(l, &l->rows[at]);
		} else if (at < 0) {
			rc = lose(l, named);
		}
	}
	if (rc == 0 && more &&
	    ck_catalog_note_add(l->c, ck_shown("entries that the index does "
					       "not name: %zu",
					       more)))
		rc = no_memory(l);
	return rc;
}

static int show_by_index(struct ck_torch_load *l)
{
	struct ck_table *tables = calloc(l->nfiles + 1, sizeof(*tables));
	int rc = tables ? tables_make(l, tables) : no_memory(l);

	if (rc == 0)
		rc = index_show(l, tables);
	for (size_t i = 0; tables && i < l->nfiles; i++)
		ck_table_fini(&tables[i]);
	free(tables);
	return rc;
}

/* Marks keys that several files have: it is ambiguous which one counts. */
static int find_twice(struct ck_torch_load *l)
{
	struct ck_table table = { .key = row_key, .arg = l };
	int rc = 0;

	for (uint32_t i = 0; i < l->nrows && rc == 0; i++) {
		uint32_t first;

		rc = ck_table_add(&table, l->rows[i].path->key, i, &first);
		if (rc == 0 && l->rows[first].file != l->rows[i].file)
			l->rows[first].also = l->rows[i].file + 1;
	}
	ck_table_fini(&table);
	return rc ? no_memory(l) : 0;
}

static int alone_show(struct ck_torch_load *l, const struct ck_torch_row *row)
{
	int rc = l->is_union ? 0 : ck_rank_state_take(l, &row, 1);

	if (rc == 0)
		return row_show(l, row);
	return rc < 0 ? rc : 0;
}

int ck_torch_rows_show(struct ck_torch_load *l)
{
	int rc = 0;

	if (l->has_index)
		return show_by_index(l);
	if (l->is_union)
		rc = find_twice(l);
	for (size_t i = 0; i < l->nrows && rc == 0; i++)
		if (!l->rows[i].unread && !l->rows[i].piece)
			rc = alone_show(l, &l->rows[i]);
	return rc;
}
