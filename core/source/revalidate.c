/* SPDX-License-Identifier: MIT */
/*
 * revalidate: records the state of a data file, and compares it at every use, by name
 * and by descriptor. A file that was replaced, truncated or rewritten gives
 * ESTALE, and never a byte of another generation. Any thread; the state is that
 * of the file set.
 */
#include "base/system/rights.h"
#include "files_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

/* True for errors that are facts about the file: it does not exist or must not
 * be used. Other errors are transient failures of the system call. */
static bool is_refusal(int err)
{
	switch (err) {
	case ENOENT:
	case ENOTDIR:
	case ELOOP:
	case EXDEV:
	case EPERM:
	case ENXIO: /* a socket, or a device without driver */
	case ENODEV:
	case EISDIR:
	case ENAMETOOLONG: return true;
	default: return false;
	}
}

/* On a network file system a signal may interrupt fstat(2), which is
 * repeated. */
static int stat_fd(int fd, struct stat *st)
{
	return TEMP_FAILURE_RETRY(fstat(fd, st)) ? -errno : 0;
}

/* Flags for data files; O_NONBLOCK so that a FIFO does not block the open. */
enum { OPEN_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY };

/* Opens a file; on success it replaces the open file *fd. */
static int open_as(const struct ck_files *f, struct ck_str path, int flags,
		   int *fd, struct stat *st)
{
	int now = ck_open_reached(&f->reach, path, flags);
	int rc = now < 0 ? now : stat_fd(now, st);

	if (rc) {
		ck_fd_cleanup(&now);
		return rc;
	}
	ck_fd_cleanup(fd);
	*fd = now;
	return 0;
}

static int look_as(const struct ck_files *f, struct ck_str path, int flags,
		   struct stat *st)
{
	ck_auto_fd int fd = -1;

	return open_as(f, path, flags, &fd, st);
}

/* Stores a value that rarely changes, without a write if it is unchanged. */
static void note(unsigned *to, unsigned value)
{
	if (__atomic_load_n(to, __ATOMIC_RELAXED) != value)
		__atomic_store_n(to, value, __ATOMIC_RELAXED);
}

/* ck_file_access.acl: the bits that the ACL grants, and above them a stamp of
 * the ctime. They share one word, so a thread never combines the values of two
 * writers. The seconds are cut to the bits that are left, which wrap after four
 * years. */
enum { ACL_LEAVES = 077, ACL_KNOWN = 0100, STAMP_SECONDS = 0x7ffffff };

static uint64_t acl_stamp(const struct stat *st)
{
	uint64_t sec = (uint64_t)st->st_ctim.tv_sec & STAMP_SECONDS;

	return (sec << 30 | (uint64_t)st->st_ctim.tv_nsec) << 7 | ACL_KNOWN;
}

/* False for a recent ctime: the clock of ctimes is coarse, so an ACL that is
 * set just after it was read may leave the ctime unchanged. */
static bool is_settled(const struct stat *st)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return now.tv_sec - st->st_ctim.tv_sec > 1;
}

static mode_t acl_leaves(struct ck_file_access *to, const struct stat *st,
			 int dirfd, const char *name, int flags)
{
	uint64_t known = __atomic_load_n(&to->acl, __ATOMIC_RELAXED);
	uint64_t stamp = acl_stamp(st);
	mode_t left;

	if ((known & ~(uint64_t)ACL_LEAVES) == stamp)
		return (mode_t)known & ACL_LEAVES;
	left = ck_acl_leaves_of(dirfd, name, flags);
	/* 0 may mean that the ACL could not be read: it is not cached. */
	if (left && is_settled(st))
		__atomic_store_n(&to->acl, stamp | left, __ATOMIC_RELAXED);
	return left;
}

void ck_file_access_note(struct ck_file_access *to, const struct stat *st,
			 int dirfd, const char *name, int flags)
{
	mode_t left = acl_leaves(to, st, dirfd, name, flags);

	note(&to->mode, st->st_mode & (~(mode_t)077 | left));
	note(&to->uid, st->st_uid);
	note(&to->gid, st->st_gid);
}

void ck_file_access_copy(struct ck_file_access *to,
			 const struct ck_file_access *from)
{
	note(&to->mode, from->mode);
	note(&to->uid, from->uid);
	note(&to->gid, from->gid);
	note(&to->closed, from->closed);
	__atomic_store_n(&to->acl, from->acl, __ATOMIC_RELAXED);
}

