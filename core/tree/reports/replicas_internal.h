/* SPDX-License-Identifier: MIT */
/* replicas_internal: comparison of two boxes (side.c), shared by replicas.c (replicas, reports),
 * pieces.c (pieces of parameters) and sample.c (samples). */
#ifndef CK_REPLICAS_INTERNAL_H
#define CK_REPLICAS_INTERNAL_H

#include "ckptfs/io.h"
#include "replicas.h"
#include "values/element_reader.h"

enum { CK_SIDE_BYTES = 1 << 20 };

/* One of two boxes that are compared. */
struct ck_side {
	struct ck_element_reader reader;
	uint8_t *bytes; /* CK_SIDE_BYTES */
};

/* A comparison, and the data files with differences. */
struct ck_comparing {
	struct ck_checkpoint *cp;
	const struct ck_catalog *c;
	const struct ck_stop *stop; /* or NULL */
	struct ck_route *route;	    /* to files on other hosts; or NULL */
	struct ck_side shown, other;
	uint32_t *files;
	size_t n, cap;
};

/* Opens a box of `bytes` bytes of a tensor. Returns 0 or a negative errno. Caller calls
 * ck_side_close() in any case. */
CK_MUST_USE int ck_side_open(struct ck_side *s, uint32_t tensor,
			     const int64_t *box, uint64_t bytes);
void ck_side_close(struct ck_side *s);
/* Compares the open boxes. Returns 1 if they differ; 0 if they are equal or `other` cannot
 * be read; or a negative errno. */
CK_MUST_USE int ck_bytes_compare(struct ck_comparing *k, uint64_t bytes);
/* True if the comparison was cancelled. */
bool ck_is_stopped(const struct ck_comparing *k);
CK_MUST_USE int ck_differing_add(struct ck_comparing *k, uint32_t file);

/* The copy that an entry is; NULL if it is another kind of entry. */
const struct ck_tensor *ck_copy_at(const struct ck_catalog *c,
				   const struct ck_same_name *same);
/* The piece of a parameter that an entry is; NULL if it is another kind of entry. */
const struct ck_tensor *ck_piece_at(const struct ck_catalog *c,
				    const struct ck_tensor *t,
				    const struct ck_same_name *same);
/* Compares a piece with the part of the flat parameter that the sidecar assigns to it.
 * Adds its file to k->files if they differ, also in size or dtype. Returns 0 or a negative
 * errno. */
CK_MUST_USE int ck_piece_compare(struct ck_comparing *k,
				 const struct ck_tensor *t,
				 const struct ck_tensor *piece);

#endif
