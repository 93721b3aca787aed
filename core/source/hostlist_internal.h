/* SPDX-License-Identifier: MIT */
/* hostlist_internal: shared by hostlist.c and hostlist_settle.c. */
#ifndef CKPTFS_HOSTLIST_INTERNAL_H
#define CKPTFS_HOSTLIST_INTERNAL_H

#include "ckptfs/hostlist.h"

/* Compares names of hosts without regard to case. */
bool ck_host_is_named(const struct ck_host *host, struct ck_str name);
void ck_host_fini(struct ck_host *host);

#endif
