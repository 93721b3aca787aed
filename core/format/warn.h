/* SPDX-License-Identifier: MIT */
/* warn: what the parts of warnings share, see ckptfs/warnings.h. */
#ifndef CK_WARN_H
#define CK_WARN_H

#include "item/remarks.h"
#include "kind.h"

/* Notes what only the pickle of an object's item has. Any thread. */
void ck_object_remark(struct ck_checkpoint *cp, uint32_t object,
		      const struct ck_pickle *p);

/* --- newer.c ------------------------------------------------------------------- */

/* The next data file, from number `from` on, whose mtime is more than 2 s later than that
 * of `.metadata`; CK_NO_FILE if no file is left, or there is no such metadata. Files on
 * other hosts are not compared. */
uint32_t ck_newer_file(const struct ck_checkpoint *cp,
		       const struct ck_catalog *c, uint32_t from);
/* That as a warning; its texts are valid until other text is shown. */
void ck_newer_file_fault(const struct ck_checkpoint *cp,
			 const struct ck_catalog *c, uint32_t file,
			 struct ck_fault *out);
/* Appends a line that names such files, if there are any. */
void ck_newer_print(const struct ck_checkpoint *cp, const struct ck_catalog *c,
		    struct ck_buf *out);
/* Appends a sentence if `__<rank>.metadata` of another save lie beside an older `.metadata`;
 * *file is the newest of them, which is to be freed. */
void ck_newer_save_print(const struct ck_checkpoint *cp,
			 const struct ck_catalog *c, struct ck_buf *out,
			 char **file);

/* --- misplaced.c ----------------------------------------------------------------- */

/* Adds a note if data files that are missing lie in a directory below. -ENOMEM. */
CK_MUST_USE int ck_misplaced_note(const struct ck_checkpoint *cp,
				  struct ck_catalog *c);

/* --- producers.c ------------------------------------------------------------------ */

/* The directory that DeepSpeed's file `latest` names. Caller frees it. NULL if the directory
 * is not DeepSpeed's. */
char *ck_deepspeed_latest(int dirfd);
/* Adds a note if it is DeepSpeed's. -ENOMEM. */
CK_MUST_USE int ck_deepspeed_note(const struct ck_checkpoint *cp,
				  struct ck_catalog *c);
/* Appends names of files that Orbax writes. False if the directory is not Orbax's. */
bool ck_orbax_print(int dirfd, struct ck_buf *names);

#endif
