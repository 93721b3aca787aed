/* SPDX-License-Identifier: MIT */
/*
 * area_walk: from nodes of files/ to files of the source. Every open is of one name in an
 * open directory: it never follows a link, enters no other file system, and cannot leave
 * the source. A file that is opened again is compared with the identity of its node. If
 * another file has the name now, an open file of the node gives the descriptor.
 *
 * A directory where another file system is mounted is shown with the attributes of its
 * parent directory, and is never touched: it may be this mount, or not answer.
 *
 * No state, no locks.
 */
#include "area_internal.h"
#include "base/system/rights.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* --- descriptors -------------------------------------------------------------------- */

static struct ck_area_id id_of(const struct stat *st)
{
	return (struct ck_area_id){ .dev = st->st_dev,
				    .ino = st->st_ino,
				    .type = st->st_mode & S_IFMT };
}

static bool is_node(const struct ck_area_node *n, const struct stat *st)
{
	return n->id.dev == st->st_dev && n->id.ino == st->st_ino &&
	       n->id.type == (st->st_mode & S_IFMT) && !n->id.covered;
}

/* Opens a name in a directory, not what a link there leads to. */
static int name_open(int dirfd, const char *name, int flags)
{
	return ck_open_beneath(dirfd, ck_str_from(name), flags | O_NOFOLLOW,
			       CK_BENEATH_NO_SYMLINKS);
}

/* Opens the file of a node by its name in its parent directory. The kernel looks the name
 * up again after ESTALE. */
static int node_open(int dirfd, const struct ck_area_node *n, int flags,
		     struct stat *st)
{
	int fd = name_open(dirfd, n->name, flags);
	int rc;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -ENXIO)
		return -ESTALE;
	if (fd < 0)
		return fd;
	rc = fstat(fd, st) ? -errno : 0;
	if (rc == 0 && !is_node(n, st))
		rc = -ESTALE;
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

/* Opens the nodes of path[0..n-1], each in the one before it; the first in `above`, which is
 * pinned, or NULL for the source. Unpins all but the last. Returns its descriptor. */
static int path_pin(struct ck_area *a, struct ck_area_node *above, int fd,
		    struct ck_area_node **path, size_t n)
{
	struct stat st;

	for (size_t i = 0; i < n; i++) {
		int next = path[i]->id.covered
				   ? -EXDEV
				   : node_open(fd, path[i], O_PATH, &st);

		if (above)
			ck_area_fd_unpin(&a->table, above);
		if (next < 0)
			return next;
		fd = ck_area_fd_give(&a->table, path[i], next);
		above = path[i];
	}
	return fd;
}

/* By the names from the nearest node above that has a descriptor. */
static int names_pin(struct ck_area *a, struct ck_area_node *n)
{
	ck_auto_free struct ck_area_node **path = NULL;
	struct ck_area_node *at = n;
	size_t depth = 0;
	int fd = -1;

	for (; at && (fd = ck_area_fd_pin(&a->table, at)) < 0; at = at->parent)
		depth++;
	if (depth == 0)
		return fd;
	path = calloc(depth, sizeof(struct ck_area_node *));
	if (!path) {
		if (at)
			ck_area_fd_unpin(&a->table, at);
		return -ENOMEM;
	}
	for (size_t i = depth; i > 0; n = n->parent)
		path[--i] = n;
	return path_pin(a, at, at ? fd : a->dirfd, path, depth);
}

/* Names lead elsewhere now: from the nearest node that a program has open, which has
 * another name or none. */
static int opened_pin(struct ck_area *a, struct ck_area_node *n)
{
	struct ck_area_node *at = n;
	int fd = -ESTALE;

	while (at && (fd = ck_area_handle_dup(a, at)) == -ESTALE)
		at = at->parent;
	if (fd < 0)
		return fd;
	ck_area_fd_give(&a->table, at, fd);
	fd = names_pin(a, n);
	ck_area_fd_unpin(&a->table, at);
	return fd;
}

int ck_area_pin(struct ck_area *a, struct ck_area_node *n)
{
	int fd = names_pin(a, n);

	return fd == -ESTALE ? opened_pin(a, n) : fd;
}

static int file_open(struct ck_area *a, struct ck_area_node *n, struct stat *st)
{
	/* O_NONBLOCK: the name may lead to a FIFO now */
	enum { FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY };

	int dirfd = ck_area_pin(a, n->parent), fd;

	if (dirfd < 0)
		return dirfd;
	fd = node_open(dirfd, n, FLAGS, st);
	ck_area_fd_unpin(&a->table, n->parent);
	return fd;
}

