/* SPDX-License-Identifier: MIT */
/*
 * dirs: the directories that are in use, by number and by place. A directory is in
 * use while its own node, or one in it, or a directory below it is. Of those that are
 * not, the some thousands that were used last are remembered, so that a directory does
 * not have another number each time it is looked up.
 */
#ifndef CK_TREE_DIRS_H
#define CK_TREE_DIRS_H

#include "ckptfs/view.h"
#include "number.h"

#include <pthread.h>

/* Directories that are not in use and keep their number; a test has fewer. */
#ifndef CK_DIRS_REMEMBERED
#define CK_DIRS_REMEMBERED 16384
#endif

/* A directory that has a number. */
struct ck_dir_row {
	struct ck_dir dir;
	uint32_t number;
	uint32_t parent, entry; /* where it is; the root's parent is itself */
	uint32_t place, parent_place; /* the first number of what is there: the
				       * same after it got another one */
	uint64_t base; /* the generation in which it got the number */
};

struct ck_dir_node;

struct ck_dir_table {
	struct ck_dir_node **slots; /* chains */
	size_t mask;
};

struct ck_dirs {
	/* Constant: */
	uint64_t seed; /* of hashes: random */

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_dir_table by_number, by_place;
	size_t n;
	struct ck_dir_node *oldest, *newest; /* not in use */
	size_t nunused;
	uint32_t next; /* number */
};

/* With the root, which is always in use. -ENOMEM. */
CK_MUST_USE int ck_dirs_init(struct ck_dirs *d, const struct ck_dir *root,
			     uint64_t base);
void ck_dirs_fini(struct ck_dirs *d);

/* False: there is none of that number any more. */
CK_MUST_USE bool ck_dirs_find(struct ck_dirs *d, uint32_t number,
			      struct ck_dir_row *out);
/* The number of the directory that another one is in, as it is now. */
CK_MUST_USE bool ck_dirs_parent(struct ck_dirs *d, uint32_t number,
				uint32_t *out);
/* The directory at a place, which gets a number if it has none; in use once more.
 * -ESTALE: the parent is gone; -ENFILE: no number is left; -ENOMEM. */
CK_MUST_USE int ck_dirs_get(struct ck_dirs *d, uint32_t parent, uint32_t entry,
			    const struct ck_dir *dir, uint64_t base,
			    struct ck_dir_row *out);
/* The same for who only lists it: it is in use no more than before, and gets a number
 * only as long as most are left. 0: it has none. */
uint32_t ck_dirs_listed(struct ck_dirs *d, uint32_t parent, uint32_t entry,
			const struct ck_dir *dir, uint64_t base);
/* The directory in the place of `number`, with a number that it got so late that
 * `version` has room behind it; in use `uses` times more. Errors as above. */
CK_MUST_USE int ck_dirs_renew(struct ck_dirs *d, uint32_t number,
			      uint64_t version, uint64_t base, uint64_t uses,
			      struct ck_dir_row *out);
/* In use n times more; one that is gone stays so. */
void ck_dirs_use(struct ck_dirs *d, uint32_t number, uint64_t n);
void ck_dirs_forget(struct ck_dirs *d, uint32_t number, uint64_t n);
/* Those that are in use themselves: free() *out, which has *n. -ENOMEM. */
CK_MUST_USE int ck_dirs_used(struct ck_dirs *d, struct ck_dir_row **out,
			     size_t *n);

#endif
