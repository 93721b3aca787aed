/* SPDX-License-Identifier: MIT */
/*
 * host: what this machine has for mounts.
 */
#ifndef CKPTFS_FS_HOST_H
#define CKPTFS_FS_HOST_H

#include <stdbool.h>

/* allow_other of an ordinary user is decided by fusermount3's file. */
bool ck_host_refuses_allow_other(void);
/* Whether fusermount3 is where libfuse looks for it. */
bool ck_host_has_fusermount(void);

/* A thread that is ended needs a library that glibc loads then; where there is
 * no memory for that, it ends the process. So it is loaded here. */
void ck_host_load_unwinder(void);

#endif
