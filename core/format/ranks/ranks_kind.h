/* SPDX-License-Identifier: MIT */
/* The format ranks as rows of detect.c have it, see kind.h. */
#ifndef CK_RANKS_KIND_H
#define CK_RANKS_KIND_H

#include "../kind.h"

extern const struct ck_format ck_format_ranks;

int ck_ranks_has_family(const struct ck_src *src, struct ck_diag *d);

#endif
