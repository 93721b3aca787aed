/* SPDX-License-Identifier: MIT */
/*
 * detect: the upper layer: which format reads a directory or file, and which message
 * the user gets if no format does. Formats must not include it, except for run/.
 */
#ifndef CK_DETECT_H
#define CK_DETECT_H

#include "kind.h"

/* --- detect.c ------------------------------------------------------------------ */

/* All rows, in the order in which they are tried. */
extern const struct ck_kinds ck_kinds;

/* Sets *out to the first row of src->kind that holds. Returns 0, or: -ENOENT if no row
 * holds; errors of reading the source. */
CK_MUST_USE int ck_kind_find(const struct ck_kinds *kinds,
			     const struct ck_src *src,
			     const struct ck_kind **out, struct ck_diag *d);
/* After -ENOENT: returns 0, or -EBADMSG, see ck_kind.unfinished. */
CK_MUST_USE int ck_kind_unfinished(const struct ck_kinds *kinds,
				   const struct ck_src *src, struct ck_diag *d);
/* After -ENOENT with src->kind: writes to d what a checkpoint of that kind lacks, and of
 * which kind the source is. Returns -EBADMSG; -ENOMEM. */
CK_MUST_USE int ck_kind_missing(const struct ck_kinds *kinds,
				const struct ck_src *src, struct ck_diag *d);

/* --- diagnose.c ------------------------------------------------------------------ */

/* After -ENOENT: writes to d what the directory is, and which directories below it, by
 * `path`, are checkpoints. Returns -EBADMSG; -ENOMEM. */
CK_MUST_USE int ck_say_what_is_here(const struct ck_kinds *kinds, int dirfd,
				    const char *path, struct ck_diag *d);
/* The directory is the root of a mount of ckptfs, or a step in one. Its views would be
 * taken for steps of a run directory. */
bool ck_is_mount(int dirfd);
/* By its name: a file that torch.distributed.checkpoint writes. Its items are files of
 * torch.save, but the file is not. */
bool ck_part_of_dcp(const char *file);
/* As ck_say_what_is_here() for a file: its type, and the directory to give instead. path:
 * as the user wrote it. Returns -EBADMSG; errors of open(2); -ENOMEM. */
CK_MUST_USE int ck_say_what_file(const struct ck_src *src, const char *path,
				 struct ck_diag *d);
/* --- checkpoint.c ------------------------------------------------------------------ */

/* ck_checkpoint_open() with a table of the caller; for tests. */
CK_MUST_USE int ck_checkpoint_open_as(const char *path,
				      const struct ck_format_options *options,
				      const struct ck_kinds *kinds,
				      struct ck_checkpoint **out,
				      struct ck_diag *d);

#endif
