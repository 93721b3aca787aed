/* SPDX-License-Identifier: MIT */
/*
 * pickle_value: typed accessors for the values of a pickle. Each returns false
 * or NULL if the value is of another kind, so callers state the kind that they
 * expect. No state; any thread may read a finished pickle.
 */
#include "pickle_internal.h"

uint64_t ck_pickle_memory(const struct ck_pickle *p)
{
	uint64_t bytes = p->arena.total;

	bytes += p->globals_cap * sizeof(*p->globals);
	for (uint32_t i = 0; i < p->nheap_lists; i++)
		bytes += p->heap_lists[i]->cap * sizeof(struct ck_pv);
	return bytes;
}

struct ck_str ck_pickle_global(const struct ck_pickle *p, const struct ck_pv *v)
{
	if (v->tag != CK_PV_GLOBAL)
		return (struct ck_str){ "", 0 };
	return p->globals[v->i].full;
}

struct ck_str ck_pickle_class(const struct ck_pickle *p, const struct ck_pv *v)
{
	struct ck_str name = ck_pickle_global(p, v);
	const char *dot = name.len ? memrchr(name.p, '.', name.len) : NULL;
	size_t module = dot ? (size_t)(dot - name.p) + 1 : 0;

	return (struct ck_str){ name.p + module, name.len - module };
}

bool ck_pv_is_global(const struct ck_pickle *p, const struct ck_pv *v,
		     const char *full_name)
{
	return v->tag == CK_PV_GLOBAL &&
	       ck_str_is(p->globals[v->i].full, full_name);
}

bool ck_pv_str(const struct ck_pv *v, struct ck_str *out)
{
	if (v->tag != CK_PV_STR)
		return false;
	*out = (struct ck_str){ v->bytes, v->len };
	return true;
}

bool ck_pv_int(const struct ck_pv *v, int64_t *out)
{
	if (v->tag != CK_PV_INT)
		return false;
	*out = v->i;
	return true;
}

bool ck_pv_bool(const struct ck_pv *v, bool *out)
{
	if (v->tag != CK_PV_BOOL)
		return false;
	*out = v->i != 0;
	return true;
}

bool ck_pv_is_sequence(const struct ck_pv *v)
{
	return v->tag == CK_PV_TUPLE || v->tag == CK_PV_LIST ||
	       v->tag == CK_PV_INTS;
}

uint32_t ck_pv_count(const struct ck_pv *v)
{
	if (v->tag == CK_PV_INTS)
		return v->len;
	return ck_pv_is_sequence(v) ? v->list->count : 0;
}

struct ck_pv ck_pv_at(const struct ck_pv *v, uint32_t i)
{
	if (v->tag == CK_PV_INTS)
		return (struct ck_pv){ .tag = CK_PV_INT, .i = v->ints[i] };
	return v->list->items[i];
}

const struct ck_pcall *ck_pv_call(const struct ck_pickle *p,
				  const struct ck_pv *v, const char *full_name)
{
	if (!ck_pv_any_call(v) ||
	    !ck_pv_is_global(p, &v->call->callable, full_name))
		return NULL;
	return v->call;
}
