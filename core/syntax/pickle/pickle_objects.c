/* SPDX-License-Identifier: MIT */
/*
 * pickle_objects: opcodes that create or fill containers, name globals, call
 * and build. A tuple of ints becomes one value without a node, and so does a
 * torch.Size of it. A call becomes a value with the callable and its arguments.
 * The state is that of the machine.
 */
#include "pickle_packed.h"

#include <errno.h>

/* --- containers ------------------------------------------------------------------------- */

/* Replaces the n values on top by one container of them. */
static int gather(struct ck_vm *vm, uint8_t tag, size_t n)
{
	struct ck_plist *list = ck_vm_list(vm);
	int rc;

	if (!list)
		return -ENOMEM;
	rc = n ? ck_vm_extend(vm, list, vm->stack + vm->top - n, n) : 0;
	if (rc)
		return rc;
	vm->top -= n;
	return ck_vm_push(vm, (struct ck_pv){ .tag = tag, .list = list });
}

static bool all_ints(const struct ck_pv *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (values[i].tag != CK_PV_INT)
			return false;
	return true;
}

static int64_t *ints_alloc(struct ck_vm *vm, size_t n)
{
	int64_t *ints;

	if (n >= CK_FREE_INTS || !vm->free_ints[n])
		return ck_vm_alloc(vm, n * sizeof(*ints));
	ints = vm->free_ints[n];
	memcpy(&vm->free_ints[n], ints, sizeof(vm->free_ints[0]));
	return ints;
}

/* n > 0. */
static int make_tuple(struct ck_vm *vm, size_t n)
{
	struct ck_pv *values = vm->stack + vm->top - n;
	int64_t *ints;

	if (n > UINT32_MAX || !all_ints(values, n))
		return gather(vm, CK_PV_TUPLE, n);
	ints = ints_alloc(vm, n);
	if (!ints)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		ints[i] = values[i].i;
	vm->top -= n;
	return ck_vm_push(vm, (struct ck_pv){ .tag = CK_PV_INTS,
					      .len = (uint32_t)n,
					      .ints = ints });
}

int ck_op_empty_tuple(struct ck_vm *vm)
{
	return ck_vm_push(vm, ck_vm_empty_tuple());
}

int ck_op_tuple1(struct ck_vm *vm)
{
	return ck_vm_has(vm, 1) ? make_tuple(vm, 1) : ck_vm_empty(vm);
}

int ck_op_tuple2(struct ck_vm *vm)
{
	return ck_vm_has(vm, 2) ? make_tuple(vm, 2) : ck_vm_empty(vm);
}

int ck_op_tuple3(struct ck_vm *vm)
{
	return ck_vm_has(vm, 3) ? make_tuple(vm, 3) : ck_vm_empty(vm);
}

int ck_op_tuple(struct ck_vm *vm)
{
	size_t n;

	if (!ck_vm_pop_mark(vm, &n))
		return ck_vm_empty(vm);
	return n ? make_tuple(vm, n) : ck_op_empty_tuple(vm);
}

int ck_op_empty_list(struct ck_vm *vm)
{
	return gather(vm, CK_PV_LIST, 0);
}

int ck_op_empty_dict(struct ck_vm *vm)
{
	return gather(vm, CK_PV_DICT, 0);
}

int ck_op_empty_set(struct ck_vm *vm)
{
	return gather(vm, CK_PV_SET, 0);
}

int ck_op_list(struct ck_vm *vm)
{
	size_t n;

	return ck_vm_pop_mark(vm, &n) ? gather(vm, CK_PV_LIST, n)
				      : ck_vm_empty(vm);
}

int ck_op_frozenset(struct ck_vm *vm)
{
	size_t n;

	return ck_vm_pop_mark(vm, &n) ? gather(vm, CK_PV_FROZENSET, n)
				      : ck_vm_empty(vm);
}

int ck_op_dict(struct ck_vm *vm)
{
	size_t n;

	if (!ck_vm_pop_mark(vm, &n))
		return ck_vm_empty(vm);
	if (n % 2)
		return ck_vm_bad(vm, "a key without a value");
	return gather(vm, CK_PV_DICT, n);
}

/* Packs the last of each `step` values: in a dict, those behind keys. */
static int pack(struct ck_vm *vm, struct ck_pv *values, size_t n, size_t step)
{
	int rc = 0;

	for (size_t i = step - 1; i < n && rc == 0; i += step)
		rc = ck_vm_pack(vm, &values[i]);
	return rc;
}

