/* SPDX-License-Identifier: MIT */
/*
 * header: compares the npy header that a program writes before the elements with the
 * tensor. A dtype that numpy lacks has several spellings: bfloat16 is `|V2`, `<V2`
 * (ml_dtypes), `<u2` or its name.
 *
 * The header usually comes first, and gives the order of the elements. Without O_TRUNC
 * it replaces the header that the mount shows, and must have its length. Elements that
 * are written before the header have the order of the mount, and the header must then
 * agree.
 *
 * The state is in struct ck_stage; calls for one stage do not overlap.
 */
#include "commit_internal.h"
#include "syntax/npy.h"

#include <errno.h>
#include <stdio.h>

enum {
	PREAMBLE = 12,	     /* magic, version, length of up to 4 bytes */
	HEADER_MAX = 1 << 20 /* bytes */
};

/* Returns the length of an npy header, or of its first part if `head` is too short to
 * have the length. */
static uint64_t header_len(const struct ck_buf *head)
{
	const uint8_t *p = (const uint8_t *)head->data;
	uint64_t len;

	if (head->len < PREAMBLE)
		return PREAMBLE;
	if (p[6] == 1)
		return ck_max(PREAMBLE, 10 + (p[8] | (uint64_t)p[9] << 8));
	len = p[8] | (uint64_t)p[9] << 8 | (uint64_t)p[10] << 16 |
	      (uint64_t)p[11] << 24;
	return ck_min(12 + len, HEADER_MAX);
}

/* Returns the kind and size of a descr, and sets *order to its byte order. */
static struct ck_str kind_of(struct ck_str descr, char *order)
{
	*order = '|';
	if (descr.len && strchr("<>|=", descr.p[0]) && descr.p[0]) {
		*order = descr.p[0];
		descr = (struct ck_str){ descr.p + 1, descr.len - 1 };
	}
	return descr;
}

/* True for a kind of ml_dtypes, which has its own for float8_e5m2, complex32 and
 * bcomplex32. numpy.save() writes them; numpy.load() does not accept them. */
static bool is_ml_dtype(struct ck_str kind, const struct ck_dtype *dtype)
{
	return (ck_str_is(kind, "f1") &&
		strcmp(dtype->name, "float8_e5m2") == 0) ||
	       (ck_str_is(kind, "W4") && dtype->is_complex && dtype->size == 4);
}

static bool is_dtype(struct ck_str descr, const struct ck_dtype *dtype,
		     bool *swapped)
{
	char order, ours;
	struct ck_str kind = kind_of(descr, &order);
	struct ck_str want = kind_of(ck_str_from(dtype->npy), &ours);
	char as_uint[8];

	*swapped = order == '>' && dtype->unit > 1;
	if (ck_str_is(descr, dtype->name) || ck_str_eq(kind, want) ||
	    is_ml_dtype(kind, dtype))
		return true;
	snprintf(as_uint, sizeof(as_uint), "u%u", dtype->size);
	return want.p[0] == 'V' && ck_str_is(kind, as_uint);
}

static bool is_shape(const struct ck_npy *npy, const int64_t *shape,
		     uint32_t ndim)
{
	if (npy->ndim != ndim)
		return false;
	for (uint32_t d = 0; d < ndim; d++)
		if (npy->shape[d] != (uint64_t)shape[d])
			return false;
	return true;
}

static int refuse_shape(const struct ck_npy *npy, const int64_t *shape,
			uint32_t ndim, struct ck_diag *d)
{
	struct ck_buf want = { 0 }, found = { 0 };
	int rc;

	ck_dims_print(&want, shape, ndim);
	ck_dims_print(&found, (const int64_t *)npy->shape, npy->ndim);
	rc = ck_differs(d, EINVAL, want.data ? want.data : "?",
			found.data ? found.data : "?", "another shape");
	ck_buf_fini(&want);
	ck_buf_fini(&found);
	return rc;
}

/* Checks that s->head is a header with the dtype and shape of the stage. Returns 0, or:
 * -EINVAL. */
static int header_accept(const struct ck_stage *s, struct ck_npy *npy,
			 bool *swapped, struct ck_diag *d)
{
	const struct ck_tensor *t = ck_stage_tensor(s);
	const struct ck_dtype *dtype = ck_dtype_at(t->dtype);
	const int64_t *shape = ck_stage_shape(s);
	int rc = ck_npy_parse((struct ck_str){ s->head.data, s->head.len }, npy,
			      d);

	if (rc)
		return rc;
	if (!is_shape(npy, shape, t->ndim))
		return refuse_shape(npy, shape, t->ndim, d);
	if (!is_dtype(npy->descr, dtype, swapped))
		return ck_differs(d, EINVAL,
				  ck_shown("%s (%s)", dtype->name, dtype->npy),
				  ck_show(npy->descr), "another dtype");
	return 0;
}

