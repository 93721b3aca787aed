/* SPDX-License-Identifier: MIT */
/*
 * mount_record: a small file that each daemon writes: its pid, start time and mount id. A
 * command reads it to distinguish a mount that hangs from one whose daemon is dead. Root's
 * records are in /run/ckptfs, a user's in $XDG_RUNTIME_DIR/ckptfs. The file name is the
 * device number of the mount.
 *
 * A record is trusted only if the directory and the file belong to root or to the user who
 * mounted. It applies to the mount whose id it contains, and to bind mounts of it, since
 * the kernel reuses device numbers. A daemon that cannot write its record runs without one.
 *
 * States of a record: written when the mount is ready; removed by its daemon; stale after
 * the daemon was killed, until ck_mount_records_clean(). It is replaced by rename(2), so a
 * reader sees a complete record. No threads.
 */
#include "base/system/process.h"
#include "mounts.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIRECTORY "ckptfs"

enum { SIZE_MOST = 1024, SPACE_NONE = 0 };

/* --- processes ------------------------------------------------------------ */

/* Reads state and start time of a process. False if it does not exist or is hidden. */
static bool process_read(pid_t pid, char *state, uint64_t *start)
{
	char text[CK_PROCESS_STAT];
	const char *fields = ck_process_stat(pid, text);

	return fields &&
	       sscanf(fields,
		      " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u "
		      "%*u %*d %*d %*d %*d %*d %*d %" SCNu64,
		      state, start) == 2;
}

/* True if all uids of a process are `user`. The owner of /proc/PID does not show this:
 * root owns the directory of a process that is not dumpable. */
static bool process_is_of(pid_t pid, uid_t user)
{
	char path[64], text[1024];
	ck_auto_fd int fd = -1;
	const char *at;
	unsigned ids[4];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	at = strstr(text, "\nUid:");
	if (!at || sscanf(at, "\nUid: %u %u %u %u", &ids[0], &ids[1], &ids[2],
			  &ids[3]) != 4)
		return false;
	for (size_t i = 0; i < CK_ARRAY_SIZE(ids); i++)
		if (ids[i] != user)
			return false;
	return true;
}

static uint64_t inode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? SPACE_NONE : st.st_ino;
}

static uint64_t own_space(void)
{
	return inode_of("/proc/self/ns/pid");
}

static uint64_t own_mounts(void)
{
	return inode_of("/proc/self/ns/mnt");
}

enum ck_life ck_mount_record_life(const struct ck_mount_record *r)
{
	uint64_t start = 0;
	char state = '\0';

	if (r->pid <= 0 || r->space == SPACE_NONE || r->space != own_space())
		return CK_LIFE_UNKNOWN;
	if (kill(r->pid, 0) && errno == ESRCH)
		return CK_LIFE_DEAD;
	if (!process_read(r->pid, &state, &start))
		return CK_LIFE_UNKNOWN;
	return start == r->start && !strchr("ZX", state) ? CK_LIFE_LIVES
							 : CK_LIFE_DEAD;
}

/* --- the directory -------------------------------------------------------- */

