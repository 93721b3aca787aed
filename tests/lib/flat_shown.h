/* SPDX-License-Identifier: MIT */
/*
 * flat_shown: compares the catalog of flat files with the expected one. It reads
 * the elements of a tensor from the position of their boxes, and checks that a
 * sidecar leaves all of local/ unchanged.
 */
#ifndef CK_FLAT_SHOWN_H
#define CK_FLAT_SHOWN_H

#include "flat_files.h"

enum { ELEMENTS = 400, HOLE = 0xfeedbeef };

/* --- contents of the catalog ----------------------------------------------------- */

static inline struct ck_checkpoint *opened(void)
{
	struct ck_checkpoint *cp;
	struct ck_diag d;

	if (!ok(tc_open_it("", &cp, &d) == 0))
		printf("# %.400s\n", d.text);
	return cp;
}

static const struct ck_tensor *whole(const struct ck_catalog *c,
				     const char *name)
{
	for (uint32_t i = 0; i < c->tensors.n; i++)
		if (ck_tensor_is_whole(c, i) &&
		    ck_str_is(ck_catalog_tensor(c, i)->entry.key, name))
			return ck_catalog_tensor(c, i);
	return NULL;
}

static inline bool has_object(const struct ck_catalog *c, const char *name)
{
	for (uint32_t i = 0; i < c->objects.n; i++)
		if (ck_object_is_there(c, i) &&
		    ck_catalog_object(c, i)->entry.role == CK_ROLE_WHOLE &&
		    ck_str_is(ck_catalog_object(c, i)->entry.key, name))
			return true;
	return false;
}

static inline bool is_said(const struct ck_catalog *c, const char *words)
{
	for (size_t i = 0; i < c->nlosses; i++)
		if (memmem(c->losses[i].what.p, c->losses[i].what.len, words,
			   strlen(words)))
			return true;
	return false;
}

/* Elements [fpos, fpos + 4 * n) of a file. */
static inline unsigned item_read(const struct ck_catalog *c,
				 const struct ck_item *item, uint32_t *out,
				 uint64_t n)
{
	const struct ck_data_file *f = ck_catalog_file(c, item->file);
	char path[200];
	FILE *from;
	unsigned wrong;

	(void)snprintf(path, sizeof(path), "%s/%.*s", tc_dir, (int)f->path.len,
		       f->path.p);
	from = fopen(path, "re");
	if (!from)
		return 1;
	wrong = fseek(from, (long)item->fpos, SEEK_SET) != 0 ||
		fread(out, 4, n, from) != n;
	fclose(from);
	return wrong + (item->length != 4 * n) +
	       (item->form != CK_FORM_ELEMENTS);
}

/* Index within the tensor of an element of a box. */
static inline uint64_t place(const struct ck_tensor *t, const int64_t *box,
			     uint64_t k)
{
	uint64_t at = 0, step = 1;

	for (uint32_t d = t->ndim; d > 0 && d--;) {
		uint64_t size = (uint64_t)box[t->ndim + d];

		at += ((uint64_t)box[d] + k % size) * step;
		k /= size;
		step *= (uint64_t)t->shape[d];
	}
	return at;
}

/* Reads all elements; HOLE marks a missing one. Returns the number of errors. */
static inline unsigned read_all(const struct ck_catalog *c,
				const struct ck_tensor *t, uint32_t *out)
{
	unsigned wrong = t->err != 0 || t->nbytes > 4UL * ELEMENTS;
	uint32_t some[ELEMENTS];

	for (uint64_t i = 0; !wrong && i < t->nbytes / 4; i++)
		out[i] = HOLE;
	for (uint32_t i = 0; !wrong && i < t->nchunks; i++) {
		const int64_t *box = ck_tensor_box(t, i);
		uint64_t n = 1;

		for (uint32_t d = 0; d < t->ndim; d++)
			n *= (uint64_t)box[t->ndim + d];
		if (n == 0)
			continue;
		wrong += item_read(c, ck_catalog_item(c, t->chunk + i), some,
				   n);
		for (uint64_t k = 0; !wrong && k < n; k++) {
			uint64_t at = place(t, box, k);

			wrong += out[at] != HOLE;
			out[at] = some[k];
		}
	}
	return wrong;
}

