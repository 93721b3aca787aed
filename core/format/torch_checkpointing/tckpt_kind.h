/* SPDX-License-Identifier: MIT */
/* tckpt_kind: the format "torch_checkpointing" for detect.c: a directory that the package
 * torch_checkpointing saved, see kind.h. */
#ifndef CK_TCKPT_KIND_H
#define CK_TCKPT_KIND_H

#include "format/kind.h"

extern const struct ck_format ck_format_torch_checkpointing;

/* End of the message that refuses files of ranks without metadata.pkl. */
#define CK_TCKPT_UNLISTED                                                      \
	"files of ranks, as torch_checkpointing writes them, but without its " \
	"metadata.pkl the part of a tensor that each has is unknown; if the "  \
	"first save of the run has the same layout, copy its metadata.pkl "    \
	"into this directory"

/* For ck_kind.holds: returns 1 if the directory has a metadata.pkl of this package; 0 without
 * such a file, or for that of another program; -EBADMSG if it is malformed, or of an unknown version. */
int ck_tckpt_is_here(const struct ck_src *src, struct ck_diag *d);
/* For ck_kind.holds of a row that refuses: returns -EBADMSG if the directory has subdirectories of
 * ranks, rank_0 and rank_1, with safetensors files of one name, as a save without metadata.pkl has
 * them; else 0. */
int ck_tckpt_has_ranks(const struct ck_src *src, struct ck_diag *d);

/* True for the default name of the file of a rank, `<item>_<rank><suffix>`. */
bool ck_tckpt_is_name(const char *name, const char *suffix, struct ck_str *item,
		      uint64_t *rank);

#endif