static bool belongs(int fd, uid_t user)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == user &&
	       (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Opens the parent of a user's directory of records: /run for root, else
 * $XDG_RUNTIME_DIR or /run/user/UID. Returns a descriptor, or: -EPERM if it belongs to another
 * user or others may write it; an errno of open(2). */
static int base_open(uid_t user)
{
	const char *given = getenv("XDG_RUNTIME_DIR");
	char path[64] = "/run";
	int fd;

	if (user != 0)
		snprintf(path, sizeof(path), "/run/user/%ju", (uintmax_t)user);
	if (user == 0 || user != geteuid() || !given || *given != '/')
		given = path;
	fd = open(given, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && !belongs(fd, user)) {
		close(fd);
		return -EPERM;
	}
	return fd < 0 ? -errno : fd;
}

/* Opens a user's directory of records. make: creates it; `user` must be the caller. Returns
 * a descriptor or an error like base_open(). */
static int directory_open(uid_t user, bool make)
{
	ck_auto_fd int base = base_open(user);
	int fd;

	if (base < 0)
		return base;
	if (make)
		(void)mkdirat(base, DIRECTORY, 0755);
	fd = openat(base, DIRECTORY,
		    O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (make)
		(void)fchmod(fd, 0755); /* independent of the umask */
	if (!belongs(fd, user)) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

/* --- reading -------------------------------------------------------------- */

static void read_line(struct ck_str line, struct ck_mount_record *r)
{
	char text[64];
	int pid;

	if (line.len >= sizeof(text))
		return;
	memcpy(text, line.p, line.len);
	text[line.len] = '\0';
	if (sscanf(text, "pid: %d", &pid) == 1)
		r->pid = (pid_t)pid;
	(void)sscanf(text, "start: %" SCNu64, &r->start);
	(void)sscanf(text, "pid namespace: %" SCNu64, &r->space);
	(void)sscanf(text, "mount namespace: %" SCNu64, &r->mounts);
	(void)sscanf(text, "mount: %d", &r->mount);
	(void)sscanf(text, "unique mount: %" SCNu64, &r->unique);
	(void)sscanf(text, "kind: %31s", r->kind);
}

static int read_file(int dirfd, const char *name, uid_t user, char *text,
		     size_t *len)
{
	ck_auto_fd int fd = openat(
		dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != user) ||
	    (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	n = read(fd, text, SIZE_MOST);
	if (n < 0)
		return -errno;
	*len = (size_t)n;
	return 0;
}

static void record_read(int dirfd, const char *name, uid_t user,
			struct ck_mount_record *out)
{
	char text[SIZE_MOST];
	struct ck_str line;
	struct ck_cur at;
	size_t len = 0;

	*out = (struct ck_mount_record){ 0 };
	if (read_file(dirfd, name, user, text, &len))
		return;
	at = ck_cur_make(text, len);
	while (ck_cur_line(&at, &line))
		read_line(line, out);
	if (out->pid <= 0)
		*out = (struct ck_mount_record){ 0 };
}

static void device_name(unsigned major, unsigned minor,
			char name[static CK_MOUNT_RECORD_NAME])
{
	snprintf(name, CK_MOUNT_RECORD_NAME, "%u:%u", major, minor);
}

/* A user can write any pid into a record: a live process must belong to that user. */
static bool is_credible(const struct ck_mount_record *r,
			const struct ck_mount *m)
{
	return ck_mount_record_life(r) != CK_LIFE_LIVES ||
	       process_is_of(r->pid, m->user);
}

/* unique: unique mount id of m, or 0. */
static bool is_of(const struct ck_mount_record *r, const struct ck_mount *m,
		  uint64_t unique)
{
	return r->mount == m->id &&
	       (r->unique == unique || r->unique == 0 || unique == 0);
}

/* True if the table has the mount of the record with this file name. */
static bool is_present(const struct ck_mounts *all, const char *name,
		       const struct ck_mount_record *r)
{
	char device[CK_MOUNT_RECORD_NAME];

	for (size_t i = 0; i < all->n; i++) {
		const struct ck_mount *m = &all->rows[i];

		device_name(m->major, m->minor, device);
		if (m->id == r->mount && strcmp(device, name) == 0 &&
		    is_of(r, m, ck_mount_unique(m)))
			return true;
	}
	return false;
}

/* True if the mount of the record is in the table, possibly at another path: `m` may be a
 * bind mount of it. */
static bool is_elsewhere(const char *name, const struct ck_mount_record *r)
{
	struct ck_mounts all;
	bool found;

	if (ck_mounts_read(&all))
		return false;
	found = is_present(&all, name, r);
	ck_mounts_fini(&all);
	return found;
}

static int read_work(void *arg, struct ck_buf *answer)
{
	const struct ck_mount *m = arg;
	ck_auto_fd int dirfd = directory_open(m->user, false);
	char name[CK_MOUNT_RECORD_NAME];
	struct ck_mount_record r;

	if (dirfd < 0)
		return dirfd;
	device_name(m->major, m->minor, name);
	record_read(dirfd, name, m->user, &r);
	if (!is_of(&r, m, ck_mount_unique(m)) && !is_elsewhere(name, &r))
		return -ENOENT;
	if (!is_credible(&r, m))
		return -ENOENT;
	ck_buf_add(answer, &r, sizeof(r));
	return answer->err;
}

/* A child process reads: another user may have mounted any file system on the directory of
 * records, or above the mount. */
void ck_mount_record_read(const struct ck_mount *m, struct ck_mount_record *out)
{
	struct ck_mount copy = *m;
	struct ck_buf answer = { 0 };

	*out = (struct ck_mount_record){ 0 };
	if (ck_probe(read_work, &copy, CK_PROBE_MSEC, NULL, &answer) == 0 &&
	    answer.len == sizeof(*out))
		memcpy(out, answer.data, sizeof(*out));
	ck_buf_fini(&answer);
}

/* --- writing -------------------------------------------------------------- */

static void print_own(const char *kind, const struct ck_shown *mount,
		      struct ck_buf *out)
{
	uint64_t start = 0;
	char state;

	if (!process_read(getpid(), &state, &start))
		out->err = -EIO;
	ck_buf_printf(out,
		      "pid: %d\nstart: %" PRIu64 "\npid namespace: %" PRIu64
		      "\nmount namespace: %" PRIu64
		      "\nmount: %d\nunique mount: %" PRIu64 "\nkind: %s\n",
		      (int)getpid(), start, own_space(), own_mounts(),
		      mount->id, mount->unique, kind);
}

/* Writes under a temporary name and renames, so that readers see a complete record. Returns
 * 0 or a negative errno. */
static int put_file(int dirfd, const char *name, const struct ck_buf *text)
{
	char temporary[CK_MOUNT_RECORD_NAME + 2];
	ck_auto_fd int fd = -1;
	int rc;

	snprintf(temporary, sizeof(temporary), ".%s", name);
	(void)unlinkat(dirfd, temporary, 0);
	fd = openat(dirfd, temporary,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	rc = fchmod(fd, 0644) ? -errno : 0;
	if (rc == 0)
		rc = ck_write_full(fd, text->data, text->len);
	if (rc == 0 && renameat(dirfd, temporary, dirfd, name))
		rc = -errno;
	if (rc)
		(void)unlinkat(dirfd, temporary, 0);
	return rc;
}

void ck_mount_record_write(const char *point, uint64_t number, const char *kind,
			   char name[static CK_MOUNT_RECORD_NAME])
{
	ck_auto_fd int dirfd = directory_open(geteuid(), true);
	struct ck_buf text = { 0 };
	struct ck_shown mount;

	name[0] = '\0';
	if (dirfd < 0 || ck_shown_at(point, &mount) ||
	    number != (mount.unique ? mount.unique : (uint64_t)mount.id))
		return;
	print_own(kind, &mount, &text);
	device_name(mount.major, mount.minor, name);
	if (text.err || put_file(dirfd, name, &text))
		name[0] = '\0';
	ck_buf_fini(&text);
}

void ck_mount_record_remove(const char *name)
{
	ck_auto_fd int dirfd = -1;
	struct ck_mount_record r;

	if (!*name)
		return;
	dirfd = directory_open(geteuid(), false);
	if (dirfd < 0)
		return;
	record_read(dirfd, name, geteuid(), &r);
	if (r.pid == getpid() && r.space == own_space())
		(void)unlinkat(dirfd, name, 0);
}

/* --- cleaning ------------------------------------------------------------- */

/* The mount table covers the caller's mount namespace only. */
static bool is_seen(const struct ck_mount_record *r)
{
	return r->mounts == SPACE_NONE || r->mounts == own_mounts();
}

static int clean_work(void *arg, struct ck_buf *answer)
{
	const struct ck_mounts *present = arg;
	int dirfd = directory_open(geteuid(), false);
	DIR *dir = dirfd < 0 ? NULL : fdopendir(dirfd);
	const struct dirent *e;
	struct ck_mount_record r;

	if (dirfd >= 0 && !dir)
		close(dirfd);
	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		record_read(dirfd, e->d_name, geteuid(), &r);
		if (ck_mount_record_life(&r) == CK_LIFE_DEAD && is_seen(&r) &&
		    !is_present(present, e->d_name, &r))
			(void)unlinkat(dirfd, e->d_name, 0);
	}
	if (dir)
		closedir(dir);
	return answer->err;
}

/* A child process does this: directories above a mount may not answer. */
void ck_mount_records_clean(const struct ck_mounts *present)
{
	struct ck_mounts copy = *present;
	struct ck_buf none = { 0 };

	(void)!ck_probe(clean_work, &copy, CK_PROBE_MSEC, NULL, &none);
	ck_buf_fini(&none);
}
