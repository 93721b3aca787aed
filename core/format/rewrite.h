/* SPDX-License-Identifier: MIT */
/*
 * rewrite: the writing side of format: checksums of new items, and the metadata of a
 * checkpoint with new locations of some boxes. Stateless, except for the format state
 * of the checkpoint.
 */
#ifndef CKPTFS_REWRITE_H
#define CKPTFS_REWRITE_H

#include "ckptfs/format.h"
#include "model/catalog/catalog_edit.h"
#include "syntax/item_form.h"

/* --- item ------------------------------------------------------------------- */

/* Computes the CRC-32 of the elements at fpos of a file, and sets it. Returns 0,
 * or: -ENOMEM; errors of read(2). */
CK_MUST_USE int ck_item_form_sum(struct ck_item_form *f, int fd, uint64_t fpos);

/* --- names of the files that a commit makes ---------------------------------- */

/* Bytes of the longest name, with two numbers of 20 digits. */
#define CK_NAME_LEN 80
/* infix of the temporary name of metadata, followed by 16 digits */
#define CK_TEMP	    ".ckptfs-"

/* Makes the name of a new data file, which must never have been used. A generation
 * is at least 1. hex: 16 digits. */
void ck_shard_name(const struct ck_checkpoint *cp, char out[static CK_NAME_LEN],
		   uint64_t rank, uint64_t generation, const char *hex);
/* True if the name is that of a data file of a commit (sets the generation), or of
 * metadata before its rename (sets 0). */
bool ck_name_is_ours(const struct ck_checkpoint *cp, const char *name,
		     uint64_t *generation);

/* --- metadata -------------------------------------------------------------- */

/* New location of the item of a box, without stream transforms. */
struct ck_change_of_place {
	uint32_t chunk;	    /* chunk of the catalog */
	struct ck_str path; /* relative_path of the file */
	uint64_t fpos, length;
};

/* Returns 0 if the metadata can be rewritten, or: -EOPNOTSUPP; -EPERM if it has
 * unknown globals and they may not be kept, d names one; -EINVAL if the checkpoint
 * was not opened for writing. */
CK_MUST_USE int ck_metadata_writable(const struct ck_checkpoint *cp,
				     bool keep_unknown, struct ck_diag *d);

/* Returns 0 if ck_metadata_write() can give this box another location, or
 * -EOPNOTSUPP, d names the tensor. The metadata must be writable. Any thread. */
CK_MUST_USE int ck_metadata_movable(const struct ck_checkpoint *cp,
				    uint32_t chunk, struct ck_diag *d);

/* Writes the current metadata with the changes into fd, from offset 0. `changes`
 * are sorted by chunk, each at most once. Everything else is kept: unknown fields,
 * order, arity, classes. Reads the result back and compares it with the expected
 * metadata. Does not sync, and does not truncate a longer file. One thread at a
 * time. Returns 0, or: -ESTALE if .metadata is not the file that was read;
 * -EOPNOTSUPP if a change cannot be expressed; -EIO if the comparison fails; errors
 * of write(2). */
CK_MUST_USE int ck_metadata_write(struct ck_checkpoint *cp,
				  const struct ck_change_of_place *changes,
				  uint32_t n, int fd, struct ck_diag *d);

/* Reads the items of boxes [first, first + n) of a tensor and verifies their
 * checksums, before their bytes are copied into new items with new checksums. Any
 * thread. Returns 0, or: -EIO and others for the first fault, d names the file;
 * errors of reading. */
CK_MUST_USE int ck_boxes_verify(struct ck_checkpoint *cp, uint32_t tensor,
				uint32_t first, uint32_t n, struct ck_diag *d);

/* --- the catalog --------------------------------------------------------------- */

/* Makes the next catalog, with the new locations, so that no step can fail after
 * the rename of the metadata. Stats the files of the changes. One thread at a time.
 * Returns 0, or: -ENOMEM; an error of a file. Caller must pass *next to
 * ck_checkpoint_switch() or ck_catalog_put(). */
CK_MUST_USE int ck_checkpoint_prepare(struct ck_checkpoint *cp,
				      const struct ck_change_of_place *changes,
				      uint32_t n, struct ck_catalog **next);
/* Publishes a prepared catalog and takes ownership of it. `metadata`: stat of the
 * metadata that was written last, for ck_checkpoint_same(). Holders of the previous
 * catalog keep it. */
void ck_checkpoint_switch(struct ck_checkpoint *cp, struct ck_catalog *next,
			  const struct stat *metadata,
			  const struct ck_change_of_place *changes, uint32_t n);

#endif
