/* SPDX-License-Identifier: MIT */
/*
 * readonly: handlers that refuse changes with EROFS. The kernel refuses by
 * itself on a mount with `ro`; these are for a mount that was remounted `rw`.
 *
 * A writable mount has some of them, too. In a directory of tensors, which
 * contains writable files, the error is EPERM. No state, no locks.
 */
#include "../internal.h"
#include "../session/protocol.h"
#include <errno.h>

static void refuse(fuse_req_t req)
{
	fuse_reply_err(req, EROFS);
}

/* Refuses a change of a name in a directory. */
void ck_fs_refuse_in(fuse_req_t req, fuse_ino_t dir)
{
	const struct ck_fs *fs = fuse_req_userdata(req);
	struct ck_node n;
	bool has_tensors = ck_node_find(fs, dir, &n) == 0 &&
			   ck_node_takes_files(&n);

	fuse_reply_err(req, fs->writer && has_tensors ? EPERM : EROFS);
}

static void ro_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr,
		       int to_set, struct fuse_file_info *fi)
{
	(void)ino, (void)attr, (void)to_set, (void)fi;
	refuse(req);
}

static void ro_mknod(fuse_req_t req, fuse_ino_t parent, const char *name,
		     mode_t mode, dev_t rdev)
{
	(void)name, (void)mode, (void)rdev;
	ck_fs_refuse_in(req, parent);
}

static void ro_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name,
		     mode_t mode)
{
	(void)name, (void)mode;
	ck_fs_refuse_in(req, parent);
}

static void ro_remove(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	(void)name;
	ck_fs_refuse_in(req, parent);
}

static void ro_symlink(fuse_req_t req, const char *link, fuse_ino_t parent,
		       const char *name)
{
	(void)link, (void)name;
	ck_fs_refuse_in(req, parent);
}

static void ro_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
		      fuse_ino_t newparent, const char *newname,
		      unsigned int flags)
{
	(void)name, (void)newparent, (void)newname, (void)flags;
	ck_fs_refuse_in(req, parent);
}

static void ro_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent,
		    const char *newname)
{
	(void)ino, (void)newname;
	ck_fs_refuse_in(req, newparent);
}

static void ro_create(fuse_req_t req, fuse_ino_t parent, const char *name,
		      mode_t mode, struct fuse_file_info *fi)
{
	(void)name, (void)mode;
	if (ck_protocol_is_unnamed(fi->flags))
		fuse_reply_err(req, EOPNOTSUPP);
	else
		ck_fs_refuse_in(req, parent);
}

static void ro_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
			const char *value, size_t size, int flags)
{
	(void)ino, (void)name, (void)value, (void)size, (void)flags;
	refuse(req);
}

static void ro_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	(void)ino, (void)name;
	refuse(req);
}

void ck_fs_readonly_ops(struct fuse_lowlevel_ops *ops)
{
	ops->setattr = ro_setattr;
	ops->mknod = ro_mknod;
	ops->mkdir = ro_mkdir;
	ops->unlink = ro_remove;
	ops->rmdir = ro_remove;
	ops->symlink = ro_symlink;
	ops->rename = ro_rename;
	ops->link = ro_link;
	ops->create = ro_create;
	ops->setxattr = ro_setxattr;
	ops->removexattr = ro_removexattr;
}
