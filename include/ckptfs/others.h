/* SPDX-License-Identifier: MIT */
/*
 * others: small files that lie beside the tensors of a checkpoint, or in a directory that
 * a user names, and say how a model is used: its configuration, its tokenizer, its code.
 * A part of format.
 */
#ifndef CKPTFS_OTHERS_H
#define CKPTFS_OTHERS_H

#include "ckptfs/reach.h"
#include "ckptfs/source.h"
#include "ckptfs/weight_map.h"

struct ck_checkpoint;
struct ck_format_options;

/* Bytes: of larger ones nobody needs the like. */
#define CK_OTHER_MOST (UINT64_C(64) << 20)

struct ck_other {
	char *name;
	uint64_t size;
	struct timespec mtime;
	struct ck_file_access access; /* `closed`: what the way to it takes */
	struct ck_file_id id;
	void *pages; /* of a file on another host, all of it; NULL: it is here */
};

/* Constant once it is read. */
struct ck_others {
	struct ck_other *all; /* in natural order */
	uint32_t n;
	size_t cap; /* private */
	/* Set by who reads them: */
	struct ck_reach
		reach; /* where they are; descriptors stay who had them */
	bool anywhere; /* links are followed wherever they lead */
	const struct ck_files *files; /* of that directory, or NULL */
	struct ck_ids shown; /* whose they are shown as, if there is one */
};

/* Regular files *.json *.txt *.model *.jinja *.tiktoken *.py in a directory, which can be
 * opened, but indexes, and what begins with a dot. Errors of readdir(3), -ENOMEM; what was found
 * is the caller's in any case. */
CK_MUST_USE int ck_others_read(struct ck_others *o);
void ck_others_fini(struct ck_others *o);
void ck_others_free(struct ck_others *o); /* NULL is allowed */
/* Opens one that is here. A descriptor; -ESTALE: it is another one by now, or is gone;
 * errors of open(2). */
CK_MUST_USE int ck_other_open(const struct ck_others *o, uint32_t i);
/* Whether an open file is still what it was: 0, -ESTALE, -EIO. */
CK_MUST_USE int ck_other_check(const struct ck_other *o, int fd);

/* Those of a checkpoint's own directory, looked for when that is asked for the first time,
 * over hosts when it was opened; none of a checkpoint that is a file. As long as the
 * checkpoint. Any thread. */
CK_MUST_USE int ck_checkpoint_others(struct ck_checkpoint *cp,
				     const struct ck_others **out);

/* A directory that a user names, with the index of safetensors that it may have. */
struct ck_template {
	bool is_open;
	int dirfd;
	struct ck_others others;
	struct ck_weight_map map; /* files end in .safetensors */
	bool has_map;
	/* private */
	void *text; /* of the index: of ck_pages_alloc() */
	size_t len;
};

/* Errors of open(2) and readdir(3); -EBADMSG: the index is malformed, or names files that
 * cannot be made. *out is the caller's in any case; d says what is wrong. */
CK_MUST_USE int ck_template_open(const char *path, struct ck_template *out,
				 struct ck_diag *d);
void ck_template_close(struct ck_template *t);

#endif
