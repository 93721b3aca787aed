/* SPDX-License-Identifier: MIT */
/*
 * client_session: an open checkpoint of this host with its tree, in this process, without a mount.
 * Names, sizes, modes, attributes and bytes are those of a read-only mount. One thread
 * opens and closes it; any thread may call the other functions in between. No function
 * prints a message.
 */
#ifndef CKPTFS_CLIENT_SESSION_H
#define CKPTFS_CLIENT_SESSION_H

#include "ckptfs/tree.h"

struct ck_session {
	/* Constant, set by the caller; freed by ck_session_close(): */
	struct ck_format_options options;
	struct ck_view_options view;
	/* Constant while it is open, set by ck_session_open(): */
	struct ck_checkpoint *cp;
	struct ck_template template;
	struct ck_tree_options shown;
	struct ck_root *root;
	struct ck_tree *tree;
};

/* Opens the checkpoint SRC. Returns 0, or: errors of ck_checkpoint_open() and of
 * ck_view_files_use(); -ENOMEM; d has the reason. Caller calls ck_session_close() in any
 * case. */
CK_MUST_USE int ck_session_open(struct ck_session *s, const char *src,
				struct ck_diag *d);
void ck_session_close(struct ck_session *s);
/* Refuses a run directory, whose tensors are in its steps: appends a line that names them.
 * Returns 0 if `cp` is one checkpoint, or: -EISDIR; errors of ck_run_steps(). */
CK_MUST_USE int ck_session_is_one(const char *src,
				  const struct ck_checkpoint *cp,
				  struct ck_buf *why);

/* --- names ---------------------------------------------------------------------- */

/* Takes a use of a node that ck_tree_name() found in directory `in`. follow: if the node is
 * a link of a run directory, continues with its target, a name beside it. Returns 0, or a
 * negative errno. */
CK_MUST_USE int ck_session_use(struct ck_session *s, uint64_t in, bool follow,
			       struct ck_node *n);
/* Finds the node of a path from the root; "" and "." are the root. Links are followed, also
 * the last one if follow_last. Returns 0, or: -ENOENT; -ENOTDIR; -EINVAL if the path has a
 * component `..`; other errors of the tree. Caller calls ck_tree_forget() of one use. */
CK_MUST_USE int ck_session_find(struct ck_session *s, const char *path,
				bool follow_last, struct ck_node *out);
/* Calls each() for every entry of a directory, in its order. `name` is valid during the call
 * only. Stops when each() does not return 0. Returns that value, 0 at the end, or a negative
 * errno of the directory. each() must not return -ENOENT, which would be read as the end. */
CK_MUST_USE int ck_session_each(struct ck_session *s, uint64_t dir,
				int (*each)(void *arg, struct ck_node *n,
					    const char *name),
				void *arg);

/* --- files ---------------------------------------------------------------------- */

/* Opens a file of the tree. Returns 0, or: -EISDIR for a directory; other errors of
 * ck_tree_pin() and ck_tree_file_open(). out->err: a fault of the file that each read
 * returns. Caller calls ck_tree_file_close() in any case. */
CK_MUST_USE int ck_session_file(struct ck_session *s, const struct ck_node *n,
				struct ck_tree_file *out);
/* Returns the size of a file in bytes; 0 if it could not be opened. */
uint64_t ck_session_size(const struct ck_tree_file *f);
/* Returns the data files of the checkpoint of a file: of the root, or of a step. */
struct ck_files *ck_session_files(const struct ck_tree_file *f);
/* Reads bytes [vpos, vpos + len) of an open file from files of this host. Returns 0, or the
 * error that read(2) of a mount returns. */
CK_MUST_USE int ck_session_read(const struct ck_tree_file *f, uint64_t vpos,
				size_t len, void *to);
/* Counts a read of an open file in `.ckptfs/stats`. rc: its result. */
void ck_session_count(const struct ck_tree_file *f, size_t len, int rc);
/* True if an error of a read means damage of the checkpoint: EIO, ENODATA, EBADMSG or
 * ESTALE. err: positive. */
CK_MUST_USE bool ck_session_is_damage(int err);
/* Appends the first fault of a node as one line, or nothing. */
void ck_session_fault(const struct ck_node *n, struct ck_buf *out);

#endif
