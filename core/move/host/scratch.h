/* SPDX-License-Identifier: MIT */
/*
 * scratch: memory that a thread keeps from one read to the next.
 */
#ifndef CK_SCRATCH_H
#define CK_SCRATCH_H

#include "ckptfs/move.h"

/* Addresses in one reply; writev(2) takes 1024. */
#define CK_IOV_MOST 500

/* One run of a reply. */
struct ck_span {
	uint64_t dst;
	const uint8_t *p;
	uint64_t len;
};

struct ck_scratch {
	struct ck_plan plan;
	const uint8_t **from; /* for each copy of the plan, its first run */
	uint32_t *where; /* for each file, its place in reply->used if it is
			  * there; else anything */
	struct ck_span spans[CK_IOV_MOST];
	/* private */
	size_t from_cap, where_cap;
	void *buffer; /* of a reply that was released */
	size_t buffer_len;
};

/* This thread's; freed when it ends. NULL when out of memory. */
struct ck_scratch *ck_scratch_get(void);
/* Makes room in `from` and `where`. */
CK_MUST_USE int ck_scratch_reserve(struct ck_scratch *s, size_t ncopies,
				   size_t nfiles);
/* Gives back what was needed for a huge plan: they are rare. */
void ck_scratch_trim(struct ck_scratch *s);

/* A buffer of at least len bytes, any content; NULL when out of memory. It
 * goes back by ck_scratch_keep(), on any thread. */
void *ck_scratch_buffer(struct ck_scratch *s, uint64_t len, size_t *cap);
void ck_scratch_keep(void *buffer, size_t cap);

#endif
