/* SPDX-License-Identifier: MIT */
/*
 * files_made: the new files of a commit: their owner and mode (ownership.c), and
 * operations on all files of a batch (shard.c). Called by the thread of the commit,
 * unless stated otherwise.
 */
#ifndef CK_FILES_MADE_H
#define CK_FILES_MADE_H

#include "format/rewrite.h"

#include <sys/stat.h>

struct ck_batch;
struct ck_writer;

/* --- ownership.c: owner, group, mode and ACL ---------------------------  */

/* Owner, group, mode and ACL of the metadata file. Zero-initialise, with fd -1. */
struct ck_ownership {
	const char *name; /* name of the metadata file */
	int fd;
	struct stat st;
	struct ck_buf acl; /* empty without an ACL */
};

/* Opens the current .metadata and reads its owner, mode and ACL. Returns 0, or:
 * -ESTALE if it is not the file that was read or switched to; -ENOMEM; errors of
 * open(2). */
CK_MUST_USE int ck_owner_find(struct ck_ownership *o, struct ck_writer *w,
			      struct ck_diag *d);
/* Reads them again from the same open file, whatever its name is now. Sets
 * *changed. */
CK_MUST_USE int ck_owner_renew(struct ck_ownership *o, bool *changed,
			       struct ck_diag *d);
void ck_owner_fini(struct ck_ownership *o);

/* Limits of the access rights of a new file. */
struct ck_mode_cap {
	mode_t mode;
	bool no_acl;
};

/* Sets owner, group, mode and ACL of a new file. limit: NULL without a limit. Returns
 * 0, or -EPERM or another error of fchown(2), fchmod(2) or fsetxattr(2). */
CK_MUST_USE int ck_file_own(const struct ck_ownership *o,
			    const struct ck_mode_cap *limit, int fd,
			    struct ck_diag *d);
/* Sets the limits of each file of a batch: only users with read access to all files
 * that contain its items now may read it. Returns 0, or an error of opening those
 * files. */
CK_MUST_USE int ck_limits_find(struct ck_mode_cap *limits,
			       const struct ck_ownership *o,
			       struct ck_writer *w, const struct ck_batch *b,
			       struct ck_diag *d);
/* Calls ck_owner_find() and makes an unnamed file with that owner. Caller owns *fd
 * and *o, also after an error. */
CK_MUST_USE int ck_owner_try(struct ck_writer *w, int *fd,
			     struct ck_ownership *o, struct ck_diag *d);

/* Returns 0 if new files can get the present owner of .metadata, or an error of
 * ck_owner_try(); a full disk is not an error. Tries again only after .metadata
 * changed. Any thread. */
CK_MUST_USE int ck_owner_check(struct ck_writer *w, struct ck_diag *d);

/* --- shard.c: files that have no name yet --------------------------------- */

/* ck_file_own() for all files of a batch. limits: one for each file, or NULL. */
CK_MUST_USE int ck_batch_own(const struct ck_ownership *o,
			     const struct ck_mode_cap *limits,
			     const struct ck_batch *b, struct ck_diag *d);
/* Syncs all files. Returns 0 or an error of fsync(2). */
CK_MUST_USE int ck_batch_sync(struct ck_batch *b, struct ck_diag *d);
/* Gives the files names that were never used. Returns 0, or an error of linkat(2). The
 * names are in ck_shard.name, also after an error. */
CK_MUST_USE int ck_batch_link(const struct ck_writer *w, uint64_t generation,
			      struct ck_batch *b, struct ck_diag *d);
/* Removes the names. Errors are ignored: the next writer removes them. */
void ck_batch_unlink(const struct ck_writer *w, struct ck_batch *b);

/* Makes an unnamed file in the directory of the checkpoint. Caller owns *fd. Returns 0,
 * or: -EOPNOTSUPP if the file system has no unnamed files; errors of open(2). */
CK_MUST_USE int ck_file_make(const struct ck_writer *w, int *fd,
			     struct ck_diag *d);
/* Gives an unnamed file a name. Returns 0, or: -EEXIST; errors of linkat(2). */
CK_MUST_USE int ck_file_link(const struct ck_writer *w, int fd,
			     const char *name, struct ck_diag *d);

#endif
