/* SPDX-License-Identifier: MIT */
/* torch_kind: the format torch and the functions ck_kind.holds of its rows in detect.c,
 * see kind.h. */
#ifndef CK_TORCH_KIND_H
#define CK_TORCH_KIND_H

#include "../kind.h"

extern const struct ck_format ck_format_torch;

/* A directory with `*.bin.index.json`; with files `*-<i>-of-<n>.bin`; with any torch
 * files. The last one: a torch file. */
int ck_torch_has_index(const struct ck_src *src, struct ck_diag *d);
int ck_torch_has_pieces(const struct ck_src *src, struct ck_diag *d);
int ck_torch_has_files(const struct ck_src *src, struct ck_diag *d);
int ck_torch_is_file(const struct ck_src *src, struct ck_diag *d);

#endif
