/* SPDX-License-Identifier: MIT */
/*
 * Interface between the parts of the value writer: pickler_value.c (containers,
 * order), pickler_named.c (memo numbers, names of classes), pickler_leaf.c
 * (values without nested values), pickler_restricted.c (values that torch.load
 * accepts).
 */
#ifndef CK_PICKLER_INTERNAL_H
#define CK_PICKLER_INTERNAL_H

#include "pickle_internal.h"
#include "pickler.h"

/* A value that has a memo number. */
struct ck_numbered {
	const void *at; /* identity of the value; NULL: a free slot */
	uint32_t number;
	uint8_t tag, aux;
};

/* Names that protocol 2 needs for values that have opcodes in later
 * protocols. */
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

/* The pickle being written, and the pickle that its values come from. */
struct ck_written {
	struct ck_pickler *p;
	const struct ck_pickle *from;
	struct ck_diag *d;
	struct ck_numbered *slots; /* hash table, freed by ck_pickler_value() */
	size_t nslots, nnamed;
	uint64_t seed; /* of the hashes */
	/* memo number + 1; 0 if not written yet */
	uint32_t known[CK_KNOWN], latin1;
	uint32_t *globals; /* the same for each of from->nglobals */
};

int ck_written_bad(struct ck_written *w, const char *what);
int ck_written_no_memory(struct ck_written *w);

/* Appends a number; the host is little-endian. */
static inline void ck_put(struct ck_written *w, uint64_t value, unsigned bytes)
{
	ck_buf_add(w->p->out, &value, bytes);
}

static inline void ck_put_op(struct ck_written *w, enum ck_op op)
{
	ck_put(w, op, 1);
}

/* v is on top of the stack: gives it a memo number if it may occur again. */
CK_MUST_USE int ck_name_it(struct ck_written *w, const struct ck_pv *v);
/* The memo entry of a value, or NULL. */
const struct ck_numbered *ck_named_find(const struct ck_written *w,
					const struct ck_pv *v);
/* Gives the top of the stack the next memo number, and returns it. */
uint32_t ck_number_next(struct ck_written *w);
/* Pushes the value with a memo number. */
void ck_number_get(struct ck_written *w, uint32_t number);
void ck_known_write(struct ck_written *w, enum ck_known k);
/* Writes a global. -EBADMSG if protocol 2 cannot name it. */
CK_MUST_USE int ck_global_write(struct ck_written *w, const struct ck_pv *v);

void ck_text_write(struct ck_written *w, const struct ck_pv *v);
/* Writes a value without nested values. -EBADMSG if it is of another kind. */
CK_MUST_USE int ck_leaf_write(struct ck_written *w, const struct ck_pv *v);
/* Returns why the restricted unpickler refuses a value, without its children, a constant
 * text, or NULL. tensors: tensors and storages are accepted. */
const char *ck_restricted_refuses(const struct ck_pickle *from,
				  const struct ck_pv *v, bool tensors);

#endif
