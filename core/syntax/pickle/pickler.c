/* SPDX-License-Identifier: MIT */
/*
 * pickler: writes single values as opcodes of protocol 2 into a buffer. The
 * state is the index of the next memo slot; one thread at a time.
 */
#include "pickler.h"
#include "pickle_internal.h"

/* Appends a number; the host is little-endian. */
static void put(struct ck_pickler *p, uint64_t value, unsigned bytes)
{
	ck_buf_add(p->out, &value, bytes);
}

static void put_op(struct ck_pickler *p, enum ck_op op)
{
	put(p, op, 1);
}

/* Appends an opcode and a number of at most 8 bytes. */
static void put_bin(struct ck_pickler *p, enum ck_op op, uint64_t value,
		    unsigned bytes)
{
	uint8_t all[9] = { (uint8_t)op };

	memcpy(all + 1, &value, bytes);
	ck_buf_add(p->out, all, 1UL + bytes);
}

/* Gives the object on top of the stack a memo index, for a later GET. */
static void memoize(struct ck_pickler *p)
{
	if (p->memoize)
		ck_pickler_put(p, p->memo++);
}

void ck_pickler_begin(struct ck_pickler *p)
{
	put_op(p, OP_PROTO);
	put(p, 2, 1);
}

void ck_pickler_end(struct ck_pickler *p)
{
	put_op(p, OP_STOP);
}

/* --- values ----------------------------------------------------------------- */

void ck_pickler_none(struct ck_pickler *p)
{
	put_op(p, OP_NONE);
}

void ck_pickler_bool(struct ck_pickler *p, bool value)
{
	put_op(p, value ? OP_NEWTRUE : OP_NEWFALSE);
}

/* Appends `bytes` bytes of two's complement. */
static void put_long(struct ck_pickler *p, uint64_t value, unsigned bytes)
{
	put_op(p, OP_LONG1);
	put(p, bytes, 1);
	put(p, value, bytes);
}

void ck_pickler_int(struct ck_pickler *p, uint64_t value)
{
	unsigned bytes = 5; /* with room for a sign */

	if (value <= UINT8_MAX) {
		put_bin(p, OP_BININT1, value, 1);
	} else if (value <= UINT16_MAX) {
		put_bin(p, OP_BININT2, value, 2);
	} else if (value <= INT32_MAX) {
		put_bin(p, OP_BININT, value, 4);
	} else {
		while (bytes < 8 && value >> (8 * bytes - 1))
			bytes++;
		put_long(p, value, bytes);
	}
}

void ck_pickler_signed(struct ck_pickler *p, int64_t value)
{
	unsigned bytes = 5;

	if (value >= 0) {
		ck_pickler_int(p, (uint64_t)value);
		return;
	}
	if (value >= INT32_MIN) {
		put_bin(p, OP_BININT, (uint32_t)value, 4);
		return;
	}
	while (bytes < 8 && value >> (8 * bytes - 1) != -1)
		bytes++;
	put_long(p, (uint64_t)value, bytes);
}

void ck_pickler_float(struct ck_pickler *p, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	put_bin(p, OP_BINFLOAT, __builtin_bswap64(bits), 8);
}

void ck_pickler_int_wide(struct ck_pickler *p, uint64_t value)
{
	if (value <= INT32_MAX)
		put_bin(p, OP_BININT, value, 4);
	else
		put_long(p, value, 8);
}

void ck_pickler_text(struct ck_pickler *p, struct ck_str s)
{
	put_bin(p, OP_BINUNICODE, s.len, 4);
	ck_buf_str(p->out, s);
	memoize(p);
}

void ck_pickler_global(struct ck_pickler *p, const char *module,
		       const char *name)
{
	put_op(p, OP_GLOBAL);
	ck_buf_printf(p->out, "%s\n%s\n", module, name);
	memoize(p);
}

void ck_pickler_ints(struct ck_pickler *p, uint32_t n, const uint64_t *ints)
{
	static const enum ck_op made[] = { OP_EMPTY_TUPLE, OP_TUPLE1, OP_TUPLE2,
					   OP_TUPLE3 };

	if (n >= CK_ARRAY_SIZE(made))
		ck_pickler_mark(p);
	for (uint32_t i = 0; i < n; i++)
		ck_pickler_int(p, ints[i]);
	put_op(p, n < CK_ARRAY_SIZE(made) ? made[n] : OP_TUPLE);
	if (n)
		memoize(p);
}

void ck_pickler_dict(struct ck_pickler *p)
{
	put_op(p, OP_EMPTY_DICT);
	memoize(p);
}

void ck_pickler_list(struct ck_pickler *p)
{
	put_op(p, OP_EMPTY_LIST);
	memoize(p);
}

void ck_pickler_size(struct ck_pickler *p, uint32_t cls, uint32_t n,
		     const uint64_t *ints)
{
	ck_pickler_get(p, cls);
	ck_pickler_ints(p, n, ints);
	put_op(p, OP_TUPLE1);
	memoize(p);
	ck_pickler_reduce(p);
}

/* --- the memo ------------------------------------------------------------------- */

void ck_pickler_put(struct ck_pickler *p, uint32_t memo)
{
	bool is_long = memo > UINT8_MAX;

	put_bin(p, is_long ? OP_LONG_BINPUT : OP_BINPUT, memo, is_long ? 4 : 1);
}

void ck_pickler_get(struct ck_pickler *p, uint32_t memo)
{
	bool is_long = memo > UINT8_MAX;

	put_bin(p, is_long ? OP_LONG_BINGET : OP_BINGET, memo, is_long ? 4 : 1);
}

void ck_pickler_pop(struct ck_pickler *p)
{
	put_op(p, OP_POP);
}

/* --- of the values on the stack ----------------------------------------------- */

void ck_pickler_mark(struct ck_pickler *p)
{
	put_op(p, OP_MARK);
}

void ck_pickler_tuple(struct ck_pickler *p)
{
	put_op(p, OP_TUPLE);
	memoize(p);
}

void ck_pickler_set_items(struct ck_pickler *p)
{
	put_op(p, OP_SETITEMS);
}

void ck_pickler_append_items(struct ck_pickler *p)
{
	put_op(p, OP_APPENDS);
}

void ck_pickler_object(struct ck_pickler *p)
{
	put_op(p, OP_EMPTY_TUPLE);
	put_op(p, OP_NEWOBJ);
	memoize(p);
}

void ck_pickler_build(struct ck_pickler *p)
{
	put_op(p, OP_BUILD);
}

void ck_pickler_reduce(struct ck_pickler *p)
{
	put_op(p, OP_REDUCE);
	memoize(p);
}

void ck_pickler_persid(struct ck_pickler *p)
{
	put_op(p, OP_BINPERSID);
}
