/* SPDX-License-Identifier: MIT */
/*
 * dcp_rewrite: a `.metadata` with other places for some boxes, made of the
 * bytes of the old one (rewrite.c), and the proof that it is that and
 * nothing else (verify.c).
 */
#ifndef CK_FORMAT_DCP_REWRITE_H
#define CK_FORMAT_DCP_REWRITE_H

#include "ckptfs/pickle.h"
#include "ckptfs/rewrite.h"
#include "dcp.h"

/* What is remembered of a `.metadata`, so that changing it needs no second
 * parsing: which BUILDs its places are at, and which bytes it has. */
struct ck_dcp_known {
	/* What it has of each; the catalog may have more behind that. */
	uint32_t nentries, ntensors, nchunks;
	struct ck_dcp_places places;
	uint64_t seed; /* of the sums */
	uint64_t places_sum;
	uint64_t len, sum;	     /* of the bytes */
	uint64_t next_len, next_sum; /* of those that were written last */
};

/* Of bytes that were just parsed into the catalog, with their places, which it
 * takes. */
void ck_dcp_known_make(struct ck_dcp_known *k, const struct ck_catalog *c,
		       struct ck_dcp_places *places, struct ck_str bytes);
/* What was written last is the `.metadata` now. */
void ck_dcp_known_next(struct ck_dcp_known *k);
/* Can this box have another place? -EOPNOTSUPP. */
CK_MUST_USE int ck_dcp_place_check(const struct ck_catalog *c,
				   const struct ck_dcp_known *k, uint32_t chunk,
				   struct ck_diag *d);
void ck_dcp_known_fini(struct ck_dcp_known *k);

/* One change: where, and what was there before. */
struct ck_dcp_edit {
	uint32_t change;    /* index in changes */
	uint32_t build;	    /* number of the BUILD it is before */
	uint32_t cut;	    /* bytes of an earlier insertion there */
	bool cut_transform; /* which had transform_descriptors */
};

/* What is wanted: a known `.metadata`, what the catalog made of it says, and
 * the changes, sorted by chunk. */
struct ck_dcp_wish {
	const struct ck_catalog *catalog;
	struct ck_dcp_known *known;
	const struct ck_change_of_place *changes;
	uint32_t n;
	struct ck_dcp_edit *edits; /* n; made by ck_dcp_rewrite(), owned */
};

void ck_dcp_wish_fini(struct ck_dcp_wish *w);
/* Writes the old bytes with the changes into out. -ESTALE: these are not the
 * bytes that are known; else as ck_metadata_write(). */
CK_MUST_USE int ck_dcp_rewrite(struct ck_dcp_wish *w, struct ck_str old,
			       int out, struct ck_diag *d);
/* Do the bytes say what is wanted? All of them are parsed again. -EIO: they
 * do not. */
CK_MUST_USE int ck_dcp_verify_says(const struct ck_dcp_wish *w,
				   struct ck_str bytes, struct ck_diag *d);
/* Are they the old ones with the changes? Remembers them as the last ones
 * written. -EIO: they are not. */
CK_MUST_USE int ck_dcp_verify_is(const struct ck_dcp_wish *w,
				 struct ck_str bytes, struct ck_diag *d);

/* What is put before a BUILD: the keys of one place. */
struct ck_dcp_insertion {
	struct ck_str path;
	uint64_t fpos, length;
	bool transform; /* with transform_descriptors: None */
};

/* out is cleared before. */
void ck_dcp_insertion_make(const struct ck_dcp_insertion *i,
			   struct ck_buf *out);
/* The one that says where this chunk lies now. */
struct ck_dcp_insertion ck_dcp_insertion_of(const struct ck_catalog *c,
					    uint32_t chunk, bool transform);
/* The one that an edit puts there. What is or hides a transform there is
 * hidden. */
struct ck_dcp_insertion ck_dcp_insertion_new(const struct ck_dcp_wish *w,
					     const struct ck_dcp_edit *e);

/* Opcode and length. */
enum { CK_DCP_FRAME_HEADER = 9 };

/* A pickle changed at some positions, in order: so many bytes more there, or
 * less (modulo 2^64). */
struct ck_dcp_growth {
	uint64_t at;
	uint64_t more; /* here and before */
};

/* By how much what begins in [begin, end) grows. */
uint64_t ck_dcp_growth_in(const struct ck_dcp_growth *g, size_t n,
			  uint64_t begin, uint64_t end);

#endif
