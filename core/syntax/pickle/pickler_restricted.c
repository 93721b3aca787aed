/* SPDX-License-Identifier: MIT */
/*
 * pickler_restricted: which values torch.load(weights_only=True) accepts by default. Its
 * unpickler knows a closed list of globals and calls them with any arguments; a call that
 * raises makes the whole file unreadable, so arguments are checked too. Tensors and
 * storages are refused in a pickle that has no archive of its own. Stateless; any thread.
 *
 * Source: torch/_weights_only_unpickler.py, 2.13.
 */
#include "ckptfs/model.h"
#include "ckptfs/value.h"
#include "pickler_internal.h"

static const char has_tensors[] = "it contains tensors";
static const char classes[] = "torch.load refuses its classes by default";
static const char malformed[] = "it is malformed";

/* --- calls ----------------------------------------------------------------------- */

/* The calls, by the name of the function. */
enum call {
	DICT,
	COUNTER,
	SIZE,
	DEVICE,
	LAYOUT,
	ENCODE,
	BYTEARRAY,
	SET,
	COMPLEX,
	CALLS,
};

static const char *const names[CALLS] = {
	[DICT] = "collections.OrderedDict",
	[COUNTER] = "collections.Counter",
	[SIZE] = "torch.Size",
	[DEVICE] = "torch.device",
	[LAYOUT] = "torch.serialization._get_layout",
	[ENCODE] = "_codecs.encode",
	[BYTEARRAY] = "builtins.bytearray",
	[SET] = "builtins.set",
	[COMPLEX] = "builtins.complex",
};

static enum call call_named(struct ck_str name)
{
	enum call i = 0;

	while (i < CALLS && !ck_str_is(name, names[i]))
		i++;
	return i;
}

static enum call call_of(const struct ck_pickle *from, const struct ck_pv *v)
{
	return call_named(ck_pickle_global(from, &v->call->callable));
}

/* Functions that make tensors, and classes that these get as arguments. */
static bool is_of_tensors(struct ck_str name)
{
	static const char *const all[] = {
		"torch.nn.parameter.Parameter",
		"torch._tensor._rebuild_from_type_v2",
		"torch._utils._rebuild_parameter",
		"torch._utils._rebuild_parameter_with_state",
		"torch._utils._rebuild_qtensor",
		"torch._utils._rebuild_tensor",
		"torch._utils._rebuild_tensor_v2",
		"torch._utils._rebuild_tensor_v3",
		"torch._utils._rebuild_sparse_tensor",
		"torch._utils._rebuild_meta_tensor_no_storage",
		"torch._utils._rebuild_nested_tensor",
		"torch._utils._rebuild_wrapper_subclass",
		"torch._utils._rebuild_device_tensor_from_numpy",
		"torch._utils._rebuild_device_tensor_from_cpu_tensor",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(all); i++)
		if (ck_str_is(name, all[i]))
			return true;
	return false;
}

/* --- keys ------------------------------------------------------------------------ */

/* True if Python can hash a value. A tuple of tuples must not be shared: hashing it may
 * take exponential time. */
static bool is_hashable(const struct ck_pickle *from, const struct ck_pv *v)
{
	enum call call;

	switch (v->tag) {
	case CK_PV_LIST:
	case CK_PV_DICT:
	case CK_PV_SET:
	case CK_PV_BYTEARRAY:
	case CK_PV_NEW:
	case CK_PV_PERSID:
	case CK_PV_EXT:
	case CK_PV_PACKED: return false;
	case CK_PV_CALL:
		call = call_of(from, v);
		return call == SIZE || call == DEVICE || call == ENCODE ||
		       call == COMPLEX;
	case CK_PV_TUPLE: break;
	default: return true;
	}
	for (uint32_t i = 0; i < v->list->count; i++) {
		const struct ck_pv *item = &v->list->items[i];

		if ((item->tag == CK_PV_TUPLE && item->list->shared &&
		     item->list->count) ||
		    !is_hashable(from, item))
			return false;
	}
	return true;
}

