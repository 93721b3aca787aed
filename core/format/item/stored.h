/* SPDX-License-Identifier: MIT */
/*
 * stored: the bytes of one item, in its data file or in memory.
 */
#ifndef CK_FORMAT_STORED_H
#define CK_FORMAT_STORED_H

#include "ckptfs/model.h"
#include "ckptfs/source.h"
#include "ckptfs/zip.h"

/* An item as it is in its file. */
struct ck_stored {
	struct ck_files *files;
	struct ck_file file; /* in use */
	uint64_t fpos;
	uint64_t length;
	bool changed; /* its host says that the file is another one by now */
	bool again; /* all of it is to be done once more: copies of the file on
			 * other hosts are read from now on */
	uint64_t ahead; /* where the kernel was asked to read to, in the file;
			 * 0: it was not */
};

/* The item of a chunk, its file in use: ck_stored_put() it. d says what is wrong with
 * the file, or that the item is not inside of it. */
CK_MUST_USE int ck_stored_get(struct ck_files *files,
			      const struct ck_item *chunk,
			      struct ck_stored *out, struct ck_diag *d);
/* Something is wrong with it: whether that says nothing, for its file is another one by
 * now. */
CK_MUST_USE bool ck_stored_is_other(struct ck_stored *item);
/* rc, *d: what became of it; d is set on an error. Returns rc, or -ESTALE if that
 * is what has happened. */
CK_MUST_USE int ck_stored_put(struct ck_stored *item, int rc,
			      struct ck_diag *d);
/* Of an archive. The item must outlive what is made of the source. */
struct ck_zip_source ck_source_stored(struct ck_stored *item);
struct ck_zip_source ck_source_memory(void *bytes, size_t len);
/* Reads it all. *out is owned by the caller. */
CK_MUST_USE int ck_stored_read(struct ck_stored *item, void **out,
			       struct ck_diag *d);
/* Of what was read of it before: whether its file is still that one, if it is remote, which
 * nobody else looks at. */
CK_MUST_USE int ck_stored_touch(struct ck_stored *item, struct ck_diag *d);
/* What an item may become when its stream transforms are undone: one that
 * holds a box of so many bytes; one of so many bytes that holds who knows
 * what. */
uint64_t ck_undone_box(uint64_t bytes);
uint64_t ck_undone_value(uint64_t length);
/* Reads it all and undoes its stream transforms, see ck_transform_undo(). */
CK_MUST_USE int ck_stored_undo(struct ck_stored *item,
			       struct ck_str descriptors, uint64_t limit,
			       void **out, size_t *len, struct ck_diag *d);

#endif
