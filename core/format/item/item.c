/* SPDX-License-Identifier: MIT */
/*
 * item: from a torch.save archive to the place of its tensor's elements.
 *
 * data.pkl calls, perhaps inside calls that make a Parameter or restore
 * attributes, one function of torch._utils that builds a tensor from a
 * storage:
 *
 *   _rebuild_tensor_v2(storage, offset, size, stride, ...)
 *
 * The storage is a persistent id ('storage', class, key, location, numel) and
 * lies in record data/<key>. offset and stride count elements; the stride is
 * what the tensor had in memory, not always C order (torch/_utils.py,
 * torch/_tensor.py, torch/serialization.py).
 */
#include "item.h"
#include "ckptfs/value.h"

#include <errno.h>
#include <inttypes.h>

enum {
	PICKLE_MAX = 16 << 20, /* bytes; a tensor's has about 200 */
	WRAPS_MAX = 8,	       /* calls around a tensor */
};

/* The tensor as the pickle describes it. */
struct tensor {
	uint8_t dtype;
	struct ck_str key; /* of its storage */
	uint64_t storage;  /* bytes that the storage must have */
	uint64_t offset;   /* elements */
	uint32_t ndim;
	int64_t size[CK_MAX_DIMS];
	int64_t stride[CK_MAX_DIMS]; /* elements */
	uint16_t change;
	uint64_t ipos; /* of the first element */
};

/* --- the call that builds the tensor ----------------------------------------- */

/* The first four arguments are always storage, offset, size and stride. */
static const struct rebuild {
	const char *name;
	uint8_t least, most; /* arguments */
	/* places of others; 0: there is none */
	uint8_t quantizer, grad, hooks, dtype, bits;
} rebuilds[] = {
	{ "torch._utils._rebuild_tensor", 4, 4, 0, 0, 0, 0, 0 },
	{ "torch._utils._rebuild_tensor_v2", 6, 7, 0, 4, 5, 0, 6 },
	{ "torch._utils._rebuild_tensor_v3", 7, 8, 0, 4, 5, 6, 7 },
	{ "torch._utils._rebuild_qtensor", 7, 7, 4, 5, 6, 0, 0 },
};

/* Functions that take a tensor first and give it back. */
static const struct wrapper {
	const char *name;
	uint8_t nargs;
} wrappers[] = {
	{ "torch._utils._rebuild_parameter", 3 },
	{ "torch._utils._rebuild_parameter_with_state", 4 },
};

struct call {
	struct ck_pv func;
	struct ck_pv args;
};

/* A call and nothing else: a BUILD could give a tensor other data. */
static bool call_take(const struct ck_pv *v, struct call *out)
{
	if (v->tag != CK_PV_CALL || v->call->has_state || v->call->list.count ||
	    v->call->items.count || v->call->kwargs.tag != CK_PV_NONE)
		return false;
	out->func = v->call->callable;
	out->args = v->call->args;
	return true;
}

static const struct rebuild *rebuild_find(const struct ck_pickle *p,
					  const struct ck_pv *func)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(rebuilds); i++) {
		if (ck_pv_is_global(p, func, rebuilds[i].name))
			return &rebuilds[i];
	}
	return NULL;
}

/* (function, type, its arguments, attributes): of torch.Tensor itself when
 * somebody set an attribute on one, as FSDP1 does. */
static bool typed_unwrap(const struct ck_pickle *p, struct call *c)
{
	struct ck_pv type;

	if (!ck_pv_is_global(p, &c->func,
			     "torch._tensor._rebuild_from_type_v2") &&
	    !ck_pv_is_global(p, &c->func, "torch.tensor._rebuild_from_type_v2"))
		return false;
	if (ck_pv_count(&c->args) != 4)
		return false;
	type = ck_pv_at(&c->args, 1);
	if (!ck_pv_is_global(p, &type, "torch.Tensor") &&
	    !ck_pv_is_global(p, &type, "torch.nn.parameter.Parameter"))
		return false;
	c->func = ck_pv_at(&c->args, 0);
	c->args = ck_pv_at(&c->args, 2);
	return true;
}

