/* SPDX-License-Identifier: MIT */
/* The format safetensors as rows of detect.c have it, see kind.h. */
#ifndef CK_SAFETENSORS_KIND_H
#define CK_SAFETENSORS_KIND_H

#include "../kind.h"

extern const struct ck_format ck_format_safetensors;

int ck_safetensors_has_index(const struct ck_src *src, struct ck_diag *d);
int ck_safetensors_has_files(const struct ck_src *src, struct ck_diag *d);
int ck_safetensors_is_file(const struct ck_src *src, struct ck_diag *d);

#endif
