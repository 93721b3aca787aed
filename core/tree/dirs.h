/* SPDX-License-Identifier: MIT */
/*
 * dirs: the directories that are in use, by number and by place. A directory is in
 * use while its own node, or one in it, or a directory below it is. Of those that are
 * not, the some thousands that were used last are remembered, so that a directory does
 * not have another number each time it is looked up.
 */
#ifndef CK_DIRS_H
#define CK_DIRS_H

#include "ckptfs/view.h"
#include "number.h"

#include <pthread.h>

/* Directories that are not in use and keep their number; a test has fewer. */
#ifndef CK_DIRS_REMEMBERED
#define CK_DIRS_REMEMBERED 16384
#endif

/* A directory that has a number. The first that it got is its place; files in it
 * may have later ones. */
struct ck_dir_row {
	struct ck_dir dir;
	uint32_t number;
	uint32_t place;		/* is the number of its own node */
	uint32_t parent, entry; /* where it is: the parent's place; that of the
				 * root is the root */
	uint64_t base;		/* the generation in which it got the number */
};

struct ck_dir_node;
struct ck_dir_number;

struct ck_dirs {
	/* Constant: */
	uint64_t seed; /* of hashes: random */

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_dir_number **by_number; /* chains, mask + 1 of them */
	struct ck_dir_node **by_place;	  /* the same */
	size_t mask, nnumbers, n;
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
/* The directory at a place, which gets a number if it has none; in use once more.
 * parent: any number of it. -ESTALE: the parent is gone; -ENFILE: no number is left;
 * -ENOMEM. */
CK_MUST_USE int ck_dirs_get(struct ck_dirs *d, uint32_t parent, uint32_t entry,
			    const struct ck_dir *dir, uint64_t base,
			    struct ck_dir_row *out);
/* Its place, for who only lists it: it is in use no more than before, and gets a number
 * only as long as most are left. 0: it has none. */
uint32_t ck_dirs_listed(struct ck_dirs *d, uint32_t parent, uint32_t entry,
			const struct ck_dir *dir, uint64_t base);
/* The number of a directory, of which `number` is any, for a file of this version in
 * a catalog of this generation: a new one if none has room for it; in use `uses` times
 * more. -ESTALE: it is gone; -EAGAIN: others know newer generations: ask again in the
 * present one; -ENFILE, -ENOMEM. */
CK_MUST_USE int ck_dirs_renew(struct ck_dirs *d, uint32_t number,
			      uint64_t version, uint64_t generation,
			      uint64_t uses, struct ck_dir_row *out);
/* By any of its numbers. In use n times more; one that is gone stays so. */
void ck_dirs_use(struct ck_dirs *d, uint32_t number, uint64_t n);
void ck_dirs_forget(struct ck_dirs *d, uint32_t number, uint64_t n);
/* How often something of a root, or of one below it, is in use. */
uint64_t ck_dirs_uses(struct ck_dirs *d, const struct ck_root *root);
/* All directories of a root of which nothing is in use are gone. Before, those of roots
 * below it were. */
void ck_dirs_drop(struct ck_dirs *d, struct ck_root *root);
/* Those that are in use themselves, and once more from now on: free() *out, which has *n.
 * -ENOMEM. */
CK_MUST_USE int ck_dirs_used(struct ck_dirs *d, struct ck_dir_row **out,
			     size_t *n);

#endif
