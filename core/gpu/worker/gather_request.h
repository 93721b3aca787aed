/* SPDX-License-Identifier: MIT */
/*
 * gather_request: a gather request for a slot, copied from the memory shared
 * with the mount and validated. The mount may write to that memory at any time,
 * so only the copy is used. One thread.
 */
#ifndef CK_GATHER_REQUEST_H
#define CK_GATHER_REQUEST_H

#include "gpurounds.h"
#include "gpuwire.h"

/* A request with copies of its descriptors and transfer list. */
struct ck_gather_request {
	struct ck_gpu_work work; /* first */
	/* allocation for the result; 0 if it goes to the slot */
	uint32_t memory;
	uint32_t use; /* of its slot */
	bool in_flight;
	struct ck_gather_desc *copies;
	struct ck_loop *loops;
	/* if some bytes arrive by a round */
	struct ck_gpurounds_request request;
};

/* Copies and validates the request in a slot of `memory`. False if it is
 * invalid, or if out of memory. ck_gather_request_clear() is due in both
 * cases. */
CK_MUST_USE bool ck_gather_request_take(uint8_t *memory,
					const struct ck_gpu_message *m,
					struct ck_gather_request *j);
/* Frees the copies. */
void ck_gather_request_clear(struct ck_gather_request *j);

#endif
