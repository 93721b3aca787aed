/* SPDX-License-Identifier: MIT */
/*
 * area_refuse: changes in files/, which is read-only: EROFS. A rename or link between
 * files/ and another directory of the mount is EXDEV, for which tools copy. No state, no
 * locks.
 */
#include "area_internal.h"
#include <errno.h>

static void refuse(fuse_req_t req)
{
	fuse_reply_err(req, EROFS);
}

static void area_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr,
			 int to_set, struct fuse_file_info *fi)
{
	(void)ino, (void)attr, (void)to_set, (void)fi;
	refuse(req);
}

static void area_mknod(fuse_req_t req, fuse_ino_t dir, const char *name,
		       mode_t mode, dev_t dev)
{
	(void)dir, (void)name, (void)mode, (void)dev;
	refuse(req);
}

static void area_mkdir(fuse_req_t req, fuse_ino_t dir, const char *name,
		       mode_t mode)
{
	(void)dir, (void)name, (void)mode;
	refuse(req);
}

static void area_remove(fuse_req_t req, fuse_ino_t dir, const char *name)
{
	(void)dir, (void)name;
	refuse(req);
}

static void area_symlink(fuse_req_t req, const char *link, fuse_ino_t dir,
			 const char *name)
{
	(void)link, (void)dir, (void)name;
	refuse(req);
}

static void area_rename(fuse_req_t req, fuse_ino_t dir, const char *name,
			fuse_ino_t to, const char *new_name, unsigned flags)
{
	(void)name, (void)new_name, (void)flags;
	fuse_reply_err(req,
		       ck_area_has(dir) == ck_area_has(to) ? EROFS : EXDEV);
}

static void area_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t dir,
		      const char *name)
{
	(void)name;
	fuse_reply_err(req,
		       ck_area_has(ino) == ck_area_has(dir) ? EROFS : EXDEV);
}

static void area_create(fuse_req_t req, fuse_ino_t dir, const char *name,
			mode_t mode, struct fuse_file_info *fi)
{
	(void)dir, (void)name, (void)mode, (void)fi;
	refuse(req);
}

static void area_write(fuse_req_t req, fuse_ino_t ino, const char *bytes,
		       size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)ino, (void)bytes, (void)size, (void)off, (void)fi;
	refuse(req);
}

static void area_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off,
			   off_t len, struct fuse_file_info *fi)
{
	(void)ino, (void)mode, (void)off, (void)len, (void)fi;
	refuse(req);
}

static void area_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
			  const char *value, size_t size, int flags)
{
	(void)ino, (void)name, (void)value, (void)size, (void)flags;
	refuse(req);
}

static void area_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	(void)ino, (void)name;
	refuse(req);
}

/* The ioctls of a mount are for its other files. */
static void area_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,
		       struct fuse_file_info *fi, unsigned flags,
		       const void *in, size_t in_len, size_t out_len)
{
	(void)ino, (void)cmd, (void)arg, (void)fi, (void)flags;
	(void)in, (void)in_len, (void)out_len;
	fuse_reply_err(req, ENOTTY);
}

void ck_area_refuse_ops(struct fuse_lowlevel_ops *ops)
{
	ops->setattr = area_setattr;
	ops->mknod = area_mknod;
	ops->mkdir = area_mkdir;
	ops->unlink = area_remove;
	ops->rmdir = area_remove;
	ops->symlink = area_symlink;
	ops->rename = area_rename;
	ops->link = area_link;
	ops->create = area_create;
	ops->write = area_write;
	ops->fallocate = area_fallocate;
	ops->setxattr = area_setxattr;
	ops->removexattr = area_removexattr;
	ops->ioctl = area_ioctl;
}
