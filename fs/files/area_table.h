/* SPDX-License-Identifier: MIT */
/*
 * area_table: the inode table of files/. A node is a file of the source, by its identity,
 * with the last name that led to it. Names of one file (hard links) share a node, as they
 * share an inode in the kernel. A node exists while the kernel has lookups of it, or a
 * request, an open file or the name of a node below refers to it.
 *
 * A node may have a descriptor (O_PATH). Those of directories that no request uses are kept
 * in an LRU list of bounded length; others are closed after the request. All functions lock
 * ck_area_table.lock; any thread. They do no input or output but close(2) of descriptors,
 * without the lock.
 */
#ifndef CKPTFS_AREA_TABLE_H
#define CKPTFS_AREA_TABLE_H

#include "backing.h"
#include "ckptfs/base.h"

#include <pthread.h>
#include <sys/stat.h>

/* Bytes of the longest name below a top, with its NUL. */
#define CK_AREA_NAME_BYTES 1025

/* Identity of a file of the source. */
struct ck_area_id {
	/* Number of the node that is the top of its directory tree; 0: it is a top. A kernel
	 * inode of a directory has one parent only, so each tree has nodes of its own. */
	uint64_t top;
	dev_t dev;
	ino_t ino; /* of a covered directory: a hash of its place */
	/* Tells apart files that had this number one after the other. 0: not known; of a top
	 * always. */
	uint64_t generation;
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
	struct ck_area_id id;

	/* Under ck_area_table.lock: */
	struct ck_area_node *parent; /* held; NULL: a top, or it has no name */
	/* Owned. Of a top its path beneath the source, or "."; NULL: no name is known; "": the
	 * file was made without one, in `parent`. */
	char *name;
	uint64_t lookups; /* of the kernel */
	unsigned refs;	  /* nodes below, requests, open files */
	unsigned pins;	  /* requests that use fd */
	int fd;		  /* O_PATH, or of an open file; or -1 */
	struct ck_area_opened opened;
	struct ck_area_node *next_number, *next_id; /* chains */
	struct ck_area_node *newer, *older;	    /* with an unused fd */

	struct ck_backed backed; /* of a regular file; see backing.h */
};

struct ck_area_table {
	/* Constant: */
	uint64_t first;	  /* number of the first node */
	uint64_t seed;	  /* of hashes */
	unsigned fds_max; /* unused descriptors that are kept */

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_area_node **by_number, **by_id; /* mask + 1 chains each */
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
/* Finds or makes the node of a file, and gives it this name in `parent`; NULL: it is a top.
 * Adds a reference and `lookups` lookups. Returns 0, or -ENOMEM. Takes the descriptor fd of
 * the file (-1: none) in any case. */
CK_MUST_USE int ck_area_enter(struct ck_area_table *t,
			      struct ck_area_node *parent, const char *name,
			      const struct ck_area_id *id, int fd,
			      unsigned lookups, struct ck_area_node **out);
/* The file has another name now, if it has a node. Without memory the node loses its name,
 * which the next lookup gives it again. */
void ck_area_renamed(struct ck_area_table *t, const struct ck_area_id *id,
		     struct ck_area_node *parent, const char *name);
/* Removes lookups of the kernel. */
void ck_area_forget(struct ck_area_table *t, uint64_t number, uint64_t n);
/* Number of the top above a node, or of a top itself. */
uint64_t ck_area_top_of(const struct ck_area_node *n);
/* Identity of the covered directory with this name. */
struct ck_area_id ck_area_id_covered(const struct ck_area_table *t,
				     const struct ck_area_node *parent,
				     const char *name);

/* --- names to descriptors ------------------------------------------------------------ */

/* A name on the way to a node. */
struct ck_area_step {
	struct ck_area_node *node; /* held */
	const char *name;
};

/* The way to a node from the nearest one above that has a descriptor. */
struct ck_area_way {
	struct ck_area_node *above; /* held and pinned; NULL: the source */
	int fd;			    /* descriptor of it; -1: of the source */
	size_t n;
	struct ck_area_step *steps; /* one allocation, with the names; owned */
};

/* Returns 0, or: -ESTALE if a name is not known; -ENOMEM. Caller must call
 * ck_area_way_fini(). */
CK_MUST_USE int ck_area_way_find(struct ck_area_table *t,
				 struct ck_area_node *n,
				 struct ck_area_way *out);
void ck_area_way_fini(struct ck_area_table *t, struct ck_area_way *w);
/* Sets the name of a node and its parent, held. Returns 0, or: -ESTALE if it is not known;
 * -EINVAL for a top. */
CK_MUST_USE int ck_area_name_of(struct ck_area_table *t,
				const struct ck_area_node *n,
				struct ck_area_node **parent,
				char name[static CK_AREA_NAME_BYTES]);
/* Sets the first name on the way from its top to a node; "" for a top. Returns 0, or
 * -ESTALE if a name is not known. */
CK_MUST_USE int ck_area_first_name(struct ck_area_table *t,
				   const struct ck_area_node *n,
				   char name[static CK_AREA_NAME_BYTES]);

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
