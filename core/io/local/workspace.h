/* SPDX-License-Identifier: MIT */
/*
 * workspace: memory that a thread keeps from one read or write to the next. It is
 * the movers' own: nobody who calls them is ever given a part of it, or what he
 * hands them could be overwritten while they work on it.
 */
#ifndef CK_WORKSPACE_H
#define CK_WORKSPACE_H

#include "ckptfs/memory.h"
#include "ckptfs/move.h"

struct ck_workspace {
	struct ck_plan plan;
	const uint8_t **from; /* for each copy of the plan, its first run */
	struct ck_file *used; /* files open in this read */
	size_t nused;
	uint32_t *where; /* for each file, its place in `used` if it is there;
			  * else anything */
	size_t used_cap, from_cap, where_cap;
	struct ck_pages filled; /* what is put together before it is written */
	uint8_t *block;		/* a piece of a file that is not mapped */
};

/* This thread's; freed when it ends. NULL when out of memory. */
struct ck_workspace *ck_workspace_get(void);
/* Makes room in `from` and `where`. */
CK_MUST_USE int ck_workspace_reserve(struct ck_workspace *s, size_t ncopies,
				     size_t nfiles);
/* `block`, CK_LOAD_BLOCK bytes of any content. NULL when out of memory. */
uint8_t *ck_workspace_block(struct ck_workspace *s);
/* Gives back what was needed for a huge plan: they are rare. */
void ck_workspace_trim(struct ck_workspace *s);

#endif