/* Adds the n values on top to the container below them: to one of tag
 * `want`, or to an object, in the list or in the items. */
static int add_to(struct ck_vm *vm, uint8_t want, size_t n)
{
	struct ck_pv *target;
	struct ck_plist *list;
	int rc;

	if (!ck_vm_has(vm, n + 1))
		return ck_vm_empty(vm);
	target = &vm->stack[vm->top - n - 1];
	if (target->tag == want)
		list = target->list;
	else if ((target->tag == CK_PV_CALL || target->tag == CK_PV_NEW) &&
		 target->call->collapsed.tag == CK_PV_NONE)
		list = want == CK_PV_DICT ? &target->call->items
					  : &target->call->list;
	else
		return ck_vm_bad(vm, "items for what is no container");
	rc = pack(vm, target + 1, n, want == CK_PV_DICT ? 2 : 1);
	if (rc == 0 && n)
		rc = ck_vm_extend(vm, list, target + 1, n);
	if (rc == 0 && target->tag != want &&
	    list->depth >= target->call->depth)
		target->call->depth = (uint16_t)(list->depth + 1);
	vm->top -= n;
	return rc;
}

int ck_op_append(struct ck_vm *vm)
{
	return add_to(vm, CK_PV_LIST, 1);
}

int ck_op_appends(struct ck_vm *vm)
{
	size_t n;

	return ck_vm_pop_mark(vm, &n) ? add_to(vm, CK_PV_LIST, n)
				      : ck_vm_empty(vm);
}

int ck_op_additems(struct ck_vm *vm)
{
	size_t n;

	return ck_vm_pop_mark(vm, &n) ? add_to(vm, CK_PV_SET, n)
				      : ck_vm_empty(vm);
}

int ck_op_setitem(struct ck_vm *vm)
{
	return add_to(vm, CK_PV_DICT, 2);
}

int ck_op_setitems(struct ck_vm *vm)
{
	size_t n;

	if (!ck_vm_pop_mark(vm, &n))
		return ck_vm_empty(vm);
	if (n % 2)
		return ck_vm_bad(vm, "a key without a value");
	return add_to(vm, CK_PV_DICT, n);
}

/* --- globals, calls, objects ----------------------------------------------------------------- */

int ck_op_global(struct ck_vm *vm)
{
	struct ck_str module = ck_vm_arg_line(vm);
	struct ck_str name = ck_vm_arg_line(vm);
	struct ck_pv v;
	int rc = ck_vm_global(vm, module, name, &v);

	return rc ? rc : ck_vm_push(vm, v);
}

int ck_op_stack_global(struct ck_vm *vm)
{
	struct ck_str module, name;
	struct ck_pv v;
	int rc;

	if (!ck_vm_has(vm, 2))
		return ck_vm_empty(vm);
	if (!ck_pv_str(&vm->stack[vm->top - 2], &module) ||
	    !ck_pv_str(&vm->stack[vm->top - 1], &name))
		return ck_vm_bad(vm, "a global whose name is no string");
	rc = ck_vm_global(vm, module, name, &v);
	vm->top -= 2;
	return rc ? rc : ck_vm_push(vm, v);
}

static bool is_tuple(const struct ck_pv *v)
{
	return v->tag == CK_PV_TUPLE || v->tag == CK_PV_INTS;
}

static int push_call(struct ck_vm *vm, uint8_t tag, struct ck_pv callable,
		     struct ck_pv args, struct ck_pv kwargs)
{
	struct ck_pcall *call = ck_vm_call(vm);
	uint16_t depth = ck_vm_depth(&args);

	if (!call)
		return -ENOMEM;
	depth = (uint16_t)ck_max(depth, ck_vm_depth(&callable));
	depth = (uint16_t)ck_max(depth, ck_vm_depth(&kwargs));
	if (depth >= CK_PICKLE_MAX_DEPTH)
		return ck_vm_bad(vm, "nested more than 256 deep");
	call->depth = (uint16_t)(depth + 1);
	call->callable = callable;
	call->args = args;
	call->kwargs = kwargs;
	return ck_vm_push(vm, (struct ck_pv){ .tag = tag, .call = call });
}

