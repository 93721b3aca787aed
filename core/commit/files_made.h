/* SPDX-License-Identifier: MIT */
/*
 * The files that a commit makes: whose they are (owner.c), and what is done with all
 * of a batch (shard.c).
 */
#ifndef CK_COMMIT_FILES_MADE_H
#define CK_COMMIT_FILES_MADE_H

#include "ckptfs/rewrite.h"

#include <sys/stat.h>

struct ck_batch;
struct ck_writer;

/* --- owner.c: whose new files are ------------------------------------------ */

/* Owner, group, mode and ACL of the metadata file. Zero-initialise, with fd -1. */
struct ck_ownership {
	const char *name; /* of the file */
	int fd;
	struct stat st;
	struct ck_buf acl; /* empty: it has none */
};

/* As the .metadata has them now that was read or switched to. -ESTALE: it is
 * another one; errors of open(2), -ENOMEM. */
CK_MUST_USE int ck_owner_find(struct ck_ownership *o, struct ck_writer *w,
			      struct ck_diag *d);
/* As the same file has them now, whatever its name is. */
CK_MUST_USE int ck_owner_renew(struct ck_ownership *o, bool *changed,
			       struct ck_diag *d);
void ck_owner_fini(struct ck_ownership *o);

/* What of them a new file may have at most. */
struct ck_mode_cap {
	mode_t mode;
	bool no_acl;
};

/* Gives them to a new file; limit: NULL is none. -EPERM. */
CK_MUST_USE int ck_file_own(const struct ck_ownership *o,
			    const struct ck_mode_cap *limit, int fd,
			    struct ck_diag *d);
/* For each file of a batch, so that nobody who cannot read the files reads it
 * that its items are in now. Errors of opening those. */
CK_MUST_USE int ck_limits_find(struct ck_mode_cap *limits,
			       const struct ck_ownership *o,
			       struct ck_writer *w, const struct ck_batch *b,
			       struct ck_diag *d);
/* Finds them and makes an unnamed file with them; *fd and *o are the caller's,
 * also after an error. */
CK_MUST_USE int ck_owner_try(struct ck_writer *w, int *fd,
			     struct ck_ownership *o, struct ck_diag *d);

/* Can new files be given to whom .metadata belongs now? Asks again only when
 * that was changed. As ck_owner_try(), but a full disk is no error. */
CK_MUST_USE int ck_owner_check(struct ck_writer *w, struct ck_diag *d);

/* --- shard.c: files that have no name yet --------------------------------- */

/* Owned and shared as the metadata is. limits: for each, or NULL. */
CK_MUST_USE int ck_batch_own(const struct ck_ownership *o,
			     const struct ck_mode_cap *limits,
			     const struct ck_batch *b, struct ck_diag *d);
CK_MUST_USE int ck_batch_sync(struct ck_batch *b, struct ck_diag *d);
/* Gives the files names that were never used. */
CK_MUST_USE int ck_batch_link(const struct ck_writer *w, uint64_t generation,
			      struct ck_batch *b, struct ck_diag *d);
/* Takes the names away again. */
void ck_batch_unlink(const struct ck_writer *w, struct ck_batch *b);

/* A new unnamed file in the checkpoint's directory. */
CK_MUST_USE int ck_file_make(const struct ck_writer *w, int *fd,
			     struct ck_diag *d);
CK_MUST_USE int ck_file_link(const struct ck_writer *w, int fd,
			     const char *name, struct ck_diag *d);

#endif
