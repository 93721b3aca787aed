/* SPDX-License-Identifier: MIT */
/* dcp_kind: the two DCP formats and the functions of their rows in detect.c, see
 * kind.h. */
#ifndef CK_DCP_KIND_H
#define CK_DCP_KIND_H

#include "format/kind.h"

extern const struct ck_format ck_format_dcp, ck_format_dcp_ranks;

/* ck_kind.holds: `.metadata` is in a local directory. */
int ck_dcp_is_here(const struct ck_src *src, struct ck_diag *d);
/* ck_kind.unfinished: a temporary name of metadata is in the directory. */
int ck_dcp_is_unfinished(const struct ck_src *src, struct ck_diag *d);
/* ck_kind.holds: a `__<rank>.metadata` is in the directory, on any host. */
int ck_dcp_has_ranks(const struct ck_src *src, struct ck_diag *d);

#endif
