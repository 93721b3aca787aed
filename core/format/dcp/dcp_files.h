/* SPDX-License-Identifier: MIT */
/*
 * dcp_files: functions that both DCP formats share: the one with one `.metadata`, and
 * the one with a `__<rank>.metadata` of each rank. Stateless.
 */
#ifndef CK_DCP_FILES_H
#define CK_DCP_FILES_H

#include "format/load/load_gather.h"

/* ck_format.is_part, .rank */
bool ck_dcp_is_part(const char *name);
/* ck_format.is_carried: classes of other producers, OLMo-core and Megatron-core. */
bool ck_dcp_is_carried(struct ck_str global);
/* ck_format.rank: the rank in the name of a data file. */
uint64_t ck_dcp_rank_of(const struct ck_checkpoint *cp, uint32_t file);

#endif
