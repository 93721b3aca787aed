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

#endif
