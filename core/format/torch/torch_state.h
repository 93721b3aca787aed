/* SPDX-License-Identifier: MIT */
/*
 * torch_state: the state of a checkpoint with torch files (cp->own): the rank
 * of each file, and the CRC-32 of the records of zip containers. Made at the
 * end of a load, constant then except for the sums that were computed, which
 * are atomic. Any thread may call the functions with a checkpoint or an `own`.
 */
#ifndef CK_TORCH_STATE_H
#define CK_TORCH_STATE_H

#include "torch_internal.h"

struct ck_torch_load;
struct ck_torch_sums;

/* Adds the sums of the zip records of a file to l->sums. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_torch_sums_take(struct ck_torch_load *l,
				   const struct ck_torch_file *f);
void ck_torch_sums_free(struct ck_torch_sums *s);
/* Adds the files of a load to the state of a checkpoint; takes l->sums. Makes the state
 * if *own is NULL; all files must be in cp->files by then. Returns 0, or: -ENOMEM. Caller
 * must call ck_torch_state_free(), also after an error. */
CK_MUST_USE int ck_torch_state_add(struct ck_torch_load *l,
				   struct ck_torch_state **own);
void ck_torch_state_free(struct ck_torch_state *own);
/* Returns the sum that covers the first byte of an item; NULL if no sum does. Without
 * memory for sums, returns one of the calling thread, valid until its next call. */
struct ck_sum *ck_torch_state_sum(struct ck_torch_state *own,
				  const struct ck_item *item);
/* Returns the sum of data.pkl of a file; NULL if it has no sum. */
struct ck_sum *ck_torch_state_pickle_sum(struct ck_torch_state *own,
					 uint32_t file);
/* Sets *out to the bytes of sum number i of a file; false if it has i sums or fewer. */
bool ck_torch_state_record(const struct ck_torch_state *own, uint32_t file,
			   size_t i, struct ck_item *out);
/* ck_torch_state_add() to cp->own. The following functions use it. */
CK_MUST_USE int ck_torch_state_keep(struct ck_torch_load *l);
/* ck_format.sum. */
struct ck_sum *ck_torch_sum(const struct ck_checkpoint *cp,
			    const struct ck_item *item);
/* ck_format.pickle_sum. */
struct ck_sum *ck_torch_pickle_sum(const struct ck_checkpoint *cp,
				   uint32_t file);
/* ck_format.record. */
bool ck_torch_record(const struct ck_checkpoint *cp, uint32_t file, size_t i,
		     struct ck_item *out);
/* ck_format.rank and .forget. */
uint64_t ck_torch_rank(const struct ck_checkpoint *cp, uint32_t file);
void ck_torch_forget(struct ck_checkpoint *cp);

#endif
