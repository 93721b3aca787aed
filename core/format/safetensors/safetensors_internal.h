/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the format: safetensors.c detects and loads a checkpoint,
 * files.c reads the headers of its files, tensors.c joins boxes to tensors, consolidated.c
 * warns of what PyTorch's consolidation loses.
 */
#ifndef CK_SAFETENSORS_INTERNAL_H
#define CK_SAFETENSORS_INTERNAL_H

#include "../item/safetensors_file.h"
#include "../load/index.h"

struct ck_safetensors_load {
	struct ck_checkpoint *cp;
	struct ck_catalog *c;
	struct ck_diag *d;
	struct ck_safetensors_file *files; /* in their order */
	size_t nfiles, files_cap;
	/* Of an index: */
	bool has_index;
	struct ck_index index; /* its files are the first ones of files */
};

/* --- files.c -------------------------------------------------------------------- */

/* Adds a file by its path. -ENOMEM. */
CK_MUST_USE int ck_safetensors_file_add(struct ck_safetensors_load *l,
					const char *path);
/* Reads the header of each. -ENOMEM; -EBADMSG: none is good. */
CK_MUST_USE int ck_safetensors_files_read(struct ck_safetensors_load *l);
/* The rank that saved a file, by its name; CK_NO_RANK: it does not say. */
uint64_t ck_safetensors_rank(struct ck_str path);

/* --- tensors.c ------------------------------------------------------------------- */

/* All that is shown, into the catalog. */
CK_MUST_USE int ck_safetensors_tensors_add(struct ck_safetensors_load *l);

/* --- consolidated.c -------------------------------------------------------------- */

/* Adds a doubt if sharded/ is below, and tensors without dimensions are 0. -ENOMEM. */
CK_MUST_USE int ck_consolidated_note(const struct ck_safetensors_load *l);

#endif
