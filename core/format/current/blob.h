/* SPDX-License-Identifier: MIT */
/*
 * blob: an item that is not an archive, but a piece of a safetensors file that ends with
 * its data file. Its tensor is looked up by its key; the length of the item is ignored. The
 * header of each piece is read once, and kept while there is room.
 *
 * Source: SerializationFormat.SAFETENSORS, torch/distributed/checkpoint/filesystem.py.
 */
#ifndef CK_BLOB_H
#define CK_BLOB_H

#include "../item/stored.h"
#include "ckptfs/format.h"

struct ck_blob;

struct ck_blobs *ck_blobs_make(void); /* NULL: out of memory */
void ck_blobs_free(struct ck_blobs *b);

/* What to find: box i of a tensor. */
struct ck_blob_want {
	const struct ck_tensor *tensor;
	uint32_t box;
};

/* rc, *d: why an item is not an archive. If it is a blob, sets *fpos to the byte of the file
 * at which its elements begin, and compares dtype, shape and, with sharding information,
 * offsets with the box; a tensor with a fault is only looked up. If it is not a blob, returns
 * rc and leaves d. *made must be passed to ck_blobs_keep(). Errors as of an archive. */
CK_MUST_USE int ck_blob_locate(struct ck_checkpoint *cp, struct ck_stored *item,
			       const struct ck_blob_want *want, int rc,
			       uint64_t *fpos, struct ck_blob **made,
			       struct ck_diag *d);
/* Keeps a header if its file is still the same, else frees it. NULL is allowed. */
void ck_blobs_keep(struct ck_checkpoint *cp, struct ck_blob *made, bool same);

#endif
