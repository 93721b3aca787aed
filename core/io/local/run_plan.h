/* SPDX-License-Identifier: MIT */
/*
 * run_plan: finds the sources of a plan and runs it. Bytes in memory and in mapped
 * files are copied; files that cannot be mapped are read; ranges of remote files are
 * recorded as descriptors.
 */
#ifndef CK_RUN_PLAN_H
#define CK_RUN_PLAN_H

#include "io/header_fetch.h"
#include "io/staging.h"
#include "workspace.h"

/* One read operation. Used by one thread. */
struct ck_read_op {
	struct ck_files *files;
	struct ck_workspace *space;
	/* records descriptors of remote files; NULL: they are -EREMOTE */
	struct ck_remote_batch *remote;
	/* NULL: bytes are copied to their destination */
	struct ck_packing *packing;
	bool is_pass; /* as in ck_read */
	bool loads;   /* some ops of the plan read files without a mapping */
	bool failed; /* a file was found, but some of its bytes cannot be read */
	bool old; /* the ctime of a file changed after its layout was found */
	unsigned renewals; /* number of such changes, see CK_RENEWALS */
};

/* After this number of changes of ctime during one read, the layout is used as it is. */
enum { CK_RENEWALS = 8 };

/* Finds the first run of each op of the plan in rd->space. The files are in use until
 * ck_run_plan_end(). Returns 0, or: -ENODATA if a file does not exist; -EIO if an op
 * ends behind its file; -EREMOTE if a file is remote and rd->remote is NULL; errors of
 * ck_files_get() and of the extents. */
CK_MUST_USE int ck_run_plan_find(struct ck_read_op *rd,
				 const struct ck_layout *layout);
/* Runs the plan; records ranges of remote files. to: byte 0 of its destination.
 * Returns 0, or: -EIO if a file became shorter or cannot be read; -ENOMEM. */
CK_MUST_USE int ck_run_plan(struct ck_read_op *rd,
			    const struct ck_layout *layout, uint8_t *to);
/* Releases the files of the read. */
void ck_run_plan_end(struct ck_read_op *rd);

#endif
