/* SPDX-License-Identifier: MIT */
/*
 * item_tensor: recognises a tensor in a pickle. torch.save writes it as a call of a
 * function of torch._utils over a storage, perhaps inside calls that make a Parameter
 * or restore attributes:
 *
 *   _rebuild_tensor_v2(storage, offset, size, stride, ...)
 *
 * The storage is a persistent id ('storage', class, key, location, numel). offset and
 * stride count elements. The stride is that of the tensor in memory, not always of C
 * order (torch/_utils.py, torch/_tensor.py, torch/serialization.py). Stateless; any
 * thread.
 */
#include "item_tensor.h"
#include "ckptfs/value.h"

#include <errno.h>
#include <inttypes.h>

enum { WRAPS_MAX = 8 }; /* most calls around a tensor */

/* --- the call that builds the tensor ----------------------------------------- */

/* The first four arguments are always storage, offset, size and stride. */
static const struct rebuild {
	const char *name;
	uint8_t least, most; /* arguments */
	/* indexes of other arguments; 0 if the function has no such argument */
	uint8_t quantizer, grad, hooks, dtype, bits;
} rebuilds[] = {
	{ "torch._utils._rebuild_tensor", 4, 4, 0, 0, 0, 0, 0 },
	{ "torch._utils._rebuild_tensor_v2", 6, 7, 0, 4, 5, 0, 6 },
	{ "torch._utils._rebuild_tensor_v3", 7, 8, 0, 4, 5, 6, 7 },
	{ "torch._utils._rebuild_qtensor", 7, 7, 4, 5, 6, 0, 0 },
};

/* Functions that return the tensor that is their first argument. */
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
	struct ck_pv_room *room; /* for the tensor in a wrapper */
};

/* True for a plain call. A BUILD after it could give the tensor other data. */
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

/* True for (function, type, its arguments, attributes). The type is a subclass, or
 * torch.Tensor if an attribute was set on a tensor, as FSDP1 does. */
static bool is_typed(const struct ck_pickle *p, const struct call *c,
		     struct ck_pv *type)
{
	if (!ck_pv_is_global(p, &c->func,
			     "torch._tensor._rebuild_from_type_v2") &&
	    !ck_pv_is_global(p, &c->func, "torch.tensor._rebuild_from_type_v2"))
		return false;
	if (ck_pv_count(&c->args) != 4)
		return false;
	if (ck_pv_at(&c->args, 1).tag != CK_PV_GLOBAL)
		return false;
	*type = ck_pv_at(&c->args, 1);
	return true;
}

/* Wrapper subclasses of torchao whose value is the dense tensor in one attribute. They change
 * how products are computed, for training with float8, MXFP8 or int8. Classes of quantized
 * tensors are not among them. Source: __tensor_flatten__() of each class in torchao 0.18.0,
 * and of ScaledGroupedMMTensor in 0.13.0. */
static const struct holder {
	const char *class; /* in any module of torchao */
	const char *attribute;
} holders[] = {
	{ "WeightWithDynamicFloat8CastTensor", "_tensor" },
	{ "Float8TrainingWeightWrapperTensor", "_data" },
	{ "MXFP8TrainingWeightWrapperTensor", "_data" },
	{ "ScaledGroupedMMTensor", "_data" },
	{ "Int8MixedPrecisionTrainingLinearWeight", "_data" },
	{ "BitNetTrainingLinearWeight", "_data" },
};

static const struct holder *holder_find(const struct ck_pickle *p,
					const struct ck_pv *type)
{
	struct ck_str class = ck_pickle_class(p, type);

	if (!ck_str_starts(ck_pickle_global(p, type), CK_STR("torchao.")))
		return NULL;
	for (size_t i = 0; i < CK_ARRAY_SIZE(holders); i++)
		if (ck_str_is(class, holders[i].class))
			return &holders[i];
	return NULL;
}

/* True for (the type, dtype, size, stride, offset, layout, device, requires_grad). */
static bool is_wrapper(const struct ck_pickle *p, const struct ck_pv *type,
		       const struct call *c)
{
	struct ck_pv func = ck_pv_at(&c->args, 0), args = ck_pv_at(&c->args, 2);
	struct ck_pv first;

	if (!ck_pv_is_global(p, &func,
			     "torch._utils._rebuild_wrapper_subclass") ||
	    ck_pv_count(&args) != 8)
		return false;
	first = ck_pv_at(&args, 0);
	return ck_str_eq(ck_pickle_global(p, &first),
			 ck_pickle_global(p, type));
}