static bool wrapper_unwrap(const struct ck_pickle *p, struct call *c)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(wrappers); i++) {
		struct ck_pv first;

		if (!ck_pv_is_global(p, &c->func, wrappers[i].name))
			continue;
		if (ck_pv_count(&c->args) != wrappers[i].nargs)
			return false;
		first = ck_pv_at(&c->args, 0);
		return call_take(&first, c);
	}
	return false;
}

static int no_tensor(const struct ck_pickle *p, const struct ck_pv *func,
		     struct ck_diag *d)
{
	struct ck_str name = CK_STR("a value");

	if (func->tag == CK_PV_GLOBAL)
		name = ck_pickle_global(p, func);
	return ck_fail(d, EBADMSG, "no tensor in data.pkl: found %s",
		       ck_show(name));
}

/* Finds the call under what wraps it; NULL if there is none. */
static const struct rebuild *call_find(const struct ck_pickle *p,
				       struct call *c)
{
	for (int i = 0; i < WRAPS_MAX; i++) {
		const struct rebuild *how = rebuild_find(p, &c->func);

		if (how)
			return how;
		if (!typed_unwrap(p, c) && !wrapper_unwrap(p, c))
			break;
	}
	return NULL;
}

static bool arity_is_good(const struct call *c, const struct rebuild *how)
{
	uint32_t n = ck_pv_count(&c->args);

	if (c->args.tag != CK_PV_TUPLE && c->args.tag != CK_PV_INTS)
		return false;
	return n >= how->least && n <= how->most;
}

/* --- its arguments ------------------------------------------------------------- */

/* What is at that place, 0 meaning none; NONE if the call is shorter. */
static struct ck_pv argument(const struct call *c, uint8_t place)
{
	if (place == 0 || place >= ck_pv_count(&c->args))
		return (struct ck_pv){ .tag = CK_PV_NONE };
	return ck_pv_at(&c->args, place);
}

/* The dtype that v3 names; CK_DTYPE_UNKNOWN if it is none. */
static uint8_t dtype_take(const struct ck_pickle *p, const struct ck_pv *v)
{
	struct ck_str name = ck_pickle_global(p, v);
	struct ck_str module = CK_STR("torch.");

	if (!ck_str_starts(name, module))
		return CK_DTYPE_UNKNOWN;
	return ck_dtype_by_name(
		(struct ck_str){ name.p + module.len, name.len - module.len });
}

/* Sets dtype, key and storage. The class of a storage implies a dtype; v3
 * names one, over an untyped storage that counts bytes. */
static int storage_parse(const struct ck_pickle *p, const struct call *c,
			 const struct rebuild *how, struct tensor *t,
			 struct ck_diag *d)
{
	struct ck_pv v = ck_pv_at(&c->args, 0), named = argument(c, how->dtype);
	struct ck_str class;
	int64_t numel;
	bool untyped;

	if (!ck_storage_take(p, &v, &class, &t->key, &numel))
		return ck_fail(d, EBADMSG, "malformed storage in data.pkl");
	untyped = ck_storage_is_untyped(class);
	t->dtype = ck_dtype_by_storage(class);
	if (how->dtype) {
		uint8_t dtype = dtype_take(p, &named);

		if (!untyped && dtype != t->dtype)
			dtype = CK_DTYPE_UNKNOWN;
		t->dtype = dtype;
	}
	if (t->dtype == CK_DTYPE_UNKNOWN)
		return ck_fail(d, EBADMSG, "unknown dtype: %s of a %s",
			       how->dtype ? ck_show(ck_pickle_global(p, &named))
					  : "none",
			       ck_show(class));
	if (ck_dtype_at(t->dtype)->size == 0)
		return ck_fail(d, EBADMSG,
			       "dtype %s has no whole bytes for each element",
			       ck_dtype_at(t->dtype)->name);
	if (!ck_mul(&t->storage, (uint64_t)numel,
		    untyped ? 1 : ck_dtype_at(t->dtype)->size))
		return ck_fail(d, EBADMSG, "storage of %" PRId64 " elements",
			       numel);
	return 0;
}

