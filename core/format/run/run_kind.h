/* SPDX-License-Identifier: MIT */
/* run_kind: the format run, and the functions ck_kind.holds of its rows in detect.c,
 * see kind.h. */
#ifndef CK_RUN_KIND_H
#define CK_RUN_KIND_H

#include "format/kind.h"

extern const struct ck_format ck_format_run;

/* True for a directory with a step of a format with is_sure, at most src->level levels
 * below. */
int ck_run_is_sure(const struct ck_src *src, struct ck_diag *d);
/* True for a directory with a step of another format, directly below. */
int ck_run_is_here(const struct ck_src *src, struct ck_diag *d);

#endif
