/* SPDX-License-Identifier: MIT */
/* The format torch as rows of detect.c have it, see kind.h. */
#ifndef CK_TORCH_KIND_H
#define CK_TORCH_KIND_H

#include "../kind.h"

extern const struct ck_format ck_format_torch;

int ck_torch_has_index(const struct ck_src *src, struct ck_diag *d);
int ck_torch_has_pieces(const struct ck_src *src, struct ck_diag *d);
int ck_torch_has_files(const struct ck_src *src, struct ck_diag *d);
int ck_torch_is_file(const struct ck_src *src, struct ck_diag *d);

#endif
