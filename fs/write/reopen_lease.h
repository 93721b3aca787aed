/* SPDX-License-Identifier: MIT */
/*
 * reopen_lease: prevents starvation of open(2) by commits. A thread whose open
 * failed with ESTALE gets 300 ms in which no new version is published.
 */
#ifndef CKPTFS_REOPEN_LEASE_H
#define CKPTFS_REOPEN_LEASE_H

#include <sys/types.h>

struct ck_reopen_leases;

/* NULL if memory is exhausted */
struct ck_reopen_leases *ck_reopen_leases_make(void);
void ck_reopen_leases_free(struct ck_reopen_leases *t);
/* The open of an old inode by this thread fails with ESTALE; the kernel will
 * retry it. */
void ck_reopen_lease_grant(struct ck_reopen_leases *t, pid_t thread);
/* This thread looks up a name, whose node it opens next: its lease starts
 * again. */
void ck_reopen_lease_renew(struct ck_reopen_leases *t, pid_t thread);
/* The thread has opened the file: its lease ends. */
void ck_reopen_lease_end(struct ck_reopen_leases *t, pid_t thread);
/* Waits before a commit is published until no lease is held, 0.3 s at most. */
void ck_reopen_leases_wait(struct ck_reopen_leases *t);

#endif
