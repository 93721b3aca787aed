/* SPDX-License-Identifier: MIT */
/*
 * kinds: what a checkpoint is recognised by. A row for each way; they are tried
 * in order, and the first that holds decides. A kind may have several rows, since
 * some of what it looks like is less sure than what others look like.
 */
#include "format_internal.h"

#include <errno.h>

static const struct ck_kind rows[] = {
	{ &ck_format_dcp,
	  "it has the .metadata of torch.distributed.checkpoint",
	  ck_dcp_is_here, ck_dcp_is_unfinished },
};

const struct ck_kinds ck_kinds = { rows, CK_ARRAY_SIZE(rows) };

int ck_kind_find(const struct ck_kinds *kinds, const struct ck_src *src,
		 const struct ck_kind **out, struct ck_diag *d)
{
	for (size_t i = 0; i < kinds->n; i++) {
		int rc = kinds->rows[i].holds(src, d);

		if (rc > 0)
			*out = &kinds->rows[i];
		if (rc)
			return rc < 0 ? rc : 0;
	}
	return -ENOENT;
}

int ck_kind_unfinished(const struct ck_kinds *kinds, const struct ck_src *src,
		       struct ck_diag *d)
{
	int rc = 0;

	for (size_t i = 0; i < kinds->n && rc == 0; i++)
		if (kinds->rows[i].unfinished)
			rc = kinds->rows[i].unfinished(src, d);
	return rc;
}