static bool is_fortran(const struct ck_npy *npy)
{
	return npy->fortran_order && npy->ndim > 1;
}

/* --- writing ---------------------------------------------------------------------- */

int ck_header_settle(struct ck_stage *s, struct ck_diag *d)
{
	struct ck_npy npy;
	bool swapped = false;
	int rc = header_accept(s, &npy, &swapped, d);

	if (rc)
		return ck_stage_spoil(s, d, EINVAL);
	if (!s->data_known && npy.data < s->head.len) {
		(void)ck_fail(d, EINVAL,
			      "a header that became shorter, with elements "
			      "behind it");
		return ck_stage_spoil(s, d, EINVAL);
	}
	if (!s->data_known) {
		rc = ck_stage_place(s, is_fortran(&npy), swapped, d);
		if (rc)
			return rc;
		s->data = npy.data;
		s->data_known = true;
	} else if (npy.data != s->data || swapped != s->swapped ||
		   is_fortran(&npy) != s->fortran) {
		(void)ck_fail(d, EINVAL,
			      "a header of another form, behind its "
			      "elements");
		return ck_stage_spoil(s, d, EINVAL);
	}
	s->head_accepted = true;
	return s->truncated && s->written.end > ck_stage_total(s)
		       ? ck_stage_too_long(s, s->written.end, d)
		       : 0;
}

void ck_header_order(struct ck_stage *s)
{
	struct ck_npy npy;
	struct ck_diag d;
	bool swapped = false;

	s->fortran = s->swapped = false;
	if (s->head_accepted || header_accept(s, &npy, &swapped, &d) ||
	    npy.data != s->data)
		return;
	s->fortran = is_fortran(&npy);
	s->swapped = swapped;
}

/* Grows the header to `end` bytes, with zeros. */
static int head_grow(struct ck_stage *s, uint64_t end)
{
	static const char zeros[256];

	while (s->head.len < end && !s->head.err)
		ck_buf_add(&s->head, zeros,
			   ck_min(sizeof(zeros), end - s->head.len));
	return s->head.err;
}

static int head_put(struct ck_stage *s, uint64_t vpos, const void *bytes,
		    uint64_t len)
{
	int rc = head_grow(s, vpos + len);

	if (rc == 0)
		memcpy(s->head.data + vpos, bytes, len);
	return rc;
}

/* Takes the bytes that belong to the header, which comes first. Sets *used to their
 * number. */
static int feed_header(struct ck_stage *s, uint64_t vpos, const uint8_t *bytes,
		       uint64_t len, uint64_t *used, struct ck_diag *d)
{
	*used = 0;
	while (!s->data_known && *used < len) {
		uint64_t want = ck_max(header_len(&s->head), vpos + 1);
		uint64_t n = ck_min(want - vpos, len - *used);

		if (head_put(s, vpos, bytes + *used, n))
			return ck_fail(d, ENOMEM, "out of memory");
		*used += n;
		vpos += n;
		if (s->head.len >= header_len(&s->head)) {
			int rc = ck_header_settle(s, d);

			if (rc)
				return rc;
		}
	}
	return 0;
}

/* Called if elements come before their header: assumes the length of the header that
 * the mount shows. */
static int assume_header(struct ck_stage *s)
{
	s->data = s->of.header.len;
	s->data_known = true;
	return head_grow(s, s->data);
}

/* Stores bytes of a header whose length is known. */
static int change_header(struct ck_stage *s, uint64_t vpos, const void *bytes,
			 uint64_t len)
{
	if (memcmp(s->head.data + vpos, bytes, len) == 0)
		return 0;
	s->head_accepted = false;
	return head_put(s, vpos, bytes, len);
}

int ck_header_write(struct ck_stage *s, uint64_t vpos, const void *bytes,
		    uint64_t len, uint64_t *used, struct ck_diag *d)
{
	*used = 0;
	if (!s->data_known && vpos <= s->head.len)
		return feed_header(s, vpos, bytes, len, used, d);
	if (!s->data_known && assume_header(s))
		return ck_fail(d, ENOMEM, "out of memory");
	if (vpos >= s->data)
		return 0;
	*used = ck_min(len, s->data - vpos);
	s->foreign &= vpos > 0;
	return change_header(s, vpos, bytes, *used)
		       ? ck_fail(d, ENOMEM, "out of memory")
		       : 0;
}
