/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the format share: torch.c (which files), container.c (files of torch.save:
 * a pickle, and storages), legacy.c (the container before 1.6), flatten.c (a nested state dict
 * to paths); and with entries.h, files.c, rows.c (which paths are shown) entries.c and values.c (as what).
 */
#ifndef CK_TORCH_INTERNAL_H
#define CK_TORCH_INTERNAL_H

#include "../item/item.h"
#include "../item/stored.h"
#include "../load/index.h"
#include "../ranks/ranks.h"

/* Bytes of a file that hold a storage, or were to. */
struct ck_torch_storage {
	struct ck_str key;
	uint64_t fpos, len;
	uint64_t unit;	 /* bytes of an element, of the legacy container */
	const char *bad; /* why nobody can have it; NULL: it is good */
};

struct ck_torch_own; /* own.h */

/* A file that was read. */
struct ck_torch_file {
	const char *name; /* relative; the load's */
	uint32_t number;  /* in cp->files */
	bool good;	  /* it is there; else a line of damage says why not */
	bool known; /* its paths are kept, whatever else is wrong with it */
	size_t row, nrows;     /* its rows among all */
	struct ck_arena arena; /* of what they say, while it is read */
	struct ck_str above;   /* the part before all its paths; empty: none */
	struct ck_rank_answer answer; /* of what is in it */
	uint64_t rank;		      /* CK_NO_RANK: nothing tells */
	int64_t family;		      /* CK_RANK_NO_FAMILY */
	bool big;		      /* values are big-endian */
	bool is_zip;
	size_t len;    /* of its pickle */
	uint64_t fpos; /* of it */
	/* Until its rows are held: */
	struct ck_pickle pickle;
	void *bytes; /* of it; owned */
	/* A zip container: */
	struct ck_zip zip;
	/* The other one: sorted by key. Texts are in the pickle, or keys. */
	struct ck_torch_storage *storages;
	size_t nstorages;
};

/* --- container.c ------------------------------------------------------------------------- */

/* Bytes that tell. */
enum { CK_TORCH_HEAD = 32 };

/* By its first bytes, of which there are so many. */
bool ck_torch_begins(const uint8_t *head, size_t len);
/* Bytes of the magic number that the legacy container begins with; 0: it is none. */
size_t ck_torch_magic(const uint8_t *head, size_t len);
/* Reads a file by its number; f->name is set. d says what is wrong with it, and f is to be
 * freed also then; f->pickle.dangerous: somebody meant harm. Errors of the source; -EBADMSG. */
CK_MUST_USE int ck_torch_file_read(struct ck_files *files,
				   struct ck_torch_file *f, struct ck_diag *d);
/* Frees all that is in memory of it; what it is called, and who it is of, stays. */
void ck_torch_file_fini(struct ck_torch_file *f);
/* Where a storage lies; out->bad says what is wrong with it. */
CK_MUST_USE int ck_torch_storage_find(const struct ck_torch_file *f,
				      struct ck_str key,
				      struct ck_torch_storage *out,
				      struct ck_diag *d);

/* --- legacy.c ------------------------------------------------------------------------------ */

/* at: what is behind the magic number. */
CK_MUST_USE int ck_torch_legacy_read(struct ck_stored *stored, uint64_t at,
				     struct ck_torch_file *f,
				     struct ck_diag *d);

/* --- flatten.c ------------------------------------------------------------------------------ */

/* What is at the end of a path, which has nparts. */
struct ck_torch_leaf {
	struct ck_str key; /* its parts, joined by dots */
	const struct ck_path_part *path;
	uint32_t nparts;
	const struct ck_pv *value;
};

/* Calls leaf() for each, in the order of the pickle. above: a part before all paths; empty:
 * there is none. name: of what is no dict or list. -EBADMSG: nested too deep, or too many;
 * -ENOMEM; what leaf() returns. */
CK_MUST_USE int ck_torch_flatten(struct ck_pickle *p, struct ck_str above,
				 struct ck_str name,
				 int (*leaf)(void *arg,
					     const struct ck_torch_leaf *leaf),
				 void *arg, struct ck_diag *d);

#endif
