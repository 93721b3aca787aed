/* SPDX-License-Identifier: MIT */
/*
 * gather_request: what a mover of GPUs is told to do with a slot, copied from memory that the mount
 * may write to meanwhile, and checked.
 */
#ifndef CK_GATHER_REQUEST_H
#define CK_GATHER_REQUEST_H

#include "gpurounds.h"
#include "gpuwire.h"

/* The work of a slot, with what it is told: of its own, for the mount might change it. */
struct ck_gather_request {
	struct ck_gpu_work work; /* first */
	uint32_t memory;	 /* that it goes to; 0: none */
	uint32_t use;		 /* of its slot */
	bool on_way;
	struct ck_gather_desc *copies;
	struct ck_loop *loops;
	struct ck_gpurounds_wish wish; /* if some of it comes by a round */
};

/* From that slot of the memory. False: it cannot be, or there is no memory for it; it is to
 * be cleared all the same. */
CK_MUST_USE bool ck_gather_request_take(uint8_t *memory,
					const struct ck_gpu_message *m,
					struct ck_gather_request *j);
void ck_gather_request_clear(struct ck_gather_request *j);

#endif
