/* SPDX-License-Identifier: MIT */
/* ranks_kind: the format "ranks" for detect.c: a directory of files of torch.save, one or more
 * for each rank of a job, see kind.h. */
#ifndef CK_RANKS_KIND_H
#define CK_RANKS_KIND_H

#include "format/kind.h"

extern const struct ck_format ck_format_ranks;

/* For ck_kind.holds: returns 1 if names of two files of torch.save in the directory differ in one
 * number only, except for files of random states; else 0. */
int ck_ranks_has_family(const struct ck_src *src, struct ck_diag *d);

#endif
