/* SPDX-License-Identifier: MIT */
/*
 * commit_again: a commit, as the catalog sees it, without anything being written: the
 * item of a box lies where it was.
 */
#ifndef CK_COMMIT_AGAIN_H
#define CK_COMMIT_AGAIN_H

#include "ckptfs/format.h"
#include "format/rewrite.h"

#include <stdlib.h>

/* Finds a box of the tensor with an item. False if there is no such box. */
static inline bool place_of(const struct ck_catalog *c, uint32_t tensor,
			    struct ck_change_of_place *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);

	for (uint32_t i = 0; i < t->nchunks; i++) {
		const struct ck_item *item = ck_catalog_item(c, t->chunk + i);

		if (item->file == CK_NO_FILE || item->err)
			continue;
		*out = (struct ck_change_of_place){
			.chunk = t->chunk + i,
			.path = ck_catalog_file(c, item->file)->path,
			.fpos = item->fpos,
			.length = item->length,
		};
		return true;
	}
	return false;
}

/* False: there is nothing to be written again. */
static inline bool commit_again(struct ck_checkpoint *cp, uint32_t tensor)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct stat metadata = ck_checkpoint_metadata(cp);
	struct ck_change_of_place change;
	struct ck_catalog *next;

	if (!place_of(c, tensor, &change))
		return false;
	if (ck_checkpoint_prepare(cp, &change, 1, &next))
		abort();
	ck_checkpoint_switch(cp, next, &metadata, &change, 1);
	return true;
}

#endif
