/* SPDX-License-Identifier: MIT */
/*
 * name_ops: handlers that create, rename and remove names, on a writable mount.
 *
 * Names of tensors and boxes are removed from this mount only (whiteout.c).
 * Creating such a name again replaces the contents. Any other new name in a
 * directory of tensors is a scratch file; its rename onto a tensor or box is a
 * commit.
 *
 * The kernel locks the directories until the reply, so no two of these requests
 * meet in one directory. No state, no locks.
 */
#include "../internal.h"
#include "../session/protocol.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* As ck_fs_refuse_in(). */
static int refusal(const struct ck_node *dir)
{
	return ck_node_takes_files(dir) ? -EPERM : -EROFS;
}

/* The kernel has checked that the directory is writable, as for any name. Here
 * the name stands for a tensor that all users of the mount share: only users
 * with write permission for it may replace or remove it. bits: CK_MAY_READ if
 * it is also read. */
static int may_replace(fuse_req_t req, const struct ck_node *n, mode_t bits)
{
	struct ck_fs *fs = fuse_req_userdata(req);

	bits |= CK_MAY_WRITE;
	return ck_access_may_now(fs, req, n, bits) ? 0 : -EACCES;
}

/* --- making --------------------------------------------------------------- */

/* Names are created with an open file, or without one: then fi is NULL. */

/* The committed tensor stays visible; the written bytes replace all of it. */
static int create_tensor(fuse_req_t req, const struct ck_node *n,
			 struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	int rc = may_replace(req, n, fi ? ck_access_bits(fi->flags) : 0);

	if (rc)
		return rc;
	ck_whiteout_recreate(fs, n);
	rc = fi ? ck_handle_open(fs, n, fi) : 0;
	if (rc)
		/* undoes ck_whiteout_recreate() */
		(void)!ck_whiteout_add(fs, n);
	return rc;
}

/* Sets *n to the node. */
static int create_scratch(struct ck_fs *fs, const struct ck_node *dir,
			  const char *name, const struct stat *attr,
			  struct fuse_file_info *fi, struct ck_node *n)
{
	int rc = ck_node_takes_files(dir) ? ck_scratch_name_check(fs, dir, name)
					  : refusal(dir);
	uint32_t number;

	if (rc)
		return rc;
	rc = ck_scratch_create(fs, dir, name, attr, &number);
	if (rc)
		return rc;
	*n = ck_node_of_scratch(number);
	rc = fi ? ck_handle_open(fs, n, fi) : 0;
	if (rc)
		ck_scratch_remove(fs, number);
	return rc;
}

struct create_request {
	struct ck_deferred deferred;
	fuse_req_t req;
	fuse_ino_t parent;
	mode_t mode;
	struct fuse_file_info fi;
	struct fuse_entry_param out;
	char name[CK_NAME_MAX + 1];
};

/* fi: as above. */
static int do_create(struct create_request *r, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);
	const struct fuse_ctx *by = fuse_req_ctx(r->req);
	struct stat attr = { .st_mode = S_IFREG |
					(r->mode & 07777 & ~by->umask),
			     .st_uid = by->uid,
			     .st_gid = by->gid };
	struct ck_node dir, n;
	int rc = ck_node_find(fs, r->parent, &dir);

	if (rc == 0)
		rc = ck_access_check_names(fs, r->req, &dir);
	if (rc)
		return rc;
	rc = ck_fs_name(fs, &dir, r->name, &n);
	r->deferred.tensor = rc ? 0 : n.about.number;
	if (rc == -ENOENT)
		rc = create_scratch(fs, &dir, r->name, &attr, fi, &n);
	else if (rc == 0 && ck_whiteout_has(fs, &n))
		rc = create_tensor(r->req, &n, fi);
	else if (rc == 0)
		rc = ck_node_takes_files(&dir) ? -EEXIST : -EROFS;
	if (rc)
		return rc;
	rc = ck_fs_entry(fs, &n, &r->out);
	if (rc && fi)
		ck_handle_drop(fs, fi);
	return rc;
}

