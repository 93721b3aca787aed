/* SPDX-License-Identifier: MIT */
/*
 * residency: ranges of data files that are not in the page cache. No state; any
 * thread.
 */
#ifndef CK_RESIDENCY_H
#define CK_RESIDENCY_H

#include "ckptfs/source.h"

/* Bytes of one read(2), so that they stay in the cache of the processor. */
enum { CK_RESIDENCY_BLOCK = 128 << 10 };

/* True if the byte is in the page cache. Never reads from the disk. Uses preadv2(2),
 * since mincore(2) reports all pages of files of other users as resident. */
CK_MUST_USE bool ck_residency_test(const struct ck_file *file, uint64_t fpos);
/* Starts to read a range that is loaded from the mapping next, unless its last byte
 * is resident: otherwise each page would be read by a fault of its own. */
void ck_residency_prefetch(const struct ck_file *file, uint64_t fpos,
			   uint64_t len);
/* Reads a range into the page cache with read(2), so that the cache has it in large
 * folios. Blocks on the disk. block: scratch memory. Errors are ignored. */
void ck_residency_load(const struct ck_file *file, uint64_t fpos, uint64_t len,
		       char block[static CK_RESIDENCY_BLOCK]);

#endif
