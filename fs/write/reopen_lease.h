/* SPDX-License-Identifier: MIT */
/*
 * turn: a program that was overtaken by a commit opens next.
 */
#ifndef CKPTFS_FS_REOPEN_LEASE_H
#define CKPTFS_FS_REOPEN_LEASE_H

#include <sys/types.h>

struct ck_reopen_leases;

struct ck_reopen_leases *ck_reopen_leases_make(void); /* NULL: out of memory */
void ck_reopen_leases_free(struct ck_reopen_leases *t);
/* This thread was answered ESTALE for an old inode, and will come again. */
void ck_reopen_lease_grant(struct ck_reopen_leases *t, pid_t thread);
/* It looks a name up: what it is answered is to be what it opens. */
void ck_reopen_lease_renew(struct ck_reopen_leases *t, pid_t thread);
/* It has come. */
void ck_reopen_lease_end(struct ck_reopen_leases *t, pid_t thread);
/* Before a commit is shown: waits for those who have a turn, 0.3 s at most. */
void ck_reopen_leases_wait(struct ck_reopen_leases *t);

#endif
