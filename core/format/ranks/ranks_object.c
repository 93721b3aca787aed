/* SPDX-License-Identifier: MIT */
/*
 * ranks_object: reads pickled objects of classes of torch. A class is recognised by the last
 * component of its name, because modules moved between releases. Some classes moved their
 * attributes from a dict to slots; both are read. Stateless.
 */
#include "ranks_internal.h"

#include <errno.h>

struct ck_str ck_rank_class(const struct ck_rank_reader *r,
			    const struct ck_pv *class)
{
	struct ck_str name = ck_pickle_global(r->p, class);

	if (!ck_str_starts(name, CK_STR("torch.distributed.")) &&
	    !ck_str_starts(name, CK_STR("torch.fx.")))
		return CK_STR("");
	return ck_pickle_class(r->p, class);
}

/* True for a namedtuple of protocols 0 and 1: copyreg._reconstructor(class, tuple, arguments). */
static bool reconstructed(const struct ck_rank_reader *r,
			  const struct ck_pcall *call, struct ck_pv *class,
			  struct ck_pv *args)
{
	struct ck_pv base;

	if (!ck_pv_is_global(r->p, &call->callable, "copyreg._reconstructor") ||
	    ck_pv_count(&call->args) != 3)
		return false;
	base = ck_pv_at(&call->args, 1);
	*class = ck_pv_at(&call->args, 0);
	*args = ck_pv_at(&call->args, 2);
	return ck_pv_is_global(r->p, &base, "builtins.tuple");
}

bool ck_rank_tuple(const struct ck_rank_reader *r, const struct ck_pv *v,
		   const char *name, struct ck_pv *args)
{
	const struct ck_pcall *call = ck_pv_any_call(v);
	struct ck_pv class;

	if (!call)
		return false;
	if (!reconstructed(r, call, &class, args)) {
		class = call->callable;
		*args = call->args;
	}
	return ck_str_is(ck_rank_class(r, &class), name) &&
	       ck_pv_is_sequence(args);
}

bool ck_rank_slots(const struct ck_pv *state, struct ck_pv *attributes)
{
	*attributes = *state;
	if (ck_pv_is_sequence(state) && ck_pv_count(state) == 2)
		*attributes = ck_pv_at(state, 1);
	return attributes->tag == CK_PV_DICT;
}

bool ck_rank_object(const struct ck_rank_reader *r, const struct ck_pv *v,
		    struct ck_str *name, struct ck_pv *attributes)
{
	const struct ck_pcall *call = ck_pv_any_call(v);

	if (!call)
		return false;
	*name = ck_rank_class(r, &call->callable);
	return call->has_state && ck_rank_slots(&call->state, attributes);
}

/* (function, class, (class, dtype, size, ...), state) */
bool ck_rank_typed(const struct ck_rank_reader *r, const struct ck_pv *v,
		   struct ck_rank_typed *out)
{
	const struct ck_pcall *call =
		ck_pv_call(r->p, v, "torch._tensor._rebuild_from_type_v2");
	struct ck_pv func, class, args;

	if (!call || ck_pv_count(&call->args) != 4)
		return false;
	func = ck_pv_at(&call->args, 0);
	class = ck_pv_at(&call->args, 1);
	args = ck_pv_at(&call->args, 2);
	out->class = ck_rank_class(r, &class);
	if (!ck_pv_is_global(r->p, &func,
			     "torch._utils._rebuild_wrapper_subclass") ||
	    ck_pv_count(&args) < 3)
		return false;
	out->dtype = ck_pv_at(&args, 1);
	out->size = ck_pv_at(&args, 2);
	out->state = ck_pv_at(&call->args, 3);
	return true;
}

bool ck_rank_dims(const struct ck_pv *v, uint32_t *n, int64_t *dims)
{
	if (!ck_pv_is_sequence(v) || ck_pv_count(v) > CK_MAX_DIMS)
		return false;
	*n = ck_pv_count(v);
	for (uint32_t i = 0; i < *n; i++) {
		struct ck_pv item = ck_pv_at(v, i);

		if (!ck_pv_int(&item, &dims[i]) || dims[i] < 0)
			return false;
	}
	return true;
}

bool ck_rank_dtype(const struct ck_rank_reader *r, const struct ck_pv *v,
		   struct ck_str *name)
{
	struct ck_str module = CK_STR("torch.");

	if (v->tag != CK_PV_GLOBAL)
		return false;
	*name = ck_pickle_global(r->p, v);
	if (!ck_str_starts(*name, module))
		return false;
	*name = (struct ck_str){ name->p + module.len, name->len - module.len };
	return true;
}

int ck_rank_alloc(struct ck_rank_reader *r, size_t n, size_t size, void *out)
{
	uint64_t bytes;
	void *memory = NULL;

	if (!ck_mul(&bytes, n, size) || !ck_pickle_spend(r->p, bytes))
		return ck_fail(r->d, EBADMSG,
			       "more boxes than its pickle is worth");
	memory = ck_arena_alloc(r->arena, bytes + !bytes);
	if (!memory)
		return ck_fail(r->d, ENOMEM, "out of memory");
	memcpy(out, &memory, sizeof(memory));
	return 0;
}
