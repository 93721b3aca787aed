/* SPDX-License-Identifier: MIT */
/*
 * turn: a program that was overtaken by a commit opens next.
 */
#ifndef CKPTFS_FS_TURN_H
#define CKPTFS_FS_TURN_H

#include <sys/types.h>

struct ck_turns;

struct ck_turns *ck_turns_make(void); /* NULL: out of memory */
void ck_turns_free(struct ck_turns *t);
/* This thread was answered ESTALE for an old inode, and will come again. */
void ck_turn_give(struct ck_turns *t, pid_t thread);
/* It looks a name up: what it is answered is to be what it opens. */
void ck_turn_renew(struct ck_turns *t, pid_t thread);
/* It has come. */
void ck_turn_take(struct ck_turns *t, pid_t thread);
/* Before a commit is shown: waits for those who have a turn, 0.3 s at most. */
void ck_turns_wait(struct ck_turns *t);

#endif