static int create_answer(struct ck_deferred *l)
{
	struct create_request *r = (struct create_request *)l;
	struct ck_fs *fs = fuse_req_userdata(r->req);
	int rc = do_create(r, &r->fi);

	if (rc == CK_AFTER_RELEASE && !l->last)
		return rc;
	if (rc == CK_AFTER_RELEASE)
		rc = ck_write_handle_busy(fs, l->tensor);
	if (rc == 0 && ck_write_handle_of(&r->fi))
		ck_write_handle_opened_by(fs, ck_write_handle_of(&r->fi),
					  r->req, r->fi.flags);
	if (rc)
		fuse_reply_err(r->req, -rc);
	else if (fuse_reply_create(r->req, &r->out, &r->fi) == -ENOENT) {
		/* interrupted: the kernel sends no release */
		ck_handle_drop(fs, &r->fi);
		ck_fs_forget_one(fs, r->out.ino, 1);
	}
	return 0;
}

static void rw_create(fuse_req_t req, fuse_ino_t parent, const char *name,
		      mode_t mode, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct create_request r = { .deferred.answer = create_answer,
				    .req = req,
				    .parent = parent,
				    .mode = mode,
				    .fi = *fi };

	if (ck_protocol_is_unnamed(fi->flags)) {
		fuse_reply_err(req, EOPNOTSUPP);
		return;
	}
	if (strlen(name) > CK_NAME_MAX) {
		fuse_reply_err(req, ENAMETOOLONG);
		return;
	}
	memcpy(r.name, name, strlen(name) + 1);
	ck_deferred_answer(fs->deferred, &r.deferred, sizeof(r));
}

/* tar creates a file, sets its attributes, and opens it then. */
static void rw_mknod(fuse_req_t req, fuse_ino_t parent, const char *name,
		     mode_t mode, dev_t rdev)
{
	struct create_request r = { .req = req,
				    .parent = parent,
				    .mode = mode };
	int rc;

	(void)rdev;
	if (!S_ISREG(mode)) {
		ck_fs_refuse_in(req, parent);
		return;
	}
	snprintf(r.name, sizeof(r.name), "%s", name);
	rc = strlen(name) > CK_NAME_MAX ? -ENAMETOOLONG : do_create(&r, NULL);
	if (rc)
		fuse_reply_err(req, -rc);
	else
		ck_fs_reply_entry(req, &r.out);
}

/* --- removing ------------------------------------------------------------- */

static int unlink_tensor(fuse_req_t req, const struct ck_node *n)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct ck_write_handle *wh = NULL;
	int rc = may_replace(req, n, 0);

	if (rc == 0)
		rc = ck_write_handle_find(fs, n, true, &wh);
	if (rc == 0)
		rc = ck_whiteout_add(fs, n);
	if (wh && rc == 0)
		ck_write_handle_removed(wh);
	if (wh)
		ck_write_handle_put(fs, wh);
	return rc;
}

static int do_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct ck_node dir, n;
	int rc = ck_node_find(fs, parent, &dir);

	if (rc == 0)
		rc = ck_access_check_names(fs, req, &dir);
	if (rc == 0)
		rc = ck_fs_name(fs, &dir, name, &n);
	if (rc == 0 && ck_node_is_scratch(&n))
		ck_scratch_remove(fs, ck_node_scratch(&n));
	else if (rc == 0 && ck_node_accepts(&n))
		rc = unlink_tensor(req, &n);
	else if (rc == 0)
		rc = refusal(&dir);
	return rc;
}

static void rw_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(req, -do_unlink(req, parent, name));
}

/* --- renaming ------------------------------------------------------------- */

/* One rename. */
struct move {
	fuse_req_t req;
	struct ck_node from_dir, to_dir;
	const char *from, *to;
	unsigned flags;
	bool may_commit;
	struct ck_node source;
	/* of a tensor, if the file becomes one */
	struct ck_node target;
};

/* Afterwards all readers of the tensor can read the bytes, so the sender must
 * be able to copy them. */
static int may_become(struct ck_fs *fs, const struct move *m)
{
	struct stat shown;
	int rc = ck_node_stat(fs, &m->source, &shown);

	if (rc)
		return rc;
	if (fuse_req_ctx(m->req)->uid != shown.st_uid &&
	    !ck_may(m->req, &shown, CK_MAY_READ))
		return -EACCES;
	return may_replace(m->req, &m->target, 0);
}

/* On an error source and target are unchanged. */
static int become_tensor(struct ck_fs *fs, const struct move *m)
{
	uint32_t number = ck_node_scratch(&m->source);
	struct ck_scratch *s;
	int rc = may_become(fs, m);

	if (rc == 0 && !m->may_commit)
		rc = CK_AFTER_COMMIT;
	if (rc)
		return rc;
	s = ck_scratch_hold(fs, number);
	if (!s)
		return -ENOENT;
	rc = ck_scratch_commit(fs, s, &m->target);
	if (rc == 0) {
		ck_whiteout_remove(fs, &m->target);
		ck_scratch_remove(fs, number);
	}
	ck_scratch_drop(fs, s);
	return rc;
}

