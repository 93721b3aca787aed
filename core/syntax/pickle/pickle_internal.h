/* SPDX-License-Identifier: MIT */
/*
 * Interface between the parts of the pickle reader: pickle_lex.c (pass one),
 * pickle.c (pass two: the machine), pickle_ops.c (its opcodes),
 * pickle_text.c (text arguments), pickle_global.c (names).
 */
#ifndef CK_PICKLE_INTERNAL_H
#define CK_PICKLE_INTERNAL_H

#include "ckptfs/pickle.h"
#include "pickle_names.h"

enum {
	CK_PICKLE_MAX_DEPTH = 256,
	CK_MAX_GLOBALS = 4096, /* different ones */
	CK_FREE_INTS = 9,      /* tuples of fewer ints are used again */
	CK_GLOBAL_SLOTS = 4 * CK_MAX_GLOBALS,
};

/* Opcodes, named as in CPython's pickle.py. */
enum ck_op {
	OP_MARK = '(',
	OP_STOP = '.',
	OP_POP = '0',
	OP_POP_MARK = '1',
	OP_DUP = '2',
	OP_FLOAT = 'F',
	OP_INT = 'I',
	OP_BININT = 'J',
	OP_BININT1 = 'K',
	OP_LONG = 'L',
	OP_BININT2 = 'M',
	OP_NONE = 'N',
	OP_PERSID = 'P',
	OP_BINPERSID = 'Q',
	OP_REDUCE = 'R',
	OP_STRING = 'S',
	OP_BINSTRING = 'T',
	OP_SHORT_BINSTRING = 'U',
	OP_UNICODE = 'V',
	OP_BINUNICODE = 'X',
	OP_APPEND = 'a',
	OP_BUILD = 'b',
	OP_GLOBAL = 'c',
	OP_DICT = 'd',
	OP_EMPTY_DICT = '}',
	OP_APPENDS = 'e',
	OP_GET = 'g',
	OP_BINGET = 'h',
	OP_INST = 'i',
	OP_LONG_BINGET = 'j',
	OP_LIST = 'l',
	OP_EMPTY_LIST = ']',
	OP_OBJ = 'o',
	OP_PUT = 'p',
	OP_BINPUT = 'q',
	OP_LONG_BINPUT = 'r',
	OP_SETITEM = 's',
	OP_TUPLE = 't',
	OP_EMPTY_TUPLE = ')',
	OP_SETITEMS = 'u',
	OP_BINFLOAT = 'G',
	OP_PROTO = 0x80,
	OP_NEWOBJ = 0x81,
	OP_EXT1 = 0x82,
	OP_EXT2 = 0x83,
	OP_EXT4 = 0x84,
	OP_TUPLE1 = 0x85,
	OP_TUPLE2 = 0x86,
	OP_TUPLE3 = 0x87,
	OP_NEWTRUE = 0x88,
	OP_NEWFALSE = 0x89,
	OP_LONG1 = 0x8a,
	OP_LONG4 = 0x8b,
	OP_SHORT_BINUNICODE = 0x8c,
	OP_BINUNICODE8 = 0x8d,
	OP_BINBYTES8 = 0x8e,
	OP_EMPTY_SET = 0x8f,
	OP_ADDITEMS = 0x90,
	OP_FROZENSET = 0x91,
	OP_NEWOBJ_EX = 0x92,
	OP_STACK_GLOBAL = 0x93,
	OP_MEMOIZE = 0x94,
	OP_FRAME = 0x95,
	OP_BYTEARRAY8 = 0x96,
	OP_NEXT_BUFFER = 0x97,
	OP_READONLY_BUFFER = 0x98,
	OP_BINBYTES = 'B',
	OP_SHORT_BINBYTES = 'C',
};

/* --- pass one: lexing ----------------------------------------------------- */

/* Result of pass one. Pass two relies on it: every opcode up to `end` is known,
 * and its argument lies inside the input. */
struct ck_lex {
	uint64_t end;	   /* bytes, STOP included */
	uint64_t *fetched; /* bitmap of memo slots that a GET refers to */
	uint32_t *before;  /* for each word of fetched: bits set before it */
	size_t nwords;
	size_t used;	     /* words up to the last one that is not 0 */
	size_t bitmap_bytes; /* of the allocation */
	uint32_t nfetched;
};