/* Checks each step-th of the values, from the first on. */
static bool are_hashable(const struct ck_pickle *from,
			 const struct ck_plist *list, uint32_t step)
{
	for (uint32_t i = 0; i < list->count; i += step)
		if (!is_hashable(from, &list->items[i]))
			return false;
	return true;
}

/* --- arguments ------------------------------------------------------------------- */

static const char *const devices[] = { "cpu",  "cuda", "mps",  "xpu", "xla",
				       "meta", "hpu",  "mtia", "ipu" };

static const char *const layouts[] = { "torch.strided",	   "torch.sparse_coo",
				       "torch.sparse_csr", "torch.sparse_csc",
				       "torch.sparse_bsr", "torch.sparse_bsc" };

static bool is_one_of(const struct ck_pv *v, const char *const *all, size_t n)
{
	struct ck_str s;

	for (size_t i = 0; i < n && ck_pv_str(v, &s); i++)
		if (ck_str_is(s, all[i]))
			return true;
	return false;
}

/* True for the result of _codecs.encode(), which was checked as a value of its own, and
 * for bytes. */
static bool is_bytes(const struct ck_pickle *from, const struct ck_pv *v)
{
	return v->tag == CK_PV_BYTES ||
	       (v->tag == CK_PV_CALL && call_of(from, v) == ENCODE);
}

/* Pairs of a key and a value, as Python 2 pickles an OrderedDict. */
static bool are_pairs(const struct ck_pickle *from, const struct ck_pv *v)
{
	if (v->tag != CK_PV_LIST)
		return false;
	for (uint32_t i = 0; i < v->list->count; i++) {
		const struct ck_pv *pair = &v->list->items[i];
		struct ck_pv key;

		if (!ck_pv_is_sequence(pair) || ck_pv_count(pair) != 2)
			return false;
		key = ck_pv_at(pair, 0);
		if (!is_hashable(from, &key))
			return false;
	}
	return true;
}

static bool one_is_good(const struct ck_pickle *from, enum call call,
			const struct ck_pv *v)
{
	switch (call) {
	case DICT: return are_pairs(from, v);
	case COUNTER: return v->tag == CK_PV_DICT;
	case SIZE:
		return v->tag == CK_PV_INTS ||
		       (v->tag == CK_PV_TUPLE && v->list->count == 0);
	case DEVICE: return is_one_of(v, devices, CK_ARRAY_SIZE(devices));
	case LAYOUT: return is_one_of(v, layouts, CK_ARRAY_SIZE(layouts));
	case BYTEARRAY: return is_bytes(from, v);
	case SET: return v->tag == CK_PV_LIST && are_hashable(from, v->list, 1);
	case COMPLEX: return v->tag == CK_PV_FLOAT;
	case ENCODE:
	case CALLS:
	default: return false;
	}
}

static bool two_are_good(enum call call, const struct ck_pv *a,
			 const struct ck_pv *b)
{
	struct ck_str text, encoding;

	switch (call) {
	case DEVICE:
		return is_one_of(a, devices, CK_ARRAY_SIZE(devices)) &&
		       b->tag == CK_PV_INT && b->i >= 0 && b->i <= INT8_MAX;
	case ENCODE:
		return ck_pv_str(a, &text) && ck_pv_str(b, &encoding) &&
		       ck_str_is(encoding, "latin1");
	case COMPLEX: return a->tag == CK_PV_FLOAT && b->tag == CK_PV_FLOAT;
	case DICT:
	case COUNTER:
	case SIZE:
	case LAYOUT:
	case BYTEARRAY:
	case SET:
	case CALLS:
	default: return false;
	}
}

