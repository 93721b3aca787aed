/* SPDX-License-Identifier: MIT */
/*
 * dcp_parse: a `.metadata` into a catalog, without the places of its boxes.
 */
#ifndef CK_DCP_PARSE_H
#define CK_DCP_PARSE_H

#include "format/dcp/dcp.h"

static inline int dcp_parse(struct ck_catalog *c, const void *bytes, size_t len,
			    int (*file)(void *ctx, struct ck_str path,
					uint32_t *number),
			    void *ctx, struct ck_diag *d)
{
	struct ck_dcp_numbers numbers = { file, ctx, NULL };

	return ck_dcp_parse_places(c, (struct ck_str){ bytes, len }, &numbers,
				   NULL, d);
}

#endif
