/* SPDX-License-Identifier: MIT */
/*
 * run_plan: from where the copies of a plan come, and the copying: from memory, from
 * mapped files, from files that cannot be mapped, and from remote ones later.
 */
#ifndef CK_RUN_PLAN_H
#define CK_RUN_PLAN_H

#include "header_fetch.h"
#include "staging.h"
#include "workspace.h"

/* One read. */
struct ck_read_op {
	struct ck_files *files;
	struct ck_workspace *space;
	struct ck_remote_moves
		*remote;	    /* where moves of remote files are noted;
					 * NULL: they are -EREMOTE */
	struct ck_packing *packing; /* NULL: bytes go where they belong */
	bool loads;  /* some copies of the plan are of files without mapping */
	bool failed; /* bytes of a file that was found could not be had */
	bool old; /* the ctime of a file changed since its layout was found */
	unsigned renewals; /* how often that was, see CK_RENEWALS */
};

/* After so many changes of ctime during one read, the bytes count as they are. */
enum { CK_RENEWALS = 8 };

/* Finds the first run of each copy of the plan in rd->space. Its files are in use from
 * now on. -ENODATA, -EIO, -EREMOTE; errors of ck_files_get(), and of the extents. */
CK_MUST_USE int ck_run_plan_find(struct ck_read_op *rd,
				 const struct ck_layout *layout);
/* Copies what was found; what is remote is noted. -EIO, -ENOMEM. */
CK_MUST_USE int ck_run_plan(struct ck_read_op *rd,
			    const struct ck_layout *layout, uint8_t *to);
/* No file is in use any more. */
void ck_run_plan_end(struct ck_read_op *rd);

#endif
