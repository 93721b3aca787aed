/* SPDX-License-Identifier: MIT */
/*
 * dcp: torch.distributed.checkpoint, releases 1.13 to 2.15. A directory with
 * `.metadata` (one pickle of a Metadata object) and data files in which each
 * stored box is one torch.save archive, found by (relative_path, offset,
 * length).
 */
#ifndef CK_FORMAT_DCP_H
#define CK_FORMAT_DCP_H

#include "ckptfs/model.h"

/* Adds what a `.metadata` says to an empty catalog: entries in the order of
 * state_dict_metadata, their boxes and items. file(ctx, path, number) is
 * called once for each relative_path and gives its number. bytes need not
 * outlive the call. -EBADMSG: malformed, dangerous, or duplicate keys. */
CK_MUST_USE int ck_dcp_parse(struct ck_catalog *c, const void *bytes,
			     size_t len,
			     int (*file)(void *ctx, struct ck_str path,
					 uint32_t *number),
			     void *ctx, struct ck_diag *d);

#endif
