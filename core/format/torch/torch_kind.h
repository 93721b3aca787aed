/* SPDX-License-Identifier: MIT */
/* torch_kind: the format torch and the functions ck_kind.holds of its rows in detect.c,
 * see kind.h. */
#ifndef CK_TORCH_KIND_H
#define CK_TORCH_KIND_H

#include "format/kind.h"

extern const struct ck_format ck_format_torch;

/* True for a directory with an index, `*.bin.index.json`. */
int ck_torch_has_index(const struct ck_src *src, struct ck_diag *d);
/* True for a directory with pieces of one state dict, `*-<i>-of-<n>.bin`. */
int ck_torch_has_pieces(const struct ck_src *src, struct ck_diag *d);
/* True for a directory with any torch files, by name and first bytes. */
int ck_torch_has_files(const struct ck_src *src, struct ck_diag *d);
/* True for a torch file, by its first bytes. */
int ck_torch_is_file(const struct ck_src *src, struct ck_diag *d);

#endif
