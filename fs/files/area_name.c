/* SPDX-License-Identifier: MIT */
/*
 * area_name: names in files/ of a writable mount: removed, changed, added. The kernel has
 * checked that the sender may do it, and locks the directories until the reply. Between
 * files/ and the tree, and between steps, all of it is EXDEV, for which tools copy.
 *
 * Threads: any thread of files/; requests share no state.
 */
#include "area_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* --- removing ------------------------------------------------------------------------- */

/* -EPERM if the sender has copied the file to a scratch file, as mv(1) does, since the end
 * of the mount would drop the last copy. */
static int moved_check(struct ck_area_job *j, int dirfd, const struct stat *st)
{
	struct ck_buf copy = { 0 };
	bool is_moved;

	if (!S_ISREG(st->st_mode) || st->st_nlink != 1 || st->st_size == 0)
		return 0;
	is_moved = ck_scratch_is_copy(fuse_req_userdata(j->req),
				      fuse_req_ctx(j->req)->pid, dirfd, j->name,
				      st->st_size, &copy);
	if (is_moved)
		ck_log(CK_AREA_NAME
		       "/: %s is not removed: its copy %s is no tensor, and is "
		       "dropped when the mount ends",
		       ck_show(ck_str_from(j->name)),
		       copy.data ? copy.data : "");
	ck_buf_fini(&copy);
	return is_moved ? -EPERM : 0;
}

