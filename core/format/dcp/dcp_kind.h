/* SPDX-License-Identifier: MIT */
/* The format dcp as rows of detect.c have it, see kind.h. */
#ifndef CK_DCP_KIND_H
#define CK_DCP_KIND_H

#include "../kind.h"

extern const struct ck_format ck_format_dcp, ck_format_dcp_ranks;

int ck_dcp_is_here(const struct ck_src *src, struct ck_diag *d);
int ck_dcp_is_unfinished(const struct ck_src *src, struct ck_diag *d);
int ck_dcp_has_ranks(const struct ck_src *src, struct ck_diag *d);

#endif
