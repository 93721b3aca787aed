/* SPDX-License-Identifier: MIT */
/*
 * pickle_packed: tensors of torch.save as items of containers.
 *
 *   _rebuild_tensor_v2(('storage', class, key, location, numel),
 *                      offset, size, stride, requires_grad, OrderedDict())
 *
 * A tensor needs 550 bytes of nodes, and a state dict may have a million tensors. So a
 * tensor that is added to a container is packed into about 80 bytes, and its nodes are
 * recycled. This requires that only the container refers to the tensor, so that no later
 * opcode can change it, and that it can be unpacked to an equal tree. The state is that
 * of the machine; any thread may unpack.
 */
#include "pickle_packed.h"

#include <errno.h>

enum { ARGS = 6 };

/* The variable parts of the tree. Globals by number. */
struct ck_ppacked {
	const char *key, *location;
	uint32_t key_len, location_len;
	int64_t numel, offset;
	uint16_t rebuild, class, hooks;
	uint8_t nid; /* parts of the persistent id: 5, or 6 before torch 1.6 */
	uint8_t grad;
	uint8_t nsize, nstride;
	int64_t dims[]; /* size, stride */
};

/* --- packing ----------------------------------------------------------------------- */

/* The nodes of a tensor. */
struct nodes {
	struct ck_pv *call, *args, *id;
};

/* Returns the items of a container with one reference, or NULL. */
static struct ck_pv *items_of(const struct ck_pv *v, uint8_t tag)
{
	return v->tag == tag && !v->list->shared ? v->list->items : NULL;
}

/* True for a call of a global with one reference that was not filled since. */
static bool is_bare(const struct ck_pv *v)
{
	const struct ck_pcall *call = v->call;

	return v->tag == CK_PV_CALL && !call->shared && !call->touched &&
	       !call->has_state && call->list.count == 0 &&
	       call->items.count == 0 && call->kwargs.tag == CK_PV_NONE &&
	       call->collapsed.tag == CK_PV_NONE &&
	       call->callable.tag == CK_PV_GLOBAL;
}

/* True for a tuple of ints that ck_vm_recycle() accepts, or an empty tuple. */
static bool is_dims(const struct ck_pv *v)
{
	if (v->tag == CK_PV_INTS)
		return v->len < CK_FREE_INTS && !v->kept && !v->aux;
	return v->tag == CK_PV_TUPLE && v->list->count == 0;
}

static bool is_storage(const struct ck_pv *id, uint32_t n)
{
	struct ck_str tag;

	return (n == 5 || (n == 6 && id[5].tag == CK_PV_NONE)) &&
	       ck_pv_str(&id[0], &tag) && ck_str_is(tag, "storage") &&
	       id[1].tag == CK_PV_GLOBAL && id[2].tag == CK_PV_STR &&
	       id[3].tag == CK_PV_STR && id[4].tag == CK_PV_INT;
}

/* Finds the nodes of v; false if it is not such a tensor. */
static bool nodes_find(const struct ck_vm *vm, struct ck_pv *v, struct nodes *n)
{
	struct ck_pv *storage;

	if (!is_bare(v) || v->call->callable.i != vm->rebuild ||
	    ck_pv_count(&v->call->args) != ARGS)
		return false;
	n->call = v;
	n->args = items_of(&v->call->args, CK_PV_TUPLE);
	storage = n->args ? items_of(&n->args[0], CK_PV_PERSID) : NULL;
	n->id = storage ? items_of(storage, CK_PV_TUPLE) : NULL;
	return n->id && is_storage(n->id, storage->list->count) &&
	       n->args[1].tag == CK_PV_INT && is_dims(&n->args[2]) &&
	       is_dims(&n->args[3]) && n->args[4].tag == CK_PV_BOOL &&
	       is_bare(&n->args[5]) &&
	       n->args[5].call->args.tag == CK_PV_TUPLE &&
	       ck_pv_count(&n->args[5].call->args) == 0;
}

static void fill(struct ck_ppacked *p, const struct nodes *n)
{
	const struct ck_pv *args = n->args, *id = n->id;

	*p = (struct ck_ppacked){
		.key = id[2].bytes,
		.key_len = id[2].len,
		.location = id[3].bytes,
		.location_len = id[3].len,
		.numel = id[4].i,
		.offset = args[1].i,
		.rebuild = (uint16_t)n->call->call->callable.i,
		.class = (uint16_t)id[1].i,
		.hooks = (uint16_t)args[5].call->callable.i,
		.nid = (uint8_t)args[0].list->items[0].list->count,
		.grad = args[4].i != 0,
		.nsize = (uint8_t)ck_pv_count(&args[2]),
		.nstride = (uint8_t)ck_pv_count(&args[3]),
	};
	for (uint32_t i = 0; i < p->nsize; i++)
		p->dims[i] = args[2].ints[i];
	for (uint32_t i = 0; i < p->nstride; i++)
		p->dims[p->nsize + i] = args[3].ints[i];
}

