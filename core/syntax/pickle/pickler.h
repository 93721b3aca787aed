/* SPDX-License-Identifier: MIT */
/*
 * pickler: writes pickles of protocol 2, value by value, with the opcodes of
 * Python's own pickler. Memo references occur only in values that were read
 * from another pickle. The output is a whole pickle or a part of one. One
 * thread at a time.
 */
#ifndef CKPTFS_PICKLER_H
#define CKPTFS_PICKLER_H

#include "ckptfs/pickle.h"

struct ck_pickler {
	struct ck_buf *out; /* borrowed; appended to, and has the error */
	bool memoize;	    /* write a PUT after each object, as Python does */
	uint32_t memo;	    /* index of the next PUT */
	/* Refuse values that torch.load(weights_only=True) refuses by default, and without
	 * `tensors` all tensors; their arguments are not checked. After -EBADMSG `refused`
	 * is the reason, a constant text, or NULL. */
	bool restricted, tensors;
	const char *refused;
};

/* Begins a whole pickle: writes the protocol. */
void ck_pickler_begin(struct ck_pickler *p);
/* Ends a whole pickle, whose value is on the stack. */
void ck_pickler_end(struct ck_pickler *p);

/* --- values ----------------------------------------------------------------- */

void ck_pickler_none(struct ck_pickler *p);
void ck_pickler_bool(struct ck_pickler *p, bool value);
void ck_pickler_float(struct ck_pickler *p, double value);
/* Any int64_t; in the shortest form. */
void ck_pickler_signed(struct ck_pickler *p, int64_t value);
/* At most INT64_MAX; in the shortest form. */
void ck_pickler_int(struct ck_pickler *p, uint64_t value);
/* The same in a fixed length, which Python does not write: 5 bytes up to
 * INT32_MAX, and 10 bytes above. */
void ck_pickler_int_wide(struct ck_pickler *p, uint64_t value);
/* UTF-8, shorter than 4 GiB. */
void ck_pickler_text(struct ck_pickler *p, struct ck_str s);
/* A class or function; neither has a newline. */
void ck_pickler_global(struct ck_pickler *p, const char *module,
		       const char *name);
/* A tuple of n ints, each at most INT64_MAX, in the shortest form. */
void ck_pickler_ints(struct ck_pickler *p, uint32_t n, const uint64_t *ints);

void ck_pickler_dict(struct ck_pickler *p); /* an empty dict */
void ck_pickler_list(struct ck_pickler *p); /* an empty list */
/* torch.Size of n ints; the class has memo index `cls`. */
void ck_pickler_size(struct ck_pickler *p, uint32_t cls, uint32_t n,
		     const uint64_t *ints);

/* --- the memo, without p->memoize --------------------------------------------------- */

/* Gives the top of the stack a memo index. */
void ck_pickler_put(struct ck_pickler *p, uint32_t memo);
/* Pushes the value with a memo index. */
void ck_pickler_get(struct ck_pickler *p, uint32_t memo);
/* Removes the top of the stack, which may keep its memo index. */
void ck_pickler_pop(struct ck_pickler *p);

/* --- values that were read ----------------------------------------------------- */

/* Maps keys of storages to keys in the pickle being written. */
struct ck_storage_names {
	void *arg;
	/* Replaces *key, which is valid until the next call. ck_pickler_value()
	 * returns an error of this function. */
	int (*name)(void *arg, struct ck_str *key, struct ck_diag *d);
};

/* Writes v, the root of the pickle `from` or any value below it, so that it
 * reads as the same value. Memo indices begin at p->memo, with and without
 * p->memoize. storages: NULL keeps all keys. A caller that writes several
 * values of one pickle must bound their total length, because they may contain
 * the same values.
 *
 * Returns 0, -ENOMEM, an error of storages->name(), or -EBADMSG if p->out would
 * have more than `most` bytes, or v is nested too deep (sets and bytes, as
 * calls, are deeper than in the input), or has a persistent id that is not of a
 * storage, a value that a hook took, an object whose state was set by a call,
 * a name that protocol 2 cannot spell, or a value that p->restricted refuses. After
 * an error, p->out has a part of v. */
CK_MUST_USE int ck_pickler_value(struct ck_pickler *p,
				 const struct ck_pickle *from,
				 const struct ck_pv *v,
				 const struct ck_storage_names *storages,
				 size_t most, struct ck_diag *d);

/* --- operations on the stack -------------------------------------------------- */

void ck_pickler_mark(struct ck_pickler *p);
/* Replaces the values above the mark by a tuple of them. */
void ck_pickler_tuple(struct ck_pickler *p);
/* Adds the values above the mark, alternating keys and values, to the dict
 * below it. */
void ck_pickler_set_items(struct ck_pickler *p);
/* Appends the values above the mark to the list below it. */
void ck_pickler_append_items(struct ck_pickler *p);
/* Replaces a class by a new object of it, without a call of its __init__. */
void ck_pickler_object(struct ck_pickler *p);
/* Sets the state on top of the stack of the object below it. */
void ck_pickler_build(struct ck_pickler *p);
/* Replaces a callable and a tuple of arguments by the result of the call. */
void ck_pickler_reduce(struct ck_pickler *p);
/* Replaces a persistent id by its object. */
void ck_pickler_persid(struct ck_pickler *p);

#endif
