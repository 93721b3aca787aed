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

/* A file system gives the number of a removed file to the next one. The file handle has its
 * generation, too. That of a network file system may change. */
static uint64_t generation_of(const struct ck_area *a, int fd, const char *name)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} f = { .handle.handle_bytes = MAX_HANDLE_SZ };
	struct ck_str bytes = { (char *)f.handle.f_handle, 0 };
	int mount;

	if (a->flushes || name_to_handle_at(fd, name, &f.handle, &mount,
					    *name ? 0 : AT_EMPTY_PATH))
		return 0;
	bytes.len = f.handle.handle_bytes;
	return ck_hash64_seeded(bytes, a->table.seed) | 1;
}

struct ck_area_id ck_area_id_of(const struct ck_area *a,
				const struct ck_area_node *dir, int fd,
				const char *name, const struct stat *st)
{
	return (struct ck_area_id){ .top = ck_area_top_of(dir),
				    .dev = st->st_dev,
				    .ino = st->st_ino,
				    .generation = generation_of(a, fd, name),
				    .type = st->st_mode & S_IFMT };
}

static bool is_node(const struct ck_area *a, const struct ck_area_node *n,
		    int fd, const struct stat *st)
{
	return n->id.dev == st->st_dev && n->id.ino == st->st_ino &&
	       n->id.type == (st->st_mode & S_IFMT) && !n->id.covered &&
	       (!n->id.generation ||
		n->id.generation == generation_of(a, fd, ""));
}

/* Opens a name in a directory, not what a link there leads to. */
static int name_open(int dirfd, const char *name, int flags)
{
	return ck_open_beneath(dirfd, ck_str_from(name), flags | O_NOFOLLOW,
			       CK_BENEATH_NO_SYMLINKS);
}

/* Opens the file of a node by a name in a directory; "": it has none. The kernel looks the
 * name up again after ESTALE. */
static int node_open(const struct ck_area *a, int dirfd,
		     const struct ck_area_node *n, const char *name, int flags,
		     struct stat *st)
{
	int fd = name[0] ? name_open(dirfd, name, flags) : -ENOENT;
	int rc;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -ENXIO)
		return -ESTALE;
	if (fd < 0)
		return fd;
	rc = fstat(fd, st) ? -errno : 0;
	if (rc == 0 && !is_node(a, n, fd, st))
		rc = -ESTALE;
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

/* Opens the steps of a way, each in the one before it. Unpins all but the last. Returns its
 * descriptor. */
static int way_pin(struct ck_area *a, const struct ck_area_way *w)
{
	struct ck_area_node *above = w->above;
	int fd = above ? w->fd : a->dirfd;
	struct stat st;

	for (size_t i = 0; i < w->n; i++) {
		const struct ck_area_step *step = &w->steps[i];
		int next = step->node->id.covered
				   ? -EXDEV
				   : node_open(a, fd, step->node, step->name,
					       O_PATH, &st);

		if (above)
			ck_area_fd_unpin(&a->table, above);
		if (next < 0)
			return next;
		fd = ck_area_fd_give(&a->table, step->node, next);
		above = step->node;
	}
	return fd;
}

/* By the names from the nearest node above that has a descriptor. */
static int names_pin(struct ck_area *a, struct ck_area_node *n)
{
	struct ck_area_way w;
	int fd = ck_area_fd_pin(&a->table, n);

	if (fd >= 0)
		return fd;
	pthread_rwlock_rdlock(&a->renames);
	fd = ck_area_way_find(&a->table, n, &w);
	if (fd == 0) {
		fd = way_pin(a, &w);
		ck_area_way_fini(&a->table, &w);
	}
	pthread_rwlock_unlock(&a->renames);
	return fd;
}