CK_MUST_USE int ck_lex_run(struct ck_lex *lex, const uint8_t *in, size_t len,
			   struct ck_diag *d);
void ck_lex_fini(struct ck_lex *lex);

/* Bits set; baseline x86-64 has no instruction for it. */
static inline CK_WRAPS uint32_t ck_lex_bits(uint64_t word)
{
	word -= word >> 1 & UINT64_C(0x5555555555555555);
	word = (word & UINT64_C(0x3333333333333333)) +
	       (word >> 2 & UINT64_C(0x3333333333333333));
	word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return (uint32_t)(word * UINT64_C(0x0101010101010101) >> 56);
}

/* Number of a slot among the fetched ones; -1 if no GET refers to it. */
static inline int64_t ck_lex_slot(const struct ck_lex *lex, uint64_t slot)
{
	uint64_t word, bit;

	if (slot / 64 >= lex->nwords)
		return -1;
	word = lex->fetched[slot / 64];
	bit = (uint64_t)1 << slot % 64;
	if (!(word & bit))
		return -1;
	return lex->before[slot / 64] + ck_lex_bits(word & (bit - 1));
}

/* Parses a decimal memo index of GET and PUT; false if malformed. */
bool ck_lex_index(struct ck_str digits, uint64_t *out);

/* --- pass two: the machine ------------------------------------------------- */

struct ck_vm {
	const uint8_t *p; /* next byte: the argument of the present opcode */
	const uint8_t *in;
	struct ck_pickle *out;
	const struct ck_pickle_hooks *hooks;
	struct ck_diag *d;

	struct ck_pv *stack;
	size_t top, stack_cap;
	size_t *marks; /* stack heights */
	size_t nmarks, marks_cap;
	struct ck_lex lex;
	struct ck_pv *memo; /* one for each fetched slot */
	bool *memo_set;
	const struct ck_pv *low[256]; /* of the first slots: of memo, if set */
	/* The slots below are set: MEMOIZE sets the next one, as in CPython,
	 * whose picklers set slots in order. */
	uint64_t memo_len;
	bool memo_gaps; /* a later slot was set: memo_len is not the count */
	bool over_budget;
	struct ck_plist *free_lists;	  /* linked through items[0] */
	struct ck_pv *free_arrays;	  /* linked through their first item */
	struct ck_pcall *free_calls;	  /* linked through args.call */
	int64_t *free_ints[CK_FREE_INTS]; /* by count, linked through [0] */
	uint16_t global_slots[CK_GLOBAL_SLOTS]; /* hash table: number + 1 */
	uint64_t hash_seed;
	uint64_t getattr_pushed, getattr_used;
	const uint8_t *reduced_at; /* what follows a REDUCE */
	const uint8_t *popped_at;  /* what follows a POP of its call */
	struct ck_pv popped;
	bool is_python2; /* protocol below 3: names as Python 2 has them */
	/* Numbers of globals or -1; rebuild: torch._utils._rebuild_tensor_v2 */
	int64_t getattr, size_class, rebuild;
};

/* One function for each opcode; NULL: pass one refuses it. */
extern int (*const ck_pickle_ops[256])(struct ck_vm *vm);

/* Refuses the input at the present opcode. */
int ck_vm_bad(struct ck_vm *vm, const char *what);
void *ck_vm_alloc(struct ck_vm *vm, size_t size);
CK_MUST_USE int ck_vm_mark(struct ck_vm *vm);
/* More room on the stack. */
CK_MUST_USE int ck_vm_grow(struct ck_vm *vm);
/* Appends n values to a list of the tree. */
CK_MUST_USE int ck_vm_extend(struct ck_vm *vm, struct ck_plist *list,
			     const struct ck_pv *values, size_t n);
struct ck_plist *ck_vm_list(struct ck_vm *vm);
struct ck_pcall *ck_vm_call(struct ck_vm *vm);
/* Makes the nodes of a value that nothing else refers to reusable. */
void ck_vm_recycle(struct ck_vm *vm, const struct ck_pv *v);
/* Marks a value that gets a second reference: its nodes must not be reused. */
void ck_vm_share(struct ck_pv *v);
uint16_t ck_vm_depth(const struct ck_pv *v);

/* --- arguments and the stack -------------------------------------------------- */

