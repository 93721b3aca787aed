/* SPDX-License-Identifier: MIT */
/* warn: functions that find warnings, for the messages of format/warnings.h. Any thread. */
#ifndef CK_WARN_H
#define CK_WARN_H

#include "format/item/remarks.h"
#include "kind.h"

/* Records in cp->remarks unknown classes of the pickle of an object's item, and whether it
 * holds a DTensor of one rank. Any thread. */
void ck_object_remark(struct ck_checkpoint *cp, uint32_t object,
		      const struct ck_pickle *p);

/* --- newer.c ------------------------------------------------------------------- */

/* Returns the next data file, from number `from` on, whose mtime is more than 2 s later than
 * that of `.metadata`. Remote files are not compared. CK_NO_FILE if no file is left, the format
 * has no metadata of a fixed name, or its time is unknown. */
uint32_t ck_newer_file(const struct ck_checkpoint *cp,
		       const struct ck_catalog *c, uint32_t from);
/* Fills *out with the warning about such a file. Its texts are valid until the thread calls
 * ck_shown() again. */
void ck_newer_file_fault(const struct ck_checkpoint *cp,
			 const struct ck_catalog *c, uint32_t file,
			 struct ck_fault *out);
/* Appends one line that names the first 8 such files and counts the others, if there are
 * any. */
void ck_newer_print(const struct ck_checkpoint *cp, const struct ck_catalog *c,
		    struct ck_buf *out);
/* Appends a sentence if the directory also has `__<rank>.metadata` newer than `.metadata`. Sets
 * *file to the newest of them; *file must be NULL before, and the caller frees it. */
void ck_newer_save_print(const struct ck_checkpoint *cp,
			 const struct ck_catalog *c, struct ck_buf *out,
			 char **file);

/* --- misplaced.c ----------------------------------------------------------------- */

/* Adds a note if missing data files lie in a directory below. Does nothing for a single file,
 * or over several hosts. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_misplaced_note(const struct ck_checkpoint *cp,
				  struct ck_catalog *c);

/* --- diagnose.c ------------------------------------------------------------------- */

/* Adds a note about subdirectories that are checkpoints, beside files of torch.save. Does
 * nothing for a single file, or over several hosts. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_subdirectories_note(const struct ck_checkpoint *cp,
				       struct ck_catalog *c);

/* --- producers.c ------------------------------------------------------------------ */

/* ck_kind.holds of rows that refuse a directory. Return 0, or: -EBADMSG, with a message that
 * names the program that saved it, the files found, and the remedy; errors of listing. */

/* DeepSpeed's `zero_pp_rank_*`, `mp_rank_*` of DeepSpeed and Megatron, or Orbax. */
CK_MUST_USE int ck_producers_are_sure(const struct ck_src *src,
				      struct ck_diag *d);
/* DeepSpeed's `latest` beside `global_step*`, except for a run directory of steps that are
 * sure. */
CK_MUST_USE int ck_producers_have_latest(const struct ck_src *src,
					 struct ck_diag *d);
/* The program whose checkpoint one of these rows refuses; NULL for any other directory. */
const char *ck_producer_name(const struct ck_src *src);
/* Adds a note that names `global_step*` beside `latest`, for checkpoints of other programs in
 * the same directory. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_deepspeed_note(const struct ck_checkpoint *cp,
				  struct ck_catalog *c);
/* Adds a note about config.json in the subdirectory huggingface, as verl saves it, if the
 * directory itself has no such file. Does nothing for a single file, or over several hosts. Returns 0, or
 * -ENOMEM. */
CK_MUST_USE int ck_huggingface_note(const struct ck_checkpoint *cp,
				    struct ck_catalog *c);

#endif
