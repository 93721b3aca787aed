/* SPDX-License-Identifier: MIT */
/*
 * mounted: identifies a mount in the kernel by statx(2) and /proc/self/mountinfo. A mount may
 * move while it is searched, so a search that fails is repeated. No state, no locks.
 */
#include "mounted.h"
#include "base/system/mountinfo.h"
#include "ckptfs/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 50, TRY_USEC = 1000 };

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000U /* Linux 6.8; else the id may come again */
#endif

/* --- identity ------------------------------------------------------------- */

static int id_of(int fd, const char *path, int flags, struct ck_mount_id *out)
{
	struct statx st, number;

	flags |= AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT;
	if (statx(fd, path, flags, STATX_MNT_ID | STATX_MNT_ID_UNIQUE, &st) ||
	    statx(fd, path, flags, STATX_MNT_ID, &number))
		return -errno;
	*out = (struct ck_mount_id){ .id = st.stx_mnt_id,
				     .row = (int)number.stx_mnt_id,
				     .major = st.stx_dev_major,
				     .minor = st.stx_dev_minor };
	return 0;
}

int ck_mount_id(const char *path, struct ck_mount_id *out)
{
	return id_of(AT_FDCWD, path, 0, out);
}

/* Before Linux 5.8 there are no numbers, and the device is compared alone. */
static bool same_row(const struct ck_mount_id *a, const struct ck_mount_id *b)
{
	return (a->row == b->row || a->row == 0 || b->row == 0) &&
	       a->major == b->major && a->minor == b->minor;
}

/* Opens path if it is that mount. id 0 matches any. */
static int open_if(const char *path, const struct ck_mount_id *wanted,
		   struct ck_mount_id *out)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (id_of(fd, "", AT_EMPTY_PATH, out) == 0 && same_row(out, wanted) &&
	    (wanted->id == 0 || wanted->id == out->id))
		return fd;
	close(fd);
	return -ENOENT;
}

/* --- the new mount -------------------------------------------------------- */

static struct ck_mount_id id_in(const struct ck_mountinfo *row)
{
	return (struct ck_mount_id){ .row = row->id,
				     .major = row->major,
				     .minor = row->minor };
}

static bool could_be_ours(const struct ck_mountinfo *row, const char *fsname)
{
	uid_t user;

	return strcmp(row->type, CK_FS_TYPE) == 0 &&
	       strcmp(row->source, fsname) == 0 &&
	       ck_mountinfo_user(row, &user) && user == getuid();
}

struct noting {
	const char *fsname;
	struct ck_mounts_before *out;
};

static int note(const struct ck_mountinfo *row, void *arg)
{
	struct noting *n = arg;
	struct ck_mounts_before *out = n->out;
	struct ck_mount_id *ids;

	if (!could_be_ours(row, n->fsname))
		return 0;
	ids = ck_grow(out->ids, &out->cap, out->n, 1, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	out->ids = ids;
	out->ids[out->n++] = id_in(row);
	return 0;
}

int ck_mounts_note(const char *fsname, struct ck_mounts_before *out)
{
	struct noting n = { fsname, out };

	*out = (struct ck_mounts_before){ 0 };
	return ck_mountinfo_each(note, &n);
}

void ck_mounts_forget(struct ck_mounts_before *before)
{
	free(before->ids);
	*before = (struct ck_mounts_before){ 0 };
}

struct search {
	const char *fsname, *mountpoint;
	const struct ck_mounts_before *before;
	struct ck_mount_id wanted; /* by number */
	struct ck_mount_id found;
	char *point; /* of what was found; owned */
	size_t n;
	bool at_place;
};

static int take(struct search *s, const struct ck_mountinfo *row)
{
	free(s->point);
	s->point = strdup(row->point);
	s->found = id_in(row);
	return s->point ? 0 : -ENOMEM;
}

static int look_for_new(const struct ck_mountinfo *row, void *arg)
{
	struct search *s = arg;
	bool at_place = strcmp(row->point, s->mountpoint) == 0;
	const struct ck_mount_id id = id_in(row);

	if (!could_be_ours(row, s->fsname))
		return 0;
	for (size_t i = 0; i < s->before->n; i++)
		if (same_row(&s->before->ids[i], &id))
			return 0;
	s->n++;
	if (s->at_place && !at_place)
		return 0;
	s->at_place |= at_place;
	return take(s, row);
}

int ck_mount_find_new(const char *fsname, const char *mountpoint,
		      const struct ck_mounts_before *before,
		      struct ck_mount_id *out)
{
	int fd = -ENOENT;

	/* The path may change between the table and the open. */
	for (int i = 0; i < TRIES && fd == -ENOENT; i++) {
		struct search s = { .fsname = fsname,
				    .mountpoint = mountpoint,
				    .before = before };
		int rc = ck_mountinfo_each(look_for_new, &s);

		if (rc == 0 && s.point && (s.n == 1 || s.at_place))
			fd = open_if(s.point, &s.found, out);
		free(s.point);
		if (rc)
			return rc;
		if (fd < 0)
			usleep(TRY_USEC);
	}
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* --- opening -------------------------------------------------------------- */

enum { FOUND = 1 };

static int look_for_row(const struct ck_mountinfo *row, void *arg)
{
	struct search *s = arg;
	const struct ck_mount_id id = id_in(row);
	int rc;

	if (!same_row(&s->wanted, &id) || strcmp(row->type, CK_FS_TYPE) != 0)
		return 0;
	rc = take(s, row);
	return rc ? rc : FOUND;
}

int ck_mounted_open(const char *mountpoint, const struct ck_mount_id *mounted)
{
	struct ck_mount_id there;
	int fd = open_if(mountpoint, mounted, &there);

	for (int i = 0; i < TRIES && fd < 0; i++) {
		struct search s = { .wanted = *mounted };
		int rc = ck_mountinfo_each(look_for_row, &s);

		if (rc == 0)
			return -ENOENT;
		if (rc == FOUND)
			fd = open_if(s.point, mounted, &there);
		free(s.point);
		if (fd < 0)
			usleep(TRY_USEC);
	}
	return fd < 0 ? -EBUSY : fd;
}