static inline uint64_t ck_vm_arg(struct ck_vm *vm, unsigned bytes)
{
	uint64_t value = 0;

	memcpy(&value, vm->p, bytes); /* little-endian hosts only */
	vm->p += bytes;
	return value;
}

static inline struct ck_str ck_vm_arg_bytes(struct ck_vm *vm,
					    unsigned len_bytes)
{
	uint64_t len = ck_vm_arg(vm, len_bytes);
	struct ck_str s = { (const char *)vm->p, (size_t)len };

	vm->p += len;
	return s;
}

static inline struct ck_str ck_vm_arg_line(struct ck_vm *vm)
{
	const uint8_t *nl = rawmemchr(vm->p, '\n');
	struct ck_str s = { (const char *)vm->p, (size_t)(nl - vm->p) };

	vm->p = nl + 1;
	return s;
}

CK_MUST_USE static inline int ck_vm_push(struct ck_vm *vm, struct ck_pv v)
{
	int rc = vm->top == vm->stack_cap ? ck_vm_grow(vm) : 0;

	if (rc == 0)
		vm->stack[vm->top++] = v;
	return rc;
}

/* True if at least n values lie above the last mark. */
static inline bool ck_vm_has(const struct ck_vm *vm, size_t n)
{
	size_t floor = vm->nmarks ? vm->marks[vm->nmarks - 1] : 0;

	return vm->top - floor >= n;
}

static inline int ck_vm_empty(struct ck_vm *vm)
{
	return ck_vm_bad(vm, "stack underflow");
}

/* Takes the last mark; *n values lie above it and stay on the stack. */
static inline bool ck_vm_pop_mark(struct ck_vm *vm, size_t *n)
{
	if (!vm->nmarks)
		return false;
	*n = vm->top - vm->marks[--vm->nmarks];
	return true;
}

/* Opcodes of pickle_objects.c. Return 0, or: -EBADMSG by ck_vm_bad(); -ENOMEM; errors of hooks. */
int ck_op_empty_tuple(struct ck_vm *vm);
int ck_op_tuple1(struct ck_vm *vm);
int ck_op_tuple2(struct ck_vm *vm);
int ck_op_tuple3(struct ck_vm *vm);
int ck_op_tuple(struct ck_vm *vm);
int ck_op_empty_list(struct ck_vm *vm);
int ck_op_empty_dict(struct ck_vm *vm);
int ck_op_empty_set(struct ck_vm *vm);
int ck_op_list(struct ck_vm *vm);
int ck_op_frozenset(struct ck_vm *vm);
int ck_op_dict(struct ck_vm *vm);
int ck_op_append(struct ck_vm *vm);
int ck_op_appends(struct ck_vm *vm);
int ck_op_additems(struct ck_vm *vm);
int ck_op_setitem(struct ck_vm *vm);
int ck_op_setitems(struct ck_vm *vm);
int ck_op_global(struct ck_vm *vm);
int ck_op_stack_global(struct ck_vm *vm);
int ck_op_reduce(struct ck_vm *vm);
int ck_op_newobj(struct ck_vm *vm);
int ck_op_newobj_ex(struct ck_vm *vm);
int ck_op_inst(struct ck_vm *vm);
int ck_op_obj(struct ck_vm *vm);
int ck_op_build(struct ck_vm *vm);
int ck_op_binpersid(struct ck_vm *vm);

/* --- text arguments --------------------------------------------------------- */

/* Each turns the text of an opcode into a value; -EBADMSG through vm. */
CK_MUST_USE int ck_text_int(struct ck_vm *vm, struct ck_str s,
			    struct ck_pv *out);
CK_MUST_USE int ck_text_float(struct ck_vm *vm, struct ck_str s,
			      struct ck_pv *out);
/* A quoted Python 2 string. */
CK_MUST_USE int ck_text_string(struct ck_vm *vm, struct ck_str s,
			       struct ck_pv *out);
/* raw-unicode-escape. */
CK_MUST_USE int ck_text_unicode(struct ck_vm *vm, struct ck_str s,
				struct ck_pv *out);
/* Two's complement, little-endian. */
struct ck_pv ck_text_long(struct ck_str le);
/* utf-8 if it is, else bytes: a Python 2 str. */
struct ck_pv ck_text_str2(struct ck_str s);

#endif
