/* SPDX-License-Identifier: MIT */
/*
 * pickle: pass two over a pickle, a stack machine with values of 16 bytes.
 * Ints, floats, strings (borrowed from the input) and tuples of ints need no
 * node. An object that a hook takes at its BUILD is collapsed to one value. The
 * nodes of its state are recycled for the next object, unless a memo slot
 * refers to them: so the tree of a large .metadata never exists. One thread at
 * a time for each pickle.
 */
#include "pickle_packed.h"

#include <errno.h>

/* Bounds of the contract in pickle.h. */
static const uint64_t base_budget = CK_PICKLE_BASE;

enum { BUDGET_PER_BYTE = 40, SMALL_ITEMS = 64, HEAP_ITEMS = 4096 };

int ck_vm_bad(struct ck_vm *vm, const char *what)
{
	return ck_fail(vm->d, EBADMSG, "pickle: byte %llu: %s",
		       (unsigned long long)(vm->p - vm->in), what);
}

uint64_t ck_pickle_settle(struct ck_pickle *p, uint64_t len, uint64_t size)
{
	uint64_t spent = base_budget + len * BUDGET_PER_BYTE - p->budget;
	uint64_t most = size > UINT64_MAX / BUDGET_PER_BYTE
				? UINT64_MAX
				: size * BUDGET_PER_BYTE;

	p->budget = most > spent ? most - spent : 0;
	return spent > most ? spent - most : 0;
}

void ck_pickle_lend(struct ck_pickle *p, uint64_t bytes)
{
	if (!ck_add(&p->budget, p->budget, bytes))
		p->budget = UINT64_MAX;
}

uint64_t ck_pickle_take_back(struct ck_pickle *p, uint64_t bytes)
{
	uint64_t back = ck_min(bytes, p->budget);

	p->budget -= back;
	return back;
}

bool ck_pickle_is_roomy(const struct ck_pickle *p, size_t len)
{
	return p->budget / (BUDGET_PER_BYTE / 2) >= len;
}

static bool spend(struct ck_vm *vm, uint64_t bytes)
{
	if (ck_pickle_spend(vm->out, bytes))
		return true;
	(void)ck_vm_bad(vm, "needs more memory than its size allows");
	vm->over_budget = true;
	return false;
}

void *ck_vm_alloc(struct ck_vm *vm, size_t size)
{
	void *p = spend(vm, size) ? ck_arena_alloc(&vm->out->arena, size)
				  : NULL;

	if (!p && vm->d && !vm->d->err)
		(void)ck_fail(vm->d, ENOMEM, "pickle: out of memory");
	return p;
}

/* Doubles an array of the machine itself. */
static int grow(struct ck_vm *vm, void **array, size_t *cap, size_t item)
{
	size_t more = *cap ? *cap * 2 : 256;
	void *p;

	if (!spend(vm, (more - *cap) * item))
		return -EBADMSG;
	p = realloc(*array, more * item);
	if (!p)
		return ck_fail(vm->d, ENOMEM, "pickle: out of memory");
	*array = p;
	*cap = more;
	return 0;
}

int ck_vm_grow(struct ck_vm *vm)
{
	void *array = vm->stack;
	int rc = grow(vm, &array, &vm->stack_cap, sizeof(*vm->stack));

	vm->stack = array;
	return rc;
}

int ck_vm_mark(struct ck_vm *vm)
{
	if (vm->nmarks >= CK_PICKLE_MAX_DEPTH)
		return ck_vm_bad(vm, "nested more than 256 deep");
	if (vm->nmarks == vm->marks_cap) {
		void *array = vm->marks;
		int rc = grow(vm, &array, &vm->marks_cap, sizeof(size_t));

		vm->marks = array;
		if (rc)
			return rc;
	}
	vm->marks[vm->nmarks++] = vm->top;
	return 0;
}

uint16_t ck_vm_depth(const struct ck_pv *v)
{
	const struct ck_plist *list = ck_pv_list(v);
	const struct ck_pcall *call = ck_pv_any_call(v);

	if (list)
		return list->depth;
	if (call)
		return call->depth;
	if (v->tag == CK_PV_PACKED)
		return CK_PACKED_DEPTH;
	return v->tag == CK_PV_INTS;
}

/* --- nodes ------------------------------------------------------------------ */

struct ck_plist *ck_vm_list(struct ck_vm *vm)
{
	struct ck_plist *list = vm->free_lists;

	if (list) {
		memcpy(&vm->free_lists, list->items, sizeof(list));
		list->count = 0;
		list->depth = 1;
		return list;
	}
	list = ck_vm_alloc(vm, sizeof(*list));
	if (list)
		*list = (struct ck_plist){ .depth = 1 };
	return list;
}

