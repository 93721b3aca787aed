/* SPDX-License-Identifier: MIT */
/* hostlist_internal: names, shared by what reads a list and what settles it. */
#ifndef CKPTFS_HOSTLIST_INTERNAL_H
#define CKPTFS_HOSTLIST_INTERNAL_H

#include "ckptfs/hostlist.h"

/* Takes the next piece of *rest, up to the separator, which goes with it. False: there
 * is none left; an empty text has one piece, which is empty. */
bool ck_host_piece(struct ck_str *rest, char separator, struct ck_str *piece);
/* Whether it can be the name of a host, and if not, why; where: for the message. */
CK_MUST_USE int ck_host_name_check(struct ck_str name, const char *where,
				   struct ck_diag *d);
/* The names of hosts are alike in any case. */
bool ck_host_is_named(const struct ck_host *host, struct ck_str name);
void ck_host_fini(struct ck_host *host);
/* A path of this host, which need not exist. Owned; NULL with errno set. */
char *ck_host_absolute(const char *source);

#endif
