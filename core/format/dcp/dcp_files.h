/* SPDX-License-Identifier: MIT */
/*
 * dcp_files: what the two ways of saving share: one `.metadata`, or one of each rank.
 */
#ifndef CK_DCP_FILES_H
#define CK_DCP_FILES_H

#include "../load/load_gather.h"

/* ck_format.is_part, .rank */
bool ck_dcp_is_part(const char *name);
/* ck_format.is_carried: classes of other producers, OLMo-core and Megatron-core. */
bool ck_dcp_is_carried(struct ck_str global);
uint64_t ck_dcp_rank_of(const struct ck_checkpoint *cp, uint32_t file);

#endif
