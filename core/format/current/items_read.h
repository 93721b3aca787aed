/* SPDX-License-Identifier: MIT */
/*
 * items_read: records which items of a checkpoint were read, and whether those of objects
 * have faults. `status` shows the number of items that were read. After a change of the ctime
 * of a file, the items in it count as unread. Any thread may call the functions.
 */
#ifndef CK_ITEMS_READ_H
#define CK_ITEMS_READ_H

#include "ckptfs/format.h"

struct ck_items_read;

/* Makes the record, with all items of the catalog unread. NULL if memory is short. */
struct ck_items_read *ck_items_read_make(const struct ck_catalog *c);
void ck_items_read_free(struct ck_items_read *r); /* NULL is allowed */
/* Records that the header of the item of a box was read. */
void ck_items_read_box(struct ck_checkpoint *cp, uint32_t chunk);
/* Records the result of reading the item of an object: 0 or a negative errno. Transient errors
 * are ignored. */
void ck_items_read_object(struct ck_checkpoint *cp, uint32_t object, int rc);
/* True if the ctime of a data file changed after change number `since`, see
 * ck_files_touches(). */
CK_MUST_USE bool ck_file_is_touched(const struct ck_checkpoint *cp,
				    uint32_t file, uint64_t since);
/* True if an error is a permanent one of the checkpoint: EIO, EBADMSG or ENODATA. False for
 * transient errors and shortages of this process. */
CK_MUST_USE bool ck_is_lasting(int rc);

#endif
