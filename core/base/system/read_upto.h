/* SPDX-License-Identifier: MIT */
/*
 * read_upto: reads of a file that may end before the requested bytes, and writes to one that
 * may be full before. A part of base. Any thread.
 */
#ifndef CKPTFS_READ_UPTO_H
#define CKPTFS_READ_UPTO_H

#include "ckptfs/base.h"

/* Reads len bytes at fpos, or those up to the end of the file, continuing after short reads
 * and EINTR. Returns the number of bytes, or the error of pread(2). */
CK_MUST_USE ssize_t ck_pread_upto(int fd, void *buf, size_t len, uint64_t fpos);
/* Writes len bytes at fpos, continuing after short writes and EINTR; `flags`: RWF_APPEND to
 * write at the end of the file instead, or 0. Returns the number of bytes before an error, or
 * the error of pwritev2(2) if there are none. */
CK_MUST_USE ssize_t ck_pwrite_upto(int fd, const void *buf, size_t len,
				   uint64_t fpos, int flags);

#endif
