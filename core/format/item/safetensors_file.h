/* SPDX-License-Identifier: MIT */
/*
 * safetensors_file: a safetensors file whose header was read, or a piece of one: DCP can
 * store a box as a piece that ends with its data file (current/blob.h).
 */
#ifndef CK_SAFETENSORS_FILE_H
#define CK_SAFETENSORS_FILE_H

#include "ckptfs/source.h"
#include "safetensors_header.h"

struct ck_safetensors_file {
	char *name;	 /* relative; owned; NULL for a piece */
	uint32_t number; /* in cp->files */
	bool good;	 /* the header was read without an error */
	char *json;	 /* owned */
	uint64_t data;	 /* byte of the file at which its tensors begin */
	struct ck_safetensors header;
	uint32_t *by_name; /* numbers of its tensors, sorted by name */
	/* By tensor of the file: 1 + number of the catalog's tensor; 0 if the
	 * catalog has no such tensor, or builds it from several files. */
	uint32_t *shown;
	/* DCP_SHARDING_INFO: */
	bool has_info, bad_info;
	int64_t *offsets; /* as header.shapes; 0 without information */
};

/* Reads header, names and sharding information of the bytes from fpos to the end of an
 * open file into *f, which must be empty. The caller calls fini also after an error.
 * Returns 0, or: -EBADMSG; -ENOMEM; errors of ck_files_read(). */
CK_MUST_USE int ck_safetensors_header_read(struct ck_files *files,
					   const struct ck_file *file,
					   uint64_t fpos,
					   struct ck_safetensors_file *f,
					   struct ck_diag *d);
void ck_safetensors_file_fini(struct ck_safetensors_file *f);
/* The number of the tensor of this name; -1 if the file has no such tensor. */
int64_t ck_safetensors_find(const struct ck_safetensors_file *f,
			    struct ck_str name);

#endif
