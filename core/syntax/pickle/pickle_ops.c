/* SPDX-License-Identifier: MIT */
/*
 * pickle_ops: the opcodes of the pickle machine, one small function each:
 * scalars, strings, stack and memo here, containers and calls in
 * pickle_objects.c. Pass one has checked that every argument lies inside the
 * input. The state is that of the machine.
 */
#include "pickle_plain.h"

#include <errno.h>

static int push_bytes(struct ck_vm *vm, uint8_t tag, struct ck_str s)
{
	if (s.len > UINT32_MAX)
		return ck_vm_bad(vm, "a string of 4 GiB or more");
	return ck_vm_push(vm, (struct ck_pv){ .tag = tag,
					      .len = (uint32_t)s.len,
					      .bytes = s.p });
}

static int push_int(struct ck_vm *vm, int64_t i)
{
	return ck_vm_push(vm, (struct ck_pv){ .tag = CK_PV_INT, .i = i });
}

/* --- scalars ---------------------------------------------------------------------- */

static int op_none(struct ck_vm *vm)
{
	return ck_vm_push(vm, (struct ck_pv){ .tag = CK_PV_NONE });
}

static int op_true(struct ck_vm *vm)
{
	return ck_vm_push(vm, (struct ck_pv){ .tag = CK_PV_BOOL, .i = 1 });
}

static int op_false(struct ck_vm *vm)
{
	return ck_vm_push(vm, (struct ck_pv){ .tag = CK_PV_BOOL });
}

static int op_binint(struct ck_vm *vm)
{
	return push_int(vm, (int32_t)ck_vm_arg(vm, 4));
}

static int op_binint1(struct ck_vm *vm)
{
	return push_int(vm, (int64_t)ck_vm_arg(vm, 1));
}

static int op_binint2(struct ck_vm *vm)
{
	return push_int(vm, (int64_t)ck_vm_arg(vm, 2));
}

static int op_int(struct ck_vm *vm)
{
	struct ck_str s = ck_vm_arg_line(vm);
	struct ck_pv v;
	int rc;

	if (ck_str_is(s, "01"))
		return op_true(vm);
	if (ck_str_is(s, "00"))
		return op_false(vm);
	rc = ck_text_int(vm, s, &v);
	return rc ? rc : ck_vm_push(vm, v);
}

static int op_long(struct ck_vm *vm)
{
	struct ck_str s = ck_vm_arg_line(vm);
	struct ck_pv v;
	int rc;

	if (s.len && s.p[s.len - 1] == 'L')
		s.len--;
	rc = ck_text_int(vm, s, &v);
	return rc ? rc : ck_vm_push(vm, v);
}

static int op_long1(struct ck_vm *vm)
{
	return ck_vm_push(vm, ck_text_long(ck_vm_arg_bytes(vm, 1)));
}

static int op_long4(struct ck_vm *vm)
{
	return ck_vm_push(vm, ck_text_long(ck_vm_arg_bytes(vm, 4)));
}

static int op_float(struct ck_vm *vm)
{
	struct ck_pv v;
	int rc = ck_text_float(vm, ck_vm_arg_line(vm), &v);

	return rc ? rc : ck_vm_push(vm, v);
}

static int op_binfloat(struct ck_vm *vm)
{
	uint64_t bits = __builtin_bswap64(ck_vm_arg(vm, 8));
	struct ck_pv v = { .tag = CK_PV_FLOAT };

	memcpy(&v.f, &bits, sizeof(bits));
	return ck_vm_push(vm, v);
}

/* --- strings ------------------------------------------------------------------------- */

static int op_string(struct ck_vm *vm)
{
	struct ck_pv v;
	int rc = ck_text_string(vm, ck_vm_arg_line(vm), &v);

	return rc ? rc : ck_vm_push(vm, v);
}

static int op_unicode(struct ck_vm *vm)
{
	struct ck_pv v;
	int rc = ck_text_unicode(vm, ck_vm_arg_line(vm), &v);

	return rc ? rc : ck_vm_push(vm, v);
}

static int op_binstring(struct ck_vm *vm)
{
	return ck_vm_push(vm, ck_text_str2(ck_vm_arg_bytes(vm, 4)));
}

static int op_short_binstring(struct ck_vm *vm)
{
	return ck_vm_push(vm, ck_text_str2(ck_vm_arg_bytes(vm, 1)));
}

static int op_binunicode(struct ck_vm *vm)
{
	return push_bytes(vm, CK_PV_STR, ck_vm_arg_bytes(vm, 4));
}

static int op_short_binunicode(struct ck_vm *vm)
{
	return push_bytes(vm, CK_PV_STR, ck_vm_arg_bytes(vm, 1));
}

static int op_binunicode8(struct ck_vm *vm)
{
	return push_bytes(vm, CK_PV_STR, ck_vm_arg_bytes(vm, 8));
}

