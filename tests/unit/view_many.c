/* SPDX-License-Identifier: MIT */
/*
 * A view of files of many tensors: many/<spec>/rank-<r>/all has a line for each tensor
 * of the checkpoint, its key; then of each tensor its number, the rows that the rank has
 * and zeros up to a multiple of 8; then `end`. Specs are there when they are looked up.
 */
#include "view_many.h"

#include "model/sections.h"
#include "view/specs.h"

#include <errno.h>

/* --- the file ---------------------------------------------------------------- */

enum { LINES, ROWS, END, SECTIONS };

enum { NUMBER, BOX, ZEROS, COLUMNS };

struct maker {
	struct ck_sections_maker ops; /* first */
	const struct ck_catalog *c;   /* outlives what is open */
	uint64_t *boxes[]; /* of each tensor, NULL: nothing is shown */
};

static uint64_t rows_bytes(const struct maker *m, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(m->c, tensor);
	uint64_t bytes = ck_dtype_at(t->dtype)->size;

	for (uint32_t d = 0; d < t->ndim && m->boxes[tensor]; d++)
		bytes *= m->boxes[tensor][t->ndim + d];
	return m->boxes[tensor] ? bytes : 0;
}

static int many_make(const struct ck_sections_maker *ops,
		     struct ck_section_at at, struct ck_buf *out)
{
	const struct maker *m = (const struct maker *)ops;

	if (at.section == LINES) {
		ck_buf_str(out, ck_tensor_names(m->c, at.row).key);
		ck_buf_text(out, "\n");
	} else {
		ck_buf_printf(out, "%u:", at.row);
	}
	return 0;
}

static uint64_t made_len(const struct maker *m, struct ck_section_at at)
{
	struct ck_buf made = { 0 };
	uint64_t len;

	(void)many_make(&m->ops, at, &made);
	len = made.len;
	ck_buf_fini(&made);
	return len;
}

static uint64_t many_len(const struct ck_sections_maker *ops,
			 struct ck_section_at at)
{
	const struct maker *m = (const struct maker *)ops;

	if (at.section == END)
		return 3;
	if (at.section == LINES || at.column == NUMBER)
		return made_len(m, at);
	return at.column == BOX ? rows_bytes(m, at.row)
				: (8 - rows_bytes(m, at.row) % 8) % 8;
}

static struct ck_part many_part(const struct ck_sections_maker *ops,
				struct ck_section_at at)
{
	const struct maker *m = (const struct maker *)ops;

	if (at.section == END)
		return (struct ck_part){ .kind = CK_PART_BYTES,
					 .at.bytes = "end" };
	if (at.section == LINES || at.column == NUMBER)
		return (struct ck_part){ .kind = CK_PART_MADE };
	if (at.column == ZEROS || !m->boxes[at.row])
		return (struct ck_part){ .kind = CK_PART_ZEROS };
	return (struct ck_part){ .kind = CK_PART_BOX,
				 .number = at.row,
				 .at.box = m->boxes[at.row] };
}

static void many_free(struct ck_sections_maker *ops)
{
	struct maker *m = (struct maker *)ops;

	for (uint32_t i = 0; i < m->c->tensors.n; i++)
		free(m->boxes[i]);
	free(m);
}

static bool box_make(struct maker *m, uint32_t tensor, uint32_t ranks,
		     uint32_t rank)
{
	const struct ck_tensor *t = ck_catalog_tensor(m->c, tensor);
	uint64_t begin, end, *box;

	if (!ck_tensor_is_whole(m->c, tensor) || t->err ||
	    (t->ndim == 0 && rank))
		return true;
	box = calloc(2 * t->ndim + 1UL, sizeof(*box));
	if (!box)
		return false;
	for (uint32_t d = 0; d < t->ndim; d++)
		box[t->ndim + d] = (uint64_t)t->shape[d];
	if (t->ndim) {
		many_rows(box[t->ndim], ranks, rank, &begin, &end);
		box[0] = begin;
		box[t->ndim] = end - begin;
	}
	m->boxes[tensor] = box;
	return true;
}

static int many_sections(const struct ck_catalog *c, const struct ck_dir *dir,
			 struct ck_sections **out)
{
	struct maker *m = calloc(1,
				 sizeof(*m) + c->tensors.n * sizeof(*m->boxes));
	const struct ck_section sections[SECTIONS] = {
		[LINES] = { c->tensors.n, 1 },
		[ROWS] = { c->tensors.n, COLUMNS },
		[END] = { 1, 1 },
	};
	struct ck_spec spec;
	struct ck_str name;

