/* SPDX-License-Identifier: MIT */
/* safetensors_kind: the format safetensors, and the functions ck_kind.holds of its rows
 * in detect.c, see kind.h. */
#ifndef CK_SAFETENSORS_KIND_H
#define CK_SAFETENSORS_KIND_H

#include "format/kind.h"

extern const struct ck_format ck_format_safetensors;

/* True for a directory with an index, `*.safetensors.index.json`. */
int ck_safetensors_has_index(const struct ck_src *src, struct ck_diag *d);
/* True for a directory with `*.safetensors`. */
int ck_safetensors_has_files(const struct ck_src *src, struct ck_diag *d);
/* True for a safetensors file, by its first bytes. */
int ck_safetensors_is_file(const struct ck_src *src, struct ck_diag *d);

#endif
