/* SPDX-License-Identifier: MIT */
/*
 * current_metadata: the metadata file of a checkpoint: the file whose owner, times and mode the
 * checkpoint shows, and whose replacement means that the checkpoint was saved again.
 * The format chooses the file and reads its contents.
 */
#ifndef CK_CURRENT_METADATA_H
#define CK_CURRENT_METADATA_H

#include "../kind.h"

/* --- which file it is ------------------------------------------------------------ */

/* Opens `name`, a regular file, as the metadata file, and records its identity, owner,
 * mode and time. Caller owns *fd. Returns 0, or: -EBADMSG if it is not a regular file;
 * errors of open(2). */
CK_MUST_USE int ck_metadata_open(struct ck_checkpoint *cp, struct ck_catalog *c,
				 const char *name,
				 const struct ck_format_options *options,
				 const struct ck_brought *brought, int *fd,
				 struct ck_diag *d);
/* The same for metadata that was fetched from another host, of which there is no stat. */
CK_MUST_USE int ck_metadata_take(struct ck_checkpoint *cp, struct ck_catalog *c,
				 const char *name,
				 const struct ck_brought *brought,
				 struct ck_diag *d);
/* Makes the directory the metadata file. Returns 0, or: -ENOMEM; errors of stat(2). */
CK_MUST_USE int ck_metadata_directory(struct ck_checkpoint *cp,
				      struct ck_catalog *c);
/* Opens the file again. Returns 0, or: -ESTALE if it is not the file that was read or
 * switched to; errors of open(2). */
CK_MUST_USE int ck_metadata_open_again(const struct ck_checkpoint *cp, int *fd,
				       struct stat *st, struct ck_diag *d);
/* Returns 1 if the metadata file differs from `was`, which load() or a commit stored in
 * cp->metadata, 0 if it is the same, or a negative errno of stat(2). A save renames a new
 * file over it; a program that writes in place changes size or time. */
CK_MUST_USE int ck_metadata_changed(const struct ck_checkpoint *cp,
				    const struct stat *was);
CK_MUST_USE bool ck_metadata_is_same(const struct stat *a,
				     const struct stat *b);

/* --- its bytes --------------------------------------------------------------------- */

struct ck_metadata_text {
	void *pages; /* of ck_pages_alloc() */
	size_t len;
	/* Of the bytes, if it is set before they are read; else NULL. */
	struct ck_hasher *hasher;
	uint64_t seed;
};

/* Opens the metadata file on whichever host has it, and reads all of it. Caller owns *out.
 * Returns 0, or: -EBADMSG if it has more than `most` bytes; -ESTALE if it changed while it
 * was read; errors of ck_metadata_open() and ck_remote_source.metadata(). d names the file. */
CK_MUST_USE int ck_metadata_read(struct ck_checkpoint *cp, struct ck_catalog *c,
				 const char *name, uint64_t most,
				 const struct ck_format_options *options,
				 struct ck_metadata_text *out,
				 struct ck_diag *d);
/* The same for another file of the checkpoint. */
CK_MUST_USE int ck_metadata_read_other(const struct ck_checkpoint *cp,
				       const char *name, uint64_t most,
				       struct ck_metadata_text *out,
				       struct ck_diag *d);
/* The same for an open file. */
CK_MUST_USE int ck_metadata_text_of(int fd, const char *name, uint64_t most,
				    struct ck_metadata_text *out,
				    struct ck_diag *d);
/* The same for an open file whose stat is known. */
CK_MUST_USE int ck_metadata_text_read(int fd, const struct stat *st,
				      const char *name, uint64_t most,
				      struct ck_metadata_text *out,
				      struct ck_diag *d);
void ck_metadata_text_fini(struct ck_metadata_text *text);

/* --- metadata_sum.c ------------------------------------------------------------- */

/* The bytes of the metadata have this hash. Not while another commit ends. */
void ck_metadata_note_sum(struct ck_checkpoint *cp, uint64_t seed,
			  uint64_t sum);
/* The same of a text that is read between these two. Without memory no hash is known. */
void ck_metadata_hash_begin(struct ck_metadata_text *text);
void ck_metadata_hash_end(struct ck_checkpoint *cp,
			  struct ck_metadata_text *text, bool read);
/* now: the metadata file, which has the size and mtime of `was`. If its ctime changed its
 * bytes are read: true if they are others. False too if they cannot be read. Any thread. */
CK_MUST_USE bool ck_metadata_is_rewritten(const struct ck_checkpoint *cp,
					  const struct stat *now,
					  const struct stat *was);

#endif
