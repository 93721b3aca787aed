/* SPDX-License-Identifier: MIT */
/*
 * dirs: the directories in use, by number and by place. A directory is in use while
 * its node, a node in it, or a directory below it is in use. Of the others the
 * CK_DIRS_REMEMBERED most recent ones keep their number, so that repeated lookups give
 * the same inode number. All functions lock ck_dirs.lock; any thread.
 */
#ifndef CK_DIRS_H
#define CK_DIRS_H

#include "ckptfs/view.h"
#include "number.h"

#include <pthread.h>

/* Directories that keep their number while they are not in use; tests set fewer. */
#ifndef CK_DIRS_REMEMBERED
#define CK_DIRS_REMEMBERED 16384
#endif

/* A directory with one of its numbers. Its first number is its place; files in it may
 * have been numbered by later ones. */
struct ck_dir_row {
	struct ck_dir dir;
	uint32_t number;
	uint32_t place; /* the number of its own node */
	/* The parent's place, and the entry there; the root is its own parent. */
	uint32_t parent, entry;
	uint64_t base; /* generation in which it got `number` */
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

/* Initialises the table with the root, which is always in use. Returns 0 or -ENOMEM. */
CK_MUST_USE int ck_dirs_init(struct ck_dirs *d, const struct ck_dir *root,
			     uint64_t base);
void ck_dirs_fini(struct ck_dirs *d);

/* Finds a directory by any of its numbers. Returns false if it was dropped. */
CK_MUST_USE bool ck_dirs_find(struct ck_dirs *d, uint32_t number,
			      struct ck_dir_row *out);
/* Finds or numbers the directory at a place, and counts one more use. parent: any of its
 * numbers. Returns 0, or: -ESTALE if the parent was dropped; -ENFILE if no number is
 * free; -ENOMEM. */
CK_MUST_USE int ck_dirs_get(struct ck_dirs *d, uint32_t parent, uint32_t entry,
			    const struct ck_dir *dir, uint64_t base,
			    struct ck_dir_row *out);
/* The place of a directory for a listing: its use is not counted, and it gets a number only
 * while most numbers are free. Returns 0 if it has no number. */
uint32_t ck_dirs_listed(struct ck_dirs *d, uint32_t parent, uint32_t entry,
			const struct ck_dir *dir, uint64_t base);
/* Gives the number of a directory, found by any of its numbers, that can represent this
 * version of a file in a catalog of this generation. Takes a new number if no other can.
 * Counts `uses` more uses. Returns 0, or: -ESTALE if the directory was dropped; -EAGAIN if
 * another caller had a newer generation: repeat with the present catalog; -ENFILE;
 * -ENOMEM. */
CK_MUST_USE int ck_dirs_renew(struct ck_dirs *d, uint32_t number,
			      uint64_t version, uint64_t generation,
			      uint64_t uses, struct ck_dir_row *out);
/* Count n more, or n fewer, uses of a directory, found by any of its numbers. No effect if
 * it was dropped. */
void ck_dirs_use(struct ck_dirs *d, uint32_t number, uint64_t n);
void ck_dirs_forget(struct ck_dirs *d, uint32_t number, uint64_t n);
/* The number of uses of nodes in a root and in the roots below it. */
uint64_t ck_dirs_uses(struct ck_dirs *d, const struct ck_root *root);
/* Drops all directories of a root, which must have no uses. The roots below it must have
 * been dropped before. */
void ck_dirs_drop(struct ck_dirs *d, struct ck_root *root);
/* Lists the directories whose own node is in use, and counts one more use of each. Caller
 * frees *out, an array of *n rows. Returns 0 or -ENOMEM. */
CK_MUST_USE int ck_dirs_used(struct ck_dirs *d, struct ck_dir_row **out,
			     size_t *n);

#endif
