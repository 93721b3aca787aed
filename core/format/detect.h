/* SPDX-License-Identifier: MIT */
/*
 * detect: the upper layer of core/format. It chooses the format that reads a directory or
 * file, and writes the message for the user if no format does. Formats must not include it,
 * except for run/. Its functions have no state; any thread may call them.
 */
#ifndef CK_DETECT_H
#define CK_DETECT_H

#include "kind.h"

/* --- detect.c ------------------------------------------------------------------ */

/* All rows, in the order in which they are tried. */
extern const struct ck_kinds ck_kinds;

/* Sets *out to the first row of src->kind, or of all kinds, that matches the source. Returns 0,
 * or: -ENOENT if no row matches; -EBADMSG if a row refuses it as another program's; errors of
 * reading the source. */
CK_MUST_USE int ck_kind_find(const struct ck_kinds *kinds,
			     const struct ck_src *src,
			     const struct ck_kind **out, struct ck_diag *d);
/* Call after ck_kind_find() returned -ENOENT. Returns 0, or the error of the first row of
 * src->kind whose unfinished() fails, usually -EBADMSG. */
CK_MUST_USE int ck_kind_unfinished(const struct ck_kinds *kinds,
				   const struct ck_src *src, struct ck_diag *d);
/* Call after ck_kind_find() returned -ENOENT for src->kind. The message in d lists the parts
 * of that kind that the source lacks, and names the kind that the source has, if any.
 * Returns -EBADMSG, or -ENOMEM. */
CK_MUST_USE int ck_kind_missing(const struct ck_kinds *kinds,
				const struct ck_src *src, struct ck_diag *d);

/* --- diagnose.c ------------------------------------------------------------------ */

/* Call after ck_kind_find() returned -ENOENT for a directory. The message in d lists files of
 * the directory, and checkpoints in directories below it, as paths that begin with `path`.
 * Returns -EBADMSG, or -ENOMEM. */
CK_MUST_USE int ck_diagnose_directory(const struct ck_kinds *kinds, int dirfd,
				      const char *path, struct ck_diag *d);
/* True if the directory is the root of a mount of ckptfs, or a step in one. Such a directory
 * must be refused: hf/ and objects/ would be taken for steps of a run directory. */
bool ck_is_mount(int dirfd);
/* True if a file of this name is written by torch.distributed.checkpoint. Its items are files
 * of torch.save, but the file itself is not one. */
bool ck_part_of_dcp(const char *file);
/* Call for a file that no format reads, or for one of ck_part_of_dcp(). The message in d has
 * the type of the file. It names the directory of the file if that is the checkpoint. `path`:
 * the file, as the user wrote it. Returns -EBADMSG, or: errors of open(2); -ENOMEM. */
CK_MUST_USE int ck_diagnose_file(const struct ck_src *src, const char *path,
				 struct ck_diag *d);
/* --- checkpoint.c ------------------------------------------------------------------ */

/* The same as ck_checkpoint_open(), with a table of the caller, for tests. */
CK_MUST_USE int ck_checkpoint_open_as(const char *path,
				      const struct ck_format_options *options,
				      const struct ck_kinds *kinds,
				      struct ck_checkpoint **out,
				      struct ck_diag *d);

#endif
