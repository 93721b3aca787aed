/* SPDX-License-Identifier: MIT */
/*
 * blob: an item that is not an archive, but a piece of a safetensors file that ends with
 * its data file. Its tensor is looked up by its key; the length of the item is ignored. The
 * header of each piece is read once, and cached. Any thread may call the functions.
 *
 * Source: SerializationFormat.SAFETENSORS, torch/distributed/checkpoint/filesystem.py.
 */
#ifndef CK_BLOB_H
#define CK_BLOB_H

#include "ckptfs/format.h"
#include "format/item/stored.h"

struct ck_blob;

/* Makes the cache of headers. NULL if memory is short. */
struct ck_blobs *ck_blobs_make(void);
void ck_blobs_free(struct ck_blobs *b); /* NULL is allowed */

/* The box to find. */
struct ck_blob_want {
	const struct ck_tensor *tensor;
	uint32_t box;
};

/* Locates a box in an item that could not be read as an archive. rc, *d: the error of that
 * attempt. Sets *fpos to the offset in the file at which the elements of the box begin. Compares
 * dtype, shape and, if the file has sharding information, offsets with the box, unless the
 * tensor has an err. Sets *made to the header if it was not cached; *made must be NULL before,
 * and be passed to ck_blobs_keep(). Returns 0, or: rc if the item is not a blob, d is then
 * unchanged; -EIO if the header does not agree with the box; -EBADMSG if the header is
 * malformed or has no such key; -ENODATA if the file ends before the elements do; transient
 * errors of ck_files_read(); -ENOMEM. */
CK_MUST_USE int ck_blob_locate(struct ck_checkpoint *cp, struct ck_stored *item,
			       const struct ck_blob_want *want, int rc,
			       uint64_t *fpos, struct ck_blob **made,
			       struct ck_diag *d);
/* Adds a header to the cache if `same`: its file was not replaced while it was read. Else frees
 * it. NULL is allowed. */
void ck_blobs_keep(struct ck_checkpoint *cp, struct ck_blob *made, bool same);

#endif
