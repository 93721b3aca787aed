/* SPDX-License-Identifier: MIT */
/* hostlist_internal: shared by hostlist.c, which parses lists of hosts, and
 * hostlist_settle.c, which finds this host in them. A list belongs to one thread. */
#ifndef CKPTFS_HOSTLIST_INTERNAL_H
#define CKPTFS_HOSTLIST_INTERNAL_H

#include "hostlist.h"

/* True if the host has this name, without regard to case. */
bool ck_host_is_named(const struct ck_host *host, struct ck_str name);
/* Frees the texts of a host. */
void ck_host_fini(struct ck_host *host);

#endif
