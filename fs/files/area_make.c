/* SPDX-License-Identifier: MIT */
/*
 * area_make: new files in files/ of a writable mount. The creator makes them, as the sender
 * of the request; with `uid` or `gid`, where owners are not those of the source, as the user
 * of the daemon.
 *
 * Threads: any thread of files/; requests share no state.
 */
#include "../session/protocol.h"
#include "area_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static void sender_take(struct ck_area_job *j, struct ck_caller *c)
{
	const struct ck_mount_options *o = j->area->fs->options;

	if (o->have_uid || o->have_gid)
		*c = (struct ck_caller){ .uid = geteuid(), .gid = getegid() };
	else
		ck_caller_take(c, j->req);
}

/* The daemon of a user makes files for that user only. */
static void others_log(struct ck_area *a, const struct ck_caller *by)
{
	if (geteuid() == 0 || by->uid == geteuid() ||
	    atomic_flag_test_and_set(&a->others_logged))
		return;
	ck_log("files/: user %u cannot create files, only the user of this "
	       "mount (%u) can; a mount by root creates files for all users",
	       by->uid, geteuid());
}

/* Returns 0, or for a regular file that is opened its descriptor; or an error. */
static int file_make(struct ck_area_job *j, struct ck_area_node *dir,
		     enum ck_made what)
{
	struct ck_creation made = { .what = what,
				    .name = j->name,
				    .target = j->other_name,
				    .mode = j->mode,
				    .umask = fuse_req_ctx(j->req)->umask,
				    .dev = j->dev,
				    .flags = j->flags };
	struct ck_caller by;
	int rc;

	if (strlen(j->name) >= CK_AREA_NAME_BYTES)
		return -ENAMETOOLONG;
	rc = ck_area_may_name(j->area, dir, j->name);
	if (rc)
		return rc;
	made.dirfd = ck_area_pin(j->area, dir);
	if (made.dirfd < 0)
		return made.dirfd;
	sender_take(j, &by);
	made.by = &by;
	rc = ck_creator_make(j->area->creator, &made);
	if (rc == -EPERM)
		others_log(j->area, &by);
	ck_caller_fini(&by);
	ck_area_fd_unpin(&j->area->table, dir);
	return rc;
}

static void make_run(struct ck_area_job *j, enum ck_made what)
{
	struct ck_area_node *dir = ck_area_get(&j->area->table, j->ino);
	struct fuse_entry_param e;
	int rc = dir ? file_make(j, dir, what) : -ESTALE;

	if (rc == 0)
		rc = ck_area_lookup(j->area, dir, j->name, &e);
	ck_area_put(&j->area->table, dir);
	ck_area_reply_entry(j, rc, &e);
}

/* Runs a job where requests wait for the creator. */
static void make_queue(struct ck_area_job *j)
{
	j->makes = true;
	ck_area_job_queue(j);
}

static void mknod_run(struct ck_area_job *j)
{
	make_run(j, CK_MADE_NODE);
}

static void mkdir_run(struct ck_area_job *j)
{
	make_run(j, CK_MADE_DIRECTORY);
}

static void symlink_run(struct ck_area_job *j)
{
	make_run(j, CK_MADE_LINK);
}

static void area_mknod(fuse_req_t req, fuse_ino_t dir, const char *name,
		       mode_t mode, dev_t dev)
{
	struct ck_area_job *j = ck_area_job_make(req, dir, mknod_run, name,
						 NULL);

	if (!j)
		return;
	j->mode = mode;
	j->dev = dev;
	make_queue(j);
}

static void area_mkdir(fuse_req_t req, fuse_ino_t dir, const char *name,
		       mode_t mode)
{
	struct ck_area_job *j = ck_area_job_make(req, dir, mkdir_run, name,
						 NULL);

	if (!j)
		return;
	j->mode = mode;
	make_queue(j);
}

static void area_symlink(fuse_req_t req, const char *target, fuse_ino_t dir,
			 const char *name)
{
	struct ck_area_job *j = ck_area_job_make(req, dir, symlink_run, name,
						 NULL);

	if (j && ck_area_job_text(j, target))
		make_queue(j);
}

/* --- create(2), O_TMPFILE ------------------------------------------------------------- */

/* Enters a new file that is open, with or without a name. */
static int opened_enter(struct ck_area_job *j, struct ck_area_node *dir, int fd,
			struct fuse_entry_param *e)
{
	struct ck_area_node *n;
	struct ck_area_id id;
	struct stat st;
	int rc = fstat(fd, &st) ? -errno
				: ck_area_fd_stat(j->area, fd, &e->attr);

	if (rc == 0) {
		id = ck_area_id_of(j->area, dir, fd, "", &st);
		rc = ck_area_enter(&j->area->table, dir, j->name, &id, -1, 1,
				   &n);
	}
	if (rc) {
		close(fd);
		return rc;
	}
	e->ino = n->number;
	rc = ck_area_handle_open(j->area, n, fd, &j->fi);
	if (rc)
		ck_area_forget(&j->area->table, e->ino, 1);
	ck_area_put(&j->area->table, n);
	return rc;
}

/* A file that the kernel did not know may exist meanwhile: after ESTALE the kernel looks the
 * name up again, and checks the permissions of that file. */
static int do_create(struct ck_area_job *j, struct ck_area_node *dir,
		     struct fuse_entry_param *e)
{
	int fd = ck_area_handle_room(j->area);

	*e = (struct fuse_entry_param){ .ino = 0 };
	if (fd == 0)
		fd = file_make(j, dir,
			       j->name[0] ? CK_MADE_FILE : CK_MADE_UNNAMED);
	if (fd == -EEXIST && !(j->fi.flags & O_EXCL))
		return -ESTALE;
	return fd < 0 ? fd : opened_enter(j, dir, fd, e);
}

static int create_reply(struct ck_area_job *j, const struct fuse_entry_param *e)
{
	ck_protocol_back(ck_area_handle_of(&j->fi)->backing);
	return fuse_reply_create(j->req, e, &j->fi);
}

static void create_run(struct ck_area_job *j)
{
	struct ck_area_node *dir = ck_area_get(&j->area->table, j->ino);
	struct fuse_entry_param e;
	int rc = dir ? do_create(j, dir, &e) : -ESTALE;

	ck_area_put(&j->area->table, dir);
	if (rc)
		fuse_reply_err(j->req, -rc);
	else if (create_reply(j, &e) == -ENOENT) {
		/* interrupted: the kernel sends no release */
		ck_area_handle_free(j->area, ck_area_handle_of(&j->fi));
		ck_area_forget(&j->area->table, e.ino, 1);
	}
}

/* O_EXCL of a file without a name: it cannot get one. */
static void area_create(fuse_req_t req, fuse_ino_t dir, const char *name,
			mode_t mode, struct fuse_file_info *fi)
{
	bool unnamed = ck_protocol_is_unnamed(fi->flags);
	struct ck_area_job *j = ck_area_job_make(req, dir, create_run,
						 unnamed ? NULL : name, fi);

	if (!j)
		return;
	j->mode = mode & 07777;
	j->flags = fi->flags & (CK_AREA_FLAGS_KEPT | (unnamed ? O_EXCL : 0));
	make_queue(j);
}

void ck_area_make_ops(struct fuse_lowlevel_ops *ops)
{
	ops->mknod = area_mknod;
	ops->mkdir = area_mkdir;
	ops->symlink = area_symlink;
	ops->create = area_create;
}
