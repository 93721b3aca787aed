/* SPDX-License-Identifier: MIT */
/* The format run as rows of detect.c have it, see kind.h. */
#ifndef CK_RUN_KIND_H
#define CK_RUN_KIND_H

#include "../kind.h"

extern const struct ck_format ck_format_run;

int ck_run_is_sure(const struct ck_src *src, struct ck_diag *d);
int ck_run_is_here(const struct ck_src *src, struct ck_diag *d);

#endif