static int dir_open(struct ck_area *a, struct ck_area_node *n)
{
	int fd, dirfd = ck_area_pin(a, n);

	if (dirfd < 0)
		return dirfd;
	fd = ck_open_again(dirfd);
	ck_area_fd_unpin(&a->table, n);
	return fd;
}

/* A root is opened by its path from the source, other nodes by their name; a file that
 * has lost it, through another open of it. */
int ck_area_open(struct ck_area *a, struct ck_area_node *n, struct stat *st)
{
	int fd;

	if (n->id.covered)
		return -EXDEV;
	if (S_ISDIR(n->id.type))
		return dir_open(a, n);
	if (!S_ISREG(n->id.type) || !n->parent)
		return -EINVAL;
	fd = file_open(a, n, st);
	if (fd != -ESTALE)
		return fd;
	fd = ck_area_handle_dup(a, n);
	if (fd >= 0 && fstat(fd, st)) {
		close(fd);
		return -EIO;
	}
	return fd;
}

/* --- attributes --------------------------------------------------------------------- */

/* Owner, group and mode as options show them. With allow_other the kernel checks modes for
 * other users, so the mode grants no more than the ACL. fd: O_PATH; -1: no ACL. */
static void shown_as(const struct ck_area *a, int fd, struct stat *st)
{
	const struct ck_mount_options *o = a->fs->options;
	mode_t leaves = 077;

	st->st_ino |= CK_AREA_INO;
	if (fd >= 0 && o->allow_other && !S_ISLNK(st->st_mode))
		leaves = ck_acl_leaves_of(fd, "", AT_EMPTY_PATH);
	st->st_mode &= ~(077 & ~leaves);
	if (!S_ISLNK(st->st_mode))
		st->st_mode &= ~(o->umask & 0777);
	if (o->have_uid)
		st->st_uid = o->uid;
	if (o->have_gid)
		st->st_gid = o->gid;
}

static int fd_stat(const struct ck_area *a, int fd, struct stat *out)
{
	if (fstat(fd, out))
		return -errno;
	shown_as(a, fd, out);
	return 0;
}

/* The attributes of the parent directory are those of the empty one, but for its number,
 * which is not known. */
static int covered_stat(struct ck_area *a, struct ck_area_node *n,
			struct stat *out)
{
	int rc = ck_area_stat(a, n->parent, out);

	if (rc == 0) {
		out->st_ino = n->number | CK_AREA_INO;
		out->st_nlink = 2;
	}
	return rc;
}

int ck_area_stat(struct ck_area *a, struct ck_area_node *n, struct stat *out)
{
	int fd, rc;

	if (n->id.covered)
		return covered_stat(a, n, out);
	fd = ck_area_pin(a, n);
	if (fd < 0)
		return fd;
	rc = fd_stat(a, fd, out);
	ck_area_fd_unpin(&a->table, n);
	return rc;
}

/* --- names -------------------------------------------------------------------------- */

/* Sets the identity of a name, and its attributes unless it is covered. Returns an O_PATH
 * descriptor in *fd, or -1 if it is covered. */
static int name_look(struct ck_area *a, struct ck_area_node *dir,
		     const char *name, struct ck_area_id *id, struct stat *st,
		     int *fd)
{
	int dirfd = ck_area_pin(a, dir);
	int rc;

	*fd = -1;
	if (dirfd < 0)
		return dirfd;
	rc = name_open(dirfd, name, O_PATH);
	ck_area_fd_unpin(&a->table, dir);
	if (rc == -EXDEV) {
		*id = (struct ck_area_id){ .type = S_IFDIR, .covered = true };
		return 0;
	}
	if (rc < 0)
		return rc;
	*fd = rc;
	if (fstat(*fd, st))
		return -errno;
	*id = id_of(st);
	shown_as(a, *fd, st);
	return 0;
}

int ck_area_lookup(struct ck_area *a, struct ck_area_node *dir,
		   const char *name, struct fuse_entry_param *out)
{
	struct ck_area_node *n = NULL;
	struct ck_area_id id;
	int fd, rc;

	*out = (struct fuse_entry_param){ .ino = 0 };
	rc = name_look(a, dir, name, &id, &out->attr, &fd);
	if (rc) {
		if (fd >= 0)
			close(fd);
		return rc;
	}
	rc = ck_area_enter(&a->table, dir, name, &id, fd, 1, &n);
	if (rc == 0 && id.covered)
		rc = covered_stat(a, n, &out->attr);
	if (rc == 0)
		out->ino = n->number;
	else if (n)
		ck_area_forget(&a->table, n->number, 1);
	ck_area_put(&a->table, n);
	return rc;
}