struct ck_file_access ck_file_access_noted(const struct ck_file_access *from)
{
	return (struct ck_file_access){
		.mode = __atomic_load_n(&from->mode, __ATOMIC_RELAXED),
		.uid = __atomic_load_n(&from->uid, __ATOMIC_RELAXED),
		.gid = __atomic_load_n(&from->gid, __ATOMIC_RELAXED),
		.closed = __atomic_load_n(&from->closed, __ATOMIC_RELAXED),
		.acl = __atomic_load_n(&from->acl, __ATOMIC_RELAXED),
	};
}

static bool is_same(const struct ck_seen_file *file, const struct stat *st)
{
	const struct ck_file_info *seen = &file->info;

	return S_ISREG(st->st_mode) && st->st_dev == file->dev &&
	       st->st_ino == file->ino && (uint64_t)st->st_size == seen->size &&
	       st->st_mtim.tv_sec == seen->mtime.tv_sec &&
	       st->st_mtim.tv_nsec == seen->mtime.tv_nsec;
}

/* Compares a stat with the recorded state. rc: the result of the system call
 * that filled *st. */
static int compare(struct ck_files *f, struct ck_seen_file *file, int rc,
		   const struct stat *st, bool *transient)
{
	*transient = rc && !is_refusal(-rc);
	if (*transient)
		return rc;
	if (rc || !is_same(file, st))
		return -ESTALE;
	if (f->watches_ctime)
		ck_file_note_ctime(f, file, &st->st_ctim);
	return ck_file_has_other_head(file) ? -ESTALE : 0;
}

/* Updates the r bits that directories on the path deny. A file in the
 * checkpoint's directory itself has no such directories. */
static void note_way(const struct ck_files *f, struct ck_seen_file *file,
		     int fd)
{
	if (!file->plain)
		note(&file->access.closed,
		     __atomic_load_n(&file->others, __ATOMIC_RELAXED) |
			     ck_files_closed_to(f, file->info.path, fd,
						ck_files_shown_as(f)));
}

int ck_file_check_name(struct ck_files *f, struct ck_seen_file *file,
		       bool *transient)
{
	const char *name = file->plain ? file->info.path.p : "";
	int flags = file->plain ? AT_SYMLINK_NOFOLLOW : AT_EMPTY_PATH;
	ck_auto_fd int fd = -1;
	struct stat st;
	int rc = 0;

	if (!file->plain)
		rc = open_as(f, file->info.path, O_PATH, &fd, &st);
	else if (TEMP_FAILURE_RETRY(fstatat(f->reach.dirfd, name, &st, flags)))
		rc = -errno;
	rc = compare(f, file, rc, &st, transient);
	if (rc)
		return rc;
	ck_file_access_note(&file->access, &st,
			    file->plain ? f->reach.dirfd : fd, name, flags);
	note_way(f, file, fd);
	return 0;
}

int ck_file_check_fd(struct ck_files *f, struct ck_seen_file *file, int fd,
		     bool *transient)
{
	struct stat st;
	int rc = stat_fd(fd, &st);

	return compare(f, file, rc, &st, transient);
}

