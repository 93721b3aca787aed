/* SPDX-License-Identifier: MIT */
/*
 * cp_directory: directories that receive copies, counted by their uses. A directory that
 * cp created is writable by its owner until its contents are complete; then it gets mode
 * and time of the tree's directory. The walk creates directories; the thread that drops
 * the last use completes one.
 */
#include "cp_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static struct ck_cp_dir *make(struct ck_cp_dir *up, int fd, char *path)
{
	struct ck_cp_dir *into = path ? calloc(1, sizeof(*into)) : NULL;

	if (!into) {
		free(path);
		close(fd);
		return NULL;
	}
	into->up = up ? ck_cp_dir_use(up) : NULL;
	into->fd = fd;
	into->path = path;
	atomic_init(&into->users, 1);
	return into;
}

struct ck_cp_dir *ck_cp_into(int fd, const char *path)
{
	return make(NULL, fd, strdup(path));
}

struct ck_cp_dir *ck_cp_dir_use(struct ck_cp_dir *into)
{
	atomic_fetch_add(&into->users, 1);
	return into;
}

/* --- completing one ----------------------------------------------------------------- */

/* Returns the errno of a failed call, or 0 if the file system does not support it. The file
 * is cp's own, so EPERM does not mean a missing permission. */
static int not_kept(int rc)
{
	bool cannot = errno == EPERM || errno == ENOTSUP || errno == ENOSYS;

	return rc && !cannot ? errno : 0;
}

const char *ck_cp_kept(const struct ck_cp_dir *into, const char *name,
		       int flags)
{
	struct stat st;

	if (fstatat(into->fd, name, &st, flags) || S_ISREG(st.st_mode) ||
	    S_ISLNK(st.st_mode))
		return NULL;
	return S_ISDIR(st.st_mode) ? "is a directory" : "is a special file";
}

int ck_cp_set_mode(int fd, const struct ck_node_stat *st)
{
	const struct timespec times[2] = { st->mtime, st->mtime };
	int err = not_kept(futimens(fd, times));

	return err ? err : not_kept(fchmod(fd, st->mode & 0777));
}

static void complete(struct ck_cp *c, const struct ck_cp_dir *into)
{
	int err = into->made ? ck_cp_set_mode(into->fd, &into->becomes) : 0;

	if (err == 0 && c->how.sync && fsync(into->fd))
		err = errno;
	if (err)
		ck_cp_unwritten(c, into, NULL, err);
}

void ck_cp_dir_put(struct ck_cp *c, struct ck_cp_dir *into)
{
	while (into && atomic_fetch_sub(&into->users, 1) == 1) {
		struct ck_cp_dir *up = into->up;

		if (!ck_cp_stopping(c))
			complete(c, into);
		if (into->number)
			ck_tree_forget(c->how.from->s.tree, into->number, 1);
		close(into->fd);
		free(into->path);
		free(into);
		into = up;
	}
}

void ck_cp_into_end(struct ck_cp *c, struct ck_cp_dir *into)
{
	ck_cp_dir_put(c, into);
}

/* --- making one ---------------------------------------------------------------------- */

static bool is_source(const struct ck_cp *c, int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == c->source.st_dev &&
	       st.st_ino == c->source.st_ino;
}

/* *made: the directory was created by this copy. Returns a descriptor, or a negative errno
 * after a message. */
static int open_dir(struct ck_cp *c, const struct ck_cp_dir *up,
		    const char *name, bool *made)
{
	bool ours = ck_cp_mark_makes(c->how.mark, up, name);
	int how = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, err = 0;
	int fd = -1;

	*made = mkdirat(up->fd, name, 0700) == 0;
	if (!*made && errno != EEXIST)
		err = errno;
	*made |= ours;
	if (err == 0)
		fd = openat(up->fd, name,
			    how | (*made || c->how.sync ? 0 : O_PATH));
	if (err == 0 && fd < 0)
		err = errno;
	if (err == ENOTDIR)
		ck_cp_refuse(c, up, name, "is not a directory");
	else if (err)
		ck_cp_unwritten(c, up, name, err);
	else if (is_source(c, fd)) {
		err = EINVAL;
		close(fd);
		ck_cp_refuse(c, up, name, "is the checkpoint's directory");
	}
	return err ? -err : fd;
}

/* Takes a use of the tree's directory and reads its attributes. Returns 0 or a negative
 * errno. */
static int note_source(struct ck_cp *c, const struct ck_named *from,
		       struct ck_node *n, struct ck_node_stat *st)
{
	int rc;

	*n = from->node;
	rc = ck_tree_use(c->how.from->s.tree, n);
	if (rc)
		return rc;
	rc = ck_tree_stat(n, st);
	if (rc)
		ck_tree_forget(c->how.from->s.tree, n->number, 1);
	return rc;
}

/* Takes over the use of n, also after an error. NULL after a message. */
static struct ck_cp_dir *enter(struct ck_cp *c, struct ck_cp_dir *up,
			       const char *name, const struct ck_node *n)
{
	struct ck_cp_dir *into = NULL;
	bool made = false;
	int fd = open_dir(c, up, name, &made);

	if (fd >= 0)
		into = make(up, fd, ck_cp_dir_path(up, name));
	if (fd >= 0 && !into)
		ck_cp_unwritten(c, up, name, ENOMEM);
	if (into) {
		into->number = n->number;
		into->made = made;
	} else
		ck_tree_forget(c->how.from->s.tree, n->number, 1);
	return into;
}

struct ck_cp_dir *ck_cp_dir_enter(struct ck_cp *c, struct ck_cp_dir *up,
				  const char *name, const struct ck_named *from)
{
	struct ck_node_stat st;
	struct ck_cp_dir *into;
	struct ck_node n;
	int rc = note_source(c, from, &n, &st);

	if (rc) {
		ck_cp_unread(c, from, rc);
		return NULL;
	}
	into = enter(c, up, name, &n);
	if (!into)
		return NULL;
	into->becomes = st;
	if (into->made)
		(void)fchmod(into->fd, (st.mode & 0777) | 0700);
	if (c->how.mark) {
		ck_cp_mark_clean(c->how.mark, into->fd);
		if (!c->marked && ck_cp_mark_is_in(c->how.mark, into->fd))
			c->marked = ck_cp_dir_use(into);
	}
	return into;
}