static int become_scratch(struct ck_fs *fs, const struct move *m, bool replaces)
{
	int rc = ck_node_takes_files(&m->to_dir)
			 ? ck_scratch_name_check(fs, &m->to_dir, m->to)
			 : refusal(&m->to_dir);
	uint32_t number = ck_node_scratch(&m->source);
	struct ck_scratch *s;

	if (rc)
		return rc;
	rc = ck_scratch_move(fs, number, &m->to_dir, m->to);
	if (rc)
		return rc;
	if (replaces)
		ck_scratch_remove(fs, ck_node_scratch(&m->target));
	s = ck_scratch_hold(fs, number);
	if (s) {
		ck_scratch_warn(fs, s);
		ck_scratch_drop(fs, s);
	}
	return 0;
}

/* RENAME_NOREPLACE is the only flag that is supported. */
static int flags_check(const struct ck_fs *fs, const struct move *m, bool found)
{
	if (m->flags & ~(unsigned)RENAME_NOREPLACE)
		return -EINVAL;
	if (found && m->flags && !ck_whiteout_has(fs, &m->target))
		return -EEXIST;
	return 0;
}

static int do_rename(struct ck_fs *fs, struct move *m)
{
	int rc = ck_access_check_names(fs, m->req, &m->from_dir);
	bool found;

	if (rc == 0)
		rc = ck_fs_name(fs, &m->from_dir, m->from, &m->source);
	if (rc)
		return rc;
	if (!ck_node_is_scratch(&m->source))
		return refusal(&m->from_dir);
	rc = ck_fs_name(fs, &m->to_dir, m->to, &m->target);
	found = rc == 0;
	if (rc && rc != -ENOENT)
		return rc;
	rc = flags_check(fs, m, found);
	if (rc)
		return rc;
	if (found && ck_node_accepts(&m->target))
		return become_tensor(fs, m);
	if (found && !ck_node_is_scratch(&m->target))
		return refusal(&m->to_dir);
	return become_scratch(fs, m, found);
}

struct rename_request {
	struct ck_deferred deferred;
	fuse_req_t req;
	fuse_ino_t parent, newparent;
	unsigned flags;
	char name[CK_NAME_MAX + 1], newname[CK_NAME_MAX + 1];
};

static int rename_answer(struct ck_deferred *l)
{
	struct rename_request *r = (struct rename_request *)l;
	struct ck_fs *fs = fuse_req_userdata(r->req);
	struct move m = { .req = r->req,
			  .from = r->name,
			  .to = r->newname,
			  .flags = r->flags,
			  .may_commit = l->may_commit };
	int rc = ck_node_find(fs, r->parent, &m.from_dir);

	if (rc == 0)
		rc = ck_node_find(fs, r->newparent, &m.to_dir);
	if (rc == 0)
		rc = do_rename(fs, &m);
	l->tensor = m.target.about.number;
	if (rc == CK_AFTER_COMMIT || (rc == CK_AFTER_RELEASE && !l->last))
		return rc;
	if (rc == CK_AFTER_RELEASE)
		rc = ck_write_handle_busy(fs, l->tensor);
	fuse_reply_err(r->req, -rc);
	return 0;
}

static void rw_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
		      fuse_ino_t newparent, const char *newname,
		      unsigned int flags)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct rename_request r = { .deferred.answer = rename_answer,
				    .req = req,
				    .parent = parent,
				    .newparent = newparent,
				    .flags = flags };

	if (strlen(name) > CK_NAME_MAX || strlen(newname) > CK_NAME_MAX) {
		fuse_reply_err(req, ENAMETOOLONG);
		return;
	}
	memcpy(r.name, name, strlen(name) + 1);
	memcpy(r.newname, newname, strlen(newname) + 1);
	ck_deferred_answer(fs->deferred, &r.deferred, sizeof(r));
}

void ck_fs_name_ops(struct fuse_lowlevel_ops *ops)
{
	ops->create = rw_create;
	ops->mknod = rw_mknod;
	ops->unlink = rw_unlink;
	ops->rename = rw_rename;
}
