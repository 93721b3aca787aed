/* SPDX-License-Identifier: MIT */
/*
 * view: the table of views, and what is the same in all of them: a file name
 * is a stem and the view's suffix.
 */
#include "view_internal.h"

#include <errno.h>

const struct ck_view *const ck_views[] = { &ck_view_full, &ck_view_raw };
const size_t ck_nviews = CK_ARRAY_SIZE(ck_views);

int ck_view_lookup(const struct ck_view *v, const struct ck_catalog *c,
		   struct ck_str name, uint32_t *tensor)
{
	size_t suffix = strlen(v->suffix);
	struct ck_str stem = name;
	int64_t entry;

	if (name.len < suffix)
		return -ENOENT;
	stem.len -= suffix;
	if (suffix && memcmp(name.p + stem.len, v->suffix, suffix) != 0)
		return -ENOENT;
	entry = ck_catalog_find(c, stem);
	if (entry < 0 || c->entries[entry].is_object)
		return -ENOENT;
	*tensor = c->entries[entry].i;
	return 0;
}

void ck_view_name(const struct ck_view *v, const struct ck_catalog *c,
		  uint32_t tensor, struct ck_buf *out)
{
	ck_buf_str(out, ck_catalog_str(c, c->tensors[tensor].names.stem));
	ck_buf_text(out, v->suffix);
}

/* --- slices ----------------------------------------------------------------- */

bool ck_view_has_bytes(const struct ck_tensor *t)
{
	return !t->err || t->nbytes;
}

/* The box at the end of the allocation. */
static void box_copy(struct ck_part *part, uint64_t *to,
		     const struct ck_view_part *p)
{
	for (uint32_t d = 0; d < 2 * p->ndim; d++)
		to[d] = (uint64_t)p->off[d];
	part->off = to;
	part->size = to + p->ndim;
}

int ck_view_slice_make(const struct ck_view_part *p, struct ck_slice **out)
{
	uint32_t ndim = p->off ? p->ndim : 0;
	size_t box = 2 * ndim * sizeof(uint64_t);
	struct ck_slice *s = malloc(sizeof(*s) + 2 * sizeof(s->parts[0]) + box +
				    p->literal.len);
	struct ck_part *part;
	uint64_t *numbers;

	if (!s)
		return -ENOMEM;
	*s = (struct ck_slice){ .size = p->literal.len + p->nbytes };
	part = s->parts;
	numbers = (uint64_t *)(s->parts + 2);
	if (p->literal.len) {
		char *copy = (char *)(numbers + 2 * ndim);

		memcpy(copy, p->literal.p, p->literal.len);
		*part++ = (struct ck_part){ .kind = CK_PART_LITERAL,
					    .len = p->literal.len,
					    .literal = copy };
	}
	if (p->has_tensor) {
		*part = (struct ck_part){ .kind = CK_PART_TENSOR,
					  .vpos = p->literal.len,
					  .len = p->nbytes,
					  .tensor = p->tensor };
		if (p->off)
			box_copy(part, numbers, p);
		part++;
	}
	s->nparts = (uint32_t)(part - s->parts);
	*out = s;
	return 0;
}