/* Replaces the call that restores a wrapper by the one that builds the tensor in it. A shared
 * dict could be changed after the call. */
static bool holder_unwrap(const struct ck_pickle *p,
			  const struct holder *holder, const struct ck_pv *type,
			  struct call *c)
{
	struct ck_pv state = ck_pv_at(&c->args, 3), inner;

	if (!is_wrapper(p, type, c) || state.tag != CK_PV_DICT ||
	    state.list->shared || !ck_pv_get(&state, holder->attribute, &inner))
		return false;
	inner = ck_pv_unpack(&inner, c->room);
	return call_take(&inner, c);
}

/* Replaces a call that restores a type by its inner call. This is valid if PyTorch
 * makes the subclass by as_subclass() of a dense tensor, or if it is a known wrapper. */
static bool typed_unwrap(const struct ck_pickle *p, struct call *c)
{
	struct ck_pv type, func, state;
	const struct holder *holder;

	if (!is_typed(p, c, &type))
		return false;
	holder = holder_find(p, &type);
	if (holder)
		return holder_unwrap(p, holder, &type, c);
	func = ck_pv_at(&c->args, 0);
	state = ck_pv_at(&c->args, 3);
	if (!ck_pv_is_global(p, &type, "torch.Tensor") &&
	    !ck_pv_is_global(p, &type, "torch.nn.parameter.Parameter") &&
	    (!rebuild_find(p, &func) ||
	     (state.tag != CK_PV_NONE && state.tag != CK_PV_DICT)))
		return false;
	c->func = func;
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

/* Returns the name of a value that is not a tensor, for messages. */
static struct ck_str found(const struct ck_pickle *p, const struct ck_pv *func)
{
	return func->tag == CK_PV_GLOBAL ? ck_pickle_global(p, func)
					 : CK_STR("a value");
}

/* Finds the call that builds the tensor inside wrapping calls; NULL if there is no such
 * call. */
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

/* Returns the argument at an index; Python's null value if the index is 0 or the call
 * has fewer arguments. */
static struct ck_pv argument(const struct call *c, uint8_t place)
{
	if (place == 0 || place >= ck_pv_count(&c->args))
		return (struct ck_pv){ .tag = CK_PV_NONE };
	return ck_pv_at(&c->args, place);
}

/* Returns the dtype of a global; CK_DTYPE_UNKNOWN if the global is not a dtype. */
static uint8_t dtype_take(struct ck_str name)
{
	struct ck_str module = CK_STR("torch.");

	if (!ck_str_starts(name, module))
		return CK_DTYPE_UNKNOWN;
	return ck_dtype_by_name(
		(struct ck_str){ name.p + module.len, name.len - module.len });
}

/* Sets dtype, key and storage. The class of a storage implies the dtype. v3 names the
 * dtype of an untyped storage, which counts bytes. */
static int storage_parse(const struct ck_pickle *p, const struct call *c,
			 const struct rebuild *how, struct ck_torch_tensor *t,
			 struct ck_diag *d)
{
	struct ck_pv v = ck_pv_at(&c->args, 0), named = argument(c, how->dtype);
	int64_t numel;
	bool untyped;

	if (!ck_storage_take(p, &v, &t->class, &t->key, &numel))
		return ck_fail(d, EBADMSG, "malformed storage in data.pkl");
	untyped = ck_storage_is_untyped(t->class);
	t->dtype = ck_dtype_by_storage(t->class);
	if (how->dtype) {
		uint8_t dtype;

		t->name = ck_pickle_global(p, &named);
		dtype = dtype_take(t->name);
		t->dtype = !untyped && dtype != t->dtype ? CK_DTYPE_UNKNOWN
							 : dtype;
	}
	if (t->dtype == CK_DTYPE_UNKNOWN)
		return 0;
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

/* Reads at most CK_MAX_DIMS numbers from 0 on, of a tuple or a torch.Size. */
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

/* place: index of the size in the arguments; the stride follows it. */
static int dims_parse(const struct ck_pickle *p, const struct call *c,
		      uint32_t place, struct ck_torch_tensor *t,
		      struct ck_diag *d)
{
	uint32_t nstrides;

	if (!dims_take(p, ck_pv_at(&c->args, place), &t->ndim, t->size) ||
	    !dims_take(p, ck_pv_at(&c->args, place + 1), &nstrides,
		       t->stride) ||
	    nstrides != t->ndim)
		return ck_fail(d, EBADMSG,
			       "malformed offset, size or stride in data.pkl");
	return 0;
}

static int offset_parse(const struct call *c, struct ck_torch_tensor *t,
			struct ck_diag *d)
{
	struct ck_pv v = ck_pv_at(&c->args, 1);
	int64_t offset;

	if (!ck_pv_int(&v, &offset) || offset < 0)
		return ck_fail(d, EBADMSG,
			       "malformed offset, size or stride in data.pkl");
	t->offset = (uint64_t)offset;
	return 0;
}

/* Reads the dict of bits that change the meaning of the stored values. */
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

/* Checks the types of the other arguments, and reads the quantizer and the bits. */
static int rest_parse(const struct call *c, const struct rebuild *how,
		      struct ck_torch_tensor *t, struct ck_diag *d)
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
	t->quantizer = quantizer;
	if (!bits_take(&bits, &t->change) ||
	    (t->change & CK_CHANGE_CONJ && t->dtype != CK_DTYPE_UNKNOWN &&
	     !ck_dtype_at(t->dtype)->is_complex))
		return ck_fail(d, EBADMSG, "malformed bits of a %s tensor",
			       ck_dtype_at(t->dtype)->name);
	return 0;
}

/* Reads a tensor on the device "meta", which has no bytes: (dtype, size, stride,
 * requires_grad). */
static int meta_parse(const struct ck_pickle *p, const struct call *c,
		      struct ck_torch_tensor *t, struct ck_diag *d)
{
	struct ck_pv named;

	if (!ck_pv_is_sequence(&c->args) || ck_pv_count(&c->args) != 4)
		return ck_fail(d, EBADMSG, "a meta tensor with %u arguments",
			       ck_pv_count(&c->args));
	named = ck_pv_at(&c->args, 0);
	t->name = ck_pickle_global(p, &named);
	t->dtype = dtype_take(t->name);
	return dims_parse(p, c, 1, t, d);
}

static int stored_parse(const struct ck_pickle *p, const struct call *c,
			const struct rebuild *how, struct ck_torch_tensor *t,
			struct ck_diag *d)
{
	int rc;

	if (!arity_is_good(c, how))
		return ck_fail(d, EBADMSG, "%s with %u arguments", how->name,
			       ck_pv_count(&c->args));
	rc = storage_parse(p, c, how, t, d);
	if (rc == 0)
		rc = offset_parse(c, t, d);
	if (rc == 0)
		rc = dims_parse(p, c, 2, t, d);
	return rc ? rc : rest_parse(c, how, t, d);
}

int ck_torch_tensor_take(const struct ck_pickle *p, const struct ck_pv *v,
			 struct ck_torch_tensor *out, struct ck_diag *d)
{
	struct ck_pv_room room, inner;
	const struct ck_pv whole = ck_pv_unpack(v, &room);
	struct call c = { .room = &inner };
	const struct rebuild *how;
	struct ck_pv type;
	int rc;

	*out = (struct ck_torch_tensor){ .dtype = CK_DTYPE_UNKNOWN };
	if (!call_take(&whole, &c)) {
		out->name = found(p, v);
		return 0;
	}
	how = call_find(p, &c);
	if (how) {
		rc = stored_parse(p, &c, how, out, d);
	} else if (ck_pv_is_global(p, &c.func,
				   "torch._utils."
				   "_rebuild_meta_tensor_no_storage")) {
		rc = meta_parse(p, &c, out, d);
	} else {
		type = c.func;
		(void)is_typed(p, &c, &type);
		out->name = found(p, &type);
		return 0;
	}
	return rc ? rc : 1;
}

bool ck_torch_tensor_reach(const struct ck_torch_tensor *t, bool *empty,
			   uint64_t *elements)
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

/* A stride that overflows belongs to a dimension of size 0 or 1, or to a tensor without
 * elements. It is never multiplied by an index above 0. */
void ck_torch_tensor_strides(const struct ck_torch_tensor *t, uint64_t *strides)
{
	uint64_t item = ck_dtype_at(t->dtype)->size;

	for (uint32_t i = 0; i < t->ndim; i++) {
		if (!ck_mul(&strides[i], (uint64_t)t->stride[i], item))
			strides[i] = 0;
	}
}
