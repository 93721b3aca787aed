/* SPDX-License-Identifier: MIT */
/*
 * cold: data that is not in memory yet.
 */
#ifndef CK_COLD_H
#define CK_COLD_H

#include "ckptfs/source.h"

/* Bytes read at once: they stay in the processor's cache. */
enum { CK_COLD_BLOCK = 128 << 10 };

/* Is the byte in memory? Never reads. Asked by read(2), since mincore(2) says
 * yes to everything about files of other owners. */
CK_MUST_USE bool ck_cold_is_resident(const struct ck_file *file, uint64_t fpos);
/* Starts the reading of a range that will be loaded from the mapping now, if
 * it is not in memory: otherwise each page would be read by itself. */
void ck_cold_want(const struct ck_file *file, uint64_t fpos, uint64_t len);
/* Reads a range into memory the way a plain reader does, so that the page
 * cache keeps it in large pieces. Waits for the disk. block is overwritten. */
void ck_cold_fetch(const struct ck_file *file, uint64_t fpos, uint64_t len,
		   char block[static CK_COLD_BLOCK]);

#endif
