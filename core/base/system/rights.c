/* SPDX-License-Identifier: MIT */
/*
 * rights: computes permission bits from a mode, owners and a POSIX ACL. The ACL
 * is read in the form of the kernel's attribute, which is untrusted. No state;
 * any thread.
 */
#include "rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <sys/xattr.h>

static const char attribute[] = "system.posix_acl_access";

mode_t ck_rights_as(mode_t mode, struct ck_ids of, struct ck_ids shown)
{
	mode_t owner = mode >> 6 & 07, group = mode >> 3 & 07;
	mode_t others = mode & 07;

	if (of.gid != shown.gid)
		group = others;
	if (of.uid != shown.uid)
		owner = others;
	return owner << 6 | group << 3 | others;
}

/* --- reading --------------------------------------------------------------- */

/* Names a file by an open descriptor or by a path: `path` is NULL, or `fd` is
 * not used. */
struct way {
	int fd;
	char *path;
	bool follow;
};

static ssize_t ask(const struct way *w, void *to, size_t room)
{
	ssize_t n;

	if (!w->path)
		n = fgetxattr(w->fd, attribute, to, room);
	else if (w->follow)
		n = getxattr(w->path, attribute, to, room);
	else
		n = lgetxattr(w->path, attribute, to, room);
	return n < 0 ? -errno : n;
}

/* Appends the ACL. Most files do not have one, so the length is requested
 * first, without a buffer. */
static ssize_t take(const struct way *w, struct ck_buf *out)
{
	ck_auto_free void *acl = NULL;
	ssize_t n = ask(w, NULL, 0);

	if (n == -ENODATA || n == -EOPNOTSUPP)
		return 0;
	if (n <= 0)
		return n;
	acl = malloc((size_t)n);
	if (!acl)
		return -ENOMEM;
	n = ask(w, acl, (size_t)n);
	if (n == -ENODATA)
		return 0;
	if (n > 0)
		ck_buf_add(out, acl, (size_t)n);
	return n < 0 ? n : out->err;
}

int ck_acl_read(int dirfd, const char *name, int flags, struct ck_buf *out)
{
	bool itself = *name == '\0' && flags & AT_EMPTY_PATH;
	struct way w = { .fd = dirfd };
	ck_auto_free char *path = NULL;
	ssize_t n = itself ? take(&w, out) : -EBADF;

	if (n != -EBADF)
		return (int)n;
	/* getxattr(2) has no variant for a name in an open directory or for an
	 * O_PATH descriptor. */
	if (asprintf(&path, "/proc/self/fd/%d%s%s", dirfd, itself ? "" : "/",
		     name) < 0)
		return -ENOMEM;
	w.path = path;
	w.follow = itself || !(flags & AT_SYMLINK_NOFOLLOW);
	return (int)take(&w, out);
}

/* --- understanding ----------------------------------------------------------- */

struct granted {
	unsigned group, mask, named; /* rwx */
	bool any_named;
};

static bool entry_add(struct granted *g, uint16_t tag, uint16_t rights)
{
	switch (tag) {
	case ACL_USER_OBJ:
	case ACL_OTHER: return true; /* the mode has these bits */
	case ACL_GROUP_OBJ: g->group = rights; return true;
	case ACL_MASK: g->mask = rights; return true;
	case ACL_USER:
	case ACL_GROUP:
		g->named &= rights;
		g->any_named = true;
		return true;
	default: return false;
	}
}

mode_t ck_acl_leaves(struct ck_str acl)
{
	struct granted g = { .group = 07, .mask = 07, .named = 07 };
	struct ck_cur cur = ck_cur_make(acl.p, acl.len);
	uint32_t version, who;
	uint16_t tag, rights;

	if (acl.len == 0)
		return 077;
	if (!ck_cur_u32(&cur, &version) || version != POSIX_ACL_XATTR_VERSION)
		return 0;
	while (ck_cur_left(&cur))
		if (!ck_cur_u16(&cur, &tag) || !ck_cur_u16(&cur, &rights) ||
		    !ck_cur_u32(&cur, &who) || !entry_add(&g, tag, rights))
			return 0;
	if (g.any_named)
		g.named &= g.mask;
	return ((g.group & g.named & 07) << 3) | (g.named & 07);
}

mode_t ck_acl_leaves_of(int dirfd, const char *name, int flags)
{
	struct ck_buf acl = { 0 };
	mode_t left = 0;

	if (ck_acl_read(dirfd, name, flags, &acl) == 0)
		left = ck_acl_leaves(
			(struct ck_str){ (const char *)acl.data, acl.len });
	ck_buf_fini(&acl);
	return left;
}
