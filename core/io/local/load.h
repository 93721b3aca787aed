/* SPDX-License-Identifier: MIT */
/*
 * load: runs a plan op on a file that is not mapped. No state; any thread.
 */
#ifndef CK_LOAD_H
#define CK_LOAD_H

#include "ckptfs/io.h"

/* Bytes of the scratch memory. */
enum { CK_LOAD_BLOCK = 256 << 10 };

/* Reads the runs of plan op i. to: byte 0 of the destination of the plan. fpos: file
 * offset of the first run; the last run must end inside of the file. block: scratch
 * memory. Adds the number of bytes read to *bytes, with those between the runs.
 * Returns 0, or: errors of read(2); -EIO if the file has become shorter. */
CK_MUST_USE int ck_load_copy(int fd, const struct ck_plan *plan, size_t i,
			     uint64_t fpos, uint8_t *to,
			     uint8_t block[static CK_LOAD_BLOCK],
			     uint64_t *bytes);

#endif
