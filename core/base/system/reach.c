/* SPDX-License-Identifier: MIT */
/*
 * reach: opens files beneath a directory, and link targets beneath linkroot.
 * The target of a refused link is computed from names, compared with the path
 * of linkroot, and then opened beneath linkroot without following links. So a
 * race with a rename leads at worst to another file beneath linkroot. No state;
 * any thread.
 */
#include "reach.h"
#include "fd_link.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MOST = 8 };

/* The absolute path of an open file or directory. Returns 0, -ENAMETOOLONG, or
 * the error of readlink(2). */
static int path_of(int fd, char out[static PATH_MAX])
{
	char name[CK_FD_LINK_BYTES];
	ssize_t n;

	ck_fd_link(fd, name);
	n = readlink(name, out, PATH_MAX);
	if (n < 0)
		return -errno;
	if (n == 0 || n == PATH_MAX)
		return -ENAMETOOLONG;
	out[n] = '\0';
	return 0;
}

int ck_path_beneath(int dirfd, int fd, char **out)
{
	ck_auto_free char *dir = malloc(PATH_MAX);
	ck_auto_free char *file = malloc(PATH_MAX);
	size_t len;
	int rc;

	*out = NULL;
	if (!dir || !file)
		return -ENOMEM;
	rc = path_of(dirfd, dir);
	if (rc == 0)
		rc = path_of(fd, file);
	if (rc)
		return rc;
	len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
	if (strncmp(file, dir, len) != 0 || file[len] != '/')
		return -EXDEV;
	*out = strdup(file + len + 1);
	return *out ? 0 : -ENOMEM;
}

/* Appends a path to an absolute one, component by component; ".." removes the
 * last component. Works on names only, without a system call. */
static int join(char abs[static PATH_MAX], const char *path)
{
	size_t len = strlen(abs);

	if (strcmp(abs, "/") == 0)
		len = 0;
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && memcmp(path, "..", 2) == 0) {
			while (len && abs[--len] != '/')
				;
		} else if (n && (n != 1 || *path != '.')) {
			if (len + 1 + n >= PATH_MAX)
				return -ENAMETOOLONG;
			abs[len++] = '/';
			memcpy(abs + len, path, n);
			len += n;
		}
		path += n + (path[n] == '/');
	}
	if (len == 0)
		abs[len++] = '/';
	abs[len] = '\0';
	return 0;
}

/* Opens the directory of a path, without following links, and sets *name to the
 * last component. */
static int parent_open(int dirfd, struct ck_str path, struct ck_str *name)
{
	const char *slash = memrchr(path.p, '/', path.len);
	size_t at = slash ? (size_t)(slash - path.p) : 0;

	*name = slash ? (struct ck_str){ slash + 1, path.len - at - 1 } : path;
	return at ? ck_open_beneath(dirfd, (struct ck_str){ path.p, at },
				    O_PATH | O_DIRECTORY,
				    CK_BENEATH_NO_SYMLINKS)
		  : openat(dirfd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The target of a link as an absolute path. -EINVAL if it is not a link. */
static int target_of(int dirfd, struct ck_str path, char out[static PATH_MAX])
{
	struct ck_str last;
	ck_auto_fd int parent = parent_open(dirfd, path, &last);
	ck_auto_free char *name = strndup(last.p, last.len);
	ck_auto_free char *target = malloc(PATH_MAX);
	ssize_t n;
	int rc;

	if (parent < 0)
		return parent == -1 ? -errno : parent;
	if (!name || !target)
		return -ENOMEM;
	n = readlinkat(parent, name, target, PATH_MAX);
	if (n < 0)
		return -errno;
	if (n == 0 || n == PATH_MAX)
		return -ENAMETOOLONG;
	target[n] = '\0';
	rc = path_of(parent, out);
	if (rc == 0 && *target == '/')
		memcpy(out, "/", sizeof("/"));
	return rc ? rc : join(out, target);
}

/* Opens the target of a link, without following another link, if its name is
 * beneath linkroot, and stores that name in *rest. -EXDEV if it is not beneath
 * linkroot. */
static int follow(int linkroot, int dirfd, struct ck_str path, int flags,
		  struct ck_buf *rest)
{
	ck_auto_free char *to = malloc(PATH_MAX);
	ck_auto_free char *root = malloc(PATH_MAX);
	size_t len;
	int rc;

	if (!to || !root)
		return -ENOMEM;
	rc = target_of(dirfd, path, to);
	if (rc == 0)
		rc = path_of(linkroot, root);
	if (rc)
		return rc;
	len = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strncmp(to, root, len) != 0 || to[len] != '/')
		return -EXDEV;
	rest->len = 0;
	ck_buf_text(rest, to + len + 1);
	return rest->err ? rest->err
			 : ck_open_beneath(linkroot, ck_str_from(rest->data),
					   flags, CK_BENEATH_NO_SYMLINKS);
}

/* refused: the error to return if the link does not lead to a regular file
 * beneath linkroot. */
static int open_from_linkroot(const struct ck_reach *r, struct ck_str path,
			      int flags, int refused)
{
	struct ck_buf at = { 0 };
	struct stat st;
	int fd = follow(r->linkroot, r->dirfd, path, flags, &at);

	/* The target may be a link, too. */
	for (int i = 0; i < LINKS_MOST && fd == -ELOOP && at.data; i++) {
		ck_auto_free char *name = strdup(at.data);

		fd = name ? follow(r->linkroot, r->linkroot, ck_str_from(name),
				   flags, &at)
			  : -ENOMEM;
	}
	ck_buf_fini(&at);
	if (fd == -EXDEV || fd == -ELOOP || fd == -EINVAL || fd == -EPERM)
		return refused;
	if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
		return fd;
	close(fd);
	return refused;
}

int ck_open_reached(const struct ck_reach *r, struct ck_str path, int flags)
{
	int fd = ck_open_beneath(r->dirfd, path, flags, r->how);

	if (r->linkroot < 0 || (fd != -ELOOP && fd != -EXDEV))
		return fd;
	return open_from_linkroot(r, path, flags, fd);
}
