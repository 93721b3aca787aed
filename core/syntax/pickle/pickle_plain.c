/* SPDX-License-Identifier: MIT */
/*
 * pickle_plain: a fast path for plain objects, whose fields are numbers,
 * strings and torch.Size. A `.metadata` of a million chunks has a million
 * objects of each of three such classes. Picklers write the opcodes from the
 * class to BUILD in one order, which is read here in one pass: the hook gets
 * the fields from an array, without nodes, stack or memo.
 *
 * The machine is unchanged until the hook has taken the object. An object that
 * differs in any way (another opcode or type, a memo slot in use that holds
 * more than a string or a Size, an object that the hook leaves) is read opcode
 * by opcode.
 */
#include "pickle_plain.h"

#include <errno.h>

enum { ITEMS = 16, INTS = 64 };

struct plain {
	const struct ck_vm *vm;
	uint64_t slot; /* slot that the next MEMOIZE sets */
	uint32_t n;    /* items: key, value, key, value ... */
	uint32_t nints;
	struct ck_pv items[ITEMS];
	uint64_t
		slots[ITEMS]; /* that a MEMOIZE sets to them; 0: not memoized */
	int64_t ints[INTS];
};

/* --- opcodes -----------------------------------------------------------------------
 *
 * p: the next opcode; pass one has checked all of them. Each function returns the position
 * behind the opcodes that it reads, or NULL if they differ: then the object is not plain.
 */

static inline const uint8_t *read_op(const uint8_t *p, uint8_t op)
{
	return *p == op ? p + 1 : NULL;
}

/* Reads an opcode that is followed by MEMOIZE. */
static inline const uint8_t *read_op_put(struct plain *o, const uint8_t *p,
					 uint8_t op)
{
	o->slot++;
	return p[0] == op && p[1] == OP_MEMOIZE ? p + 2 : NULL;
}

/* Reads a GET of a slot that is set. */
static inline const uint8_t *read_get(const struct ck_vm *vm, const uint8_t *p,
				      const struct ck_pv **v)
{
	uint32_t slot4;
	int64_t i;

	if (*p == OP_BINGET) {
		*v = vm->low[p[1]];
		return *v ? p + 2 : NULL;
	}
	if (*p != OP_LONG_BINGET)
		return NULL;
	memcpy(&slot4, p + 1, sizeof(slot4)); /* little-endian hosts only */
	i = ck_lex_slot(&vm->lex, slot4);
	*v = &vm->memo[i < 0 ? 0 : i];
	return i >= 0 && vm->memo_set[i] ? p + 1 + sizeof(slot4) : NULL;
}

static const uint8_t *read_long(const uint8_t *p, int64_t *out)
{
	struct ck_str le = { (const char *)p + 2, p[1] };
	struct ck_pv v = ck_text_long(le);

	*out = v.i;
	return v.tag == CK_PV_INT ? p + 2 + le.len : NULL;
}

static inline const uint8_t *read_int(const uint8_t *p, int64_t *out)
{
	int32_t i4;
	uint16_t i2;

	switch (*p) {
	case OP_BININT1: *out = p[1]; return p + 2;
	case OP_BININT2:
		memcpy(&i2, p + 1, sizeof(i2)); /* little-endian hosts only */
		*out = i2;
		return p + 1 + sizeof(i2);
	case OP_BININT:
		memcpy(&i4, p + 1, sizeof(i4)); /* little-endian hosts only */
		*out = i4;
		return p + 1 + sizeof(i4);
	case OP_LONG1: return read_long(p, out);
	default: return NULL;
	}
}

/* --- fields ------------------------------------------------------------------------ */

static inline void add(struct plain *o, struct ck_pv v, uint64_t slot)
{
	o->slots[o->n] = slot;
	o->items[o->n++] = v;
}

static inline const uint8_t *read_string(struct plain *o, const uint8_t *p)
{
	struct ck_pv v = { .tag = CK_PV_STR };

	if (*p == OP_SHORT_BINUNICODE) {
		v.len = p[1];
		p += 2;
	} else if (*p == OP_BINUNICODE) {
		memcpy(&v.len, p + 1,
		       sizeof(v.len)); /* little-endian hosts only */
		p += 1 + sizeof(v.len);
	} else {
		return NULL;
	}
	v.bytes = (const char *)p;
	p += v.len;
	add(o, v, o->slot++);
	return read_op(p, OP_MEMOIZE);
}

/* A tuple of numbers, one at least. */
static inline const uint8_t *read_tuple(struct plain *o, const uint8_t *p)
{
	bool marked = *p == OP_MARK;
	uint32_t first = o->nints, n;
	const uint8_t *next;

	for (p += marked; o->nints < INTS; p = next) {
		next = read_int(p, &o->ints[o->nints]);
		if (!next)
			break;
		o->nints++;
	}
	n = o->nints - first;
	if (n == 0 || (!marked && n > 3))
		return NULL;
	return read_op_put(o, p,
			   marked ? OP_TUPLE : (uint8_t)(OP_TUPLE1 + n - 1));
}

/* The call of torch.Size, after its class. */
static inline const uint8_t *read_size(struct plain *o, const uint8_t *p)
{
	struct ck_pv v = { .tag = CK_PV_INTS, .aux = 1 };
	uint32_t first = o->nints;

	p = *p == OP_EMPTY_TUPLE ? p + 1 : read_tuple(o, p);
	p = p ? read_op_put(o, p, OP_TUPLE1) : NULL;
	if (!p)
		return NULL;
	v.len = o->nints - first;
	v.ints = v.len ? &o->ints[first] : NULL;
	add(o, v, o->slot);
	return read_op_put(o, p, OP_REDUCE);
}

