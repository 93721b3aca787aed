/* SPDX-License-Identifier: MIT */
/* What the parts share: replicas.c (copies, and what is said), pieces.c (pieces of parameters). */
#ifndef CK_REPLICAS_INTERNAL_H
#define CK_REPLICAS_INTERNAL_H

#include "ckptfs/move.h"
#include "ckptfs/replicas.h"

enum { CK_SIDE_BYTES = 1 << 20 };

/* A box as it is read. */
struct ck_side {
	struct ck_locator locator; /* first: the locator is the side */
	struct ck_checkpoint *cp;
	const struct ck_catalog *c;
	struct ck_open_slice *opened;
	uint8_t *bytes; /* CK_SIDE_BYTES */
};

/* What is compared, and data files of those that differ. */
struct ck_comparing {
	struct ck_checkpoint *cp;
	const struct ck_catalog *c;
	const struct ck_stop *stop; /* or NULL */
	struct ck_route *route;	    /* to files on other hosts; or NULL */
	struct ck_side shown, other;
	uint32_t *files;
	size_t n, cap;
};

/* box: of that tensor, of so many bytes. To be closed in any case. */
CK_MUST_USE int ck_side_open(struct ck_side *s, uint32_t tensor,
			     const int64_t *box, uint64_t bytes);
void ck_side_close(struct ck_side *s);
/* What is open of both. 1: they differ; 0: they do not, or the other cannot be read. */
CK_MUST_USE int ck_bytes_compare(struct ck_comparing *k, uint64_t bytes);
CK_MUST_USE int ck_differing_add(struct ck_comparing *k, uint32_t file);

/* The piece that an entry is of a parameter; NULL: it is none. */
const struct ck_tensor *ck_piece_at(const struct ck_catalog *c,
				    const struct ck_tensor *t,
				    const struct ck_same_name *same);
/* Is a piece what the sidecar makes of the flat parameter in its file? */
CK_MUST_USE int ck_piece_compare(struct ck_comparing *k,
				 const struct ck_tensor *t,
				 const struct ck_tensor *piece);

#endif