struct ck_pcall *ck_vm_call(struct ck_vm *vm)
{
	struct ck_pcall *call = vm->free_calls;

	if (call)
		vm->free_calls = call->args.call;
	else
		call = ck_vm_alloc(vm, sizeof(*call));
	if (call)
		*call = (struct ck_pcall){ .depth = 1 };
	return call;
}

static int register_heap(struct ck_vm *vm, struct ck_plist *list)
{
	struct ck_pickle *p = vm->out;

	if (p->nheap_lists == p->heap_lists_cap) {
		size_t cap = p->heap_lists_cap;
		void *array = p->heap_lists;
		int rc = grow(vm, &array, &cap, sizeof(list));

		p->heap_lists = array;
		p->heap_lists_cap = (uint32_t)cap;
		if (rc)
			return rc;
	}
	p->heap_lists[p->nheap_lists++] = list;
	list->on_heap = 1;
	return 0;
}

/* Takes an array of a recycled list. Free arrays are linked through their first
 * item; the second item has the capacity. */
static struct ck_pv *take_array(struct ck_vm *vm, size_t *cap)
{
	struct ck_pv *items = vm->free_arrays;

	if (!items || *cap < SMALL_ITEMS || items[1].len < *cap)
		return NULL;
	*cap = items[1].len;
	vm->free_arrays = items[0].array;
	return items;
}

static void give_array(struct ck_vm *vm, struct ck_plist *list)
{
	list->items[0].array = vm->free_arrays;
	list->items[1].len = list->cap;
	vm->free_arrays = list->items;
	list->items = NULL;
	list->cap = list->count = 0;
}

/* Ensures room for `cap` items: in the arena while small, else on the heap,
 * where growing frees the old array. */
static int reserve(struct ck_vm *vm, struct ck_plist *list, size_t cap)
{
	bool heap = list->on_heap;
	struct ck_pv *items;
	int rc = 0;

	if (cap > UINT32_MAX / 2)
		return ck_vm_bad(vm, "too many items");
	if (cap < HEAP_ITEMS) {
		items = take_array(vm, &cap);
		if (!items)
			items = ck_vm_alloc(vm, cap * sizeof(*items));
	} else {
		if (!spend(vm, (cap - (heap ? list->cap : 0)) * sizeof(*items)))
			return -EBADMSG;
		items = realloc(heap ? list->items : NULL,
				cap * sizeof(*items));
	}
	if (!items)
		return ck_fail(vm->d, ENOMEM, "pickle: out of memory");
	if (!heap && list->count)
		memcpy(items, list->items, list->count * sizeof(*items));
	if (cap >= HEAP_ITEMS && !heap)
		rc = register_heap(vm, list);
	if (rc) {
		free(items);
		return rc;
	}
	list->items = items;
	list->cap = (uint32_t)cap;
	return 0;
}

int ck_vm_extend(struct ck_vm *vm, struct ck_plist *list,
		 const struct ck_pv *values, size_t n)
{
	size_t need = list->count + n;
	uint16_t depth = list->depth;

	if (need > list->cap) {
		size_t cap = list->cap * 2UL;
		int rc = reserve(vm, list, need > cap ? need : cap);

		if (rc)
			return rc;
	}
	for (size_t i = 0; i < n; i++) {
		uint16_t below = ck_vm_depth(&values[i]);

		if (below >= depth)
			depth = (uint16_t)(below + 1);
		list->items[list->count++] = values[i];
	}
	if (depth > CK_PICKLE_MAX_DEPTH)
		return ck_vm_bad(vm, "nested more than 256 deep");
	list->depth = depth;
	return 0;
}

/* Sets a flag, without a write if it is set already: all values share one empty
 * tuple. */
static void set(uint8_t *flag)
{
	if (!*flag)
		*flag = 1;
}

void ck_vm_share(struct ck_pv *v)
{
	struct ck_plist *list = ck_pv_list(v);
	struct ck_pcall *call = ck_pv_any_call(v);

	if (list)
		set(&list->shared);
	else if (call)
		set(&call->shared);
	else if (v->tag == CK_PV_INTS)
		v->kept = 1;
}

static void recycle_ints(struct ck_vm *vm, const struct ck_pv *v)
{
	int64_t *ints = (int64_t *)(uintptr_t)v->ints;

	if (v->kept || v->len == 0 || v->len >= CK_FREE_INTS)
		return;
	memcpy(ints, &vm->free_ints[v->len], sizeof(vm->free_ints[0]));
	vm->free_ints[v->len] = ints;
}

static void recycle_child(struct ck_vm *vm, const struct ck_pv *v)
{
	if (v->tag == CK_PV_INTS)
		recycle_ints(vm, v);
	else if (v->tag == CK_PV_LIST && !v->list->shared &&
		 !v->list->on_heap && v->list->cap >= SMALL_ITEMS)
		give_array(vm, v->list);
}

