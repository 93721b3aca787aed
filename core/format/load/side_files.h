/* SPDX-License-Identifier: MIT */
/*
 * side_files: small files beside the tensors of a checkpoint, or in a directory
 * that the user names with hf_template=. They describe how a model is used:
 * configuration, tokenizer, code. A part of format.
 *
 * A list is filled by one call and constant after that; then any thread may use
 * it.
 */
#ifndef CKPTFS_SIDE_FILES_H
#define CKPTFS_SIDE_FILES_H

#include "base/system/reach.h"
#include "ckptfs/source.h"
#include "syntax/weight_map.h"

struct ck_checkpoint;
struct ck_format_options;

/* Bytes: larger files are ignored. */
#define CK_SIDE_FILE_MOST (UINT64_C(64) << 20)

struct ck_side_file {
	char *name;
	uint64_t size;
	struct timespec mtime;
	/* `closed`: r bits that directories on the path deny */
	struct ck_file_access access;
	struct ck_file_id id;
	void *pages; /* contents of a file on another host; NULL: it is local */
};

/* Constant after ck_side_files_read(). */
struct ck_side_files {
	struct ck_side_file *all; /* in natural order */
	uint32_t n;
	size_t cap; /* private */
	/* Set by the caller of ck_side_files_read(): */
	struct ck_reach reach; /* The directory. Caller owns its descriptors. */
	bool anywhere;	       /* follow links to any target */
	const struct ck_files *files; /* files of that directory, or NULL */
	struct ck_ids shown; /* owner and group that the files are shown with */
};

/* Lists the regular files *.json *.txt *.model *.jinja *.tiktoken *.py of a
 * directory that can be opened, without indexes and hidden files. Returns 0,
 * or: -ENOMEM; errors of readdir(3). Caller must call ck_side_files_fini(),
 * also after an error. */
CK_MUST_USE int ck_side_files_read(struct ck_side_files *o);
void ck_side_files_fini(struct ck_side_files *o);
void ck_side_files_free(struct ck_side_files *o); /* NULL is allowed */
/* Opens local file i. Returns a descriptor, or: -ESTALE if it was replaced or
 * removed; errors of open(2). Caller owns the descriptor. */
CK_MUST_USE int ck_side_file_open(const struct ck_side_files *o, uint32_t i);
/* Compares an open file with its record. Returns 0, or: -ESTALE if it was replaced;
 * -EIO. */
CK_MUST_USE int ck_side_file_check(const struct ck_side_file *o, int fd);

/* Sets *out to the files beside the tensors of a checkpoint; an empty list if it is
 * a single file. The first call lists the directory; with several hosts that is
 * done when the checkpoint is opened. Valid as long as the checkpoint. Any thread.
 * Returns 0, or an error of ck_side_files_read(). */
CK_MUST_USE int ck_checkpoint_side_files(struct ck_checkpoint *cp,
					 const struct ck_side_files **out);

/* A directory that the user names, with its index of safetensors if it has one. */
struct ck_template {
	bool is_open;
	int dirfd;
	struct ck_side_files others;
	/* names of files, which end in .safetensors */
	struct ck_weight_map map;
	bool has_map;
	/* Private: */
	void *text; /* the index, from ck_pages_alloc() */
	size_t len;
};

/* Returns 0, or: -EBADMSG if the index is malformed, or names files that cannot be
 * made; errors of open(2) and readdir(3). d has the reason. Caller must call
 * ck_template_close(), also after an error. */
CK_MUST_USE int ck_template_open(const char *path, struct ck_template *out,
				 struct ck_diag *d);
void ck_template_close(struct ck_template *t);

#endif
