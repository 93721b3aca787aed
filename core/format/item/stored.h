/* SPDX-License-Identifier: MIT */
/*
 * stored: reads the bytes of one item from its data file. Between ck_stored_get() and
 * ck_stored_put() the file is in use; the latter verifies that the file has not changed.
 * An item is used by one thread at a time.
 */
#ifndef CK_STORED_H
#define CK_STORED_H

#include "ckptfs/model.h"
#include "ckptfs/source.h"
#include "syntax/zip.h"

/* An item whose file is in use. */
struct ck_stored {
	struct ck_files *files;
	struct ck_file file; /* in use */
	uint64_t fpos;	     /* bytes */
	uint64_t length;     /* bytes */
	bool changed;	     /* a remote host reported another file */
	/* The caller must repeat all reads: they have failed over to replicas
	 * of the file on other hosts. */
	bool again;
	uint64_t ahead; /* end of the read-ahead request; 0 without one */
};

/* Takes a use of the file of an item. After success caller calls ck_stored_put(). Returns 0,
 * or: -ENODATA if the item ends beyond its file; errors of ck_files_get(). */
CK_MUST_USE int ck_stored_get(struct ck_files *files,
			      const struct ck_item *chunk,
			      struct ck_stored *out, struct ck_diag *d);
/* Called after a fault was found. True if the fault does not count, because the file was
 * replaced meanwhile or its reads have failed over (item->again). */
CK_MUST_USE bool ck_stored_is_other(struct ck_stored *item);
/* Drops the use of the file. rc, *d: result of reading the item. Returns rc, or: -ESTALE if the
 * file has changed; a transient error if that cannot be verified. */
CK_MUST_USE int ck_stored_put(struct ck_stored *item, int rc,
			      struct ck_diag *d);
/* Sources for reading a zip archive. The item, or the bytes, must outlive the source. */
struct ck_zip_source ck_source_stored(struct ck_stored *item);
struct ck_zip_source ck_source_memory(void *bytes, size_t len);
/* Reads all bytes of an item. Caller owns *out. Returns 0, or: -ENODATA if the file is too
 * short; transient errors of reading; -ENOMEM. */
CK_MUST_USE int ck_stored_read(struct ck_stored *item, void **out,
			       struct ck_diag *d);
/* Reads one byte of a remote item, so that its host compares the file with the one read
 * before. Returns 0, also for a local item, or errors like ck_stored_read(). */
CK_MUST_USE int ck_stored_touch(struct ck_stored *item, struct ck_diag *d);
/* Limits in bytes for the result of undoing stream transforms: for a box of `bytes` bytes, and
 * for a stored value of `length` bytes. */
uint64_t ck_undone_box(uint64_t bytes);
uint64_t ck_undone_value(uint64_t length);
/* Reads an item and undoes its stream transforms, see ck_transform_undo(). Caller owns
 * *out, of *len bytes, at most `limit`. */
CK_MUST_USE int ck_stored_undo(struct ck_stored *item,
			       struct ck_str descriptors, uint64_t limit,
			       void **out, size_t *len, struct ck_diag *d);

#endif
