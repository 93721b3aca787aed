/* SPDX-License-Identifier: MIT */
/*
 * current_metadata: the metadata file of a checkpoint. The checkpoint shows the owner, times
 * and mode of this file. If it is replaced, the checkpoint was saved again. The format chooses
 * the file and parses its contents. Functions that take a struct ck_catalog are called by the
 * thread that loads the checkpoint; any thread may call the others.
 */
#ifndef CK_CURRENT_METADATA_H
#define CK_CURRENT_METADATA_H

#include "format/kind.h"

/* --- the file --------------------------------------------------------------------- */

/* Opens `name`, a regular file, as the metadata file, and records its identity, owner,
 * mode and time. Caller owns *fd. Returns 0, or: -EBADMSG if it is not a regular file;
 * errors of open(2); -ENOMEM. */
CK_MUST_USE int ck_metadata_open(struct ck_checkpoint *cp, struct ck_catalog *c,
				 const char *name,
				 const struct ck_format_options *options,
				 const struct ck_fetched_metadata *fetched,
				 int *fd, struct ck_diag *d);
/* The same for metadata that was fetched from another host. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_metadata_take(struct ck_checkpoint *cp, struct ck_catalog *c,
				 const char *name,
				 const struct ck_fetched_metadata *fetched,
				 struct ck_diag *d);
/* Makes the directory the metadata file. Returns 0, or: -ENOMEM; errors of stat(2). */
CK_MUST_USE int ck_metadata_directory(struct ck_checkpoint *cp,
				      struct ck_catalog *c);
/* Opens the metadata file again. Caller owns *fd. Returns 0, or: -ESTALE if it is not the file
 * of the load or the last commit; errors of open(2). */
CK_MUST_USE int ck_metadata_open_again(const struct ck_checkpoint *cp, int *fd,
				       struct stat *st, struct ck_diag *d);
/* Compares the metadata file with `was`, a stat that load() or a commit stored in cp->metadata.
 * Returns 1 if it differs, 0 if it is the same, or a negative errno of stat(2). If it is the
 * same, records its access rights. A save renames a new file over it; a program that writes in
 * place changes size or time. */
CK_MUST_USE int ck_metadata_changed(const struct ck_checkpoint *cp,
				    const struct stat *was);
/* True if device, inode, size and mtime are equal. */
CK_MUST_USE bool ck_metadata_is_same(const struct stat *a,
				     const struct stat *b);

/* --- its bytes --------------------------------------------------------------------- */

struct ck_metadata_text {
	void *pages; /* of ck_pages_alloc() */
	size_t len;
	/* Hashes the bytes while they are read, see ck_metadata_hash_begin(); or
	 * NULL. */
	struct ck_hasher *hasher;
	uint64_t seed; /* of the hasher */
};

/* Opens the metadata file on this host or a remote one, reads all of it, and records the hash
 * of a local one. Caller calls ck_metadata_text_fini(), also after an error. Returns 0, or:
 * -EBADMSG if it has more than `most` bytes; -ESTALE if it changed while it was read; errors of
 * ck_metadata_open() and ck_remote_source.metadata(). d names the file. */
CK_MUST_USE int ck_metadata_read(struct ck_checkpoint *cp, struct ck_catalog *c,
				 const char *name, uint64_t most,
				 const struct ck_format_options *options,
				 struct ck_metadata_text *out,
				 struct ck_diag *d);
/* The same for another file of the checkpoint, whose hash is not recorded. Errors as above, or
 * of ck_remote_source.text(). */
CK_MUST_USE int ck_metadata_read_other(const struct ck_checkpoint *cp,
				       const char *name, uint64_t most,
				       struct ck_metadata_text *out,
				       struct ck_diag *d);
/* The same for an open file; `name` is for messages. -EBADMSG also if it is not a regular
 * file. */
CK_MUST_USE int ck_metadata_text_of(int fd, const char *name, uint64_t most,
				    struct ck_metadata_text *out,
				    struct ck_diag *d);
/* The same for an open regular file whose stat is known. */
CK_MUST_USE int ck_metadata_text_read(int fd, const struct stat *st,
				      const char *name, uint64_t most,
				      struct ck_metadata_text *out,
				      struct ck_diag *d);
void ck_metadata_text_fini(struct ck_metadata_text *text);

/* --- metadata_sum.c ------------------------------------------------------------- */

/* Records the hash of the bytes of the metadata file, for ck_metadata_is_rewritten(). Called
 * during the load, or by ck_format.switched(). If memory is short, no hash is recorded. */
void ck_metadata_note_sum(struct ck_checkpoint *cp, uint64_t seed,
			  uint64_t sum);
/* Record the hash of a text that is read between the two calls. read: the text was read
 * completely. If memory is short, no hash is recorded. */
void ck_metadata_hash_begin(struct ck_metadata_text *text);
void ck_metadata_hash_end(struct ck_checkpoint *cp,
			  struct ck_metadata_text *text, bool read);
/* now: stat of the metadata file, with identity, size and mtime of `was`. If the ctime differs,
 * the file is read: true if its bytes have another hash. False also if the file cannot be
 * read, or no hash is recorded. */
CK_MUST_USE bool ck_metadata_is_rewritten(const struct ck_checkpoint *cp,
					  const struct stat *now,
					  const struct stat *was);

#endif
