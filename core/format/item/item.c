/* SPDX-License-Identifier: MIT */
/*
 * item: finds the elements of the tensor in a torch.save archive. data.pkl names the
 * storage of the tensor, which is the record data/<key>. Stateless; any thread.
 */
#include "item.h"
#include "ckptfs/json.h"
#include "item_tensor.h"

#include <errno.h>
#include <inttypes.h>

enum {
	PICKLE_MAX = 16 << 20, /* bytes; that of a tensor has about 200 */
};

/* A tensor and its location. */
struct tensor {
	struct ck_torch_tensor is;
	uint64_t ipos; /* offset of the first element in the archive */
};

static int tensor_parse(const struct ck_pickle *p, struct tensor *t,
			struct ck_diag *d)
{
	int rc = ck_torch_tensor_take(p, &p->root, &t->is, d);

	if (rc < 0)
		return rc;
	if (rc == 0 || !t->is.class.len)
		return ck_fail(d, EBADMSG,
			       "no dense tensor in data.pkl: found %s",
			       rc ? "a meta tensor" : ck_show(t->is.name));
	if (t->is.dtype == CK_DTYPE_UNKNOWN)
		return ck_fail(d, EBADMSG, "unknown dtype: %s of a %s",
			       t->is.name.len ? ck_show(t->is.name) : "none",
			       ck_show(t->is.class));
	return 0;
}

/* --- records ------------------------------------------------------------------- */

int ck_item_storage(const struct ck_zip *zip, struct ck_str key,
		    const struct ck_zip_record **r, struct ck_diag *d)
{
	struct ck_buf name = { 0 };
	int rc;

	ck_buf_text(&name, "data/");
	ck_buf_str(&name, key);
	rc = name.err;
	if (rc == 0)
		*r = ck_zip_find(zip, (struct ck_str){ name.data, name.len });
	ck_buf_fini(&name);
	return rc ? ck_fail(d, -rc, "out of memory") : 0;
}

int ck_item_byteorder(const struct ck_zip *zip, bool *big, struct ck_diag *d)
{
	const struct ck_zip_record *r = ck_zip_find(zip, CK_STR("byteorder"));
	char text[6];
	struct ck_str order = { text, r ? (size_t)r->len : 0 };
	int rc;

	*big = false;
	if (!r) /* before torch 2.1 */
		return 0;
	if (r->len > sizeof(text))
		return ck_fail(d, EBADMSG, "byteorder of %" PRIu64 " bytes",
			       r->len);
	rc = ck_zip_load(zip, r, text, d);
	if (rc < 0)
		return rc;
	*big = ck_str_is(order, "big");
	if (!*big && !ck_str_is(order, "little"))
		return ck_fail(d, EBADMSG, "unknown byteorder %s",
			       ck_show(order));
	return 0;
}

int ck_item_pickle(const struct ck_zip *zip, uint64_t limit,
		   struct ck_pickle *p, void **bytes, size_t *len,
		   struct ck_diag *d)
{
	const struct ck_zip_record *r = ck_zip_find(zip, CK_STR("data.pkl"));
	int rc;

	if (r && ck_zip_find(zip, CK_STR("constants.pkl")))
		return ck_fail(d, EBADMSG, CK_ZIP_TORCHSCRIPT);
	if (!r)
		return ck_fail(d, EBADMSG,
			       "not made by torch.save: no data.pkl");
	if (r->len > limit)
		return ck_fail(d, EBADMSG, "data.pkl of %" PRIu64 " bytes",
			       r->len);
	*bytes = malloc((size_t)r->len + 1);
	if (!*bytes)
		return ck_fail(d, ENOMEM, "out of memory");
	rc = ck_zip_load(zip, r, *bytes, d);
	if (rc < 0)
		return rc;
	rc = ck_pickle_read(p, *bytes, (size_t)r->len, NULL, d);
	if (rc == 0 && p->end != r->len)
		rc = ck_fail(d, EBADMSG, "%" PRIu64 " bytes after its end",
			     r->len - p->end);
	if (rc < 0)
		ck_diag_prefix(d, "data.pkl");
	*len = (size_t)r->len;
	return rc;
}

/* --- quantizer ------------------------------------------------------------------ */

/* Prints a quantizer: (torch.per_tensor_affine, scale, zero point), or (a scheme by
 * channel, scales, zero points, dimension), where scales and zero points are
 * tensors. */
static void quantizer_print(const struct ck_pickle *p, const struct ck_pv *q,
			    struct ck_buf *out)
{
	struct ck_pv part[4] = { 0 };
	int64_t n;

