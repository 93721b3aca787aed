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

int ck_view_slice_make(const struct ck_catalog *c, uint32_t tensor,
		       struct ck_str literal, struct ck_slice **out)
{
	const struct ck_tensor *t = &c->tensors[tensor];
	struct ck_slice *s;
	struct ck_part *part;
	char *copy;

	s = malloc(sizeof(*s) + 2 * sizeof(s->parts[0]) + literal.len);
	if (!s)
		return -ENOMEM;
	*s = (struct ck_slice){ .size = literal.len + t->nbytes };
	part = s->parts;
	copy = (char *)(s->parts + 2);
	if (literal.len) {
		memcpy(copy, literal.p, literal.len);
		*part++ = (struct ck_part){ .kind = CK_PART_LITERAL,
					    .len = literal.len,
					    .literal = copy };
	}
	if (ck_view_has_bytes(t))
		*part++ = (struct ck_part){ .kind = CK_PART_TENSOR,
					    .vpos = literal.len,
					    .len = t->nbytes,
					    .tensor = tensor };
	s->nparts = (uint32_t)(part - s->parts);
	*out = s;
	return 0;
}