	if (!m || !ck_specs_at((struct ck_specs *)(uintptr_t)dir->state,
			       dir->a[0] - 1, &name, &spec))
		return -ENOMEM;
	m->ops = (struct ck_sections_maker){ many_len, many_part, many_make,
					     many_free };
	m->c = c;
	for (uint32_t i = 0; i < c->tensors.n; i++)
		if (!box_make(m, i, spec.ranks, dir->a[1] - 1))
			return -ENOMEM;
	return ck_sections_make(sections, SECTIONS, &m->ops, out);
}

/* --- directories ------------------------------------------------------------- */

/* a[0]: 0 is many/, else 1 + spec; a[1]: 0 is that, else 1 + rank. */

static int specs_start(const struct ck_view_source *from, const void **state)
{
	struct ck_specs *s;
	int rc = ck_specs_make(&s);

	(void)from;
	if (rc == 0)
		*state = s;
	return rc;
}

static void specs_end(const void *state)
{
	ck_specs_free((struct ck_specs *)(uintptr_t)state);
}

static struct ck_specs *specs_of(const struct ck_dir *dir)
{
	return (struct ck_specs *)(uintptr_t)dir->state;
}

static void dir_set(struct ck_child *out, const struct ck_dir *in,
		    uint32_t entry, uint32_t spec, uint32_t rank)
{
	*out = (struct ck_child){ .type = CK_TYPE_DIR,
				  .entry = entry,
				  .dir = { .view = &view_many,
					   .state = in->state,
					   .a = { spec, rank } } };
}

static uint32_t ranks_of(const struct ck_dir *dir)
{
	struct ck_spec spec;
	struct ck_str name;

	return ck_specs_at(specs_of(dir), dir->a[0] - 1, &name, &spec)
		       ? spec.ranks
		       : 0;
}

static int rank_lookup(const struct ck_dir *dir, struct ck_str name,
		       struct ck_child *out)
{
	struct ck_spec rank; /* but for 0, digits are read alike */
	struct ck_str digits = { name.p + 5, name.len - 5 };

	if (name.len < 6 || !ck_str_starts(name, CK_STR("rank-")))
		return -ENOENT;
	if (ck_str_is(digits, "0")) {
		dir_set(out, dir, 0, dir->a[0], 1);
		return 0;
	}
	if (!ck_spec_parse(digits, &rank) || rank.dims[0].name.len ||
	    rank.ranks >= ranks_of(dir))
		return -ENOENT;
	dir_set(out, dir, rank.ranks, dir->a[0], 1 + rank.ranks);
	return 0;
}

static int many_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
		       struct ck_str name, struct ck_child *out)
{
	uint32_t number;
	int rc;

	(void)c;
	if (dir->a[1])
		return ck_str_is(name, "all") ? 0 : -ENOENT;
	if (dir->a[0])
		return rank_lookup(dir, name, out);
	rc = ck_specs_find(specs_of(dir), name, &number);
	if (rc == 0)
		dir_set(out, dir, number, 1 + number, 0);
	return rc;
}

static int many_next(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint64_t *at, struct ck_child *out)
{
	struct ck_spec spec;
	struct ck_str name;
	uint32_t i = (uint32_t)*at;

	(void)c;
	if (dir->a[1])
		return *at ? -ENOENT : 0;
	if (dir->a[0] ? *at >= ranks_of(dir)
		      : !ck_specs_at(specs_of(dir), i, &name, &spec))
		return -ENOENT;
	dir_set(out, dir, i, dir->a[0] ? dir->a[0] : 1 + i,
		dir->a[0] ? 1 + i : 0);
	return 0;
}

static void many_name(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint32_t entry, struct ck_buf *out)
{
	struct ck_spec spec;
	struct ck_str name;

	(void)c;
	if (dir->a[1])
		ck_buf_text(out, "all");
	else if (dir->a[0])
		ck_buf_printf(out, "rank-%u", entry);
	else if (ck_specs_at(specs_of(dir), entry, &name, &spec))
		ck_buf_str(out, name);
}

static int many_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_file_content *out)
{
	struct ck_sections *s;
	int rc;

	if (!dir->a[1] || entry)
		return -ENOENT;
	rc = many_sections(c, dir, &s);
	if (rc)
		return rc;
	*out = (struct ck_file_content){ .topic = CK_FILE_KIND_CHECKPOINT,
					 .size = ck_sections_size(s) };
	ck_sections_put(s);
	return 0;
}

static int many_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint32_t entry, struct ck_slice **out)
{
	struct ck_sections *s;
	int rc = entry ? -ENOENT : many_sections(c, dir, &s);

	if (rc)
		return rc;
	rc = ck_sections_slice(s, out);
	ck_sections_put(s);
	return rc;
}

const struct ck_view view_many = {
	.top = "many",
	.make = specs_start,
	.free = specs_end,
	.lookup = many_lookup,
	.next = many_next,
	.name = many_name,
	.stat = many_stat,
	.slice = many_slice,
};