/* torch.Size((1, 2)): its one argument, a tuple of ints, marked as a Size. */
static bool as_size(struct ck_vm *vm, const struct ck_pv *args,
		    struct ck_pv *out)
{
	if (args->tag != CK_PV_TUPLE || args->list->count != 1)
		return false;
	*out = args->list->items[0];
	if (out->tag == CK_PV_TUPLE && out->list->count == 0)
		*out = (struct ck_pv){ .tag = CK_PV_INTS };
	if (out->tag != CK_PV_INTS)
		return false;
	out->aux = 1;
	if (args->list->shared)
		out->kept = 1;
	else
		ck_vm_recycle(vm, args);
	return true;
}

/* Marks parts of a shared tuple as shared: they stay reachable through the
 * tuple. */
static void parts_share(const struct ck_pv *args, struct ck_pv part[static 3])
{
	for (uint32_t i = 0; args->list->shared && i < 3; i++)
		ck_vm_share(&part[i]);
}

/* Protocols 0 and 1 make a plain object by a function of copyreg. */
static bool is_plain_object(struct ck_vm *vm, const struct ck_pv *callable,
			    const struct ck_pv *args,
			    struct ck_pv part[static 3])
{

	if (!ck_pv_is_global(vm->out, callable, "copyreg._reconstructor") ||
	    ck_pv_count(args) != 3)
		return false;
	for (uint32_t i = 0; i < 3; i++)
		part[i] = ck_pv_at(args, i);
	if (!ck_pv_is_global(vm->out, &part[1], "builtins.object") ||
	    part[2].tag != CK_PV_NONE)
		return false;
	parts_share(args, part);
	return true;
}

/* copyreg.__newobj_ex__(class, args, kwargs): protocols 2 and 3 have no opcode
 * of that name. */
static bool is_newobj_ex(struct ck_vm *vm, const struct ck_pv *callable,
			 const struct ck_pv *args, struct ck_pv part[static 3])
{
	if (!ck_pv_is_global(vm->out, callable, "copyreg.__newobj_ex__") ||
	    ck_pv_count(args) != 3)
		return false;
	for (uint32_t i = 0; i < 3; i++)
		part[i] = ck_pv_at(args, i);
	if (!is_tuple(&part[1]) || part[2].tag != CK_PV_DICT)
		return false;
	parts_share(args, part);
	return true;
}

int ck_op_reduce(struct ck_vm *vm)
{
	struct ck_pv callable, args, v, part[3];
	int rc;

	if (!ck_vm_has(vm, 2))
		return ck_vm_empty(vm);
	callable = vm->stack[vm->top - 2];
	args = vm->stack[vm->top - 1];
	if (!is_tuple(&args))
		return ck_vm_bad(vm, "arguments that are no tuple");
	vm->reduced_at = vm->p;
	vm->top -= 2;
	if (callable.tag == CK_PV_GLOBAL && callable.i == vm->size_class &&
	    as_size(vm, &args, &v))
		return ck_vm_push(vm, v);
	if (callable.tag == CK_PV_GLOBAL && callable.i == vm->getattr) {
		rc = ck_vm_getattr(vm, &args, &v);
		return rc ? rc : ck_vm_push(vm, v);
	}
	if (is_plain_object(vm, &callable, &args, part)) {
		rc = push_call(vm, CK_PV_NEW, part[0], ck_vm_empty_tuple(),
			       (struct ck_pv){ .tag = CK_PV_NONE });
		vm->stack[vm->top - 1].aux = rc == 0;
		return rc;
	}
	if (is_newobj_ex(vm, &callable, &args, part))
		return push_call(vm, CK_PV_NEW, part[0], part[1], part[2]);
	return push_call(vm, CK_PV_CALL, callable, args,
			 (struct ck_pv){ .tag = CK_PV_NONE });
}

int ck_op_newobj(struct ck_vm *vm)
{
	struct ck_pv class, args;

	if (!ck_vm_has(vm, 2))
		return ck_vm_empty(vm);
	class = vm->stack[vm->top - 2];
	args = vm->stack[vm->top - 1];
	if (!is_tuple(&args))
		return ck_vm_bad(vm, "arguments that are no tuple");
	vm->top -= 2;
	return push_call(vm, CK_PV_NEW, class, args,
			 (struct ck_pv){ .tag = CK_PV_NONE });
}