/* A recycled node is overwritten, so the inner ones come first. */
static void recycle(struct ck_vm *vm, const struct nodes *n)
{
	struct ck_pv *args = n->args;

	ck_vm_recycle(vm, &args[0].list->items[0]);
	ck_vm_recycle(vm, &args[0]);
	ck_vm_recycle(vm, &args[2]);
	ck_vm_recycle(vm, &args[3]);
	ck_vm_recycle(vm, &args[5]);
	ck_vm_recycle(vm, &n->call->call->args);
	ck_vm_recycle(vm, n->call);
}

int ck_vm_pack(struct ck_vm *vm, struct ck_pv *v)
{
	struct ck_ppacked *p;
	struct nodes n;
	size_t dims;

	if (v->tag != CK_PV_CALL || !nodes_find(vm, v, &n))
		return 0;
	dims = ck_pv_count(&n.args[2]) + ck_pv_count(&n.args[3]);
	p = ck_vm_alloc(vm, sizeof(*p) + dims * sizeof(*p->dims));
	if (!p)
		return -ENOMEM;
	fill(p, &n);
	recycle(vm, &n);
	*v = (struct ck_pv){ .tag = CK_PV_PACKED, .packed = p };
	return 0;
}

struct ck_pv ck_vm_empty_tuple(void)
{
	static struct ck_plist none = { .depth = 1, .shared = 1 };

	return (struct ck_pv){ .tag = CK_PV_TUPLE, .list = &none };
}

/* --- unpacking --------------------------------------------------------------------- */

static struct ck_pv global(uint16_t number)
{
	return (struct ck_pv){ .tag = CK_PV_GLOBAL, .i = number };
}

static struct ck_pv number(int64_t i)
{
	return (struct ck_pv){ .tag = CK_PV_INT, .i = i };
}

static struct ck_pv text(const char *bytes, uint32_t len)
{
	return (struct ck_pv){ .tag = CK_PV_STR, .len = len, .bytes = bytes };
}

static struct ck_pv dims_at(const int64_t *dims, uint8_t n)
{
	if (n == 0)
		return ck_vm_empty_tuple();
	return (struct ck_pv){ .tag = CK_PV_INTS, .len = n, .ints = dims };
}

/* Makes a container of n items, in the order of their nodes. */
static struct ck_pv list(struct ck_plist *list, uint8_t tag,
			 struct ck_pv *items, uint32_t n, uint16_t depth)
{
	*list = (struct ck_plist){
		.items = items, .count = n, .cap = n, .depth = depth
	};
	return (struct ck_pv){ .tag = tag, .list = list };
}

static struct ck_pv call(struct ck_pcall *call, uint16_t callable,
			 struct ck_pv args, uint16_t depth)
{
	*call = (struct ck_pcall){
		.callable = global(callable),
		.args = args,
		.depth = depth,
	};
	return (struct ck_pv){ .tag = CK_PV_CALL, .call = call };
}

struct ck_pv ck_pv_unpack(const struct ck_pv *v, struct ck_pv_room *room)
{
	const struct ck_ppacked *p = v->packed;
	struct ck_pv *args = room->args, *id = room->id;

	if (v->tag != CK_PV_PACKED)
		return *v;
	id[0] = text("storage", 7);
	id[1] = global(p->class);
	id[2] = text(p->key, p->key_len);
	id[3] = text(p->location, p->location_len);
	id[4] = number(p->numel);
	id[5] = (struct ck_pv){ .tag = CK_PV_NONE };
	room->storage = list(&room->lists[0], CK_PV_TUPLE, id, p->nid, 1);
	args[0] = list(&room->lists[1], CK_PV_PERSID, &room->storage, 1, 2);
	args[1] = number(p->offset);
	args[2] = dims_at(p->dims, p->nsize);
	args[3] = dims_at(p->dims + p->nsize, p->nstride);
	args[4] = (struct ck_pv){ .tag = CK_PV_BOOL, .i = p->grad };
	args[5] = call(&room->hooks, p->hooks, ck_vm_empty_tuple(), 2);
	return call(&room->call, p->rebuild,
		    list(&room->lists[2], CK_PV_TUPLE, args, ARGS, 3),
		    CK_PACKED_DEPTH);
}
