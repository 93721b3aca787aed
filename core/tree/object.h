/* SPDX-License-Identifier: MIT */
/*
 * object: the files of objects: objects/<stem>.json is the value as JSON,
 * objects/<stem>.pt the record for torch.load. Content that a data file has
 * unchanged is read from there; other content is generated on demand, and an open
 * file keeps its snapshot. A part of tree. Any thread.
 */
#ifndef CKPTFS_OBJECT_H
#define CKPTFS_OBJECT_H

#include "ckptfs/format.h"
#include "ckptfs/io.h"
#include "ckptfs/slice.h"

enum { CK_OBJECT_JSON, CK_OBJECT_ITEM, CK_OBJECT_FILES };

/* Appends the file name of an object. */
void ck_object_file_name(const struct ck_catalog *c, uint32_t object,
			 uint32_t file, struct ck_buf *out);
/* As ck_object_access.json. */
CK_MUST_USE int ck_object_print(struct ck_checkpoint *cp, uint32_t object,
				struct ck_buf *out, bool *transient);
/* Finds the object of a file name. Returns 0, or -ENOENT. */
CK_MUST_USE int ck_object_file_find(const struct ck_catalog *c,
				    struct ck_str name, uint32_t *object,
				    uint32_t *file);
/* Sets *size to the bytes of the file; 0 if it cannot be generated. May block on
 * local files. Returns 0, or a transient error, or -EREMOTE if remote ranges must
 * be fetched first, see ck_files_read(). */
CK_MUST_USE int ck_object_file_size(struct ck_checkpoint *cp, uint32_t object,
				    uint32_t file, uint64_t *size);
/* Fetches the remote ranges that sizes and values of objects need, and keeps up to
 * 64 MiB of them, so that later lookups and reports need no other host. Blocks.
 * Must be called before other threads use the checkpoint. Returns 0, or: -ENOMEM;
 * -EIO. */
CK_MUST_USE int ck_objects_keep(struct ck_checkpoint *cp,
				struct ck_route *route);
/* Sets *out to the slice of the file. May block on local files. Returns 0 or an
 * error, which is logged; then sets *transient if it is transient. */
CK_MUST_USE int ck_object_file_slice(struct ck_checkpoint *cp, uint32_t object,
				     uint32_t file, struct ck_slice **out,
				     bool *transient);
/* The same for CK_OBJECT_ITEM, as ck_object_access.record. */
CK_MUST_USE int ck_object_record(struct ck_checkpoint *cp, uint32_t object,
				 struct ck_slice **out, bool *transient);

#endif