	for (uint32_t i = 0; i < 4 && i < ck_pv_count(q); i++)
		part[i] = ck_pv_at(q, i);
	if (ck_pv_is_global(p, &part[0], "torch.per_tensor_affine") &&
	    part[1].tag == CK_PV_FLOAT && ck_pv_int(&part[2], &n)) {
		ck_buf_text(out, "scale ");
		ck_buf_json_float(out, part[1].f);
		ck_buf_printf(out, ", zero point %" PRId64, n);
	} else if (ck_pv_count(q) == 4 && ck_pv_int(&part[3], &n)) {
		ck_buf_printf(out,
			      "a scale and a zero point for each index of "
			      "dimension %" PRId64,
			      n);
	}
}

/* --- location --------------------------------------------------------------------- */

static int want_check(const struct ck_item_want *want, const struct tensor *t,
		      struct ck_diag *d)
{
	struct ck_buf expected = { 0 }, found = { 0 };
	int rc;

	if (t->is.dtype != want->dtype)
		return ck_differs(d, EIO, ck_dtype_at(want->dtype)->name,
				  ck_dtype_at(t->is.dtype)->name,
				  "its item has another dtype");
	if (t->is.ndim == want->ndim &&
	    (t->is.ndim == 0 || memcmp(t->is.size, want->size,
				       t->is.ndim * sizeof(*t->is.size)) == 0))
		return 0;
	ck_dims_print(&expected, want->size, want->ndim);
	ck_dims_print(&found, t->is.size, t->is.ndim);
	rc = ck_differs(d, EIO, expected.data ? expected.data : "the box's",
			found.data ? found.data : "another",
			"its item has another shape");
	ck_buf_fini(&expected);
	ck_buf_fini(&found);
	return rc;
}

static int place_find(const struct ck_zip *zip, struct tensor *t,
		      struct ck_diag *d)
{
	uint64_t item = ck_dtype_at(t->is.dtype)->size, elements = 0;
	const struct ck_zip_record *r = NULL;
	bool empty;
	int rc = ck_item_storage(zip, t->is.key, &r, d);

	if (rc < 0)
		return rc;
	if (!r || r->len != t->is.storage)
		return ck_differs(d, EBADMSG,
				  ck_shown("%" PRIu64 " bytes", t->is.storage),
				  r ? ck_shown("%" PRIu64, r->len) : "none",
				  "record data/%s is not its storage",
				  ck_show(t->is.key));
	if (!ck_torch_tensor_reach(&t->is, &empty, &elements))
		elements = UINT64_MAX;
	if (elements > r->len / item)
		return ck_differs(
			d, EIO,
			ck_shown("at least %" PRIu64 " elements", elements),
			ck_shown("%" PRIu64, r->len / item),
			"its storage is too small");
	t->ipos = r->ipos + (empty ? 0 : t->is.offset * item);
	return 0;
}

/* Finds the elements after the pickle was read. */
static int locate(const struct ck_zip *zip, const struct ck_pickle *p,
		  const struct ck_item_want *want, struct tensor *t,
		  struct ck_diag *d)
{
	bool big;
	int rc = tensor_parse(p, t, d);

	if (rc < 0)
		return rc;
	rc = want_check(want, t, d);
	if (rc < 0)
		return rc;
	rc = ck_item_byteorder(zip, &big, d);
	if (rc < 0)
		return rc;
	if (big && ck_dtype_at(t->is.dtype)->unit > 1)
		t->is.change |= CK_CHANGE_SWAP;
	return place_find(zip, t, d);
}

int ck_item_locate_in(const struct ck_zip *zip, const struct ck_item_want *want,
		      uint64_t *ipos, uint64_t *strides, uint16_t *change,
		      struct ck_diag *d)
{
	ck_auto_free void *bytes = NULL;
	struct ck_pickle p = { 0 };
	struct tensor t = { 0 };
	size_t len;
	int rc = ck_item_pickle(zip, PICKLE_MAX, &p, &bytes, &len, d);

	if (rc == 0)
		ck_remarks_classes(want->remarks, &p);
	if (rc == 0)
		rc = locate(zip, &p, want, &t, d);
	if (rc == 0 && want->quantizer)
		quantizer_print(&p, &t.is.quantizer, want->quantizer);
	ck_pickle_fini(&p);
	if (rc < 0)
		return rc;
	*ipos = t.ipos;
	*change = t.is.change;
	ck_torch_tensor_strides(&t.is, strides);
	return 0;
}

uint64_t ck_item_bytes(const struct ck_item_want *want)
{
	uint64_t bytes = ck_dtype_at(want->dtype)->size;

	for (uint32_t dim = 0; dim < want->ndim; dim++)
		bytes *= (uint64_t)want->size[dim];
	return bytes;
}

int ck_item_locate(const struct ck_zip_source *src,
		   const struct ck_item_want *want, uint64_t *ipos,
		   uint64_t *strides, uint16_t *change, struct ck_diag *d)
{
	struct ck_zip zip;
	int rc = ck_zip_read(src, &zip, d);

	if (rc < 0)
		return rc;
	rc = ck_item_locate_in(&zip, want, ipos, strides, change, d);
	ck_zip_fini(&zip);
	return rc;
}
