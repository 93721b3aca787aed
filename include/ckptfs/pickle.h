/* SPDX-License-Identifier: MIT */
/*
 * pickle: reads pickles of protocols 0 to 5 as data. Nothing is imported or
 * called: a call in a pickle becomes a value with the callable and its
 * arguments. One thread at a time reads a pickle; any thread may use a finished
 * one.
 *
 * Bounds for any input: memory at most 64 MiB + 40 bytes, time about 200 ns,
 * for each byte of input; nesting at most 256 deep; no recursion.
 */
#ifndef CKPTFS_PICKLE_H
#define CKPTFS_PICKLE_H

#include "ckptfs/base.h"

enum ck_pv_tag {
	CK_PV_NONE,
	CK_PV_BOOL,	 /* i */
	CK_PV_INT,	 /* i */
	CK_PV_BIGINT,	 /* bytes: two's complement, little-endian */
	CK_PV_FLOAT,	 /* f */
	CK_PV_STR,	 /* bytes: utf-8, surrogates as three bytes */
	CK_PV_BYTES,	 /* bytes; Python 2 str too */
	CK_PV_BYTEARRAY, /* bytes */
	CK_PV_INTS,	 /* a tuple of one or more ints that fit int64: ints */
	CK_PV_TUPLE,	 /* list */
	CK_PV_LIST,	 /* list */
	CK_PV_SET,	 /* list */
	CK_PV_FROZENSET, /* list */
	CK_PV_DICT,	 /* list: key, value, key, value ... */
	CK_PV_GLOBAL,	 /* i: number for ck_pickle_global() */
	CK_PV_CALL,	 /* call: REDUCE, INST, OBJ */
	CK_PV_NEW, /* call: NEWOBJ, NEWOBJ_EX; aux 1: object.__new__(class) */
	CK_PV_PERSID, /* list of one: the persistent id */
	CK_PV_EXT,    /* created by a hook, which defines aux and i */
	CK_PV_PACKED, /* a CALL that makes a tensor, for ck_pv_unpack() */
};

/* A value: 16 bytes, scalars and short tuples of ints need no node. */
struct ck_pv {
	uint8_t tag;
	uint8_t aux;
	uint16_t kept; /* private to the reader */
	uint32_t len;  /* bytes, or count of ints */

	union {
		int64_t i;
		double f;
		const char *bytes; /* in the input or the arena */
		const int64_t *ints;
		struct ck_plist *list;
		struct ck_pcall *call;
		struct ck_pv *array; /* private to the reader */
		const struct ck_ppacked *packed;
	};
};

/* Children of a container. */
struct ck_plist {
	struct ck_pv *items;
	uint32_t count;
	uint32_t cap;
	uint16_t depth;	 /* of the containers below, this one included */
	uint8_t shared;	 /* may have more than one reference */
	uint8_t on_heap; /* items are allocated by malloc(3): a large list */
};

/* callable(*args), then the values of APPEND, SETITEM and BUILD. */
struct ck_pcall {
	struct ck_pv callable;
	struct ck_pv args;     /* TUPLE or INTS */
	struct ck_pv kwargs;   /* DICT or NONE */
	struct ck_pv state;    /* valid if has_state */
	struct ck_plist list;  /* APPEND(S) on it */
	struct ck_plist items; /* SETITEM(S) on it */
	bool has_state;
	uint8_t shared;
	uint16_t depth;
	/* The object was an argument of a call whose result was dropped, such
	 * as a function that sets its state. */
	bool touched;
	struct ck_pv collapsed; /* tag EXT once a hook took it, else NONE */
};

struct ck_pickle;

/* Hooks take known objects as soon as they are complete, so that a large pickle
 * needs no tree. */
