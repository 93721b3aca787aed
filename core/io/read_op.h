/* SPDX-License-Identifier: MIT */
/*
 * read_op: what all reads of a slice have in common, wherever its files are.
 */
#ifndef CK_READING_H
#define CK_READING_H

#include "header_fetch.h"
#include "staging.h"

/* Brings what is on this host, and notes what is not in `remote`: the bytes are right
 * when its moves are done and finished. remote may be NULL: -EREMOTE. Else -EREMOTE is
 * that headers must be brought first, see ck_files_read(). packing, which is empty: what is
 * of boxes is packed, and is the reader's when it arrives; NULL: it is at once. -E2BIG: there
 * is too much for the slot. Else errors as of ck_read. */
CK_MUST_USE int ck_read_op_run(struct ck_files *files, const struct ck_read *r,
			       struct ck_remote_moves *remote,
			       struct ck_packing *packing);

#endif
