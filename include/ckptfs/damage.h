/* SPDX-License-Identifier: MIT */
/*
 * damage: what is known to be lost, and why, in the words that `ckptfs check` has too:
 * the report `damage`, and the attribute `error` of one file. A part of tree. Any
 * thread.
 */
#ifndef CKPTFS_DAMAGE_H
#define CKPTFS_DAMAGE_H

#include "ckptfs/format.h"
#include "ckptfs/view.h"

struct ck_damage; /* what was found of one checkpoint */

/* The checkpoint outlives it. NULL: out of memory. */
struct ck_damage *ck_damage_make(struct ck_checkpoint *cp);
void ck_damage_free(struct ck_damage *known); /* NULL is allowed */

/* A fault is in the catalog, or was found in the items before. No I/O. */
bool ck_damage_is_known(const struct ck_damage *known, uint32_t tensor);
/* The latter. */
bool ck_damage_was_found(const struct ck_damage *known, uint32_t tensor);
/* What was found does not hold any more. */
void ck_damage_forget(struct ck_damage *known, uint32_t tensor);
/* Looks at the headers of the items that a window of a tensor comes from (NULL:
 * all of it), and at their files. *faulty: a fault was found, of the moment too.
 * Put the layout back. Errors as of ck_layout_get(). */
CK_MUST_USE int ck_damage_locate(struct ck_damage *known,
				 const struct ck_catalog *c, uint32_t tensor,
				 const uint64_t *window,
				 const struct ck_layout **out, bool *faulty);
/* A read of it met a file that has changed: looks at its files. */
void ck_damage_look(struct ck_damage *known, const struct ck_layout *layout);
/* What of its tensor a file has: offsets, then sizes, in elements; NULL: all. The
 * tensor has no err. */
const uint64_t *ck_about_window(const struct ck_catalog *c,
				const struct ck_file_content *about);

/* Appends a line, indented, for each fault of the file of a tensor or box, the
 * first of them if there are many; layout may be NULL. */
void ck_damage_print_file(struct ck_damage *known, const struct ck_catalog *c,
			  const struct ck_file_content *about,
			  const struct ck_layout *layout, const char *indent,
			  struct ck_buf *out);
/* The report `damage`. */
void ck_damage_print(struct ck_damage *known, struct ck_buf *out);
/* Says in the log what the format doubts of the checkpoint, and how much is damaged. */
void ck_damage_log(const struct ck_damage *known);

#endif
