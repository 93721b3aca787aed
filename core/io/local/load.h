/* SPDX-License-Identifier: MIT */
/*
 * load: runs of a file that is not mapped.
 */
#ifndef CK_LOAD_H
#define CK_LOAD_H

#include "ckptfs/move.h"

/* Bytes of a file that are in memory at a time. */
enum { CK_LOAD_BLOCK = 256 << 10 };

/* Reads the runs of copy number i of a plan into `to`, byte 0 of the plan's
 * destination. fpos: of the first run; the last one ends inside of the file.
 * block is overwritten. Adds to *bytes what was read, also what lies between the runs.
 * Errors of read(2); -EIO: the file has become shorter. */
CK_MUST_USE int ck_load_copy(int fd, const struct ck_plan *plan, size_t i,
			     uint64_t fpos, uint8_t *to,
			     uint8_t block[static CK_LOAD_BLOCK],
			     uint64_t *bytes);

#endif
