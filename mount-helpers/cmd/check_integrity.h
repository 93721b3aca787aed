/* SPDX-License-Identifier: MIT */
/*
 * check_integrity: compares the files of a checkpoint with its integrity.json, in which
 * Megatron-core records the SHA-256 of each file of the directory. For `ckptfs check --full`.
 */
#ifndef CKPTFS_CHECK_INTEGRITY_H
#define CKPTFS_CHECK_INTEGRITY_H

#include "ckptfs/format.h"

/* Adds a finding for each file that differs or is missing, and a warning if there is an
 * integrity.json that cannot be checked. Does nothing without one. Reads files by several threads.
 * Returns 0, or: shortages of this process. */
CK_MUST_USE int ck_check_integrity(struct ck_checkpoint *cp,
				   enum ck_beneath links,
				   struct ck_findings *out);

#endif
