/* SPDX-License-Identifier: MIT */
/*
 * workspace: memory that a thread keeps from one read or write to the next, so that
 * it costs no system call and no page faults. Private to core/io: it must never be
 * the source or the destination that a caller passes.
 */
#ifndef CK_WORKSPACE_H
#define CK_WORKSPACE_H

#include "ckptfs/io.h"
#include "ckptfs/memory.h"

struct ck_workspace {
	struct ck_plan plan;
	const uint8_t **from; /* for each plan op its first run, or NULL */
	struct ck_file *used; /* files open in this read */
	size_t nused;
	/* for each file its index in `used`; undefined if it is not in use */
	uint32_t *where;
	size_t used_cap, from_cap, where_cap;
	struct ck_pages filled; /* bytes that are written at once */
	uint8_t *block;		/* scratch memory of ck_load_copy() */
};

/* Workspace of the calling thread, freed when the thread ends. NULL if out of memory. */
struct ck_workspace *ck_workspace_get(void);
/* Grows `from` and `where`. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_workspace_reserve(struct ck_workspace *s, size_t ncopies,
				     size_t nfiles);
/* Allocates `block` if needed: CK_LOAD_BLOCK bytes. NULL if out of memory. */
uint8_t *ck_workspace_block(struct ck_workspace *s);
/* Frees the memory of a huge plan: they are rare. */
void ck_workspace_trim(struct ck_workspace *s);

#endif
