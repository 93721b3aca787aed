/* SPDX-License-Identifier: MIT */
/*
 * dcp_rewrite: writes a new `.metadata` in which some boxes have other
 * locations, from the bytes of the old one (rewrite.c), and verifies it
 * (verify.c). Steps of a commit:
 *
 * 	ck_dcp_rewrite()	writes the new bytes
 * 	ck_dcp_verify_parsed()	parses them: the catalog must have the wanted locations
 * 	ck_dcp_verify_is()	compares them with the old bytes: nothing else may differ
 * 	ck_dcp_known_next()	after the rename: the new bytes are the known ones
 *
 * Used by one thread at a time, that of the commit.
 */
#ifndef CK_DCP_REWRITE_H
#define CK_DCP_REWRITE_H

#include "ckptfs/pickle.h"
#include "dcp.h"
#include "format/rewrite.h"

/* The facts of a `.metadata` that allow to change it without parsing it again: the BUILDs of
 * its locations, and a hash of its bytes. */
struct ck_dcp_known {
	/* Rows of the catalog that are from it; later rows are not. */
	uint32_t nentries, ntensors, nchunks;
	struct ck_dcp_places places;
	uint64_t seed; /* of the hashes */
	uint64_t places_sum;
	uint64_t len, sum;	     /* of its bytes */
	uint64_t next_len, next_sum; /* of the bytes written last */
};

/* Records `bytes`, which were just parsed into the catalog. Takes `places`. */
void ck_dcp_known_make(struct ck_dcp_known *k, const struct ck_catalog *c,
		       struct ck_dcp_places *places, struct ck_str bytes);
/* The bytes that ck_dcp_verify_is() has accepted are the `.metadata` now. */
void ck_dcp_known_next(struct ck_dcp_known *k);
/* Returns 0 if the location of a box can be changed, or: -EOPNOTSUPP if it is not in the
 * `.metadata`, shared with another object or nested too deep. */
CK_MUST_USE int ck_dcp_place_check(const struct ck_catalog *c,
				   const struct ck_dcp_known *k, uint32_t chunk,
				   struct ck_diag *d);
/* Frees the BUILDs. */
void ck_dcp_known_fini(struct ck_dcp_known *k);

/* One change of the bytes: an insertion before a BUILD, which replaces an earlier one. */
struct ck_dcp_edit {
	uint32_t change;    /* index in changes */
	uint32_t build;	    /* number of the BUILD behind the insertion */
	uint32_t cut;	    /* bytes of the earlier insertion, 0 without one */
	bool cut_transform; /* the earlier one had transform_descriptors */
};

/* A request to change locations: a known `.metadata`, its catalog, and the changes,
 * sorted by chunk. */
struct ck_dcp_request {
	const struct ck_catalog *catalog;
	struct ck_dcp_known *known;
	const struct ck_change_of_place *changes;
	uint32_t n;
	/* n, by BUILD; made by ck_dcp_rewrite(), owned */
	struct ck_dcp_edit *edits;
};

/* Frees the edits. */
void ck_dcp_request_fini(struct ck_dcp_request *w);
/* Writes the old bytes with the changes into `out`. Returns 0, or: -ESTALE if `old` has
 * other bytes than the known `.metadata`; -EINVAL if the changes are not sorted; -EIO
 * if `known` was damaged in memory; -EOPNOTSUPP if a change cannot be expressed;
 * -ENOMEM; errors of write(2). */
CK_MUST_USE int ck_dcp_rewrite(struct ck_dcp_request *w, struct ck_str old,
			       int out, struct ck_diag *d);
/* Parses new bytes and compares all entries with the request. Returns 0 if they agree, or:
 * -EIO if they differ; -ENOMEM. */
CK_MUST_USE int ck_dcp_verify_parsed(const struct ck_dcp_request *w,
				     struct ck_str bytes, struct ck_diag *d);
/* Compares new bytes with the old ones plus the changes, by hash. Records them for
 * ck_dcp_known_next(). Returns 0 if they agree, or: -EIO if they differ; -ENOMEM. */
CK_MUST_USE int ck_dcp_verify_is(const struct ck_dcp_request *w,
				 struct ck_str bytes, struct ck_diag *d);

/* The bytes inserted before a BUILD: the keys of one location. */
struct ck_dcp_insertion {
	struct ck_str path;
	uint64_t fpos, length;
	bool transform; /* with transform_descriptors: None */
};

/* Prints an insertion into `out`, which is cleared first. */
void ck_dcp_insertion_make(const struct ck_dcp_insertion *i,
			   struct ck_buf *out);
/* Returns the insertion for the present location of a chunk. */
struct ck_dcp_insertion ck_dcp_insertion_of(const struct ck_catalog *c,
					    uint32_t chunk, bool transform);
/* Returns the insertion of an edit. It sets transform_descriptors to None if the object or the
 * earlier insertion has that field. */
struct ck_dcp_insertion ck_dcp_insertion_new(const struct ck_dcp_request *w,
					     const struct ck_dcp_edit *e);

/* Opcode and length. */
enum { CK_DCP_FRAME_HEADER = 9 };

/* The growth of a pickle by its edits, in order of position. */
struct ck_dcp_growth {
	uint64_t at;   /* position in the old bytes */
	uint64_t more; /* bytes inserted up to here, modulo 2^64 */
};

/* Returns the bytes, modulo 2^64, by which the edits at positions in [begin, end) lengthen the
 * pickle. */
uint64_t ck_dcp_growth_in(const struct ck_dcp_growth *g, size_t n,
			  uint64_t begin, uint64_t end);

#endif