/* Numbers that are not negative, in a tuple or a torch.Size. */
static bool dims_take(const struct ck_pickle *p, struct ck_pv v, uint32_t *n,
		      int64_t dims[static CK_MAX_DIMS])
{
	const struct ck_pcall *size = ck_pv_call(p, &v, "torch.Size");

	if (size && ck_pv_count(&size->args) == 1)
		v = ck_pv_at(&size->args, 0);
	if (!ck_pv_is_sequence(&v) || ck_pv_count(&v) > CK_MAX_DIMS)
		return false;
	*n = ck_pv_count(&v);
	for (uint32_t i = 0; i < *n; i++) {
		struct ck_pv item = ck_pv_at(&v, i);

		if (!ck_pv_int(&item, &dims[i]) || dims[i] < 0)
			return false;
	}
	return true;
}

static int dims_parse(const struct ck_pickle *p, const struct call *c,
		      struct tensor *t, struct ck_diag *d)
{
	struct ck_pv v = ck_pv_at(&c->args, 1);
	uint32_t nstrides;
	int64_t offset;

	if (!ck_pv_int(&v, &offset) || offset < 0 ||
	    !dims_take(p, ck_pv_at(&c->args, 2), &t->ndim, t->size) ||
	    !dims_take(p, ck_pv_at(&c->args, 3), &nstrides, t->stride) ||
	    nstrides != t->ndim)
		return ck_fail(d, EBADMSG,
			       "malformed offset, size or stride in data.pkl");
	t->offset = (uint64_t)offset;
	return 0;
}

/* The dict of bits that say how values differ from what is stored. */
static bool bits_take(const struct ck_pv *v, uint16_t *change)
{
	if (v->tag == CK_PV_NONE)
		return true;
	if (v->tag != CK_PV_DICT)
		return false;
	for (uint32_t i = 0; i + 1 < v->list->count; i += 2) {
		struct ck_str key;
		uint16_t bit;
		bool set;

		if (!ck_pv_str(&v->list->items[i], &key) ||
		    !ck_pv_bool(&v->list->items[i + 1], &set))
			return false;
		if (ck_str_is(key, "conj"))
			bit = CK_CHANGE_CONJ;
		else if (ck_str_is(key, "neg"))
			bit = CK_CHANGE_NEG;
		else
			return false;
		*change = (uint16_t)(set ? *change | bit : *change & ~bit);
	}
	return true;
}

/* The arguments that do not say where bytes are: their types, and the bits. */
static int rest_parse(const struct call *c, const struct rebuild *how,
		      struct tensor *t, struct ck_diag *d)
{
	struct ck_pv grad = argument(c, how->grad);
	struct ck_pv hooks = argument(c, how->hooks);
	struct ck_pv quantizer = argument(c, how->quantizer);
	struct ck_pv bits = argument(c, how->bits);

	if ((how->grad && grad.tag != CK_PV_BOOL) ||
	    (hooks.tag != CK_PV_NONE && hooks.tag != CK_PV_DICT &&
	     hooks.tag != CK_PV_CALL) ||
	    (how->quantizer && quantizer.tag != CK_PV_TUPLE))
		return ck_fail(d, EBADMSG, "malformed arguments of %s",
			       how->name);
	if (!bits_take(&bits, &t->change) ||
	    (t->change & CK_CHANGE_CONJ && !ck_dtype_at(t->dtype)->is_complex))
		return ck_fail(d, EBADMSG, "malformed bits of a %s tensor",
			       ck_dtype_at(t->dtype)->name);
	return 0;
}

static int tensor_parse(const struct ck_pickle *p, struct tensor *t,
			struct ck_diag *d)
{
	const struct rebuild *how;
	struct call c;
	int rc;

	if (!call_take(&p->root, &c))
		return no_tensor(p, &p->root, d);
	how = call_find(p, &c);
	if (!how)
		return no_tensor(p, &c.func, d);
	if (!arity_is_good(&c, how))
		return ck_fail(d, EBADMSG, "%s with %u arguments", how->name,
			       ck_pv_count(&c.args));
	rc = storage_parse(p, &c, how, t, d);
	if (rc < 0)
		return rc;
	rc = dims_parse(p, &c, t, d);
	if (rc < 0)
		return rc;
	return rest_parse(&c, how, t, d);
}