static int op_binbytes(struct ck_vm *vm)
{
	return push_bytes(vm, CK_PV_BYTES, ck_vm_arg_bytes(vm, 4));
}

static int op_short_binbytes(struct ck_vm *vm)
{
	return push_bytes(vm, CK_PV_BYTES, ck_vm_arg_bytes(vm, 1));
}

static int op_binbytes8(struct ck_vm *vm)
{
	return push_bytes(vm, CK_PV_BYTES, ck_vm_arg_bytes(vm, 8));
}

static int op_bytearray8(struct ck_vm *vm)
{
	return push_bytes(vm, CK_PV_BYTEARRAY, ck_vm_arg_bytes(vm, 8));
}

/* --- stack and memo --------------------------------------------------------------------- */

static int op_pop_mark(struct ck_vm *vm)
{
	size_t n;

	if (!ck_vm_pop_mark(vm, &n))
		return ck_vm_empty(vm);
	vm->top -= n;
	return 0;
}

static int op_pop(struct ck_vm *vm)
{
	struct ck_pv *v, object;

	if (!ck_vm_has(vm, 1))
		return op_pop_mark(vm);
	v = &vm->stack[--vm->top];
	if (vm->p - 1 != vm->reduced_at || v->tag != CK_PV_CALL ||
	    ck_pv_count(&v->call->args) == 0)
		return 0;
	object = ck_pv_at(&v->call->args, 0);
	if (ck_pv_any_call(&object)) {
		object.call->touched = true;
		vm->popped_at = vm->p;
		vm->popped = *v;
	}
	return 0;
}

/* A pickler creates a call that contains itself twice, and drops one copy in
 * favour of the other. Such a dropped call did not modify its argument. */
static void popped_take_back(struct ck_vm *vm, const struct ck_pv *now)
{
	const struct ck_pv *first = &vm->popped.call->callable;
	struct ck_pv object;

	if (now->tag != CK_PV_CALL || first->tag != CK_PV_GLOBAL ||
	    now->call->callable.tag != CK_PV_GLOBAL ||
	    now->call->callable.i != first->i)
		return;
	object = ck_pv_at(&vm->popped.call->args, 0);
	object.call->touched = false;
}

/* Pushes a value that has another reference already. */
static int push_again(struct ck_vm *vm, struct ck_pv v)
{
	vm->getattr_pushed += v.tag == CK_PV_GLOBAL && v.i == vm->getattr;
	return ck_vm_push(vm, v);
}

static int op_dup(struct ck_vm *vm)
{
	if (!ck_vm_has(vm, 1))
		return ck_vm_empty(vm);
	ck_vm_share(&vm->stack[vm->top - 1]);
	return push_again(vm, vm->stack[vm->top - 1]);
}

/* The protocol number decides only the spelling of names, not the allowed
 * opcodes. */
static int op_proto(struct ck_vm *vm)
{
	vm->is_python2 = ck_vm_arg(vm, 1) < 3;
	return 0;
}

static int op_frame(struct ck_vm *vm)
{
	(void)ck_vm_arg(vm, 8);
	return 0;
}

/* Counts the slots that are set, each once. */
static void memo_count(struct ck_vm *vm, uint64_t slot)
{
	if (slot == vm->memo_len)
		vm->memo_len++;
	vm->memo_gaps |= slot > vm->memo_len;
}

void ck_vm_memo(struct ck_vm *vm, uint64_t slot, struct ck_pv v)
{
	int64_t i = ck_lex_slot(&vm->lex, slot);

	if (i < 0)
		return;
	vm->memo[i] = v;
	vm->memo_set[i] = true;
	if (slot < CK_ARRAY_SIZE(vm->low))
		vm->low[slot] = &vm->memo[i];
}

static int memo_put(struct ck_vm *vm, uint64_t slot)
{
	int64_t i = ck_lex_slot(&vm->lex, slot);

	if (!ck_vm_has(vm, 1))
		return ck_vm_empty(vm);
	memo_count(vm, slot);
	if (i < 0)
		return 0;
	ck_vm_share(&vm->stack[vm->top - 1]);
	ck_vm_memo(vm, slot, vm->stack[vm->top - 1]);
	return 0;
}

/* at: the opcode of the GET. */
static int memo_get(struct ck_vm *vm, uint64_t slot, const uint8_t *at)
{
	int64_t i = ck_lex_slot(&vm->lex, slot);
	struct ck_pv taken;
	int rc;

	if (i < 0 || !vm->memo_set[i])
		return ck_vm_bad(vm, "memo slot was never set");
	if (at == vm->popped_at)
		popped_take_back(vm, &vm->memo[i]);
	if (vm->memo[i].tag == CK_PV_GLOBAL && *vm->p == OP_EMPTY_TUPLE) {
		rc = ck_vm_plain(vm, &vm->memo[i], &taken);
		if (rc)
			return rc < 0 ? rc : ck_vm_push(vm, taken);
	}
	return push_again(vm, vm->memo[i]);
}

