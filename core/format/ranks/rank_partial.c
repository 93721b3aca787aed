/* SPDX-License-Identifier: MIT */
/*
 * rank_partial: detects that a value, such as a tuple, contains a DTensor with
 * the part of one rank only. The walk does not recurse, and has a stack of its
 * own. A value that is in several places is visited in each. Therefore the
 * number of visits is bounded, not the depth. The state is local to one call.
 */
#include "format/item/item_tensor.h"
#include "ranks_internal.h"

enum { VALUES_MOST = 1 << 18 };

struct walk {
	struct ck_rank_reader reader;
	struct ck_pv *stack; /* owned */
	size_t n, cap;
	uint64_t values; /* values that were visited or pushed */
};

/* Counts values. False if the bound is exceeded. */
static bool spend(struct walk *w, uint64_t values)
{
	w->values += ck_min(values, VALUES_MOST);
	return w->values <= VALUES_MOST;
}

/* False if the bound is exceeded or memory is short, which ends the walk. */
static bool push(struct walk *w, const struct ck_pv *values, uint32_t n)
{
	struct ck_pv *stack = spend(w, n) ? ck_grow(w->stack, &w->cap, w->n, n,
						    sizeof(*stack))
					  : NULL;

	if (!stack)
		return false;
	w->stack = stack;
	if (n)
		memcpy(stack + w->n, values, n * sizeof(*values));
	w->n += n;
	return true;
}

static bool push_children(struct walk *w, const struct ck_pv *v)
{
	const struct ck_plist *list = ck_pv_list(v);
	const struct ck_pcall *call = ck_pv_any_call(v);

	if (list)
		return push(w, list->items, list->count);
	if (!call)
		return true;
	return push(w, &call->args, 1) && push(w, &call->kwargs, 1) &&
	       (!call->has_state || push(w, &call->state, 1)) &&
	       push(w, call->list.items, call->list.count) &&
	       push(w, call->items.items, call->items.count);
}

/* --- DTensors --------------------------------------------------------------------- */

/* The same as ck_pv_get(), which visits all of a dict, with that counted. */
static bool get(struct walk *w, const struct ck_pv *dict, const char *key,
		struct ck_pv *out)
{
	const struct ck_plist *list = ck_pv_list(dict);

	return list && spend(w, list->count) && ck_pv_get(dict, key, out);
}

/* True if a placement is Partial: each rank has a summand. */
static bool is_partial(struct walk *w, const struct ck_pv *state)
{
	struct ck_pv spec, attributes, placements, v;
	struct ck_str class;

	if (!get(w, state, "_spec", &spec) ||
	    !ck_rank_object(&w->reader, &spec, &class, &attributes) ||
	    !get(w, &attributes, "placements", &placements) ||
	    !ck_pv_is_sequence(&placements) ||
	    !spend(w, ck_pv_count(&placements)))
		return false;
	for (uint32_t i = 0; i < ck_pv_count(&placements); i++) {
		struct ck_pv none;

		v = ck_pv_at(&placements, i);
		class = CK_STR("");
		(void)ck_rank_object(&w->reader, &v, &class, &none);
		if (ck_str_ends(class, CK_STR("Partial")))
			return true;
	}
	return false;
}

/* True if v is a DTensor whose local tensor is smaller than it, or a summand. */
static bool is_part(struct walk *w, const struct ck_pv *v)
{
	struct ck_torch_tensor local;
	struct ck_rank_typed t;
	struct ck_pv state, tensor;
	int64_t size[CK_MAX_DIMS];
	uint32_t ndim;

	if (!ck_rank_typed(&w->reader, v, &t) ||
	    !ck_str_is(t.class, "DTensor") ||
	    !ck_rank_dims(&t.size, &ndim, size) ||
	    !ck_rank_slots(&t.state, &state) ||
	    !get(w, &state, "_local_tensor", &tensor) ||
	    ck_torch_tensor_take(w->reader.p, &tensor, &local, NULL) <= 0)
		return false;
	return local.ndim != ndim ||
	       (ndim && memcmp(local.size, size, ndim * sizeof(*size)) != 0) ||
	       is_partial(w, &state);
}

static bool names_dtensor(const struct ck_pickle *p)
{
	for (uint32_t i = 0; i < p->nglobals; i++) {
		const struct ck_pv v = { .tag = CK_PV_GLOBAL, .i = i };

		if (ck_str_ends(ck_pickle_global(p, &v), CK_STR(".DTensor")))
			return true;
	}
	return false;
}

bool ck_rank_holds_part(const struct ck_pickle *p)
{
	struct walk w = { .reader = { .p = (struct ck_pickle *)(uintptr_t)p } };
	bool found = false;

	if (!names_dtensor(p) || !push(&w, &p->root, 1))
		return false;
	while (w.n && !found) {
		const struct ck_pv v = w.stack[--w.n];

		found = is_part(&w, &v);
		if (!found && !push_children(&w, &v))
			break;
	}
	free(w.stack);
	return found;
}
