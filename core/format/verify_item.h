/* SPDX-License-Identifier: MIT */
/* verify_item: verifies one item, for check.c and object faults. Stateless; any thread. */
#ifndef CK_VERIFY_ITEM_H
#define CK_VERIFY_ITEM_H

#include "ckptfs/format.h"

/* An item to verify, and where its faults go. */
struct ck_item_check {
	const struct ck_catalog *catalog; /* the owner of the next two */
	const struct ck_item *item;
	const struct ck_tensor *tensor; /* NULL if the item is of an object */
	uint32_t box;	      /* box of the tensor; or number of the object */
	struct ck_str pickle; /* of an object with CK_FORM_VALUE */
	void *buffer;	      /* for bytes; NULL: only headers are verified */
	size_t buffer_len;    /* bytes */
	/* Called for each fault; fpos: offset of the fault in the file. */
	void (*fault)(void *ctx, uint64_t fpos, const struct ck_diag *d);
	void *ctx;
};

/* Verifies an item against its box, and with check->buffer its bytes against
 * their sums. Faults of the checkpoint go to check->fault, also if the file
 * cannot be read. Returns 0, or: -EREMOTE if remote ranges must be fetched
 * first; -ENOMEM, -EMFILE and other shortages of this process. */
CK_MUST_USE int ck_item_verify(struct ck_checkpoint *cp,
			       const struct ck_item_check *check);

#endif
