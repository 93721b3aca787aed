/* SPDX-License-Identifier: MIT */
/*
 * ranks_show: the files of ranks of one load, and their families: files of one kind of content,
 * one of each rank. A struct ck_rank_files is used by one thread, that of the load.
 */
#ifndef CK_RANKS_SHOW_H
#define CK_RANKS_SHOW_H

#include "ranks_flat.h"

/* The files of a load, in its order. Zero-initialise. */
struct ck_rank_files {
	struct ck_torch_load *l;
	struct ck_rank_name *names; /* owned; family and number of each file */
	uint32_t nfamilies;
	uint32_t
		*first; /* owned; for each file, the first file of its family */
	uint32_t *order; /* owned; files, by family and rank */
	/* The checkpoint lists its files: the number of a file is its rank, not that in its
	 * values, and families are in the order of their numbers. */
	bool is_listed;
	uint64_t world; /* number of ranks; 0 if only the files show it */
};

/* Allocates the rows, for all files of l. Returns 0, or -ENOMEM. Caller must call
 * ck_rank_files_fini(), also after an error. */
CK_MUST_USE int ck_rank_files_init(struct ck_rank_files *r,
				   struct ck_torch_load *l);
void ck_rank_files_fini(struct ck_rank_files *r);
/* Must be called when r->names is filled. Families are numbered in the order of their first
 * files. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_rank_families_set(struct ck_rank_files *r,
				     uint32_t nfamilies);
/* Adds the rows of all files, which were read, to the catalog. Returns 0, or: -ENOMEM; other
 * errors of catalog_edit.h. */
CK_MUST_USE int ck_rank_files_show(struct ck_rank_files *r);

#endif
