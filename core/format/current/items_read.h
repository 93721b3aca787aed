/* SPDX-License-Identifier: MIT */
/*
 * items_read: which items of a checkpoint were read, and whether those of objects have
 * faults. `status` shows how many items were read. After a change of the ctime of a file
 * the items in it count as unread. Layouts and the locating of boxes
 * both write here, and neither needs the other for it.
 */
#ifndef CK_ITEMS_READ_H
#define CK_ITEMS_READ_H

#include "ckptfs/format.h"

struct ck_items_read;

/* NULL if memory is short. */
struct ck_items_read *ck_items_read_make(const struct ck_catalog *c);
void ck_items_read_free(struct ck_items_read *r); /* NULL is allowed */
/* Records that the header of the item of a box was read. Any thread. */
void ck_items_read_box(struct ck_checkpoint *cp, uint32_t chunk);
/* Records the result of reading the item of an object: 0 or a negative errno. Errors that
 * are not lasting are ignored. Any thread. */
void ck_items_read_object(struct ck_checkpoint *cp, uint32_t object, int rc);
/* The ctime of a data file changed after change number `since`, see ck_files_touches().
 * Any thread. */
CK_MUST_USE bool ck_file_is_touched(const struct ck_checkpoint *cp,
				    uint32_t file, uint64_t since);
/* True if an error describes the checkpoint, so that a second attempt fails in the same
 * way; false if it describes this process or this moment. */
CK_MUST_USE bool ck_is_lasting(int rc);

#endif