struct ck_pickle_hooks {
	void *ctx;
	bool no_persids; /* persistent ids are malformed */
	/* Persistent ids of storages have six parts, as before torch 1.6. */
	bool old_persids;
	/* Called for a complete persistent id. Returns 1 to replace it by *out,
	 * 0 to keep it, or a negative errno. NULL keeps all. */
	int (*persid)(void *ctx, struct ck_pickle *p, const struct ck_pv *id,
		      struct ck_pv *out, struct ck_diag *d);
	/* Called before a BUILD of `call` with `state` is recorded. The hook
	 * calls ck_pickle_spend() for the memory that it keeps and the data
	 * that it reads, because one state may occur any number of times.
	 * Returns 1 and sets *out (tag EXT) to replace the object, 0 to keep
	 * it, or a negative errno. The children of `state` are valid only
	 * during the call. NULL keeps all. */
	int (*build)(void *ctx, struct ck_pickle *p,
		     const struct ck_pcall *call, const struct ck_pv *state,
		     struct ck_pv *out, struct ck_diag *d);
};

/* Bytes of memory that the smallest pickle may use. */
#define CK_PICKLE_BASE (UINT64_C(64) << 20)

struct ck_pickle {
	struct ck_pv root;
	uint64_t end; /* bytes of input used, STOP included */
	bool old_persids;
	bool dangerous; /* refused for a dangerous global */
	/* while a hook runs */
	uint64_t builds; /* number of this BUILD, from 1 */
	bool full;	 /* the maximum number of MARKs is open */
	/* private */
	uint64_t budget; /* bytes that may still be allocated */
	struct ck_arena arena;
	struct ck_pglobal *globals;
	uint32_t nglobals;
	uint32_t globals_cap;
	struct ck_plist **heap_lists; /* those with on_heap */
	uint32_t nheap_lists, heap_lists_cap;
};

/* Reads one pickle at the start of `bytes`, which must outlive p. hooks may be
 * NULL. Returns 0, -ENOMEM, the error of a hook, or -EBADMSG: not a pickle, a
 * feature that torch never writes (extension registry, out-of-band buffers,
 * text persistent ids), or a dangerous global, which the diagnosis names. */
CK_MUST_USE int ck_pickle_read(struct ck_pickle *p, const void *bytes,
			       size_t len, const struct ck_pickle_hooks *hooks,
			       struct ck_diag *d);
void ck_pickle_fini(struct ck_pickle *p);
/* The length of the pickle at the start of `bytes`, without interpreting it.
 * Returns 0, -ENODATA if the pickle is longer than `bytes`, or -EBADMSG if it
 * is not a pickle. */
CK_MUST_USE int ck_pickle_length(const void *bytes, size_t len, uint64_t *out);

/* Takes `bytes` from the memory budget of the pickle; false if too few are
 * left. */
CK_MUST_USE static inline bool ck_pickle_spend(struct ck_pickle *p,
					       uint64_t bytes)
{
	if (bytes > p->budget)
		return false;
	p->budget -= bytes;
	return true;
}

/* Reduces the budget of a pickle of `len` bytes after it was read to the share
 * of `size` bytes, without CK_PICKLE_BASE: else many small pickles would have
 * CK_PICKLE_BASE each. Returns the bytes used beyond that share. */
CK_MUST_USE uint64_t ck_pickle_settle(struct ck_pickle *p, uint64_t len,
				      uint64_t size);
/* Lend the pickle a number of bytes, and take back the unused ones; the pickle
 * uses its own budget first. */
void ck_pickle_lend(struct ck_pickle *p, uint64_t bytes);
CK_MUST_USE uint64_t ck_pickle_take_back(struct ck_pickle *p, uint64_t bytes);
/* True if at least half of the budget of an input of `len` bytes is left. */
bool ck_pickle_is_roomy(const struct ck_pickle *p, size_t len);
/* Bytes of memory that the pickle holds. */
uint64_t ck_pickle_memory(const struct ck_pickle *p);

/* --- positions of opcodes -------------------------------------------------- */

struct ck_pickle_build {
	uint32_t number; /* requested BUILD, from 1 */
	uint64_t at;	 /* position of the opcode */
	uint64_t mark;	 /* position of the last MARK before, or `at` */
};

struct ck_pickle_frame {
	uint64_t at; /* position of the opcode */
	uint64_t len;
};

