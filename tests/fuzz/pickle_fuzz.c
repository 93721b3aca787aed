/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a pickle: the reader accepts or refuses them, and every value
 * of an accepted one can be reached through the accessors. Values may be
 * shared and may contain themselves, so the walk has a budget.
 */
#include "ckptfs/pickle.h"

#define BUDGET 4096

/* Values still to look at. */
struct walk {
	const struct ck_pickle *p;
	struct ck_pv todo[BUDGET];
	size_t n;
	size_t left;
	uint64_t sum; /* of all bytes seen: they must be readable */
	struct ck_pv_room room;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void push(struct walk *w, struct ck_pv v)
{
	if (w->n < BUDGET)
		w->todo[w->n++] = v;
}

static void push_list(struct walk *w, const struct ck_plist *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		push(w, list->items[i]);
}

static void touch(struct walk *w, struct ck_str s)
{
	for (size_t i = 0; i < s.len; i++)
		w->sum ^= (uint8_t)s.p[i];
}

static void look_call(struct walk *w, const struct ck_pcall *call)
{
	push(w, call->callable);
	push(w, call->args);
	push(w, call->kwargs);
	if (call->has_state)
		push(w, call->state);
	push_list(w, &call->list);
	push_list(w, &call->items);
}

static void look_packed(struct walk *w, const struct ck_pv *v)
{
	const struct ck_pv whole = ck_pv_unpack(v, &w->room);

	look_call(w, whole.call);
}

static void look_dict(struct walk *w, const struct ck_pv *v)
{
	struct ck_pv found;

	if (ck_pv_get(v, "state_dict_metadata", &found))
		push(w, found);
	push_list(w, v->list);
}

static void look(struct walk *w, const struct ck_pv *v)
{
	struct ck_str s;
	int64_t i;
	bool b;

	if (ck_pv_str(v, &s))
		touch(w, s);
	if (ck_pv_int(v, &i))
		w->sum ^= (uint64_t)i & INT64_MAX;
	if (ck_pv_bool(v, &b))
		w->sum ^= b;
	if (ck_pv_is_sequence(v))
		for (uint32_t k = 0; k < ck_pv_count(v) && k < BUDGET; k++)
			push(w, ck_pv_at(v, k));
	switch ((enum ck_pv_tag)v->tag) {
	case CK_PV_BIGINT:
	case CK_PV_BYTES:
	case CK_PV_BYTEARRAY:
		touch(w, (struct ck_str){ v->bytes, v->len });
		break;
	case CK_PV_SET:
	case CK_PV_FROZENSET:
	case CK_PV_PERSID: push_list(w, v->list); break;
	case CK_PV_DICT: look_dict(w, v); break;
	case CK_PV_GLOBAL:
		touch(w, ck_pickle_global(w->p, v));
		w->sum ^= ck_pv_is_global(w->p, v, "builtins.set");
		break;
	case CK_PV_CALL:
	case CK_PV_NEW:
		look_call(w, v->call);
		w->sum ^= ck_pv_call(w->p, v, "builtins.set") != NULL;
		break;
	case CK_PV_PACKED: look_packed(w, v); break;
	case CK_PV_NONE:
	case CK_PV_BOOL:
	case CK_PV_INT:
	case CK_PV_FLOAT:
	case CK_PV_STR:
	case CK_PV_INTS:
	case CK_PV_TUPLE:
	case CK_PV_LIST:
	case CK_PV_EXT:
	default: break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct walk w;
	struct ck_pickle p = { 0 };
	struct ck_diag d = { 0 };
	volatile uint64_t seen;

	if (ck_pickle_read(&p, data, size, NULL, &d) == 0) {
		w.p = &p;
		w.n = 0;
		w.sum = 0;
		push(&w, p.root);
		for (w.left = BUDGET; w.left > 0 && w.n > 0; w.left--) {
			struct ck_pv v = w.todo[--w.n];

			look(&w, &v);
		}
		seen = w.sum;
		(void)seen;
	}
	ck_pickle_fini(&p);
	return 0;
}
