/* SPDX-License-Identifier: MIT */
/*
 * damage: known faults of the tensors of one checkpoint, in the words of `ckptfs
 * check`: the report `damage`, and the attribute `error` of one file. Faults come
 * from the catalog, and from items whose headers were read. A part of tree. Any
 * thread.
 */
#ifndef CKPTFS_DAMAGE_H
#define CKPTFS_DAMAGE_H

#include "ckptfs/format.h"
#include "ckptfs/view.h"

struct ck_damage; /* the known faults of one checkpoint */

/* Caller owns the checkpoint, which must outlive the result. NULL if out of
 * memory. */
struct ck_damage *ck_damage_make(struct ck_checkpoint *cp);
void ck_damage_free(struct ck_damage *known); /* NULL is allowed */

/* True if a fault of the tensor is in the catalog, was found in its items, its samples
 * differ, or its file is on a host that is down. False for a tensor that is not whole: the
 * report of losses has it. Does no I/O. */
bool ck_damage_is_known(const struct ck_damage *known, uint32_t tensor);
/* The same for a window of a tensor; NULL: the whole tensor. */
bool ck_damage_part_is_known(const struct ck_damage *known,
			     const struct ck_catalog *c, uint32_t tensor,
			     const uint64_t *window);
/* True if a fault was found in its items. */
bool ck_damage_was_found(const struct ck_damage *known, uint32_t tensor);
/* True if an open found that ranks hold different values of it. Does no I/O. */
bool ck_damage_differs(const struct ck_damage *known, uint32_t tensor);
/* Clears the faults found in its items. */
void ck_damage_forget(struct ck_damage *known, uint32_t tensor);
/* Reads the headers of the items that a window of a tensor touches (NULL: the whole
 * tensor), and checks their files. Sets *faulty if a fault was found, also a
 * transient one. The first call for a plain tensor of files of ranks compares samples of
 * its copies. Returns 0, or: -EIO if ck_damage_differs(); an error of ck_layout_get().
 * Caller must call ck_layout_put(). */
CK_MUST_USE int ck_damage_locate(struct ck_damage *known,
				 const struct ck_catalog *c, uint32_t tensor,
				 const uint64_t *window,
				 const struct ck_layout **out, bool *faulty);
/* Checks the files of a layout, after a read of it found a changed file. */
void ck_damage_check_files(struct ck_damage *known,
			   const struct ck_layout *layout);
/* Appends an indented line for each fault of the file of a tensor, a box or a part; only
 * the first ones if there are many. layout: of the tensor or the box, NULL if unknown; of
 * a part, that of its window. */
void ck_damage_print_file(struct ck_damage *known, const struct ck_catalog *c,
			  const struct ck_file_content *about,
			  const struct ck_layout *layout, const char *indent,
			  struct ck_buf *out);
/* Appends the report `damage`. */
void ck_damage_print(struct ck_damage *known, struct ck_buf *out);
/* Logs the doubts of the format about the checkpoint, and the number of damaged
 * tensors. */
void ck_damage_log(const struct ck_damage *known);

#endif
