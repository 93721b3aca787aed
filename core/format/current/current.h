/* SPDX-License-Identifier: MIT */
/*
 * current: the lower layer: a loaded checkpoint, its current catalog, and the access
 * rights that it shows. It is used by formats and by the upper layer, and calls neither,
 * except through struct ck_format.
 */
#ifndef CK_CURRENT_H
#define CK_CURRENT_H

#include "ckptfs/format.h"

/* --- current.c ------------------------------------------------------------------ */

/* Makes `next`, whose reference it takes, the current catalog. metadata: the new
 * metadata file; NULL if it is the same file. Must hold cp->changing. */
void ck_checkpoint_publish(struct ck_checkpoint *cp,
			   const struct ck_catalog *next,
			   const struct stat *metadata);
/* Returns the catalog row of a data file, from its last stat. */
struct ck_data_file ck_file_described(const struct ck_checkpoint *cp,
				      uint32_t number);

/* --- access.c ------------------------------------------------------------------- */

/* Owner and mode of the metadata file and the directory, as they were seen last. NULL if
 * memory is short. Free it with free(). */
struct ck_access *ck_access_make(const struct ck_catalog *c);
/* Records the rights of the metadata file, and its ACL. Does nothing before cp->access
 * is set. Any thread. */
void ck_access_note_metadata(const struct ck_checkpoint *cp,
			     const struct stat *st);
/* The same for the directory; if it is gone, the rights stay as they were. */
void ck_access_note_directory(const struct ck_checkpoint *cp);
/* The bits that copies of the metadata on other hosts remove from its mode. */
mode_t ck_metadata_closed(const struct ck_checkpoint *cp);
/* ck_metadata_changed() for metadata on another host. */
int ck_metadata_changed_far(const struct ck_checkpoint *cp);
/* The mode of the directories of the tree, before cp->access is set. Errors of
 * stat(2). */
CK_MUST_USE int ck_directory_mode(const struct ck_checkpoint *cp, mode_t *mode);
/* Enters into a catalog that is not published yet the rights as they were seen last, and
 * files that were unseen before. *changed: something differed. After -ENOMEM some rows
 * are corrected and others are not. */
CK_MUST_USE int ck_access_correct(struct ck_checkpoint *cp,
				  struct ck_catalog *next, bool *changed);
/* Counts a change of rights between two current catalogs, see ck_checkpoint_access(). */
void ck_access_renewed(struct ck_checkpoint *cp);
/* Publishes files that were unseen and have been seen since. If memory is short, a later
 * call does it. */
void ck_checkpoint_learn(struct ck_checkpoint *cp);

#endif