static int op_memoize(struct ck_vm *vm)
{
	if (vm->memo_gaps)
		return ck_vm_bad(vm, "MEMOIZE after a memo slot out of order");
	return memo_put(vm, vm->memo_len);
}

static int op_binput(struct ck_vm *vm)
{
	return memo_put(vm, ck_vm_arg(vm, 1));
}

static int op_long_binput(struct ck_vm *vm)
{
	return memo_put(vm, ck_vm_arg(vm, 4));
}

static int op_put(struct ck_vm *vm)
{
	uint64_t slot;

	if (!ck_lex_index(ck_vm_arg_line(vm), &slot))
		return ck_vm_bad(vm, "malformed memo index");
	return memo_put(vm, slot);
}

static int op_binget(struct ck_vm *vm)
{
	const uint8_t *at = vm->p - 1;

	return memo_get(vm, ck_vm_arg(vm, 1), at);
}

static int op_long_binget(struct ck_vm *vm)
{
	const uint8_t *at = vm->p - 1;

	return memo_get(vm, ck_vm_arg(vm, 4), at);
}

static int op_get(struct ck_vm *vm)
{
	const uint8_t *at = vm->p - 1;
	uint64_t slot;

	if (!ck_lex_index(ck_vm_arg_line(vm), &slot))
		return ck_vm_bad(vm, "malformed memo index");
	return memo_get(vm, slot, at);
}

int (*const ck_pickle_ops[256])(struct ck_vm *vm) = {
	[OP_MARK] = ck_vm_mark,
	[OP_POP] = op_pop,
	[OP_POP_MARK] = op_pop_mark,
	[OP_DUP] = op_dup,
	[OP_FLOAT] = op_float,
	[OP_INT] = op_int,
	[OP_BININT] = op_binint,
	[OP_BININT1] = op_binint1,
	[OP_LONG] = op_long,
	[OP_BININT2] = op_binint2,
	[OP_NONE] = op_none,
	[OP_BINPERSID] = ck_op_binpersid,
	[OP_REDUCE] = ck_op_reduce,
	[OP_STRING] = op_string,
	[OP_BINSTRING] = op_binstring,
	[OP_SHORT_BINSTRING] = op_short_binstring,
	[OP_UNICODE] = op_unicode,
	[OP_BINUNICODE] = op_binunicode,
	[OP_APPEND] = ck_op_append,
	[OP_BUILD] = ck_op_build,
	[OP_GLOBAL] = ck_op_global,
	[OP_DICT] = ck_op_dict,
	[OP_EMPTY_DICT] = ck_op_empty_dict,
	[OP_APPENDS] = ck_op_appends,
	[OP_GET] = op_get,
	[OP_BINGET] = op_binget,
	[OP_INST] = ck_op_inst,
	[OP_LONG_BINGET] = op_long_binget,
	[OP_LIST] = ck_op_list,
	[OP_EMPTY_LIST] = ck_op_empty_list,
	[OP_OBJ] = ck_op_obj,
	[OP_PUT] = op_put,
	[OP_BINPUT] = op_binput,
	[OP_LONG_BINPUT] = op_long_binput,
	[OP_SETITEM] = ck_op_setitem,
	[OP_TUPLE] = ck_op_tuple,
	[OP_EMPTY_TUPLE] = ck_op_empty_tuple,
	[OP_SETITEMS] = ck_op_setitems,
	[OP_BINFLOAT] = op_binfloat,
	[OP_PROTO] = op_proto,
	[OP_NEWOBJ] = ck_op_newobj,
	[OP_TUPLE1] = ck_op_tuple1,
	[OP_TUPLE2] = ck_op_tuple2,
	[OP_TUPLE3] = ck_op_tuple3,
	[OP_NEWTRUE] = op_true,
	[OP_NEWFALSE] = op_false,
	[OP_LONG1] = op_long1,
	[OP_LONG4] = op_long4,
	[OP_SHORT_BINUNICODE] = op_short_binunicode,
	[OP_BINUNICODE8] = op_binunicode8,
	[OP_BINBYTES8] = op_binbytes8,
	[OP_EMPTY_SET] = ck_op_empty_set,
	[OP_ADDITEMS] = ck_op_additems,
	[OP_FROZENSET] = ck_op_frozenset,
	[OP_NEWOBJ_EX] = ck_op_newobj_ex,
	[OP_STACK_GLOBAL] = ck_op_stack_global,
	[OP_MEMOIZE] = op_memoize,
	[OP_FRAME] = op_frame,
	[OP_BYTEARRAY8] = op_bytearray8,
	[OP_BINBYTES] = op_binbytes,
	[OP_SHORT_BINBYTES] = op_short_binbytes,
};
