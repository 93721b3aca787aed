/* SPDX-License-Identifier: MIT */
/*
 * rank_list: ranks as a user lists them: decimal numbers and ranges, with `+` or `,`
 * between, as `0+3-5`. A list is its text. Pure functions. A part of model.
 */
#ifndef CKPTFS_RANK_LIST_H
#define CKPTFS_RANK_LIST_H

#include "ckptfs/base.h"

CK_MUST_USE bool ck_rank_list_is_valid(const char *list);
/* True if a valid list has the rank; NULL has all. */
CK_MUST_USE bool ck_rank_list_has(const char *list, uint64_t rank);

#endif
