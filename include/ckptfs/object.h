/* SPDX-License-Identifier: MIT */
/*
 * object: the files of entries that are no tensors: objects/<stem>.json is the value
 * as JSON, objects/<stem>.pt the item that torch.load opens. What lies in a data file
 * as it is shown is read from there; what does not is made when it is asked for, and
 * an open file keeps what it was opened with. A part of tree. Any thread.
 */
#ifndef CKPTFS_OBJECT_H
#define CKPTFS_OBJECT_H

#include "ckptfs/format.h"
#include "ckptfs/move.h"
#include "ckptfs/slice.h"

enum { CK_OBJECT_JSON, CK_OBJECT_ITEM, CK_OBJECT_FILES };

/* Appends the name of an object's file. */
void ck_object_file_name(const struct ck_catalog *c, uint32_t object,
			 uint32_t file, struct ck_buf *out);
/* -ENOENT. */
CK_MUST_USE int ck_object_file_find(const struct ck_catalog *c,
				    struct ck_str name, uint32_t *object,
				    uint32_t *file);
/* Bytes; 0 if it cannot be made: errors are of the moment only, or -EREMOTE, see
 * ck_files_read(). May block on the source. */
CK_MUST_USE int ck_object_file_size(struct ck_checkpoint *cp, uint32_t object,
				    uint32_t file, uint64_t *size);
/* Fetches what the sizes and values of remote entries are made of, and keeps it, up to
 * 64 MiB: so that names and reports need no other host later. Before others use the
 * checkpoint; waits. -ENOMEM, -EIO. */
CK_MUST_USE int ck_objects_keep(struct ck_checkpoint *cp,
				struct ck_route *route);
/* What the file consists of. Of an error, *passing says whether it is of the moment;
 * the log has it. May block on the source. */
CK_MUST_USE int ck_object_file_slice(struct ck_checkpoint *cp, uint32_t object,
				     uint32_t file, struct ck_slice **out,
				     bool *passing);

#endif