/* The address of a list on the heap is registered for its release, so such a
 * call is not recycled. */
static void recycle_call(struct ck_vm *vm, struct ck_pcall *call)
{
	if (call->shared || call->list.on_heap || call->items.on_heap)
		return;
	call->args.call = vm->free_calls;
	vm->free_calls = call;
}

/* Recycles one level: nodes of nested containers stay in the arena. */
void ck_vm_recycle(struct ck_vm *vm, const struct ck_pv *v)
{
	struct ck_plist *list = v->list;

	if (v->tag == CK_PV_INTS) {
		recycle_ints(vm, v);
		return;
	}
	if (ck_pv_any_call(v)) {
		recycle_call(vm, v->call);
		return;
	}
	if ((v->tag != CK_PV_TUPLE && v->tag != CK_PV_DICT &&
	     v->tag != CK_PV_PERSID) ||
	    list->shared || list->on_heap || list->cap == 0)
		return;
	for (uint32_t i = 0; v->tag == CK_PV_DICT && i < list->count; i++)
		recycle_child(vm, &list->items[i]);
	memcpy(list->items, &vm->free_lists, sizeof(list));
	vm->free_lists = list;
}

/* --- running -------------------------------------------------------------- */

static int finish(struct ck_vm *vm)
{
	if (vm->nmarks)
		return ck_vm_bad(vm, "STOP with an open MARK");
	if (vm->top != 1)
		return ck_vm_bad(vm, "STOP without exactly one object");
	if (vm->getattr_pushed != vm->getattr_used) {
		vm->out->dangerous = true;
		return ck_vm_bad(vm, "dangerous use of builtins.getattr");
	}
	vm->out->root = vm->stack[0];
	vm->out->end = vm->lex.end;
	return 0;
}

static int run(struct ck_vm *vm)
{
	for (;;) {
		uint8_t op = *vm->p++;
		int rc;

		if (op == OP_STOP)
			return finish(vm);
		rc = ck_pickle_ops[op](vm);
		if (rc)
			return rc;
	}
}

static int prepare(struct ck_vm *vm, const void *bytes, size_t len)
{
	size_t slots;
	uint64_t budget;
	int rc = ck_lex_run(&vm->lex, bytes, len, vm->d);

	if (rc)
		return rc;
	if (!ck_mul(&budget, len, BUDGET_PER_BYTE) ||
	    !ck_add(&budget, budget, base_budget))
		return ck_fail(vm->d, EBADMSG, "pickle: too large");
	vm->out->budget = budget;
	slots = vm->lex.nfetched;
	if (!spend(vm, slots * (sizeof(*vm->memo) + 1) + len / 4))
		return -EBADMSG;
	vm->memo = malloc((slots + 1) * sizeof(*vm->memo));
	vm->memo_set = calloc(slots + 1, 1);
	if (!vm->memo || !vm->memo_set)
		return ck_fail(vm->d, ENOMEM, "pickle: out of memory");
	return 0;
}

static void vm_free(struct ck_vm *vm)
{
	ck_lex_fini(&vm->lex);
	free(vm->stack);
	free(vm->marks);
	free(vm->memo);
	free(vm->memo_set);
	free(vm);
}

int ck_pickle_read(struct ck_pickle *p, const void *bytes, size_t len,
		   const struct ck_pickle_hooks *hooks, struct ck_diag *d)
{
	struct ck_vm *vm = calloc(1, sizeof(*vm));
	int rc;

	*p = (struct ck_pickle){ .old_persids = hooks && hooks->old_persids };
	if (!vm)
		return ck_fail(d, ENOMEM, "pickle: out of memory");
	vm->p = vm->in = bytes;
	vm->out = p;
	vm->hooks = hooks;
	vm->d = d;
	vm->getattr = vm->size_class = vm->rebuild = -1;
	vm->hash_seed = ck_hash_seed();
	vm->is_python2 = true;
	if (d)
		d->err = 0;
	rc = prepare(vm, bytes, len);
	if (rc == 0)
		rc = run(vm);
	if (rc && vm->over_budget)
		rc = -EBADMSG;
	vm_free(vm);
	if (rc) {
		bool dangerous = p->dangerous;

		ck_pickle_fini(p);
		p->dangerous = dangerous;
	}
	return rc;
}

void ck_pickle_fini(struct ck_pickle *p)
{
	for (uint32_t i = 0; i < p->nheap_lists; i++)
		free(p->heap_lists[i]->items);
	free(p->heap_lists);
	free(p->globals);
	ck_arena_fini(&p->arena);
	*p = (struct ck_pickle){ 0 };
}
