/* SPDX-License-Identifier: MIT */
/*
 * offline_tree: the tree of a checkpoint in the process of a command, without a mount.
 * Names, sizes, modes, attributes and bytes are those of a read-only mount. The main thread
 * opens and closes it; functions marked "any thread" may be called in between by others.
 */
#ifndef CKPTFS_OFFLINE_TREE_H
#define CKPTFS_OFFLINE_TREE_H

#include "ckptfs/stream.h"
#include "client/client_session.h"
#include "source/hosts_options.h"

struct ck_offline {
	/* Constant, set by the caller; freed by ck_offline_close(): */
	struct ck_session s; /* its options and view */
	struct ck_hosts_options hosts;
	/* ck_offline_copied() takes what views= names, and not .ckptfs/. */
	bool by_views;
	/* Constant while it is open, set by ck_offline_open(): */
	struct ck_cluster *cluster; /* NULL: the checkpoint is on this host */
	struct ck_route route;
	struct ck_streams *streams; /* NULL: the checkpoint is on this host */

	pthread_mutex_t lock;
	/* Under lock, like `held` of each ck_reader: */
	pthread_cond_t changed;
};

/* A sequential reader of a file or of a part of it. One thread. */
struct ck_reader {
	struct ck_offline *u;
	const struct ck_tree_file *file;
	struct ck_stream stream;
	unsigned held; /* references of read-ahead in flight; under u->lock */
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

/* Opens the checkpoint SRC. From now on messages of the library go to .ckptfs/log only.
 * Returns the exit status, after a message if it is not 0. Caller closes it in any case. */
CK_MUST_USE int ck_offline_open(struct ck_offline *u, const char *src);
void ck_offline_close(struct ck_offline *u);

/* --- files ---------------------------------------------------------------------- */

/* Returns a reader of `f`. Caller calls ck_reader_end(), and closes the file after that. */
struct ck_reader ck_reader_of(struct ck_offline *u,
			      const struct ck_tree_file *f);
/* Passes the bytes [vpos, vpos + len) of the file to take(), which may be called several
 * times. room: len bytes of scratch memory. Returns 0 if all bytes were passed, or the error
 * that read(2) of the mount returns. */
CK_MUST_USE int ck_reader_pass(struct ck_reader *r, uint64_t vpos, size_t len,
			       void *room, ck_stream_taker *take, void *arg);
/* Waits until no read-ahead of the reader is in flight. */
void ck_reader_end(struct ck_reader *r);
/* Compares the data files of an open file with those at the time of opening, by name and
 * time. Returns 0 if they are the same, or: -ESTALE; an errno of comparing them. */
CK_MUST_USE int ck_offline_check(const struct ck_tree_file *f);
/* Reports on stderr that a file cannot be read, with the fault if it is damaged. rc: a
 * negative errno. Returns CK_EXIT_DAMAGE if rc is EIO, ENODATA, EBADMSG or ESTALE, else
 * CK_EXIT_TROUBLE. Any thread. */
int ck_offline_report(const struct ck_node *n, const char *path, int rc);

/* --- PATH arguments ----------------------------------------------------------------- */

struct ck_named {
	struct ck_node node; /* in use, so a directory has a number */
	char *path; /* from the root, without a slash at either end; owned */
};

struct ck_paths {
	struct ck_named *all;
	size_t n, cap;
	bool by_pattern; /* a PATH was a pattern, or failed and may be one */
};

/* Appends the nodes that a PATH names: one name, or the matches of an fnmatch(3) pattern in
 * the order of their directories. Returns the exit status, after a message if it is not 0.
 * Caller calls ck_paths_fini() in any case. */
CK_MUST_USE int ck_paths_find(struct ck_offline *u, const char *path,
			      struct ck_paths *out);
void ck_paths_fini(struct ck_paths *names);
/* Appends a node. Takes `path`, also after an error; NULL counts as out of memory. Returns 0,
 * or: -ENOMEM. */
CK_MUST_USE int ck_paths_add(struct ck_paths *to, const struct ck_node *n,
			     char *path);
/* Returns PATH/NAME, or NAME if path is "". Caller frees it. NULL if out of memory. */
char *ck_path_join(const char *path, const char *name);
/* Returns a PATH for messages: unchanged, since names of the tree are escaped already, or
 * escaped if it has control characters; "." for "". Valid as long as `path` and the results
 * of ck_show(). */
const char *ck_path_shown(const char *path);

/* --- directories -------------------------------------------------------------------- */

/* As ck_session_each() for a copy of the directory: without by_views, directories of views that are
 * copied only if a path names them, such as sharded/, are left out. */
CK_MUST_USE int ck_offline_copied(struct ck_offline *u, uint64_t dir,
				  int (*each)(void *arg, struct ck_node *n,
					      const char *name),
				  void *arg);

#endif
