/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the format share: safetensors.c (which files), files.c (headers and
 * sharding information of files), tensors.c (boxes to tensors).
 */
#ifndef CK_SAFETENSORS_INTERNAL_H
#define CK_SAFETENSORS_INTERNAL_H

#include "../format_internal.h"
#include "../load/index.h"
#include "header.h"

/* A file whose header was read. */
struct ck_safetensors_file {
	char *name;	 /* relative; owned */
	uint32_t number; /* in cp->files */
	bool good; /* the header is there; else a line of damage says why not */
	char *json;    /* owned */
	uint64_t data; /* byte of the file where its tensors begin */
	struct ck_safetensors header;
	uint32_t *by_name; /* numbers of its tensors, sorted by name */
	uint32_t *
		shown; /* of each the tensor of the catalog that it became, + 1; 0:
			    * none, or one of which it is a part */
	/* DCP_SHARDING_INFO: */
	bool has_info, bad_info;
	int64_t *offsets; /* as header.shapes; 0 without information */
};

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
/* What begins at fpos of an open file and ends with it: header, names and sharding
 * information into *f, which is empty; fini in any case. -EBADMSG, -ENOMEM, errors of
 * ck_files_read(). */
CK_MUST_USE int ck_safetensors_header_read(struct ck_files *files,
					   const struct ck_file *file,
					   uint64_t fpos,
					   struct ck_safetensors_file *f,
					   struct ck_diag *d);
void ck_safetensors_file_fini(struct ck_safetensors_file *f);
/* The tensor of this name; -1: there is none. */
int64_t ck_safetensors_find(const struct ck_safetensors_file *f,
			    struct ck_str name);
/* The rank that saved a file, by its name; CK_NO_RANK: it does not say. */
uint64_t ck_safetensors_rank(struct ck_str path);

/* --- tensors.c ------------------------------------------------------------------- */

/* All that is shown, into the catalog. */
CK_MUST_USE int ck_safetensors_tensors_add(struct ck_safetensors_load *l);

#endif
