/* SPDX-License-Identifier: MIT */
/*
 * blob: an item that is no archive, but a piece of a safetensors file that ends with its
 * data file, and in which the key of its tensor is looked up. What its length is does not
 * matter. The header of each is read once, and kept while there is room.
 *
 * Source: SerializationFormat.SAFETENSORS, torch/distributed/checkpoint/filesystem.py.
 */
#ifndef CK_FORMAT_BLOB_H
#define CK_FORMAT_BLOB_H

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

/* rc, *d: why an item is no archive. If it is a blob, finds its elements, which begin at
 * byte *fpos of the file, and compares dtype and shape with the box, and where there is
 * sharding information its offsets; a tensor with a fault is only looked up. If it is
 * neither, rc and d stay. *made: to be given to ck_blobs_keep(). Errors as of an archive. */
CK_MUST_USE int ck_blob_locate(struct ck_checkpoint *cp, struct ck_stored *item,
			       const struct ck_blob_want *want, int rc,
			       uint64_t *fpos, struct ck_blob **made,
			       struct ck_diag *d);
/* The file is what it was when the header was read, or it is not, and the header is
 * forgotten. NULL is allowed. */
void ck_blobs_keep(struct ck_checkpoint *cp, struct ck_blob *made, bool same);

#endif
