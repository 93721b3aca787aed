/* SPDX-License-Identifier: MIT */
/*
 * replicas: what several ranks have of one thing is shown as the lowest one has it; which of
 * the others have something else. A part of tree. Any thread.
 */
#ifndef CKPTFS_REPLICAS_H
#define CKPTFS_REPLICAS_H

#include "ckptfs/format.h"
#include "ckptfs/view.h"

struct ck_route;
struct ck_differing; /* what was found out about one checkpoint */

/* The checkpoint outlives it. NULL: out of memory. */
struct ck_differing *ck_replicas_make(struct ck_checkpoint *cp);
void ck_replicas_free(struct ck_differing *known); /* NULL is allowed */

/* Asked before each part is read: does nobody wait for the answer any more? NULL: never. */
struct ck_stop {
	bool (*asked)(void *arg);
	void *arg;
};

/* Reads what a file shows and what other ranks have in place of it, and appends a JSON list of
 * the ranks that have other bytes, or another JSON; of files that no rank is known of, the
 * names of their directories. -ENODATA: there is none; -EOPNOTSUPP: some of it is on other
 * hosts; -EINTR: it was to stop; errors of what the file shows; shortages. What cannot be read of others is no difference. */
CK_MUST_USE int ck_replicas_print(struct ck_differing *known,
				  const struct ck_catalog *c,
				  const struct ck_file_content *about,
				  const struct ck_stop *stop,
				  struct ck_buf *out);
/* That was found before, and there are some. No I/O. */
bool ck_replicas_are_known(const struct ck_differing *known,
			   const struct ck_file_content *about);
/* Adds a finding for each tensor of which ranks have other bytes than are shown. By the
 * route files on other hosts are read, too: it waits for them. Errors as above; -ENOMEM. */
CK_MUST_USE int ck_replicas_check(struct ck_checkpoint *cp,
				  struct ck_route *route,
				  struct ck_findings *out);

#endif
