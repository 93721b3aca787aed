/* SPDX-License-Identifier: MIT */
/* Files beside `.metadata` that add entries: `common.pt` of Megatron (common.c), and
 * the sidecar of flat parameters (dcp_flat.c). Functions are called while a checkpoint
 * loads, by one thread, unless their comment names others. */
#ifndef CK_DCP_COMMON_H
#define CK_DCP_COMMON_H

#include "format/kind.h"

#define CK_DCP_COMMON "common.pt"

struct ck_torch_state; /* ../torch/own.c */

/* The file `common.pt`. The state of both DCP formats, cp->own, begins with this
 * struct. */
struct ck_dcp_common {
	/* its parsed contents; NULL without entries */
	struct ck_torch_state *own;
	uint32_t file; /* its number; CK_NO_FILE without a file */
};

/* Adds the entries of `common.pt` to a catalog that has all other entries, or a line of
 * damage if the file is malformed. Adds nothing if there is no such file. Returns 0,
 * or: -ENOMEM; errors of open(2) of `metadata.json` or of the directory. */
CK_MUST_USE int ck_dcp_common_load(struct ck_checkpoint *cp,
				   struct ck_catalog *c,
				   struct ck_dcp_common *out,
				   struct ck_diag *d);
void ck_dcp_common_fini(struct ck_dcp_common *common);

/* True if a tensor of this key is a flat parameter of FSDP1. */
bool ck_dcp_is_flat(struct ck_str key, uint32_t ndim);
/* Adds the original parameters that the sidecar describes, as views of flat parameters.
 * Must be called after all other entries were added. With options->write the sidecar is
 * not read. Errors of ck_sidecar_source_read(). */
CK_MUST_USE int ck_dcp_flat_load(struct ck_checkpoint *cp, struct ck_catalog *c,
				 const struct ck_format_options *options,
				 struct ck_diag *d);

/* ck_format.head, .sum and .pickle_sum: they are about `common.pt` only. */
uint64_t ck_dcp_head(const struct ck_checkpoint *cp, uint32_t file);
struct ck_sum *ck_dcp_sum(const struct ck_checkpoint *cp,
			  const struct ck_item *item);
struct ck_sum *ck_dcp_pickle_sum(const struct ck_checkpoint *cp, uint32_t file);

#endif
