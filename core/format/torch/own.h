/* SPDX-License-Identifier: MIT */
/*
 * own: what a checkpoint of torch files keeps: the ranks of its files, and the CRC-32 of the
 * records of zip containers.
 */
#ifndef CK_OWN_H
#define CK_OWN_H

#include "torch_internal.h"

struct ck_torch_load;
struct ck_torch_sums;

/* Takes the sums of a file's zip records. -ENOMEM. */
CK_MUST_USE int ck_torch_sums_take(struct ck_torch_load *l,
				   const struct ck_torch_file *f);
void ck_torch_sums_free(struct ck_torch_sums *s);
/* Those, which are l's no more, and the ranks of files. */
CK_MUST_USE int ck_torch_own_make(struct ck_torch_load *l,
				  struct ck_torch_own **out);
void ck_torch_own_free(struct ck_torch_own *own);
struct ck_sum *ck_torch_own_sum(struct ck_torch_own *own,
				const struct ck_item *item);
struct ck_sum *ck_torch_own_pickle_sum(struct ck_torch_own *own, uint32_t file);
/* In cp->own, which they are from then on: */
CK_MUST_USE int ck_torch_own_keep(struct ck_torch_load *l);
struct ck_sum *ck_torch_sum(const struct ck_checkpoint *cp,
			    const struct ck_item *item);
/* That of data.pkl of a file; NULL: it has none. */
struct ck_sum *ck_torch_pickle_sum(const struct ck_checkpoint *cp,
				   uint32_t file);
/* As ck_format.record. */
bool ck_torch_record(const struct ck_checkpoint *cp, uint32_t file, size_t i,
		     struct ck_item *out);
uint64_t ck_torch_rank(const struct ck_checkpoint *cp, uint32_t file);
void ck_torch_forget(struct ck_checkpoint *cp);

#endif
