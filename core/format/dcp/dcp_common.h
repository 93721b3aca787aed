/* SPDX-License-Identifier: MIT */
/* What lies beside DCP: what Megatron saves, see common.c, and a sidecar, see flat.c. */
#ifndef CK_DCP_COMMON_H
#define CK_DCP_COMMON_H

#include "../kind.h"

#define CK_DCP_COMMON	   "common.pt"
#define CK_DCP_COMMON_PART "common"

struct ck_torch_own; /* ../torch/own.c */

/* cp->own of the formats of DCP begins with it; zeros: there is nothing. */
struct ck_dcp_common {
	struct ck_torch_own *own; /* of that file; NULL: there is none */
	uint32_t file;		  /* its number; CK_NO_FILE: the same */
};

/* Adds the entries of that file to a catalog that has all others, or a line of damage. An error
 * is none of the file: -ENOMEM and the like, errors of open(2) of what says what it is. */
CK_MUST_USE int ck_dcp_common_load(struct ck_checkpoint *cp,
				   struct ck_catalog *c,
				   struct ck_dcp_common *out,
				   struct ck_diag *d);
void ck_dcp_common_fini(struct ck_dcp_common *common);

/* Is a tensor of this key a flat parameter of FSDP1? */
bool ck_dcp_is_flat(struct ck_str key, uint32_t ndim);
/* Adds the parameters that a sidecar makes of flat ones, once all else is in the catalog. Errors
 * of ck_flat_said_read(). */
CK_MUST_USE int ck_dcp_flat_load(struct ck_checkpoint *cp, struct ck_catalog *c,
				 const struct ck_format_options *options,
				 struct ck_diag *d);

/* Of the format. */
uint64_t ck_dcp_head(const struct ck_checkpoint *cp, uint32_t file);
struct ck_sum *ck_dcp_sum(const struct ck_checkpoint *cp,
			  const struct ck_item *item);
struct ck_sum *ck_dcp_pickle_sum(const struct ck_checkpoint *cp, uint32_t file);

#endif
