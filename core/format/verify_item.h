/* SPDX-License-Identifier: MIT */
/* verify_item: verifies one item, for check.c and object faults. */
#ifndef CK_VERIFY_ITEM_H
#define CK_VERIFY_ITEM_H

#include "ckptfs/format.h"

/* What to verify. */
struct ck_look {
	const struct ck_catalog *catalog; /* the owner of the next two */
	const struct ck_item *item;
	const struct ck_tensor *tensor; /* NULL if the item is of an object */
	uint32_t box;	      /* of the tensor; or the number of the object */
	struct ck_str pickle; /* of a CK_FORM_VALUE */
	void *buffer; /* to read bytes into; NULL: headers only are read */
	size_t buffer_len;
	/* Receives each fault; fpos: its byte of the file. */
	void (*fault)(void *ctx, uint64_t fpos, const struct ck_diag *d);
	void *ctx;
};

/* Verifies an item against its box, and with look->buffer its bytes against their sums.
 * Faults of the checkpoint go to look->fault. Returns 0, or a shortage of this
 * process. */
CK_MUST_USE int ck_look_at_item(struct ck_checkpoint *cp,
				const struct ck_look *look);

#endif
