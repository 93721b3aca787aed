/* SPDX-License-Identifier: MIT */
/*
 * host: properties of this machine that mounting depends on.
 */
#ifndef CKPTFS_HOST_H
#define CKPTFS_HOST_H

#include <stdbool.h>

/* True if fusermount3 would refuse allow_other: an ordinary user needs a line
 * in /etc/fuse.conf. */
bool ck_host_refuses_allow_other(void);
/* True if fusermount3 is where libfuse looks for it. */
bool ck_host_has_fusermount(void);

/* Loads the library that glibc needs to end a thread. If glibc cannot load it
 * later, it ends the process. */
void ck_host_load_unwinder(void);

#endif