int ck_op_newobj_ex(struct ck_vm *vm)
{
	struct ck_pv class, args, kwargs;

	if (!ck_vm_has(vm, 3))
		return ck_vm_empty(vm);
	class = vm->stack[vm->top - 3];
	args = vm->stack[vm->top - 2];
	kwargs = vm->stack[vm->top - 1];
	if (!is_tuple(&args) || kwargs.tag != CK_PV_DICT)
		return ck_vm_bad(vm, "arguments that are no tuple and dict");
	vm->top -= 3;
	return push_call(vm, CK_PV_NEW, class, args, kwargs);
}

/* The n values on top become the arguments of a class. */
static int instance(struct ck_vm *vm, struct ck_pv class, size_t n)
{
	int rc = n ? make_tuple(vm, n) : ck_op_empty_tuple(vm);

	if (rc)
		return rc;
	vm->top--;
	return push_call(vm, CK_PV_CALL, class, vm->stack[vm->top],
			 (struct ck_pv){ .tag = CK_PV_NONE });
}

int ck_op_inst(struct ck_vm *vm)
{
	struct ck_str module = ck_vm_arg_line(vm);
	struct ck_str name = ck_vm_arg_line(vm);
	struct ck_pv class;
	size_t n;
	int rc = ck_vm_global(vm, module, name, &class);

	if (rc)
		return rc;
	return ck_vm_pop_mark(vm, &n) ? instance(vm, class, n)
				      : ck_vm_empty(vm);
}

int ck_op_obj(struct ck_vm *vm)
{
	struct ck_pv class;
	size_t n;
	int rc;

	if (!ck_vm_pop_mark(vm, &n) || n == 0)
		return ck_vm_empty(vm);
	class = vm->stack[vm->top - n];
	rc = instance(vm, class, n - 1);
	if (rc)
		return rc;
	vm->stack[vm->top - 2] = vm->stack[vm->top - 1];
	vm->top--;
	return 0;
}

int ck_op_build(struct ck_vm *vm)
{
	struct ck_pv *obj, state, taken = { .tag = CK_PV_NONE };
	struct ck_pcall *call;
	int rc = 0;

	vm->out->builds++;
	if (!ck_vm_has(vm, 2))
		return ck_vm_empty(vm);
	state = vm->stack[--vm->top];
	obj = &vm->stack[vm->top - 1];
	call = obj->call;
	if ((obj->tag != CK_PV_NEW && obj->tag != CK_PV_CALL) ||
	    call->collapsed.tag != CK_PV_NONE)
		return ck_vm_bad(vm, "state for what is no object");
	if (call->has_state)
		return ck_vm_bad(vm, "a second state for an object");
	vm->out->full = vm->nmarks == CK_PICKLE_MAX_DEPTH;
	if (obj->tag == CK_PV_NEW && vm->hooks && vm->hooks->build)
		rc = vm->hooks->build(vm->hooks->ctx, vm->out, call, &state,
				      &taken, vm->d);
	if (rc < 0)
		return rc;
	if (rc == 0) {
		call->state = state;
		call->has_state = true;
		if (ck_vm_depth(&state) >= CK_PICKLE_MAX_DEPTH)
			return ck_vm_bad(vm, "nested more than 256 deep");
		call->depth = (uint16_t)ck_max(call->depth,
					       ck_vm_depth(&state) + 1UL);
		return 0;
	}
	ck_vm_recycle(vm, &state);
	if (call->shared) {
		call->collapsed = taken;
		return 0;
	}
	ck_vm_recycle(vm, obj);
	*obj = taken;
	return 0;
}

int ck_op_binpersid(struct ck_vm *vm)
{
	struct ck_pv other;
	int rc;

	if (vm->hooks && vm->hooks->no_persids)
		return ck_vm_bad(vm, "a persistent id");
	if (!ck_vm_has(vm, 1))
		return ck_vm_empty(vm);
	rc = gather(vm, CK_PV_PERSID, 1);
	if (rc || !vm->hooks || !vm->hooks->persid)
		return rc;
	rc = vm->hooks->persid(vm->hooks->ctx, vm->out, &vm->stack[vm->top - 1],
			       &other, vm->d);
	if (rc > 0)
		vm->stack[vm->top - 1] = other;
	return rc < 0 ? rc : 0;
}
