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

/* The location of a storage in a file. */
struct ck_torch_storage {
	struct ck_str key;
	uint64_t fpos, len; /* bytes */
	uint64_t unit;	    /* bytes of an element; legacy container only */
	const char *bad;    /* why it cannot be read; NULL: it can */
};

struct ck_torch_own; /* own.h */

/* A file that was read. */
struct ck_torch_file {
	const char *name;  /* relative; the load's */
	uint32_t number;   /* in cp->files */
	bool good;	   /* it was read; otherwise it has a line of damage */
	bool known;	   /* its paths were stored, whatever else is damaged */
	size_t row, nrows; /* its rows in the load's rows */
	struct ck_arena arena; /* of its rows, while it is read */
	struct ck_str above;   /* prefix of all its paths; may be empty */
	struct ck_rank_answer answer; /* of the values in it */
	uint64_t rank;		      /* CK_NO_RANK: unknown */
	int64_t family;		      /* or CK_RANK_NO_FAMILY */
	bool big;		      /* values are big-endian */
	bool is_zip;
	size_t len;    /* bytes of the pickle */
	uint64_t fpos; /* position of the pickle */
	/* Until its rows are held: */
	struct ck_pickle pickle;
	void *bytes; /* of the pickle; owned */
	/* A zip container: */
	struct ck_zip zip;
	/* The legacy container: sorted by key. */
	struct ck_torch_storage *storages;
	size_t nstorages;
};

/* --- container.c ------------------------------------------------------------------------- */

/* Bytes that tell. */
enum { CK_TORCH_HEAD = 32 };

/* True if the first len bytes are those of a torch file. */
bool ck_torch_begins(const uint8_t *head, size_t len);
/* Returns the length of the magic number of the legacy container; 0 for another file. */
size_t ck_torch_magic(const uint8_t *head, size_t len);
/* Reads the file f->number; caller sets f->name. Caller calls ck_torch_file_fini() in any case.
 * Returns 0, or: -EBADMSG if it is malformed, with f->pickle.dangerous if it calls a dangerous
 * function; errors of the source. */
CK_MUST_USE int ck_torch_file_read(struct ck_files *files,
				   struct ck_torch_file *f, struct ck_diag *d);
/* Frees pickle, zip directory, storages and arena. Name, prefix and rank stay. */
void ck_torch_file_fini(struct ck_torch_file *f);
/* Finds a storage by its key; out->bad is set if it cannot be read. Returns 0 or a negative
 * errno. */
CK_MUST_USE int ck_torch_storage_find(const struct ck_torch_file *f,
				      struct ck_str key,
				      struct ck_torch_storage *out,
				      struct ck_diag *d);

/* --- legacy.c ------------------------------------------------------------------------------ */

/* Reads a file of the legacy container. at: position behind the magic number. */
CK_MUST_USE int ck_torch_legacy_read(struct ck_stored *stored, uint64_t at,
				     struct ck_torch_file *f,
				     struct ck_diag *d);

/* --- flatten.c ------------------------------------------------------------------------------ */

/* A leaf of the nested state dict. */
struct ck_torch_leaf {
	struct ck_str key; /* its parts, joined by dots */
	const struct ck_path_part *path;
	uint32_t nparts;
	const struct ck_pv *value;
};

/* Calls leaf() for each leaf, in the order of the pickle. above: prefix of all paths, or empty.
 * name: the path if the root is neither dict nor list. Returns 0, or: -EBADMSG if it is nested
 * too deep or has too many leaves; -ENOMEM; a value other than 0 from leaf(). */
CK_MUST_USE int ck_torch_flatten(struct ck_pickle *p, struct ck_str above,
				 struct ck_str name,
				 int (*leaf)(void *arg,
					     const struct ck_torch_leaf *leaf),
				 void *arg, struct ck_diag *d);

#endif
