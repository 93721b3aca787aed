/* SPDX-License-Identifier: MIT */
/*
 * read_op: runs one read of a slice, wherever its files are. Stateless; any
 * thread.
 */
#ifndef CK_READ_OP_H
#define CK_READ_OP_H

#include "header_fetch.h"
#include "staging.h"

/* Copies local bytes, and records moves of remote bytes in `remote`; the read is
 * complete when ck_remote_finish() was called after the moves. packing, which must
 * be empty: bytes of boxes are packed into its slot; NULL: they go to r->to.
 * Returns 0, or: -EREMOTE if headers must be fetched first, see ck_files_read(), or
 * `remote` is NULL and some bytes are remote; -E2BIG if the slot is too small;
 * errors of ck_read. */
CK_MUST_USE int ck_read_op_run(struct ck_files *files, const struct ck_read *r,
			       struct ck_remote_moves *remote,
			       struct ck_packing *packing);

#endif
