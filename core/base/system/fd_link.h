/* SPDX-License-Identifier: MIT */
/*
 * fd_link: open files by their links in /proc: for system calls that take only paths, and for
 * opening a file again. Needs /proc. No state; any thread.
 */
#ifndef CKPTFS_FD_LINK_H
#define CKPTFS_FD_LINK_H

#include "ckptfs/base.h"

#define CK_FD_LINK_BYTES 32

/* The path of the link of an open file, O_PATH or not. */
void ck_fd_link(int fd, char out[static CK_FD_LINK_BYTES]);
/* Opens the file again, with these flags. Returns a new descriptor, or an error of open(2). */
CK_MUST_USE int ck_fd_reopen(int fd, int flags);

#endif
