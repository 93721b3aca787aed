/* SPDX-License-Identifier: MIT */
/*
 * pickler: writes pickles of protocol 2, value by value, with the opcodes that
 * Python's own pickler chooses; but no object is named a second time. What is
 * written can be a whole pickle or a part of one. One thread at a time.
 */
#ifndef CKPTFS_PICKLER_H
#define CKPTFS_PICKLER_H

#include "ckptfs/base.h"

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
