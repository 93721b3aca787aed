/* SPDX-License-Identifier: MIT */
/*
 * writable: decides which slices can be written. A view marks a file as writable;
 * its slice must then be the elements of one tensor or of one of its boxes, after a
 * header if `accepts` requires one. Stateless; any thread.
 */
#include "commit_internal.h"

#include <errno.h>

static bool is_same(const int64_t *a, const uint64_t *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (a[i] != (int64_t)b[i])
			return false;
	return true;
}

/* Index of the box with these offsets and sizes; CK_ALL_BOXES if no box matches.
 * Equal boxes have no elements, so that any of them may be returned. */
static uint32_t box_find(const struct ck_tensor *t, const uint64_t *box)
{
	uint32_t n = ck_boxes_before(t->boxes, t->ndim, t->facts->order,
				     t->nchunks, (const int64_t *)box);

	for (; n > 0; n--) {
		const int64_t *at = ck_tensor_box(t, t->facts->order[n - 1]);

		if (is_same(at, box, 2 * t->ndim))
			return t->facts->order[n - 1];
		if (!is_same(at, box, t->ndim))
			break;
	}
	return CK_ALL_BOXES;
}

/* Sets the target from the part with the elements. */
static int take_elements(struct ck_accepted *s, const struct ck_catalog *c,
			 const struct ck_part *part, struct ck_diag *d)
{
	const struct ck_tensor *t;

	if (part->kind != CK_PART_BOX || !ck_tensor_is_there(c, part->number))
		return ck_fail(d, EOPNOTSUPP,
			       "cannot be written: it is not of one tensor");
	t = ck_catalog_tensor(c, part->number);
	if (t->err)
		return ck_fail(d, t->err, "a damaged tensor");
	s->tensor = part->number;
	if (part->at.box)
		s->box = box_find(t, part->at.box);
	if (part->at.box && s->box == CK_ALL_BOXES)
		return ck_fail(d, EOPNOTSUPP,
			       "cannot be written: it is no box of its tensor");
	return 0;
}

static int take_parts(struct ck_accepted *s, const struct ck_catalog *c,
		      const struct ck_slice *slice, uint32_t headers,
		      struct ck_diag *d)
{
	struct ck_part first, last;
	int rc;

	if (slice->nparts != headers + 1)
		return ck_fail(d, EOPNOTSUPP,
			       "cannot be written: it has %u parts, not %u",
			       slice->nparts, headers + 1);
	first = ck_slice_part(slice, 0);
	last = ck_slice_part(slice, headers);
	if (headers &&
	    (first.kind != CK_PART_BYTES || ck_slice_part_len(slice, 0) == 0))
		return ck_fail(d, EOPNOTSUPP,
			       "cannot be written: it has no header");
	rc = take_elements(s, c, &last, d);
	if (rc)
		return rc;
	s->nbytes = ck_slice_part_len(slice, headers);
	if (headers)
		ck_buf_add(&s->header, first.at.bytes,
			   ck_slice_part_len(slice, 0));
	return s->header.err ? ck_fail(d, ENOMEM, "out of memory") : 0;
}

/* False if the elements are in a file without an archive around them, or are a part of
 * a flat parameter: the metadata has no location of them. */
static bool is_replaceable(const struct ck_catalog *c,
			   const struct ck_tensor *t)
{
	uint8_t form = t->nchunks ? ck_catalog_item(c, t->chunk)->form
				  : CK_FORM_ARCHIVE;

	return form != CK_FORM_ELEMENTS && form != CK_FORM_WITHIN;
}

/* Checks that all bytes of the file have a location in the metadata. */
static int check_writable(const struct ck_accepted *s,
			  const struct ck_catalog *c, struct ck_diag *d)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, s->tensor);
	bool whole = s->box == CK_ALL_BOXES;
	uint32_t first = whole ? 0 : s->box;
	uint32_t n = whole ? t->nchunks : 1;

	if (!ck_item_form_has(t->dtype))
		return ck_fail(d, EOPNOTSUPP, "dtype %s: cannot be written",
			       ck_show(t->facts->dtype_name));
	if (!is_replaceable(c, t))
		return ck_fail(d, EOPNOTSUPP,
			       "cannot be written: it lies in a file of "
			       "torch.save");
	if (t->holes && whole)
		return ck_fail(d, EIO, "some elements belong to no box");
	if (s->nbytes != (whole ? t->nbytes : ck_tensor_box_bytes(t, first)))
		return ck_fail(d, EOPNOTSUPP,
			       "cannot be written: it has not all elements");
	for (uint32_t i = first; i < first + n; i++)
		if (!ck_tensor_box_is_empty(t, i) &&
		    ck_catalog_item(c, t->chunk + i)->file == CK_NO_FILE)
			return ck_fail(d, EIO,
				       "the metadata has no place for "
				       "one of its boxes");
	return 0;
}

int ck_accept(struct ck_accepted *out, const struct ck_catalog *c,
	      const struct ck_slice *slice, enum ck_accepts accepts,
	      struct ck_diag *d)
{
	int rc;

	*out = (struct ck_accepted){ .box = CK_ALL_BOXES };
	if (accepts == CK_ACCEPTS_NOTHING)
		return ck_fail(d, EOPNOTSUPP, "is not for writing");
	if (slice->err)
		return ck_fail(d, slice->err, "cannot be written: %s",
			       strerror(slice->err));
	rc = take_parts(out, c, slice, accepts == CK_ACCEPTS_NPY, d);
	if (rc == 0)
		rc = check_writable(out, c, d);
	if (rc)
		ck_buf_fini(&out->header);
	return rc;
}
