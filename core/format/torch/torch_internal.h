/* SPDX-License-Identifier: MIT */
/*
 * torch_internal: one file of torch.save, as the format torch reads it.
 *
 *   torch.c        detection; which files a checkpoint has
 *   container.c    a file: a pickle, and the storages that it refers to
 *   legacy.c       the container before torch 1.6
 *   flatten.c      a nested state dict to paths
 *
 * The further steps, in entries.h, turn the leaves of all files into catalog
 * entries: torch_files.c, torch_rows.c, torch_intern.c, torch_copy.c,
 * entries.c, torch_values.c, zero.c. Files beside a checkpoint are in
 * torch_beside.h. Used by one thread, that of the load.
 */
#ifndef CK_TORCH_INTERNAL_H
#define CK_TORCH_INTERNAL_H

#include "format/item/item.h"
#include "format/item/stored.h"
#include "format/load/index.h"
#include "format/ranks/ranks.h"

/* The location of a storage in a file. */
struct ck_torch_storage {
	struct ck_str key;
	uint64_t fpos, len; /* bytes */
	uint64_t unit;	 /* bytes of an element; of the legacy container only */
	const char *bad; /* why it cannot be read; or NULL */
};

struct ck_torch_state; /* torch_state.h */

/* A file of torch.save. */
struct ck_torch_file {
	const char *name; /* relative; owned by the load */
	uint32_t number;  /* in cp->files */
	bool good;	  /* it was read; otherwise it is a line of damage */
	bool known; /* its paths were read, though the rest may be damaged */
	size_t row, nrows;     /* its rows in the load's rows */
	struct ck_arena arena; /* of its rows, while it is being read */
	struct ck_str above;   /* prefix of all its paths; may be empty */
	/* rank and family, as far as its values show them */
	struct ck_rank_answer answer;
	uint64_t rank;	/* CK_NO_RANK if unknown */
	int64_t family; /* or CK_RANK_NO_FAMILY */
	bool big;	/* values are big-endian */
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

/* --- names ------------------------------------------------------------------------ */

/* True if the name has an extension of torch files. In torch_files.c. */
bool ck_torch_is_name(const char *name);
/* ck_format.is_part and .head of formats with torch files. In torch.c. */
bool ck_torch_is_part(const char *name);
uint64_t ck_torch_head(const struct ck_checkpoint *cp, uint32_t file);

/* --- container.c ------------------------------------------------------------------------- */

/* Bytes at the beginning of a file that show its container. */
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
/* Frees the pickle and its values. */
void ck_torch_pickle_fini(struct ck_torch_file *f);
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