int ck_file_open(struct ck_files *f, struct ck_seen_file *file, bool *transient)
{
	int fd = ck_open_reached(&f->reach, file->info.path, OPEN_FLAGS);
	int rc;

	if (fd < 0)
		return compare(f, file, fd, NULL, transient);
	rc = ck_file_check_fd(f, file, fd, transient);
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

/* --- recording -------------------------------------------------------------------- */

enum why {
	NO_REASON,
	MISSING,
	LINK,
	LINK_BENEATH,
	NO_FILE,
	REFUSED,
	AWAY,
	DIFFERS,
};

/* Hosts send these texts as their numbers. */
static const char *const whys[] = {
	[MISSING] = "is missing",
	[LINK] = "is a link that is not followed",
	[LINK_BENEATH] = "is a link that is not followed "
			 "(-o shardlinks=beneath follows it)",
	[NO_FILE] = "is no regular file",
	[REFUSED] = "is refused: not beneath the checkpoint's directory",
	[AWAY] = "is on no host that is there",
	[DIFFERS] = "differs between hosts",
};

uint8_t ck_file_why_number(const char *why)
{
	for (uint8_t i = 1; i < CK_ARRAY_SIZE(whys) && why; i++)
		if (strcmp(whys[i], why) == 0)
			return i;
	return NO_REASON;
}

const char *ck_file_why_down(void)
{
	return whys[AWAY];
}

bool ck_file_is_missing(const struct ck_file_info *info)
{
	return ck_file_why_number(info->why) == MISSING;
}

bool ck_file_is_link(const struct ck_file_info *info)
{
	uint8_t why = ck_file_why_number(info->why);

	return why == LINK || why == LINK_BENEATH;
}

const char *ck_file_why_differs(void)
{
	return whys[DIFFERS];
}

const char *ck_file_why(uint8_t number)
{
	return number < CK_ARRAY_SIZE(whys) ? whys[number] : NULL;
}

/* The reason for a link that is not followed, or that is part of a loop. */
static enum why link_reason(const struct ck_files *f, struct ck_str path)
{
	ck_auto_fd int fd = ck_open_beneath(f->reach.dirfd, path, O_PATH,
					    CK_BENEATH_SYMLINKS);
	struct stat st;

	if (fd >= 0 && stat_fd(fd, &st) == 0 && S_ISREG(st.st_mode))
		return LINK_BENEATH;
	return LINK;
}

/* Finds the present file of a path. Returns 0, -ENODATA if it cannot be used,
 * or a transient error. The first open is by O_PATH, because opening a device
 * or a FIFO has side effects. It suffices to identify the file; *trouble is the
 * error of the second open. On a network file system the stat after the second
 * open is fresher. *fd is the descriptor that *st belongs to, or -1. */
static int look(const struct ck_files *f, struct ck_str path, int *fd,
		struct stat *st, int *trouble)
{
	struct stat opened;
	int rc = open_as(f, path, O_PATH, fd, st);

	*trouble = rc;
	if (rc)
		return is_refusal(-rc) ? -ENODATA : rc;
	if (!S_ISREG(st->st_mode))
		return -ENODATA;
	rc = open_as(f, path, OPEN_FLAGS, fd, &opened);
	*trouble = rc;
	if (rc)
		return is_refusal(-rc) ? -ENODATA : 0;
	*st = opened;
	return S_ISREG(st->st_mode) ? 0 : -ENODATA;
}

/* The reason why a file cannot be used. rc: the result of look(); mode: the
 * mode that it found, or 0. */
static enum why reason(const struct ck_files *f, struct ck_str path, int rc,
		       mode_t mode)
{
	struct stat st;

	if (rc == 0)
		return NO_REASON;
	if (mode && !S_ISREG(mode))
		return S_ISLNK(mode) ? link_reason(f, path) : NO_FILE;
	switch (look_as(f, path, O_PATH, &st)) {
	case -ENOENT: return MISSING;
	case -ELOOP: return link_reason(f, path);
	default: return REFUSED;
	}
}

int ck_file_record(const struct ck_files *f, struct ck_seen_file *file)
{
	struct ck_file_info *info = &file->info;
	struct stat st = { 0 };
	struct stat by_name;
	ck_auto_fd int fd = -1;
	int rc = look(f, info->path, &fd, &st, &file->trouble);

	if (rc && rc != -ENODATA)
		return rc;
	info->err = -rc;
	info->why = whys[reason(f, info->path, rc, st.st_mode)];
	info->size = (uint64_t)st.st_size;
	info->mtime = st.st_mtim;
	ck_file_access_note(&file->access, &st, fd, "", AT_EMPTY_PATH);
	info->mode = file->access.mode;
	info->uid = st.st_uid;
	info->gid = st.st_gid;
	file->dev = st.st_dev;
	file->ino = st.st_ino;
	if (!info->err)
		file->ctime = ck_ctime_stamp(&st.st_ctim);
	if (!info->err && !memchr(info->path.p, '/', info->path.len) &&
	    !fstatat(f->reach.dirfd, info->path.p, &by_name,
		     AT_SYMLINK_NOFOLLOW))
		file->plain = is_same(file, &by_name);
	if (!info->err)
		note_way(f, file, fd);
	info->closed = file->access.closed;
	return 0;
}

/* --- identity --------------------------------------------------------------------- */

const struct ck_file_access *ck_files_access(const struct ck_files *f,
					     uint32_t number)
{
	return &ck_file_of(f, number)->access;
}

struct ck_file_id ck_files_id(const struct ck_files *f, uint32_t number)
{
	const struct ck_seen_file *file = ck_file_of(f, number);

	return (struct ck_file_id){ file->dev, file->ino };
}

uint64_t ck_files_ctime(const struct ck_files *f, uint32_t number)
{
	return __atomic_load_n(&ck_file_of(f, number)->ctime, __ATOMIC_ACQUIRE);
}

int ck_files_identify(const struct ck_files *f, uint32_t number,
		      struct ck_file_id *out)
{
	const struct ck_file_info *info = &ck_file_of(f, number)->info;
	struct stat st = { 0 };
	int rc = look_as(f, info->path, O_PATH, &st);

	*out = ck_file_id_of(&st);
	if (rc == -ENOTDIR)
		rc = -ENOENT;
	/* A file that existed may have been moved. */
	return rc == -ENOENT && !info->err ? -ESTALE : rc;
}