static inline const uint8_t *read_key(struct plain *o, const uint8_t *p)
{
	const struct ck_pv *v;
	const uint8_t *next = read_get(o->vm, p, &v);

	if (!next)
		return read_string(o, p);
	add(o, *v, 0);
	return v->tag == CK_PV_STR ? next : NULL;
}

static inline const uint8_t *read_known(struct plain *o, const uint8_t *p)
{
	const struct ck_pv *v;

	p = read_get(o->vm, p, &v);
	if (!p)
		return NULL;
	if (v->tag == CK_PV_GLOBAL && v->i == o->vm->size_class)
		return read_size(o, p);
	add(o, *v, 0);
	return v->tag == CK_PV_STR || v->tag == CK_PV_INTS ? p : NULL;
}

static inline const uint8_t *read_value(struct plain *o, const uint8_t *p)
{
	struct ck_pv v = { .tag = CK_PV_INT };
	const uint8_t *next;

	switch (*p) {
	case OP_BINGET:
	case OP_LONG_BINGET: return read_known(o, p);
	case OP_SHORT_BINUNICODE:
	case OP_BINUNICODE: return read_string(o, p);
	case OP_NONE:
		add(o, (struct ck_pv){ .tag = CK_PV_NONE }, 0);
		return p + 1;
	default:
		next = read_int(p, &v.i);
		add(o, v, 0);
		return next;
	}
}

/* Reads the opcodes after the class, up to and including BUILD. */
static const uint8_t *read_fields(struct plain *o, const uint8_t *p)
{
	p = read_op(p, OP_EMPTY_TUPLE);
	p = p ? read_op_put(o, p, OP_NEWOBJ) : NULL;
	p = p ? read_op_put(o, p, OP_EMPTY_DICT) : NULL;
	p = p ? read_op(p, OP_MARK) : NULL;
	while (p && *p != OP_SETITEMS) {
		p = o->n < ITEMS ? read_key(o, p) : NULL;
		p = p ? read_value(o, p) : NULL;
	}
	return p ? read_op(p + 1, OP_BUILD) : NULL;
}

/* --- the memo ---------------------------------------------------------------------- */

static uint64_t bits_below(uint64_t slot)
{
	return ((uint64_t)1 << slot % 64) - 1;
}

/* The number of slots of the object that a GET refers to. */
static uint32_t count_fetched(const struct plain *o)
{
	const struct ck_lex *lex = &o->vm->lex;
	uint64_t first = o->vm->memo_len / 64, last = o->slot / 64, word;
	uint32_t count = 0;

	for (uint64_t i = first; i <= last && i < lex->nwords; i++) {
		word = lex->fetched[i];
		if (i == first)
			word &= ~bits_below(o->vm->memo_len);
		if (i == last)
			word &= bits_below(o->slot);
		count += word ? ck_lex_bits(word) : 0;
	}
	return count;
}

static bool is_fetched(const struct plain *o, uint32_t item)
{
	return o->slots[item] && ck_lex_slot(&o->vm->lex, o->slots[item]) >= 0;
}

/* The number of items that a GET refers to, or -1 if a GET refers to another
 * part of the object. */
static int64_t count_kept(const struct plain *o)
{
	uint32_t fetched = count_fetched(o), n = 0;

	for (uint32_t i = 0; fetched && i < o->n; i++)
		n += is_fetched(o, i);
	return n == fetched ? (int64_t)n : -1;
}

static int keep(struct ck_vm *vm, const struct plain *o, uint32_t i)
{
	struct ck_pv v = o->items[i];
	size_t bytes = v.len * sizeof(*v.ints);
	int64_t *ints;

	if (v.tag == CK_PV_INTS && v.len) {
		ints = ck_vm_alloc(vm, bytes);
		if (!ints)
			return -ENOMEM;
		memcpy(ints, v.ints, bytes);
		v.ints = ints;
	}
	ck_vm_share(&v);
	ck_vm_memo(vm, o->slots[i], v);
	return 0;
}

/* --- the hook ------------------------------------------------------------------------ */

/* Offers the object to the hook. Returns 1 if the hook took it. */
static int offer(struct ck_vm *vm, struct plain *o, const struct ck_pv *class,
		 struct ck_pv *out)
{
	struct ck_plist fields = {
		.items = o->items, .count = o->n, .cap = o->n, .depth = 2
	};
	struct ck_pv state = { .tag = CK_PV_DICT, .list = &fields };
	struct ck_pcall call = { .callable = *class, .depth = 1 };
	int rc;

	vm->out->builds++;
	vm->out->full = false;
	rc = vm->hooks->build(vm->hooks->ctx, vm->out, &call, &state, out,
			      vm->d);
	vm->out->builds -= rc == 0;
	return rc;
}

int ck_vm_plain(struct ck_vm *vm, const struct ck_pv *class, struct ck_pv *out)
{
	struct plain o;
	const uint8_t *end;
	int64_t kept;
	int rc;

	if (!vm->hooks || !vm->hooks->build || class->i == vm->getattr ||
	    vm->memo_gaps || vm->nmarks + 2 >= CK_PICKLE_MAX_DEPTH)
		return 0;
	o.vm = vm;
	o.slot = vm->memo_len;
	o.n = o.nints = 0;
	end = read_fields(&o, vm->p);
	kept = end ? count_kept(&o) : -1;
	if (kept < 0)
		return 0;
	rc = offer(vm, &o, class, out);
	if (rc <= 0)
		return rc;
	vm->p = end;
	vm->memo_len = o.slot;
	for (uint32_t i = 0; kept && i < o.n; i++)
		if (is_fetched(&o, i) && keep(vm, &o, i))
			return -ENOMEM;
	return 1;
}
