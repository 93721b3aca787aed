/* SPDX-License-Identifier: MIT */
/*
 * area_table: the inode table of files/. A node is a name in a directory of the source,
 * with the identity of the file that the name led to. It exists while the kernel has
 * lookups of it, or a request, an open file or a node below refers to it.
 *
 * A node may have a descriptor (O_PATH). Those of directories that no request uses are kept
 * in an LRU list of bounded length; others are closed after the request. All functions lock
 * ck_area_table.lock; any thread. They do no input or output but close(2) of descriptors,
 * without the lock.
 */
#ifndef CKPTFS_AREA_TABLE_H
#define CKPTFS_AREA_TABLE_H

#include "ckptfs/base.h"

#include <pthread.h>
#include <sys/stat.h>

/* Identity of a file of the source. */
struct ck_area_id {
	dev_t dev;
	ino_t ino;
	mode_t type;  /* S_IFMT bits */
	bool covered; /* another file system is mounted there: a directory */
};

/* State of a regular file at its last open; pages of the kernel are of this state. */
struct ck_area_opened {
	struct timespec mtime, ctime;
	off_t size;
	bool known;
};

struct ck_area_node {
	/* Constant: */
	uint64_t number; /* of the inode in the kernel; never reused */
	struct ck_area_node *parent; /* held; NULL: a root */
	struct ck_area_id id;

	/* Under ck_area_table.lock: */
	uint64_t lookups; /* of the kernel */
	unsigned refs;	  /* nodes below, requests, open files */
	unsigned pins;	  /* requests that use fd */
	int fd;		  /* O_PATH, or of an open file; or -1 */
	bool has_name;	  /* false: the name leads to another file now */
	struct ck_area_opened opened;
	struct ck_area_node *next_number, *next_name; /* chains */
	struct ck_area_node *newer, *older;	      /* with an unused fd */

	/* Constant: of a root its path beneath the source, or "." */
	char name[];
};

struct ck_area_table {
	/* Constant: */
	uint64_t first;	  /* number of the first node */
	uint64_t seed;	  /* of hashes */
	unsigned fds_max; /* unused descriptors that are kept */

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_area_node **by_number, **by_name; /* mask + 1 chains each */
	size_t mask, n;
	uint64_t next; /* number */
	struct ck_area_node *newest, *oldest;
	unsigned unused; /* descriptors in that list */
	unsigned fds;	 /* all descriptors of nodes */
};

/* Returns 0 or -ENOMEM. */
CK_MUST_USE int ck_area_table_init(struct ck_area_table *t, uint64_t first,
				   unsigned fds_max);
/* Frees all nodes, in use or not. No other thread may use the table. */
void ck_area_table_fini(struct ck_area_table *t);

/* Finds a node by its number and adds a reference. NULL if there is no such node. */
struct ck_area_node *ck_area_get(struct ck_area_table *t, uint64_t number);
/* Adds a reference to a node that the caller refers to. */
void ck_area_hold(struct ck_area_table *t, struct ck_area_node *n);
/* Removes a reference. NULL is allowed. */
void ck_area_put(struct ck_area_table *t, struct ck_area_node *n);
/* Finds or makes the node of a name that leads to the file `id`. A node of that name with
 * another identity loses the name. Adds a reference and `lookups` lookups. Returns 0, or
 * -ENOMEM. Takes the descriptor fd of the file (-1: none) in any case. */
CK_MUST_USE int ck_area_enter(struct ck_area_table *t,
			      struct ck_area_node *parent, const char *name,
			      const struct ck_area_id *id, int fd,
			      unsigned lookups, struct ck_area_node **out);
/* Removes lookups of the kernel. */
void ck_area_forget(struct ck_area_table *t, uint64_t number, uint64_t n);

/* Returns the descriptor of a node and pins it, or -1 if the node has none. */
int ck_area_fd_pin(struct ck_area_table *t, struct ck_area_node *n);
/* Gives a node a descriptor and pins it. Returns the descriptor to use: that of another
 * thread if the node got one meanwhile, then fd is closed. */
int ck_area_fd_give(struct ck_area_table *t, struct ck_area_node *n, int fd);
void ck_area_fd_unpin(struct ck_area_table *t, struct ck_area_node *n);

/* Notes the state of a file that is opened. Returns true if the pages that the kernel has
 * are of the same state. */
CK_MUST_USE bool ck_area_note_open(struct ck_area_table *t,
				   struct ck_area_node *n,
				   const struct stat *st);
/* Numbers of nodes and of their descriptors. */
void ck_area_counts(struct ck_area_table *t, size_t *nodes, unsigned *fds);

#endif
