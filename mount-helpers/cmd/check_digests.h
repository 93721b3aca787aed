/* SPDX-License-Identifier: MIT */
/*
 * check_digests: compares the tensors of a checkpoint with a file of digests, for `ckptfs
 * check --digests`. The main thread; the digests are computed in several threads.
 */
#ifndef CKPTFS_CHECK_DIGESTS_H
#define CKPTFS_CHECK_DIGESTS_H

#include "ckptfs/format.h"
#include "ckptfs/io.h"

/* Reads the file, of which each line must be one of `ckptfs digest`. Returns the exit status,
 * after a message if it is not 0. Caller frees the text, also after an error. */
CK_MUST_USE int ck_check_digests_read(const char *path, struct ck_buf *text);
/* Adds a finding for each tensor whose digest differs, cannot be computed or is not in the text,
 * and for each line without a tensor. The names in *out point into the text.
 * Returns 0, or: shortages of this process. */
CK_MUST_USE int ck_check_digests(struct ck_checkpoint *cp,
				 struct ck_route *route, struct ck_str text,
				 struct ck_findings *out);

#endif
