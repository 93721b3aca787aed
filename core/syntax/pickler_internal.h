/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the writer of values share: pickler_value.c (containers, order),
 * pickler_named.c (numbers of the memo, names of classes), pickler_leaf.c (values
 * without values inside).
 */
#ifndef CK_SYNTAX_PICKLER_INTERNAL_H
#define CK_SYNTAX_PICKLER_INTERNAL_H

#include "ckptfs/pickler.h"
#include "pickle_internal.h"

/* What has a number by now. */
struct ck_numbered {
	const void
		*at; /* what is the same when the value is; NULL: a free slot */
	uint32_t number;
	uint8_t tag, aux;
};

/* Names that protocol 2 needs for what has opcodes of its own later. */
enum ck_known {
	CK_KNOWN_SET,
	CK_KNOWN_FROZENSET,
	CK_KNOWN_BYTES,
	CK_KNOWN_ENCODE,
	CK_KNOWN_BYTEARRAY,
	CK_KNOWN_SIZE,
	CK_KNOWN_GETATTR,
	CK_KNOWN_NEWOBJ_EX,
	CK_KNOWN_RECONSTRUCTOR,
	CK_KNOWN_OBJECT,
	CK_KNOWN
};

/* A pickle that is written, and another whose values it gets. */
struct ck_written {
	struct ck_pickler *p;
	const struct ck_pickle *from;
	struct ck_diag *d;
	struct ck_numbered *slots; /* hash table, freed by whoever began */
	size_t nslots, nnamed;
	uint64_t seed; /* of the hashes */
	/* number + 1; 0: none yet */
	uint32_t known[CK_KNOWN], latin1;
	uint32_t *globals; /* of from->nglobals, the same */
};

int ck_written_bad(struct ck_written *w, const char *what);
int ck_written_no_memory(struct ck_written *w);

/* Little-endian, as this machine has it. */
static inline void ck_put(struct ck_written *w, uint64_t value, unsigned bytes)
{
	ck_buf_add(w->p->out, &value, bytes);
}

static inline void ck_put_op(struct ck_written *w, enum ck_op op)
{
	ck_put(w, op, 1);
}

/* What lies on the stack now is v: it gets a number, if it may come again. */
CK_MUST_USE int ck_name_it(struct ck_written *w, const struct ck_pv *v);
/* NULL: it has none. */
const struct ck_numbered *ck_named_find(const struct ck_written *w,
					const struct ck_pv *v);
/* Gives what lies on the stack the next number. */
uint32_t ck_number_next(struct ck_written *w);
/* What has that number, on the stack. */
void ck_number_get(struct ck_written *w, uint32_t number);
void ck_known_write(struct ck_written *w, enum ck_known k);
/* -EBADMSG: protocol 2 has no name for it. */
CK_MUST_USE int ck_global_write(struct ck_written *w, const struct ck_pv *v);

void ck_int_write(struct ck_written *w, int64_t i);
void ck_text_write(struct ck_written *w, const struct ck_pv *v);
/* Any value without values inside; -EBADMSG: it is none. */
CK_MUST_USE int ck_leaf_write(struct ck_written *w, const struct ck_pv *v);

#endif
