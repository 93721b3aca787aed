/* SPDX-License-Identifier: MIT */
/*
 * pickler: writes pickles of protocol 2, value by value, with opcodes that
 * Python's own pickler uses; an object is named a second time only in a value
 * that was read from another pickle. What is written can be a whole pickle or a part
 * of one. One thread at a time.
 */
#ifndef CKPTFS_PICKLER_H
#define CKPTFS_PICKLER_H

#include "ckptfs/pickle.h"

struct ck_pickler {
	struct ck_buf *out; /* borrowed; appended to, and has the error */
	bool memoize;	    /* a PUT follows each object, as Python writes it */
	uint32_t memo;	    /* index of the next one */
};

/* Protocol 2; first in a whole pickle. */
void ck_pickler_begin(struct ck_pickler *p);
/* The value on the stack is the pickle's. */
void ck_pickler_end(struct ck_pickler *p);

/* --- values ----------------------------------------------------------------- */

void ck_pickler_none(struct ck_pickler *p);
void ck_pickler_bool(struct ck_pickler *p, bool value);
/* At most INT64_MAX; in the shortest form. */
void ck_pickler_int(struct ck_pickler *p, uint64_t value);
/* The same in 5 bytes if it is at most INT32_MAX, and in 10 if not, as Python
 * does not write it. */
void ck_pickler_int_wide(struct ck_pickler *p, uint64_t value);
/* UTF-8, shorter than 4 GiB. */
void ck_pickler_text(struct ck_pickler *p, struct ck_str s);
/* A class or function; neither has a newline. */
void ck_pickler_global(struct ck_pickler *p, const char *module,
		       const char *name);
/* A tuple of n ints, each at most INT64_MAX, in the shortest form. */
void ck_pickler_ints(struct ck_pickler *p, uint32_t n, const uint64_t *ints);

/* --- values that were read ----------------------------------------------------- */

/* What the storages of such a value are called in the pickle that is written. */
struct ck_storage_names {
	void *arg;
	/* *key, the one that was read, becomes another one, which is good until the
	 * next call. Errors are passed on. */
	int (*name)(void *arg, struct ck_str *key, struct ck_diag *d);
};

/* v of the pickle `from`, which may be the root or any value below it: read again it
 * is the same value. The memo goes on at p->memo, whatever p->memoize says. storages:
 * NULL: they keep their names. Sets and bytes are calls then, so some that were not
 * nested too deep to be read are now. Who writes many values of one pickle, which may all
 * have the same in them, bounds what comes of all. -EBADMSG: p->out would have more than
 * `most` bytes, or it is nested too deep, has a persistent id of no storage, a value that a
 * hook took, an object whose state a call has set, or a name that protocol 2 does not
 * have; -ENOMEM. After an error p->out has a part of it. */
CK_MUST_USE int ck_pickler_value(struct ck_pickler *p,
				 const struct ck_pickle *from,
				 const struct ck_pv *v,
				 const struct ck_storage_names *storages,
				 size_t most, struct ck_diag *d);

/* --- of the values on the stack ----------------------------------------------- */

void ck_pickler_mark(struct ck_pickler *p);
/* A tuple of those above the mark. */
void ck_pickler_tuple(struct ck_pickler *p);
/* Those above the mark, key and value in turn, into the dict below it. */
void ck_pickler_set_items(struct ck_pickler *p);
/* callable and tuple: what the call returns. */
void ck_pickler_reduce(struct ck_pickler *p);
/* The object with that persistent id. */
void ck_pickler_persid(struct ck_pickler *p);

#endif
