/* SPDX-License-Identifier: MIT */
/*
 * current: the lower layer: a loaded checkpoint, its current catalog, and the access
 * rights that it shows. It is used by formats and by the upper layer, and calls neither,
 * except through struct ck_format. Functions may be called by any thread unless their
 * comment names others.
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

/* Makes the record of owner and mode of the metadata file and the directory, with the values
 * of a catalog. NULL if memory is short. Caller frees it with free(). */
struct ck_access *ck_access_make(const struct ck_catalog *c);
/* Records the rights of the metadata file, and its ACL. Does nothing before cp->access
 * is set. */
void ck_access_note_metadata(const struct ck_checkpoint *cp,
			     const struct stat *st);
/* The same for the directory. If its stat fails, the record stays as it is. */
void ck_access_note_directory(const struct ck_checkpoint *cp);
/* The permission bits that replicas of the metadata on other hosts deny. 0 if all files are
 * local. */
mode_t ck_metadata_closed(const struct ck_checkpoint *cp);
/* The same as ck_metadata_changed(), for metadata on another host. */
int ck_metadata_changed_remote(const struct ck_checkpoint *cp);
/* Sets *mode to the mode of the directories of the tree. For use before cp->access is set.
 * Returns 0, or an error of stat(2). */
CK_MUST_USE int ck_directory_mode(const struct ck_checkpoint *cp, mode_t *mode);
/* Updates a catalog that is not published yet with the recorded rights, and with files whose
 * first stat came after it was made. Sets *changed to true if a row differed. Must hold
 * cp->changing. Returns 0, or -ENOMEM: some rows are then corrected and others are not. */
CK_MUST_USE int ck_access_correct(struct ck_checkpoint *cp,
				  struct ck_catalog *next, bool *changed);
/* Counts a change of rights between two current catalogs, see ck_checkpoint_access(). */
void ck_access_renewed(struct ck_checkpoint *cp);
/* Publishes a catalog with files that had no stat before and have one now. If memory is short,
 * a later call does it. Takes cp->changing. */
void ck_checkpoint_learn(struct ck_checkpoint *cp);

#endif
