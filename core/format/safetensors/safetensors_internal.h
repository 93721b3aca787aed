/* SPDX-License-Identifier: MIT */
/*
 * safetensors_internal: shared by the files of the format: safetensors.c detects and
 * loads a checkpoint, safetensors_files.c reads the headers of its files,
 * safetensors_tensors.c joins boxes to tensors, consolidated.c warns of values that the
 * consolidation of PyTorch loses. Used by one thread, that of the load.
 */
#ifndef CK_SAFETENSORS_INTERNAL_H
#define CK_SAFETENSORS_INTERNAL_H

#include "format/item/safetensors_file.h"
#include "format/load/index.h"

struct ck_safetensors_load {
	struct ck_checkpoint *cp;
	struct ck_catalog *c;
	struct ck_diag *d;
	struct ck_safetensors_file *files; /* in their order */
	size_t nfiles, files_cap;
	/* Of an index: */
	bool has_index;
	struct ck_index index; /* its files are the first ones in files */
};

/* --- safetensors_files.c ---------------------------------------------------------- */

/* Adds a file by its path, relative to the checkpoint. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_safetensors_file_add(struct ck_safetensors_load *l,
					const char *path);
/* Reads the headers of all files; an unreadable one becomes a line of damage. Returns
 * 0, or: -EBADMSG if no file can be read; -ENOMEM; transient errors of files. */
CK_MUST_USE int ck_safetensors_files_read(struct ck_safetensors_load *l);
/* Reads the header of a file that was added to `files`. Returns 0, or: -EBADMSG; -ENOMEM; errors
 * of ck_files_get() and ck_files_read(). d has the error of the file. */
CK_MUST_USE int ck_safetensors_file_open(struct ck_files *files,
					 struct ck_safetensors_file *f,
					 struct ck_diag *d);
/* Returns the rank in the name of a file, `shard-<rank + 1>-model-...`; CK_NO_RANK if
 * the name has no rank. */
uint64_t ck_safetensors_rank(struct ck_str path);

/* --- safetensors_tensors.c -------------------------------------------------------- */

/* Adds all tensors to the catalog: those that the index names, or those of all files
 * and their aliases. Returns 0, or: -ENOMEM; other errors of catalog_edit.h. */
CK_MUST_USE int ck_safetensors_tensors_add(struct ck_safetensors_load *l);

/* --- consolidated.c -------------------------------------------------------------- */

/* Adds a doubt if the directory has a subdirectory sharded/ and tensors without
 * dimensions that are 0. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_consolidated_note(const struct ck_safetensors_load *l);

#endif