/* --- records ------------------------------------------------------------------- */

/* *r is NULL if there is none. */
static int storage_find(const struct ck_zip *zip, struct ck_str key,
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

static int byteorder_read(const struct ck_zip *zip, bool *big,
			  struct ck_diag *d)
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

	if (!r || ck_zip_find(zip, CK_STR("constants.pkl")))
		return ck_fail(d, EBADMSG, "not made by torch.save: %s",
			       r ? "TorchScript" : "no data.pkl");
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

/* --- place --------------------------------------------------------------------- */

static int want_check(const struct ck_item_want *want, const struct tensor *t,
		      struct ck_diag *d)
{
	struct ck_buf expected = { 0 }, found = { 0 };
	int rc;

	if (t->dtype != want->dtype)
		return ck_differs(d, EIO, ck_dtype_at(want->dtype)->name,
				  ck_dtype_at(t->dtype)->name,
				  "its item has another dtype");
	if (t->ndim == want->ndim &&
	    (t->ndim == 0 ||
	     memcmp(t->size, want->size, t->ndim * sizeof(*t->size)) == 0))
		return 0;
	ck_dims_print(&expected, want->size, want->ndim);
	ck_dims_print(&found, t->size, t->ndim);
	rc = ck_differs(d, EIO, expected.data ? expected.data : "the box's",
			found.data ? found.data : "another",
			"its item has another shape");
	ck_buf_fini(&expected);
	ck_buf_fini(&found);
	return rc;
}

/* Is there an element, and how many elements must the storage have? */
static bool reach(const struct tensor *t, bool *empty, uint64_t *elements)
{
	*empty = false;
	for (uint32_t i = 0; i < t->ndim; i++)
		*empty |= t->size[i] == 0;
	if (*empty)
		return true;
	*elements = t->offset;
	for (uint32_t i = 0; i < t->ndim; i++) {
		uint64_t last;

		if (!ck_mul(&last, (uint64_t)t->size[i] - 1,
			    (uint64_t)t->stride[i]) ||
		    !ck_add(elements, *elements, last))
			return false;
	}
	return ck_add(elements, *elements, 1);
}

static int place_find(const struct ck_zip *zip, struct tensor *t,
		      struct ck_diag *d)
{
	uint64_t item = ck_dtype_at(t->dtype)->size, elements = 0;
	const struct ck_zip_record *r = NULL;
	bool empty;
	int rc = storage_find(zip, t->key, &r, d);

	if (rc < 0)
		return rc;
	if (!r || r->len != t->storage)
		return ck_differs(
			d, EBADMSG, ck_shown("%" PRIu64 " bytes", t->storage),
			r ? ck_shown("%" PRIu64, r->len) : "none",
			"record data/%s is not its storage", ck_show(t->key));
	if (!reach(t, &empty, &elements))
		elements = UINT64_MAX;
	if (elements > r->len / item)
		return ck_differs(
			d, EIO,
			ck_shown("at least %" PRIu64 " elements", elements),
			ck_shown("%" PRIu64, r->len / item),
			"its storage is too small");
	t->ipos = r->ipos + (empty ? 0 : t->offset * item);
	return 0;
}

/* In bytes. What does not fit belongs to a dimension of size 0 or 1, or to a
 * tensor without elements: it is never multiplied by an index above 0. */
static void place_strides(const struct tensor *t, uint64_t *strides)
{
	uint64_t item = ck_dtype_at(t->dtype)->size;

	for (uint32_t i = 0; i < t->ndim; i++) {
		if (!ck_mul(&strides[i], (uint64_t)t->stride[i], item))
			strides[i] = 0;
	}
}

/* With the pickle in memory. */
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
	rc = byteorder_read(zip, &big, d);
	if (rc < 0)
		return rc;
	if (big && ck_dtype_at(t->dtype)->unit > 1)
		t->change |= CK_CHANGE_SWAP;
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
		rc = locate(zip, &p, want, &t, d);
	ck_pickle_fini(&p);
	if (rc < 0)
		return rc;
	*ipos = t.ipos;
	*change = t.change;
	place_strides(&t, strides);
	return 0;
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