/* Returns the number of differences to these elements in that shape. */
static inline unsigned differs(const struct ck_catalog *c, const char *name,
			       uint32_t ndim, const int64_t *shape,
			       const uint32_t *want, unsigned n)
{
	const struct ck_tensor *t = whole(c, name);
	uint32_t got[ELEMENTS];

	if (!t || t->ndim != ndim || t->nbytes != 4UL * n ||
	    (ndim && memcmp(t->shape, shape, ndim * sizeof(*shape)) != 0) ||
	    read_all(c, t, got) || (n && memcmp(got, want, 4UL * n) != 0)) {
		printf("# %s: %s\n", name, t ? "differs" : "is not there");
		return 1;
	}
	return 0;
}

/* The elements count up from `from`. */
static inline bool is_run(const struct ck_catalog *c, const char *name,
			  uint32_t ndim, const int64_t *shape, uint32_t from)
{
	static uint32_t want[ELEMENTS];
	unsigned n = 1;

	for (uint32_t d = 0; d < ndim; d++)
		n *= (unsigned)shape[d];
	for (unsigned i = 0; i < n; i++)
		want[i] = from + i;
	return differs(c, name, ndim, shape, want, n) == 0;
}

/* --- local/ ------------------------------------------------------------------------ */

static inline int line_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void item_line(const struct ck_catalog *c, const char *what,
			     struct ck_str key, const struct ck_item *item,
			     char **out)
{
	struct ck_buf b = { 0 };

	ck_buf_printf(&b, "%s %.*s %u ", what, (int)key.len, key.p, item->err);
	if (item->file != CK_NO_FILE)
		ck_buf_str(&b, ck_catalog_file(c, item->file)->path);
	ck_buf_printf(&b, " %" PRIu64 " %" PRIu64 "\n", item->fpos,
		      item->length);
	*out = b.data;
}

/* Lines that describe local/, unordered. A tensor with copies has only these. */
static inline size_t local_lines(const struct ck_catalog *c, char **lines)
{
	size_t n = 0;

	for (uint32_t i = 0; i < c->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c, i);

		for (uint32_t k = 0; !t->apart && k < t->nchunks; k++)
			item_line(c, "tensor", t->entry.key,
				  ck_catalog_item(c, t->chunk + k),
				  &lines[n++]);
	}
	for (uint32_t i = 0; i < c->objects.n; i++) {
		const struct ck_object *o = ck_catalog_object(c, i);

		if (o->local)
			item_line(c, "object", o->entry.key, &o->item,
				  &lines[n++]);
	}
	qsort(lines, n, sizeof(*lines), line_cmp);
	return n;
}

static inline void local_print(const struct ck_catalog *c, struct ck_buf *out)
{
	char **lines = calloc(c->chunks.n + c->objects.n + 1UL, sizeof(*lines));
	size_t n = lines ? local_lines(c, lines) : 0;

	for (size_t i = 0; i < n; i++) {
		ck_buf_text(out, lines[i]);
		free(lines[i]);
	}
	free(lines);
	ck_buf_text(out, "");
}

/* Removes the sidecar and compares local/ with and without it. */
static inline bool is_local_as_without(const struct ck_catalog *c)
{
	struct ck_buf with = { 0 }, without = { 0 };
	struct ck_checkpoint *cp;
	bool same;

	local_print(c, &with);
	unlinkat(tc_dirfd, "ckptfs-flat.json", 0);
	cp = opened();
	local_print(cp->catalog, &without);
	same = with.len == without.len &&
	       (with.len == 0 ||
		memcmp(with.data, without.data, with.len) == 0);
	if (!same)
		printf("# with: %.*s\n# without: %.*s\n", (int)with.len,
		       with.data, (int)without.len, without.data);
	ck_checkpoint_close(cp);
	ck_buf_fini(&with);
	ck_buf_fini(&without);
	return same;
}

#endif