static bool args_are_good(const struct ck_pickle *from, enum call call,
			  const struct ck_pv *args)
{
	struct ck_pv a, b;

	switch (ck_pv_count(args)) {
	case 0:
		return call == DICT || call == COUNTER || call == SET ||
		       call == BYTEARRAY;
	case 1: a = ck_pv_at(args, 0); return one_is_good(from, call, &a);
	case 2:
		a = ck_pv_at(args, 0);
		b = ck_pv_at(args, 1);
		return two_are_good(call, &a, &b);
	default: return false;
	}
}

/* --- values ------------------------------------------------------------------------ */

static const char *call_refuses(const struct ck_pickle *from,
				const struct ck_pv *v, bool tensors)
{
	const struct ck_pcall *call = v->call;
	struct ck_str name = ck_pickle_global(from, &call->callable);
	enum call which = call_named(name);
	bool is_dict = which == DICT || which == COUNTER;

	if (is_of_tensors(name))
		return tensors ? NULL : has_tensors;
	if (which == CALLS || v->tag == CK_PV_NEW)
		return classes;
	if (call->kwargs.tag != CK_PV_NONE || call->list.count ||
	    !args_are_good(from, which, &call->args) ||
	    (!is_dict && (call->items.count || call->has_state)) ||
	    !are_hashable(from, &call->items, 2) ||
	    (call->has_state && call->state.tag != CK_PV_DICT))
		return malformed;
	return NULL;
}

/* Classes and dtypes as values. */
static bool is_known_global(struct ck_str name)
{
	struct ck_str torch = CK_STR("torch."), dtype = name;

	if (call_named(name) < CALLS)
		return true;
	if (!ck_str_starts(name, torch))
		return false;
	dtype.p += torch.len;
	dtype.len -= torch.len;
	return ck_dtype_by_name(dtype) != CK_DTYPE_UNKNOWN ||
	       ck_str_is(name, "torch.Tensor") ||
	       ck_str_is(dtype, "per_tensor_affine") ||
	       ck_str_is(dtype, "per_tensor_symmetric") ||
	       ck_str_is(dtype, "per_channel_affine") ||
	       ck_str_is(dtype, "per_channel_symmetric");
}

static const char *storage_refuses(const struct ck_pickle *from,
				   const struct ck_pv *v)
{
	struct ck_str class, key, name;
	const char *dot;
	int64_t numel;

	if (!ck_storage_take(from, v, &class, &key, &numel))
		return malformed;
	dot = memrchr(class.p, '.', class.len);
	name = (struct ck_str){ class.p, dot ? (size_t)(dot - class.p) : 0 };
	if (ck_str_is(class, "torch.storage.UntypedStorage") ||
	    ck_str_is(class, "torch.storage.TypedStorage"))
		return NULL;
	return ck_dtype_by_storage(class) != CK_DTYPE_UNKNOWN &&
			       (ck_str_is(name, "torch") ||
				ck_str_is(name, "torch.cuda"))
		       ? NULL
		       : classes;
}

static const char *global_refuses(struct ck_str name, bool tensors)
{
	return is_known_global(name) || (tensors && is_of_tensors(name))
		       ? NULL
		       : classes;
}

const char *ck_restricted_refuses(const struct ck_pickle *from,
				  const struct ck_pv *v, bool tensors)
{
	switch (v->tag) {
	case CK_PV_PACKED: return tensors ? NULL : has_tensors;
	case CK_PV_PERSID:
		return tensors ? storage_refuses(from, v) : has_tensors;
	case CK_PV_CALL:
	case CK_PV_NEW: return call_refuses(from, v, tensors);
	case CK_PV_GLOBAL:
		return global_refuses(ck_pickle_global(from, v), tensors);
	case CK_PV_FROZENSET: return classes;
	case CK_PV_BYTES: return v->len ? NULL : classes;
	case CK_PV_BIGINT: return v->len <= UINT8_MAX ? NULL : malformed;
	case CK_PV_SET:
		return are_hashable(from, v->list, 1) ? NULL : malformed;
	case CK_PV_DICT:
		return are_hashable(from, v->list, 2) ? NULL : malformed;
	default: return NULL;
	}
}
