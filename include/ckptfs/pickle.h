/* SPDX-License-Identifier: MIT */
/*
 * pickle: protocols 0 to 5 read as data. Nothing is imported or called; what
 * a pickle would call becomes a value that says so.
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
	CK_PV_EXT,    /* made by a hook; aux and i are the hook's */
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
	};
};

/* Children of a container. */
struct ck_plist {
	struct ck_pv *items;
	uint32_t count;
	uint32_t cap;
	uint16_t depth;	 /* of the containers below, this one included */
	uint8_t shared;	 /* may be reached from more than one place */
	uint8_t on_heap; /* items are malloc'ed, for they grow large */
};

/* callable(*args), then what was appended, set and BUILT. */
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
	/* It was an argument of a call whose result was dropped: as of a function that
	 * sets its state. */
	bool touched;
	struct ck_pv collapsed; /* tag EXT once a hook took it, else NONE */
};

struct ck_pickle;

/* Lets the reader of a format take known objects as they complete, so that
 * a large pickle leaves no tree behind. */
struct ck_pickle_hooks {
	void *ctx;
	bool no_persids; /* persistent ids are malformed here */
	/* Those of storages have six parts, as torch.save wrote them before 1.6. */
	bool old_persids;
	/* A persistent id is complete. 1: *out stands in its place, 0: it stays;
	 * or a negative errno. NULL: all stay. */
	int (*persid)(void *ctx, struct ck_pickle *p, const struct ck_pv *id,
		      struct ck_pv *out, struct ck_diag *d);
	/* A BUILD of `call` with `state` is about to be recorded. What the
	 * hook keeps, and looks at, it pays for by ck_pickle_spend(): one
	 * state may come back any number of times. Returns 1
	 * and sets *out (tag EXT) to replace the object, 0 to leave it, or a
	 * negative errno. The children of state may not be kept. NULL: all are
	 * left. */
	int (*build)(void *ctx, struct ck_pickle *p,
		     const struct ck_pcall *call, const struct ck_pv *state,
		     struct ck_pv *out, struct ck_diag *d);
};

/* Bytes that the smallest pickle may take. */
#define CK_PICKLE_BASE (UINT64_C(64) << 20)

struct ck_pickle {
	struct ck_pv root;
	uint64_t end; /* bytes of input used, STOP included */
	bool old_persids;
	bool dangerous; /* it was refused, and nobody is to read it */
	/* while a hook runs */
	uint64_t builds; /* this BUILD's number, the first one's is 1 */
	bool full;	 /* as many MARKs are open as may be */
	/* private */
	uint64_t budget; /* bytes that may still be allocated */
	struct ck_arena arena;
	struct ck_pglobal *globals;
	uint32_t nglobals;
	uint32_t globals_cap;
	struct ck_plist **heap_lists; /* those with on_heap */
	uint32_t nheap_lists, heap_lists_cap;
};

/* Reads one pickle at the start of bytes, which must outlive p. Anything that
 * is no pickle, or asks for what torch never writes (extension registry,
 * out-of-band buffers, text persistent ids), is -EBADMSG; a dangerous global
 * is too and is named. hooks may be NULL. */
CK_MUST_USE int ck_pickle_read(struct ck_pickle *p, const void *bytes,
			       size_t len, const struct ck_pickle_hooks *hooks,
			       struct ck_diag *d);
void ck_pickle_fini(struct ck_pickle *p);
/* How long the pickle is that these bytes begin with; interprets nothing. -ENODATA: longer
 * than they are; -EBADMSG: it is none. */
CK_MUST_USE int ck_pickle_length(const void *bytes, size_t len, uint64_t *out);

/* Takes from the memory that the input is worth; false if that is spent. */
CK_MUST_USE static inline bool ck_pickle_spend(struct ck_pickle *p,
					       uint64_t bytes)
{
	if (bytes > p->budget)
		return false;
	p->budget -= bytes;
	return true;
}

/* Once a pickle of len bytes was read: from now on it may take what `size` bytes are worth by
 * themselves, so that many small pickles together are not worth CK_PICKLE_BASE each. Gives
 * what it has taken beyond that. */
CK_MUST_USE uint64_t ck_pickle_settle(struct ck_pickle *p, uint64_t len,
				      uint64_t size);
/* It may take so many bytes more; and what is left of them, its own being taken first. */
void ck_pickle_lend(struct ck_pickle *p, uint64_t bytes);
CK_MUST_USE uint64_t ck_pickle_take_back(struct ck_pickle *p, uint64_t bytes);
/* Half of that is left, of an input of len bytes. */
bool ck_pickle_is_roomy(const struct ck_pickle *p, size_t len);
/* Bytes that it holds. */
uint64_t ck_pickle_memory(const struct ck_pickle *p);

/* --- where opcodes are ----------------------------------------------------- */

struct ck_pickle_build {
	uint32_t number; /* which one is wanted; the first has 1 */
	uint64_t at;	 /* position of the opcode */
	uint64_t mark;	 /* of the last MARK before it; at: there is none */
};

struct ck_pickle_frame {
	uint64_t at; /* position of the opcode */
	uint64_t len;
};

struct ck_pickle_frames {
	struct ck_pickle_frame *rows; /* owned; in order */
	size_t n, cap;
};

/* Steps from opcode to opcode of one pickle that fills all the bytes, and
 * interprets nothing: finds n BUILDs (sorted by number, each once) and all
 * frames, which are the caller's also after an error. -EBADMSG: malformed, or
 * there is no such BUILD; -ENOMEM. */
CK_MUST_USE int ck_pickle_walk(struct ck_str bytes,
			       struct ck_pickle_build *builds, size_t n,
			       struct ck_pickle_frames *frames,
			       struct ck_diag *d);

/* --- reading values ------------------------------------------------------- */

/* "module.name" in Python 3 spelling; valid as long as p. */
struct ck_str ck_pickle_global(const struct ck_pickle *p,
			       const struct ck_pv *v);
/* Is v the global with this full name? */
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

/* The value of a string key of a DICT, of equal keys the last one's, as in
 * Python; false if there is none. */
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

/* Call or object whose callable is that global; NULL otherwise. */
const struct ck_pcall *ck_pv_call(const struct ck_pickle *p,
				  const struct ck_pv *v, const char *full_name);

#endif