/* Stats a name, and checks that it may be removed. */
static int removable(struct ck_area *a, const struct ck_area_node *dir,
		     int dirfd, const char *name, struct stat *st)
{
	if (fstatat(dirfd, name, st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	return ck_area_may_remove(a, dir, name, st);
}

/* j->flags: those of unlinkat(2). */
static int do_remove(struct ck_area_job *j, struct ck_area_node *dir)
{
	int dirfd = ck_area_pin(j->area, dir), rc;
	struct stat st;

	if (dirfd < 0)
		return dirfd;
	rc = removable(j->area, dir, dirfd, j->name, &st);
	if (rc == 0)
		rc = moved_check(j, dirfd, &st);
	if (rc == 0 && unlinkat(dirfd, j->name, j->flags))
		rc = -errno;
	ck_area_fd_unpin(&j->area->table, dir);
	return rc;
}

static void remove_run(struct ck_area_job *j)
{
	struct ck_area_node *dir = ck_area_get(&j->area->table, j->ino);
	int rc = dir ? do_remove(j, dir) : -ESTALE;

	ck_area_put(&j->area->table, dir);
	fuse_reply_err(j->req, -rc);
}

static void area_unlink(fuse_req_t req, fuse_ino_t dir, const char *name)
{
	ck_area_defer(req, dir, remove_run, name, NULL);
}

static void area_rmdir(fuse_req_t req, fuse_ino_t dir, const char *name)
{
	struct ck_area_job *j = ck_area_job_make(req, dir, remove_run, name,
						 NULL);

	if (!j)
		return;
	j->flags = AT_REMOVEDIR;
	ck_area_job_queue(j);
}

/* --- renaming ------------------------------------------------------------------------- */

/* A name in a directory that is pinned. */
struct place {
	struct ck_area_node *dir;
	int dirfd;
	const char *name;
	struct stat st;
};

/* Checks both names. A file that the rename replaces is removed. */
static int rename_check(struct ck_area *a, struct place *from, struct place *to,
			unsigned flags)
{
	int rc = removable(a, from->dir, from->dirfd, from->name, &from->st);

	if (rc == 0)
		rc = ck_area_may_name(a, to->dir, to->name);
	if (rc == 0)
		rc = removable(a, to->dir, to->dirfd, to->name, &to->st);
	if (rc == -ENOENT && to->st.st_ino == 0 && from->st.st_ino &&
	    !(flags & RENAME_EXCHANGE))
		rc = 0;
	if (rc == 0 && (flags & RENAME_EXCHANGE))
		rc = ck_area_may_name(a, from->dir, from->name);
	return rc;
}

static int names_change(struct ck_area *a, const struct place *from,
			const struct place *to, unsigned flags)
{
	struct ck_area_id id = ck_area_id_of(a, from->dir, from->dirfd,
					     from->name, &from->st);
	struct ck_area_id other = ck_area_id_of(a, to->dir, to->dirfd, to->name,
						&to->st);
	int rc;

	pthread_rwlock_wrlock(&a->renames);
	rc = renameat2(from->dirfd, from->name, to->dirfd, to->name, flags)
		     ? -errno
		     : 0;
	if (rc == 0)
		ck_area_renamed(&a->table, &id, to->dir, to->name);
	if (rc == 0 && (flags & RENAME_EXCHANGE))
		ck_area_renamed(&a->table, &other, from->dir, from->name);
	pthread_rwlock_unlock(&a->renames);
	return rc;
}

static int rename_in(struct ck_area_job *j, struct place *from,
		     struct place *to)
{
	struct ck_area *a = j->area;
	unsigned flags = (unsigned)j->flags;
	int rc;

	if (ck_area_top_of(from->dir) != ck_area_top_of(to->dir))
		return -EXDEV;
	from->dirfd = ck_area_pin(a, from->dir);
	if (from->dirfd < 0)
		return from->dirfd;
	to->dirfd = ck_area_pin(a, to->dir);
	rc = to->dirfd < 0 ? to->dirfd : rename_check(a, from, to, flags);
	if (rc == 0)
		rc = names_change(a, from, to, flags);
	if (to->dirfd >= 0)
		ck_area_fd_unpin(&a->table, to->dir);
	ck_area_fd_unpin(&a->table, from->dir);
	return rc;
}

static void rename_run(struct ck_area_job *j)
{
	struct ck_area_table *t = &j->area->table;
	struct place from = { .dir = ck_area_get(t, j->ino), .name = j->name };
	struct place to = { .dir = ck_area_get(t, j->other_ino),
			    .name = j->other_name };
	int rc = from.dir && to.dir ? rename_in(j, &from, &to) : -ESTALE;

	ck_area_put(t, from.dir);
	ck_area_put(t, to.dir);
	fuse_reply_err(j->req, -rc);
}

static void area_rename(fuse_req_t req, fuse_ino_t dir, const char *name,
			fuse_ino_t to, const char *new_name, unsigned flags)
{
	struct ck_area_job *j;

	if (!ck_area_has(dir) || !ck_area_has(to)) {
		fuse_reply_err(req, EXDEV);
		return;
	}
	j = ck_area_job_make(req, dir, rename_run, name, NULL);
	if (!j)
		return;
	j->other_ino = to;
	j->flags = (int)flags;
	if (ck_area_job_text(j, new_name))
		ck_area_job_queue(j);
}

/* --- linking -------------------------------------------------------------------------- */

static int link_to(struct ck_area *a, int fd, struct ck_area_node *dir,
		   const char *name)
{
	char link[CK_FD_LINK_BYTES];
	int dirfd = ck_area_pin(a, dir);
	int rc;

	if (dirfd < 0)
		return dirfd;
	ck_fd_link(fd, link);
	rc = linkat(AT_FDCWD, link, dirfd, name, AT_SYMLINK_FOLLOW) ? -errno
								    : 0;
	ck_area_fd_unpin(&a->table, dir);
	return rc;
}

static int do_link(struct ck_area *a, struct ck_area_node *n,
		   struct ck_area_node *dir, const char *name)
{
	int rc, fd;

	if (ck_area_top_of(n) != ck_area_top_of(dir))
		return -EXDEV;
	rc = ck_area_may_change(a, n);
	if (rc == 0)
		rc = ck_area_may_name(a, dir, name);
	if (rc)
		return rc;
	fd = ck_area_pin(a, n);
	if (fd < 0)
		return fd;
	rc = link_to(a, fd, dir, name);
	ck_area_fd_unpin(&a->table, n);
	return rc;
}

static void link_run(struct ck_area_job *j)
{
	struct ck_area *a = j->area;
	struct ck_area_node *n = ck_area_get(&a->table, j->ino);
	struct ck_area_node *dir = ck_area_get(&a->table, j->other_ino);
	struct fuse_entry_param e;
	int rc = n && dir ? do_link(a, n, dir, j->name) : -ESTALE;

	if (rc == 0)
		rc = ck_area_lookup(a, dir, j->name, &e);
	ck_area_put(&a->table, n);
	ck_area_put(&a->table, dir);
	ck_area_reply_entry(j, rc, &e);
}

static void area_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t dir,
		      const char *name)
{
	struct ck_area_job *j;

	if (!ck_area_has(ino) || !ck_area_has(dir)) {
		fuse_reply_err(req, EXDEV);
		return;
	}
	j = ck_area_job_make(req, ino, link_run, name, NULL);
	if (!j)
		return;
	j->other_ino = dir;
	ck_area_job_queue(j);
}

void ck_area_name_ops(struct fuse_lowlevel_ops *ops)
{
	ops->unlink = area_unlink;
	ops->rmdir = area_rmdir;
	ops->rename = area_rename;
	ops->link = area_link;
}
