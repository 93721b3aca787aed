/* SPDX-License-Identifier: MIT */
/*
 * area_xattr: extended attributes of files/: those with names `user.*`, which only regular
 * files and directories have. Others are neither listed nor returned. No state, no locks.
 */
#include "area_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#define USER CK_STR("user.")

/* A file type that cannot have them is -ENODATA; so is the empty directory. */
static int attributes_open(struct ck_area *a, struct ck_area_node *n)
{
	struct stat st;
	int fd = ck_area_open(a, n, O_RDONLY, &st);

	return fd == -EINVAL || fd == -EXDEV ? -ENODATA : fd;
}

/* Reads the value of an attribute, or without a name the names of all. A value that grows
 * meanwhile is read again. */
static int value_read(int fd, const char *name, struct ck_buf *out)
{
	ssize_t n;

	for (;;) {
		n = name ? fgetxattr(fd, name, NULL, 0)
			 : flistxattr(fd, NULL, 0);
		if (n <= 0)
			break;
		free(out->data);
		*out = (struct ck_buf){ .data = malloc((size_t)n) };
		if (!out->data)
			return -ENOMEM;
		n = name ? fgetxattr(fd, name, out->data, (size_t)n)
			 : flistxattr(fd, out->data, (size_t)n);
		if (n >= 0 || errno != ERANGE)
			break;
	}
	if (n < 0)
		return -errno;
	out->len = (size_t)n;
	return 0;
}

/* Removes other names than `user.*` from a list of names, each with a NUL. */
static void names_filter(struct ck_buf *names)
{
	size_t kept = 0;

	for (size_t at = 0, len; at < names->len; at += len) {
		len = strnlen(names->data + at, names->len - at) + 1;
		if (!ck_str_starts(ck_str_from(names->data + at), USER))
			continue;
		memmove(names->data + kept, names->data + at, len);
		kept += len;
	}
	names->len = kept;
}

static void getxattr_run(struct ck_area_job *j)
{
	struct ck_area_node *n = ck_area_get(&j->area->table, j->ino);
	struct ck_buf value = { 0 };
	int fd = n ? attributes_open(j->area, n) : -ESTALE;
	int rc = fd < 0 ? fd : value_read(fd, j->name, &value);

	if (fd >= 0)
		close(fd);
	ck_area_put(&j->area->table, n);
	ck_fs_reply_value(j->req, rc, &value, j->size);
	free(value.data);
}

static void listxattr_run(struct ck_area_job *j)
{
	struct ck_area_node *n = ck_area_get(&j->area->table, j->ino);
	struct ck_buf names = { 0 };
	int fd = n ? attributes_open(j->area, n) : -ESTALE;
	int rc = fd < 0 ? fd : value_read(fd, NULL, &names);

	if (fd >= 0)
		close(fd);
	ck_area_put(&j->area->table, n);
	if (rc == -ENODATA || rc == -EOPNOTSUPP || rc == -EACCES)
		rc = 0;
	names_filter(&names);
	ck_fs_reply_value(j->req, rc, &names, j->size);
	free(names.data);
}

static void xattr_defer(fuse_req_t req, fuse_ino_t ino, const char *name,
			size_t size, void (*run)(struct ck_area_job *j))
{
	struct ck_area_job *j = ck_area_job_make(req, ino, run, name, NULL);

	if (!j)
		return;
	j->size = size;
	ck_area_job_queue(j);
}

static void area_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
			  size_t size)
{
	const struct ck_area *a = ck_area_of(req);

	if (a->fs->options->noxattr)
		/* the kernel sends no further requests then */
		fuse_reply_err(req, ENOSYS);
	else if (ck_str_starts(ck_str_from(name), CK_STR("system.")) ||
		 strcmp(name, "security.selinux") == 0)
		fuse_reply_err(req, EOPNOTSUPP);
	else if (!ck_str_starts(ck_str_from(name), USER))
		fuse_reply_err(req, ENODATA);
	else
		xattr_defer(req, ino, name, size, getxattr_run);
}

static void area_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	const struct ck_area *a = ck_area_of(req);

	if (a->fs->options->noxattr)
		fuse_reply_err(req, ENOSYS);
	else
		xattr_defer(req, ino, NULL, size, listxattr_run);
}

void ck_area_xattr_ops(struct fuse_lowlevel_ops *ops)
{
	ops->getxattr = area_getxattr;
	ops->listxattr = area_listxattr;
}
