/* SPDX-License-Identifier: MIT */
/*
 * replicas: comparison of copies of one entry that several ranks saved. The mount
 * shows the copy of the lowest rank; this finds the ranks with different copies. A
 * part of tree. Any thread.
 */
#ifndef CKPTFS_REPLICAS_H
#define CKPTFS_REPLICAS_H

#include "ckptfs/format.h"
#include "ckptfs/view.h"

struct ck_route;
struct ck_differing; /* the differences found in one checkpoint */

/* Caller owns the checkpoint, which must outlive the result. NULL if out of
 * memory. */
struct ck_differing *ck_replicas_make(struct ck_checkpoint *cp);
void ck_replicas_free(struct ck_differing *known); /* NULL is allowed */

/* Called before each part is read; true cancels. NULL: never. */
struct ck_stop {
	bool (*asked)(void *arg);
	void *arg;
};

/* Reads the bytes that a file shows and the copies of other ranks, and appends a
 * JSON list of the ranks whose bytes or JSON differ; names of directories for files
 * without a known rank. Copies that cannot be read are not reported. Returns 0, or:
 * -ENODATA if there are no copies; -EOPNOTSUPP if some are on other hosts; -EINTR
 * if cancelled; errors of reading the shown bytes; shortages of this process. */
CK_MUST_USE int ck_replicas_print(struct ck_differing *known,
				  const struct ck_catalog *c,
				  const struct ck_file_content *about,
				  const struct ck_stop *stop,
				  struct ck_buf *out);
/* True if differences of the file were found before. Does no I/O. */
bool ck_replicas_are_known(const struct ck_differing *known,
			   const struct ck_file_content *about);

struct ck_replicas_options {
	bool full; /* compare all bytes, not only samples */
	/* Called with 1 after each tensor that is shown whole, if any tensor has copies. */
	void (*progress)(void *arg, uint64_t tensors);
	void *arg;
};

/* Adds a finding for each tensor that cannot be opened since samples differ; with `full` also for
 * each tensor of which ranks have different bytes, remote files by the route. Blocks. Returns 0,
 * or: shortages of this process; -ENOMEM. */
CK_MUST_USE int ck_replicas_check(struct ck_checkpoint *cp,
				  struct ck_route *route,
				  const struct ck_replicas_options *o,
				  struct ck_findings *out);

#endif
