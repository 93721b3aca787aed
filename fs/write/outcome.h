/* SPDX-License-Identifier: MIT */
/*
 * outcome: sentences about the tensors that a commit has committed or dropped.
 */
#ifndef CKPTFS_OUTCOME_H
#define CKPTFS_OUTCOME_H

#include "ckptfs/commit.h"

struct ck_fs;

/* Appends the result of a commit: rc is its errno, d its message if it failed. Sorts
 * the tensors by name. */
void ck_outcome_print(const struct ck_fs *fs, struct ck_outcome *out, int rc,
		      const struct ck_diag *d, struct ck_buf *text);
/* Appends the result of dropping staged tensors; verb: as "dropped". Sorts the tensors
 * by name. */
void ck_drop_print(const struct ck_fs *fs, struct ck_outcome *out,
		   const char *verb, struct ck_buf *text);

#endif