struct ck_pickle_frames {
	struct ck_pickle_frame *rows; /* owned; in order */
	size_t n, cap;
};

/* Walks the opcodes of one pickle that fills all of `bytes`, without
 * interpreting them: finds n BUILDs (sorted by number, without duplicates) and
 * all frames. The caller owns the frames, also after an error. Returns 0,
 * -ENOMEM, or -EBADMSG if the pickle is malformed or a BUILD does not exist. */
CK_MUST_USE int ck_pickle_walk(struct ck_str bytes,
			       struct ck_pickle_build *builds, size_t n,
			       struct ck_pickle_frames *frames,
			       struct ck_diag *d);

/* --- packed values -------------------------------------------------------- */

/* Nodes of a tensor: a call, its arguments, and its storage. */
struct ck_pv_room {
	struct ck_pcall call, hooks;
	struct ck_plist lists[3];
	struct ck_pv args[6], id[6], storage;
};

/* Returns the CALL of a PACKED value, which is valid as long as p and room; any other
 * value unchanged. Containers may have PACKED items: tensors of torch.save. */
struct ck_pv ck_pv_unpack(const struct ck_pv *v, struct ck_pv_room *room);

/* --- reading values ------------------------------------------------------- */

/* "module.name" in Python 3 spelling, valid as long as p; "" for another value. */
struct ck_str ck_pickle_global(const struct ck_pickle *p,
			       const struct ck_pv *v);
/* Its name without the module, which differs between releases of a package. */
struct ck_str ck_pickle_class(const struct ck_pickle *p, const struct ck_pv *v);
/* True if v is the global with this full name. */
bool ck_pv_is_global(const struct ck_pickle *p, const struct ck_pv *v,
		     const char *full_name);
bool ck_pv_str(const struct ck_pv *v, struct ck_str *out);
/* Appends a code point of at most U+10FFFF as CK_PV_STR has it. */
void ck_pickle_add_point(struct ck_buf *b, uint32_t cp);
bool ck_pv_int(const struct ck_pv *v, int64_t *out); /* no bool */
bool ck_pv_bool(const struct ck_pv *v, bool *out);

/* The children of a container or persistent id; NULL for any other value. */
static inline struct ck_plist *ck_pv_list(const struct ck_pv *v)
{
	switch (v->tag) {
	case CK_PV_TUPLE:
	case CK_PV_LIST:
	case CK_PV_SET:
	case CK_PV_FROZENSET:
	case CK_PV_DICT:
	case CK_PV_PERSID: return v->list;
	default: return NULL;
	}
}

/* A call or object of any class; NULL for any other value. */
static inline struct ck_pcall *ck_pv_any_call(const struct ck_pv *v)
{
	return v->tag == CK_PV_CALL || v->tag == CK_PV_NEW ? v->call : NULL;
}

bool ck_pv_is_sequence(const struct ck_pv *v); /* TUPLE, LIST or INTS */
uint32_t ck_pv_count(const struct ck_pv *v);   /* of a sequence, else 0 */
/* i < count. */
struct ck_pv ck_pv_at(const struct ck_pv *v, uint32_t i);

/* The value of a string key of a DICT; of equal keys the last one counts, as in
 * Python. False if the key does not exist. */
static inline bool ck_pv_get(const struct ck_pv *dict, const char *key,
			     struct ck_pv *out)
{
	size_t len = strlen(key);

	if (dict->tag != CK_PV_DICT)
		return false;
	for (uint32_t i = dict->list->count / 2; i > 0 && i--;) {
		const struct ck_pv *k = &dict->list->items[2 * (size_t)i];

		if (k->tag == CK_PV_STR && k->len == len &&
		    memcmp(k->bytes, key, len) == 0) {
			*out = k[1];
			return true;
		}
	}
	return false;
}

/* The call or object whose callable is this global; NULL for any other
 * value. */
const struct ck_pcall *ck_pv_call(const struct ck_pickle *p,
				  const struct ck_pv *v, const char *full_name);

#endif
