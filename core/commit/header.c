/* SPDX-License-Identifier: MIT */
/*
 * header: is what a program wrote before the elements the tensor's? Spellings
 * of a dtype that numpy lacks are many: `|V2`, `<V2` (ml_dtypes), `<u2` and
 * the name itself all are bfloat16.
 */
#include "commit_internal.h"

#include <errno.h>
#include <stdio.h>

enum {
	PREAMBLE = 12,	     /* magic, version, a length of up to 4 bytes */
	HEADER_MAX = 1 << 20 /* bytes */
};

uint64_t ck_header_len(const struct ck_buf *head)
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

/* The kind and size of a descr, without its byte order. */
static struct ck_str kind_of(struct ck_str descr, char *order)
{
	*order = '|';
	if (descr.len && strchr("<>|=", descr.p[0]) && descr.p[0]) {
		*order = descr.p[0];
		descr = (struct ck_str){ descr.p + 1, descr.len - 1 };
	}
	return descr;
}

static bool is_dtype(struct ck_str descr, const struct ck_dtype *dtype,
		     bool *swapped)
{
	char order, ours;
	struct ck_str kind = kind_of(descr, &order);
	struct ck_str want = kind_of(ck_str_from(dtype->npy), &ours);
	char as_uint[8];

	*swapped = order == '>' && dtype->unit > 1;
	if (ck_str_is(descr, dtype->name) || ck_str_eq(kind, want))
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

int ck_header_accept(const struct ck_stage *s, struct ck_npy *npy,
		     bool *swapped, struct ck_diag *d)
{
	const struct ck_catalog *c = s->w->cp->catalog;
	const struct ck_tensor *t = &c->tensors[s->tensor];
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
