/* SPDX-License-Identifier: MIT */
/*
 * view: the table of views, and what is the same in all of them: a file name
 * is a stem and the view's suffix.
 */
#include "view_internal.h"

#include <errno.h>

const struct ck_tensor_view *const ck_tensor_views[] = { &ck_view_full,
							 &ck_view_raw };
const size_t ck_ntensor_views = CK_ARRAY_SIZE(ck_tensor_views);

int ck_tensor_view_lookup(const struct ck_tensor_view *v,
			  const struct ck_catalog *c, struct ck_str name,
			  uint32_t *tensor)
{
	size_t suffix = strlen(v->suffix);
	struct ck_str stem = name;
	int64_t entry;

	if (name.len < suffix)
		return -ENOENT;
	stem.len -= suffix;
	if (suffix && memcmp(name.p + stem.len, v->suffix, suffix) != 0)
		return -ENOENT;
	entry = ck_listing_find(c->listing, stem);
	if (entry < 0 || c->listing->entries[entry].is_object)
		return -ENOENT;
	*tensor = c->listing->entries[entry].i;
	return 0;
}

void ck_tensor_view_name(const struct ck_tensor_view *v,
			 const struct ck_catalog *c, uint32_t tensor,
			 struct ck_buf *out)
{
	ck_buf_str(out, ck_tensor_names(c, tensor)->stem);
	ck_buf_text(out, v->suffix);
}

/* --- slices ----------------------------------------------------------------- */

bool ck_view_has_bytes(const struct ck_tensor *t)
{
	return !t->err || t->nbytes;
}

int ck_view_slice_make(const struct ck_view_part *p, struct ck_slice **out)
{
	struct ck_slice_builder b = { 0 };
	int rc;

	ck_slice_add_bytes(&b, p->literal);
	if (p->has_tensor)
		ck_slice_add_box(&b, p->tensor, p->ndim,
				 (const uint64_t *)p->box, p->nbytes);
	rc = ck_slice_make(&b, out);
	if (rc == 0)
		(*out)->at_open = true;
	return rc;
}