/* A program has the file open, or a directory above it, which has another name or none. */
static int opened_pin(struct ck_area *a, struct ck_area_node *n)
{
	struct ck_area_node *at = n, *above;
	char name[CK_AREA_NAME_BYTES];
	int fd;

	ck_area_hold(&a->table, at);
	while ((fd = ck_area_handle_dup(a, at)) == -ESTALE &&
	       ck_area_name_of(&a->table, at, &above, name) == 0) {
		ck_area_put(&a->table, at);
		at = above;
	}
	if (fd >= 0) {
		ck_area_fd_give(&a->table, at, fd);
		fd = names_pin(a, n);
		ck_area_fd_unpin(&a->table, at);
	}
	ck_area_put(&a->table, at);
	return fd;
}

int ck_area_pin(struct ck_area *a, struct ck_area_node *n)
{
	int fd = names_pin(a, n);

	return fd == -ESTALE ? opened_pin(a, n) : fd;
}

int ck_area_pin_parent(struct ck_area *a, struct ck_area_node *n,
		       struct ck_area_node **parent,
		       char name[static CK_AREA_NAME_BYTES])
{
	int fd = ck_area_name_of(&a->table, n, parent, name);

	if (fd < 0)
		return fd;
	fd = ck_area_pin(a, *parent);
	if (fd < 0)
		ck_area_put(&a->table, *parent);
	return fd;
}

/* The name may lead to a FIFO or a device now, which is not opened, see O_PATH. O_NONBLOCK: it
 * may be replaced between both calls. */
static int file_open(struct ck_area *a, struct ck_area_node *n, int flags,
		     struct stat *st)
{
	char name[CK_AREA_NAME_BYTES];
	struct ck_area_node *parent;
	int dirfd = ck_area_pin_parent(a, n, &parent, name), fd;

	if (dirfd < 0)
		return dirfd;
	fd = node_open(a, dirfd, n, name, O_PATH, st);
	if (fd >= 0) {
		close(fd);
		fd = node_open(a, dirfd, n, name, flags | O_NONBLOCK | O_NOCTTY,
			       st);
	}
	ck_area_fd_unpin(&a->table, parent);
	ck_area_put(&a->table, parent);
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

/* Opens the file of an open file again, which has no name. */
static int opened_open(struct ck_area *a, const struct ck_area_node *n,
		       int flags, struct stat *st)
{
	int rc, fd, opened = ck_area_handle_dup(a, n);

	if (opened < 0)
		return opened;
	fd = ck_fd_reopen(opened, flags);
	close(opened);
	if (fd < 0)
		return fd;
	rc = fstat(fd, st) ? -errno : 0;
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

/* A top is opened by its path from the source, other nodes by their name; a file that has
 * lost it, through another open of it. */
int ck_area_open(struct ck_area *a, struct ck_area_node *n, int flags,
		 struct stat *st)
{
	int fd;

	if (n->id.covered)
		return -EXDEV;
	if (S_ISDIR(n->id.type))
		return dir_open(a, n);
	if (!S_ISREG(n->id.type))
		return -EINVAL;
	fd = file_open(a, n, flags, st);
	return fd == -ESTALE ? opened_open(a, n, flags, st) : fd;
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

int ck_area_fd_stat(const struct ck_area *a, int fd, struct stat *out)
{
	if (fstat(fd, out))
		return -errno;
	shown_as(a, fd, out);
	return 0;
}

/* The attributes of the parent directory are those of the empty one, but for its number,
 * which is not known. */
static int covered_stat(struct ck_area *a, const struct ck_area_node *n,
			struct stat *out)
{
	char name[CK_AREA_NAME_BYTES];
	struct ck_area_node *parent;
	int rc = ck_area_name_of(&a->table, n, &parent, name);

	if (rc)
		return rc;
	rc = ck_area_stat(a, parent, out);
	ck_area_put(&a->table, parent);
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
	rc = ck_area_fd_stat(a, fd, out);
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
		*id = ck_area_id_covered(&a->table, dir, name);
		return 0;
	}
	if (rc < 0)
		return rc;
	*fd = rc;
	if (fstat(*fd, st))
		return -errno;
	*id = ck_area_id_of(a, dir, *fd, "", st);
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
	if (strlen(name) >= CK_AREA_NAME_BYTES)
		return -ENAMETOOLONG;
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
