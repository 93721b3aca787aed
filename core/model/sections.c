/* SPDX-License-Identifier: MIT */
/*
 * sections: a file of many parts, as tables of rows and columns that a maker describes.
 * The offset of each row is stored; those of parts in a row are computed. A struct
 * ck_sections is constant and counted; any thread.
 */
#include "sections.h"

#include <assert.h>
#include <errno.h>

/* A section of the file. */
struct table {
	uint32_t rows, columns;
	uint32_t part;	/* number of its first part */
	uint64_t begin; /* byte at which it begins */
	uint64_t *ends; /* bytes at which its rows end */
};

/* Constant, except for its count. */
struct ck_sections {
	struct ck_sections_maker *maker;
	uint32_t n;
	uint32_t nparts;
	uint64_t size;
	unsigned held; /* atomic */
	struct table tables[CK_SECTIONS_MAX];
	uint64_t ends[]; /* of all tables */
};

/* A slice of the file. */
struct open {
	struct ck_slice slice; /* first member */
	struct ck_sections *of;
};

/* --- from parts to bytes ----------------------------------------------------- */

/* Returns the location of part i, which must exist. */
static struct ck_section_at at_part(const struct ck_sections *s, uint32_t i)
{
	uint32_t k = s->n - 1;

	while (i < s->tables[k].part)
		k--;
	i -= s->tables[k].part;
	return (struct ck_section_at){ k, i / s->tables[k].columns,
				       i % s->tables[k].columns };
}

static uint64_t row_begin(const struct table *t, uint32_t row)
{
	return row ? t->ends[row - 1] : t->begin;
}

static uint64_t sections_begin(const struct ck_slice *slice, uint32_t i)
{
	const struct ck_sections *s = ((const struct open *)slice)->of;
	struct ck_section_at at;
	uint64_t begin;

	if (i == s->nparts)
		return s->size;
	at = at_part(s, i);
	begin = row_begin(&s->tables[at.section], at.row);
	for (uint32_t column = at.column; column > 0;) {
		at.column = --column;
		begin += s->maker->len(s->maker, at);
	}
	return begin;
}

static struct ck_part sections_part(const struct ck_slice *slice, uint32_t i)
{
	const struct ck_sections *s = ((const struct open *)slice)->of;
	struct ck_part part = s->maker->part(s->maker, at_part(s, i));

	if (part.kind == CK_PART_MADE)
		part.number = i;
	return part;
}

static int sections_bytes(const struct ck_slice *slice, uint32_t number,
			  struct ck_buf *out)
{
	const struct ck_sections *s = ((const struct open *)slice)->of;

	return s->maker->make(s->maker, at_part(s, number), out);
}

static void open_free(struct ck_slice *slice)
{
	struct open *o = (struct open *)slice;

	ck_sections_put(o->of);
	free(o);
}

int ck_sections_slice(struct ck_sections *s, struct ck_slice **out)
{
	struct open *o = malloc(sizeof(*o));

	if (!o)
		return -ENOMEM;
	*o = (struct open){
		.slice = { .size = s->size,
			   .nparts = s->nparts,
			   .begin = sections_begin,
			   .part = sections_part,
			   .make = sections_bytes,
			   .free = open_free },
		.of = ck_sections_hold(s),
	};
	*out = &o->slice;
	return 0;
}

/* --- the sections ------------------------------------------------------------ */

static bool row_add(struct ck_sections *s, struct ck_section_at at)
{
	const struct table *t = &s->tables[at.section];

	for (at.column = 0; at.column < t->columns; at.column++)
		if (!ck_add(&s->size, s->size, s->maker->len(s->maker, at)) ||
		    s->size > INT64_MAX)
			return false;
	t->ends[at.row] = s->size;
	return true;
}

static bool table_add(struct ck_sections *s, uint32_t k,
		      const struct ck_section *from, uint64_t *ends)
{
	struct ck_section_at at = { .section = k };

	s->tables[k] = (struct table){ from->rows, from->columns, s->nparts,
				       s->size, ends };
	for (at.row = 0; at.row < from->rows; at.row++)
		if (!row_add(s, at))
			return false;
	s->nparts += from->rows * from->columns;
	return true;
}

/* Sets *rows to the number of all rows. False if there are too many parts. */
static bool rows_count(const struct ck_section *sections, uint32_t n,
		       uint64_t *rows)
{
	uint64_t parts = 0;

	*rows = 0;
	for (uint32_t k = 0; k < n; k++) {
		assert(sections[k].columns &&
		       sections[k].columns <= CK_SECTION_COLUMNS);
		*rows += sections[k].rows;
		parts += (uint64_t)sections[k].rows * sections[k].columns;
	}
	return parts < UINT32_MAX;
}

static int sections_fill(struct ck_sections *s,
			 const struct ck_section *sections, uint32_t n)
{
	uint64_t *ends = s->ends;

	for (s->n = 0; s->n < n; s->n++) {
		if (!table_add(s, s->n, &sections[s->n], ends))
			return -EOVERFLOW;
		ends += sections[s->n].rows;
	}
	return 0;
}

int ck_sections_make(const struct ck_section *sections, uint32_t n,
		     struct ck_sections_maker *maker, struct ck_sections **out)
{
	struct ck_sections *s = NULL;
	uint64_t rows;
	int rc = -EOVERFLOW;

	assert(n && n <= CK_SECTIONS_MAX);
	if (rows_count(sections, n, &rows)) {
		s = calloc(1, sizeof(*s) + rows * sizeof(*s->ends));
		rc = s ? 0 : -ENOMEM;
	}
	if (rc) {
		if (maker->free)
			maker->free(maker);
		return rc;
	}
	s->maker = maker;
	s->held = 1;
	rc = sections_fill(s, sections, n);
	if (rc)
		ck_sections_put(s);
	else
		*out = s;
	return rc;
}

struct ck_sections *ck_sections_hold(struct ck_sections *s)
{
	__atomic_fetch_add(&s->held, 1, __ATOMIC_RELAXED);
	return s;
}

void ck_sections_put(struct ck_sections *s)
{
	if (!s || __atomic_sub_fetch(&s->held, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	if (s->maker->free)
		s->maker->free(s->maker);
	free(s);
}

uint64_t ck_sections_size(const struct ck_sections *s)
{
	return s->size;
}
