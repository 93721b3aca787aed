/* SPDX-License-Identifier: MIT */
/*
 * What an ACL leaves of a mode, and reading it from files.
 */
#include "base/system/rights.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { MOST = 8 };

struct entry {
	uint16_t tag, rights;
	uint32_t id;
};

static size_t write_acl(uint8_t *to, const struct entry *e)
{
	struct posix_acl_xattr_header header = { POSIX_ACL_XATTR_VERSION };
	size_t len = sizeof(header);

	memcpy(to, &header, len);
	for (; e->tag; e++, len += 8)
		memcpy(to + len, e, 8);
	return len;
}

#define NOBODY 65534

static const struct {
	const char *label;
	struct entry entries[MOST];
	mode_t left;
} acls[] = {
	{ "the three of a mode",
	  { { ACL_USER_OBJ, 6, 0 },
	    { ACL_GROUP_OBJ, 4, 0 },
	    { ACL_OTHER, 0, 0 } },
	  0047 },
	{ "a user, and a group without rights",
	  { { ACL_USER_OBJ, 6, 0 },
	    { ACL_USER, 6, NOBODY },
	    { ACL_GROUP_OBJ, 0, 0 },
	    { ACL_MASK, 6, 0 },
	    { ACL_OTHER, 0, 0 } },
	  0006 },
	{ "a user is denied",
	  { { ACL_USER_OBJ, 6, 0 },
	    { ACL_USER, 0, NOBODY },
	    { ACL_GROUP_OBJ, 4, 0 },
	    { ACL_MASK, 4, 0 },
	    { ACL_OTHER, 4, 0 } },
	  0000 },
	{ "a group may less than another",
	  { { ACL_USER_OBJ, 6, 0 },
	    { ACL_GROUP_OBJ, 6, 0 },
	    { ACL_GROUP, 4, 7 },
	    { ACL_GROUP, 7, 8 },
	    { ACL_MASK, 7, 0 },
	    { ACL_OTHER, 6, 0 } },
	  0044 },
	{ "the mask denies a user",
	  { { ACL_USER_OBJ, 6, 0 },
	    { ACL_USER, 7, NOBODY },
	    { ACL_GROUP_OBJ, 4, 0 },
	    { ACL_MASK, 0, 0 },
	    { ACL_OTHER, 4, 0 } },
	  0000 },
	{ "the mask concerns nobody with a name",
	  { { ACL_USER_OBJ, 6, 0 },
	    { ACL_GROUP_OBJ, 4, 0 },
	    { ACL_MASK, 0, 0 },
	    { ACL_OTHER, 4, 0 } },
	  0047 },
	{ "an entry that nobody knows",
	  { { ACL_USER_OBJ, 6, 0 },
	    { 0x40, 7, 0 },
	    { ACL_GROUP_OBJ, 7, 0 },
	    { ACL_OTHER, 7, 0 } },
	  0000 },
};

static void test_leaves(void)
{
	uint8_t bytes[256];
	size_t len;

	for (size_t i = 0; i < CK_ARRAY_SIZE(acls); i++) {
		len = write_acl(bytes, acls[i].entries);
		printf("# %s\n", acls[i].label);
		eq_u64(ck_acl_leaves((struct ck_str){ (char *)bytes, len }),
		       acls[i].left);
	}
	len = write_acl(bytes, acls[0].entries);
	eq_u64(ck_acl_leaves((struct ck_str){ "", 0 }), 077);
	for (size_t cut = 1; cut < len; cut++)
		if (cut % 8 != 4)
			eq_u64(ck_acl_leaves(
				       (struct ck_str){ (char *)bytes, cut }),
			       0);
	bytes[0]++;
	eq_u64(ck_acl_leaves((struct ck_str){ (char *)bytes, len }), 0);
}

/* By each way to a file: all leave the same. */
static void file_leaves(int dir, mode_t left)
{
	int path = openat(dir, "file", O_PATH | O_CLOEXEC);
	int fd = openat(dir, "file", O_RDONLY | O_CLOEXEC);

	eq_u64(ck_acl_leaves_of(fd, "", AT_EMPTY_PATH), left);
	eq_u64(ck_acl_leaves_of(path, "", AT_EMPTY_PATH), left);
	eq_u64(ck_acl_leaves_of(dir, "file", 0), left);
	eq_u64(ck_acl_leaves_of(dir, "file", AT_SYMLINK_NOFOLLOW), left);
	eq_u64(ck_acl_leaves_of(dir, "link", 0), left);
	close(fd);
	close(path);
}

static void test_files(void)
{
	char path[] = "/tmp/ckptfs-rights-XXXXXX";
	uint8_t bytes[256];
	size_t len = write_acl(bytes, acls[1].entries);
	int dir, fd;

	if (!mkdtemp(path))
		abort();
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = openat(dir, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ok(symlinkat("file", dir, "link") == 0);
	file_leaves(dir, 077);
	if (fsetxattr(fd, "system.posix_acl_access", bytes, len, 0) == 0)
		file_leaves(dir, acls[1].left);
	else
		printf("# no ACLs here\n");
	eq_u64(ck_acl_leaves_of(dir, "missing", 0), 0);
	eq_u64(ck_acl_leaves_of(-1, "", AT_EMPTY_PATH), 0);
	ok(unlinkat(dir, "file", 0) == 0 && unlinkat(dir, "link", 0) == 0 &&
	   rmdir(path) == 0);
	close(fd);
	close(dir);
}

int main(void)
{
	test_leaves();
	test_files();
	return tap_done();
}
