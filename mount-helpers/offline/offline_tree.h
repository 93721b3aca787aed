/* SPDX-License-Identifier: MIT */
/*
 * offline_tree: the tree of a checkpoint in this process, for commands that need no
 * mount. Names, sizes, modes, attributes and bytes are those of a mount for reading.
 */
#ifndef CKPTFS_OFFLINE_TREE_H
#define CKPTFS_OFFLINE_TREE_H

#include "ckptfs/hosts_options.h"
#include "ckptfs/stream.h"
#include "ckptfs/tree.h"

struct ck_offline {
	/* Set by the caller, constant, and freed with the rest: */
	struct ck_format_options options;
	struct ck_hosts_options hosts;
	struct ck_view_options view;
	/* Private, but to those who call the tree; constant while it is open: */
	struct ck_cluster *cluster; /* NULL: there is one host */
	struct ck_checkpoint *cp;
	struct ck_template template;
	struct ck_tree_options shown;
	struct ck_root *root;
	struct ck_tree *tree;
	struct ck_route route;
	struct ck_streams *streams; /* NULL: there is one host */

	pthread_mutex_t lock;
	/* Under lock, as every ck_reader's held is: */
	pthread_cond_t changed;
};

/* One who reads a file from front to back, or a part of it. */
struct ck_reader {
	struct ck_offline *u;
	const struct ck_tree_file *file;
	struct ck_stream stream;
	unsigned held; /* what is read ahead for it */
};

/* --- the checkpoint ---------------------------------------------------------------- */

/* Opens a checkpoint for a command; *cluster is NULL if it lies on this host only. Returns
 * the exit status. Caller closes both in any case. */
CK_MUST_USE int ck_source_open(const char *src,
			       struct ck_format_options *options,
			       struct ck_hosts_options *hosts,
			       struct ck_cluster **cluster,
			       struct ck_checkpoint **out);
/* Prints the warnings of the catalog on stderr. */
void ck_source_notes(const char *src, const struct ck_checkpoint *cp);
/* Returns CK_EXIT_DAMAGE after a line on stderr if names of the checkpoint cannot be read,
 * so that no directory shows them. */
CK_MUST_USE int ck_source_losses(const struct ck_checkpoint *cp);
/* For commands that need one checkpoint: names the steps of a run directory. Returns the
 * exit status. */
CK_MUST_USE int ck_source_is_one(const char *src,
				 const struct ck_checkpoint *cp);
void ck_source_close(struct ck_cluster *cluster, struct ck_checkpoint *cp);

/* --- its tree ---------------------------------------------------------------------- */

/* Opens the checkpoint SRC; messages of the library stay in .ckptfs/log from now on.
 * The exit status, which was said why; close it in any case. */
CK_MUST_USE int ck_offline_open(struct ck_offline *u, const char *src);
void ck_offline_close(struct ck_offline *u);

/* --- files ---------------------------------------------------------------------- */

/* As open(2) of the mount: -EISDIR, errors of files that cannot be opened. Close it in
 * any case. Any thread. */
CK_MUST_USE int ck_offline_file(struct ck_offline *u, const struct ck_node *n,
				struct ck_tree_file *out);
/* Bytes of it; 0 where nobody knows how many there are. */
uint64_t ck_offline_size(const struct ck_tree_file *f);
/* The file is the caller's, and is closed after it. */
struct ck_reader ck_reader_of(struct ck_offline *u,
			      const struct ck_tree_file *f);
/* Hands over the bytes [vpos, vpos + len), all of them, or is the error that the mount
 * answers. There is room for them. */
CK_MUST_USE int ck_reader_pass(struct ck_reader *r, uint64_t vpos, size_t len,
			       void *room, ck_stream_taker *take, void *arg);
/* Waits until nothing is on its way for it. */
void ck_reader_end(struct ck_reader *r);
/* Whether the data files that its bytes were read from are still those that were seen
 * first, by name and time: 0, -ESTALE, or why that cannot be told. */
CK_MUST_USE int ck_offline_check(struct ck_offline *u,
				 const struct ck_tree_file *f);
/* Says on stderr that a file could not be read, and of damage what it is: rc is a
 * negative errno. The exit status: CK_EXIT_DAMAGE for bytes that are lost or wrong,
 * else CK_EXIT_TROUBLE. Any thread. */
int ck_offline_say(const struct ck_node *n, const char *path, int rc);

/* --- what PATHs name -------------------------------------------------------------- */

struct ck_named {
	struct ck_node node; /* in use; a directory has a number */
	char *path; /* from the root, without a slash at either end; owned */
};

struct ck_paths {
	struct ck_named *all;
	size_t n, cap;
	bool by_pattern; /* a PATH was, or may have been, more than a name */
};

/* Finds what a PATH of the mount names: a name, or by a pattern of fnmatch(3) several,
 * in the order of their directories. What there is not is said on stderr. The exit
 * status; ck_paths_fini() *out in any case. */
CK_MUST_USE int ck_paths_find(struct ck_offline *u, const char *path,
			      struct ck_paths *out);
void ck_paths_fini(struct ck_paths *names);
/* Adds one. Takes path, NULL of which is out of memory. -ENOMEM. */
CK_MUST_USE int ck_paths_add(struct ck_paths *to, const struct ck_node *n,
			     char *path);
/* The path of a name in the directory of a path: free() it. NULL: out of memory. */
char *ck_path_join(const char *path, const char *name);
/* A PATH as messages have it: as it is, for names of the tree are escaped already, but
 * no control character. Valid as long as path and what ck_show() returns. */
const char *ck_path_shown(const char *path);

/* --- directories -------------------------------------------------------------------- */

/* Calls each() with all that is in a directory, in its order; name is valid until it
 * returns. Stops where it does not return 0, and returns that, or an error of the
 * directory (a negative errno). */
CK_MUST_USE int ck_offline_each(struct ck_offline *u, uint64_t dir,
				int (*each)(void *arg, struct ck_node *n,
					    const char *name),
				void *arg);

#endif
