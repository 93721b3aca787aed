/* SPDX-License-Identifier: MIT */
/*
 * path_access: search permission along the path of a data file. A user who may read a
 * file still cannot open it without search permission on each directory between
 * the checkpoint's and the file. No state; any thread.
 */
#include "base/system/rights.h"
#include "files_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Returns the x bits of a directory, shifted to r bits: search permission. */
static mode_t searchers(int dir, struct ck_ids shown)
{
	mode_t left = ck_acl_leaves_of(dir, "", AT_EMPTY_PATH);
	struct stat st;

	if (fstat(dir, &st))
		return 0;
	/* In the mount, members of another group count as others. */
	if (st.st_gid != shown.gid)
		left &= 070 | st.st_mode >> 3;
	left = ck_rights_as(st.st_mode & (~(mode_t)077 | left),
			    (struct ck_ids){ st.st_uid, st.st_gid }, shown);
	return (left & 0111) << 2;
}

/* The same for all directories of a path together. */
static mode_t searchers_on(int dirfd, struct ck_str path, enum ck_beneath how,
			   struct ck_ids shown)
{
	/* A link on the path may lead up: each prefix is opened from dirfd. */
	bool stepwise = how == CK_BENEATH_NO_SYMLINKS;
	ck_auto_fd int at = -1;
	mode_t all = 0444;
	size_t from = 0;
	const char *slash;

	while ((slash = memchr(path.p + from, '/', path.len - from))) {
		size_t end = (size_t)(slash - path.p);
		size_t start = stepwise ? from : 0;
		struct ck_str part = { path.p + start, end - start };
		int dir = at;

		from = end + 1;
		if (part.len == 0)
			continue;
		dir = ck_open_beneath(stepwise && at >= 0 ? at : dirfd, part,
				      O_PATH | O_DIRECTORY, how);
		if (dir < 0)
			return 0;
		ck_fd_cleanup(&at);
		at = dir;
		all &= searchers(dir, shown);
	}
	return all;
}

/* The same for the directories above the target of links; 0 if it cannot be
 * determined. */
static mode_t searchers_to(const struct ck_files *f, struct ck_str path, int fd,
			   struct ck_ids shown)
{
	const struct ck_reach *r = &f->reach;
	ck_auto_free char *there = NULL;
	int rc = ck_path_beneath(r->dirfd, fd, &there);

	if (rc == 0)
		return ck_str_is(path, there)
			       ? 0444
			       : searchers_on(r->dirfd, ck_str_from(there),
					      CK_BENEATH_NO_SYMLINKS, shown);
	if (rc != -EXDEV || r->linkroot < 0 ||
	    ck_path_beneath(r->linkroot, fd, &there))
		return 0;
	return searchers(r->linkroot, shown) &
	       searchers_on(r->linkroot, ck_str_from(there),
			    CK_BENEATH_NO_SYMLINKS, shown);
}

mode_t ck_files_closed_to(const struct ck_files *f, struct ck_str path, int fd,
			  struct ck_ids shown)
{
	mode_t open = searchers_on(f->reach.dirfd, path, f->reach.how, shown);

	if (f->reach.how == CK_BENEATH_SYMLINKS || f->reach.linkroot >= 0)
		open &= searchers_to(f, path, fd, shown);
	return 0444 & ~open;
}

mode_t ck_files_closed(const struct ck_files *f, uint32_t number,
		       struct ck_ids shown)
{
	const struct ck_seen_file *file = ck_file_of(f, number);
	ck_auto_fd int fd = -1;

	if (file->plain)
		return 0;
	fd = ck_open_reached(&f->reach, file->info.path, O_PATH);
	return fd < 0 ? 0444
		      : ck_files_closed_to(f, file->info.path, fd, shown);
}

mode_t ck_dir_closed(int dir, struct ck_ids shown)
{
	return 0444 & ~searchers(dir, shown);
}

/* --- owner and group -------------------------------------------------------------- */

void ck_files_show_as(struct ck_files *f, struct ck_ids ids)
{
	uint64_t both = (uint64_t)ids.uid << 32 | ids.gid;

	if (__atomic_load_n(&f->shown, __ATOMIC_RELAXED) != both)
		__atomic_store_n(&f->shown, both, __ATOMIC_RELAXED);
}

struct ck_ids ck_files_shown_as(const struct ck_files *f)
{
	uint64_t both = __atomic_load_n(&f->shown, __ATOMIC_RELAXED);

	return (struct ck_ids){ (uid_t)(both >> 32), (gid_t)both };
}
