/* SPDX-License-Identifier: MIT */
/*
 * scratch: files that are not tensors. Tools write to a temporary name and
 * rename it. Until then the bytes are in an unnamed file in the directory of
 * the checkpoint (or in memory, if the filesystem has no unnamed files). So no
 * file is left when the mount ends, even if the daemon is killed.
 *
 * Owner, mode and times are kept here, since a daemon without root cannot give
 * a file away. The ranges that were written are recorded, for the file may
 * become a tensor (scratch_commit.c). After that, programs that still have it
 * open get ESTALE for writes: their bytes would be lost.
 *
 * States: named; removed but open; a tensor (`taken`); freed, without a name
 * and without references.
 *
 * Threads: any. ck_scratches.lock protects the list, names and attributes;
 * ck_scratch.io the bytes of one file.
 */
#include "scratch_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SCRATCH_MAX 4096

/* --- the list ------------------------------------------------------------- */

/* Each file has a descriptor, and data files need some, too. */
static uint32_t most_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return SCRATCH_MAX;
	return (uint32_t)ck_min(limit.rlim_cur / 8, SCRATCH_MAX);
}

struct ck_scratches *ck_scratches_make(void)
{
	struct ck_scratches *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	all->most = most_files();
	pthread_mutex_init(&all->lock, NULL);
	return all;
}

static void scratch_free(struct ck_scratch *s)
{
	if (s->fd >= 0)
		close(s->fd);
	pthread_mutex_destroy(&s->io);
	ck_written_fini(&s->written);
	free(s->name);
	free(s);
}

void ck_scratches_free(struct ck_scratches *all)
{
	struct ck_scratch *s, *next;

	if (!all)
		return;
	for (s = all->first; s; s = next) {
		next = s->next;
		scratch_free(s);
	}
	pthread_mutex_destroy(&all->lock);
	free(all);
}

/* Up to the next rule: the lock must be held. */

struct ck_scratch *ck_scratch_by_number(const struct ck_scratches *all,
					uint32_t number)
{
	struct ck_scratch *s = all->first;

	while (s && s->number > number)
		s = s->next;
	return s && s->number == number ? s : NULL;
}

void ck_scratch_settle(struct ck_scratches *all, struct ck_scratch *s)
{
	struct ck_scratch **at = &all->first;

	if (s->name || s->refs)
		return;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	all->count--;
	scratch_free(s);
}

static int enter(struct ck_scratches *all, struct ck_scratch *s)
{
	if (all->count >= all->most || all->next_number > UINT32_MAX)
		return -ENFILE;
	s->number = (uint32_t)all->next_number++;
	s->next = all->first;
	all->first = s;
	all->count++;
	return 0;
}

/* --- creating and references ---------------------------------------------- */

/* If the filesystem has no unnamed files, memory is used. */
static int backing_open(const struct ck_fs *fs)
{
	int fd = ck_open_unnamed(fs->cp->dirfd);

	if (fd != -EOPNOTSUPP && fd != -EISDIR && fd != -ENOENT &&
	    fd != -EACCES && fd != -EROFS)
		return fd;
	fd = memfd_create("ckptfs", MFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int scratch_make(const struct ck_fs *fs, const char *name,
			struct ck_scratch **out)
{
	struct ck_scratch *s = calloc(1, sizeof(*s));
	int rc = 0;

	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->io, NULL);
	s->fd = backing_open(fs);
	s->name = strdup(name);
	if (s->fd < 0)
		rc = s->fd;
	else if (!s->name)
		rc = -ENOMEM;
	if (rc)
		scratch_free(s);
	else
		*out = s;
	return rc;
}

void ck_scratch_now(struct timespec *out)
{
	clock_gettime(CLOCK_REALTIME, out);
}

int ck_scratch_create(struct ck_fs *fs, const struct ck_node *dir,
		      const char *name, const struct stat *attr,
		      uint32_t *number)
{
	struct ck_scratches *all = fs->scratches;
	struct ck_scratch *s = NULL;
	int rc = scratch_make(fs, name, &s);

	if (rc)
		return rc;
	s->dir = *dir;
	ck_tree_hold(fs->tree, dir->number);
	s->attr = *attr;
	ck_scratch_now(&s->attr.st_mtim);
	s->attr.st_atim = s->attr.st_mtim;
	s->attr.st_ctim = s->attr.st_mtim;
	pthread_mutex_lock(&all->lock);
	rc = enter(all, s);
	*number = s->number;
	pthread_mutex_unlock(&all->lock);
	if (rc) {
		ck_scratch_unname(fs, s);
		scratch_free(s);
	}
	return rc;
}

struct ck_scratch *ck_scratch_hold(struct ck_fs *fs, uint32_t number)
{
	struct ck_scratches *all = fs->scratches;
	struct ck_scratch *s;

	pthread_mutex_lock(&all->lock);
	s = ck_scratch_by_number(all, number);
	if (s)
		s->refs++;
	pthread_mutex_unlock(&all->lock);
	return s;
}

void ck_scratch_drop(struct ck_fs *fs, struct ck_scratch *s)
{
	pthread_mutex_lock(&fs->scratches->lock);
	s->refs--;
	ck_scratch_settle(fs->scratches, s);
	pthread_mutex_unlock(&fs->scratches->lock);
}

void ck_scratch_unname(const struct ck_fs *fs, struct ck_scratch *s)
{
	if (s->name)
		ck_tree_forget(fs->tree, s->dir.number, 1);
	free(s->name);
	s->name = NULL;
}

/* --- attributes ----------------------------------------------------------- */

/* Under the lock. */
static int fill_stat(const struct ck_scratch *s, struct stat *out)
{
	struct stat bytes;

	if (fstat(s->fd, &bytes))
		return -errno;
	*out = s->attr;
	out->st_ino = 0;
	out->st_nlink = s->name ? 1 : 0;
	out->st_size = bytes.st_size;
	out->st_blocks = ck_blocks_of((uint64_t)bytes.st_size);
	out->st_blksize = bytes.st_blksize;
	return 0;
}

int ck_scratch_stat(const struct ck_fs *fs, uint32_t number, struct stat *out)
{
	struct ck_scratches *all = fs->scratches;
	const struct ck_scratch *s;
	int rc = -ESTALE;

	pthread_mutex_lock(&all->lock);
	s = ck_scratch_by_number(all, number);
	if (s)
		rc = fill_stat(s, out);
	pthread_mutex_unlock(&all->lock);
	out->st_ino = ck_node_of_scratch(number).number;
	return rc;
}

static void set_times(struct stat *attr, const struct stat *to, int to_set)
{
	ck_scratch_now(&attr->st_ctim);
	if (to_set & FUSE_SET_ATTR_ATIME)
		attr->st_atim = to->st_atim;
	if (to_set & FUSE_SET_ATTR_MTIME)
		attr->st_mtim = to->st_mtim;
	if (to_set & FUSE_SET_ATTR_ATIME_NOW)
		attr->st_atim = attr->st_ctim;
	if (to_set & FUSE_SET_ATTR_MTIME_NOW)
		attr->st_mtim = attr->st_ctim;
}

static void set_attr(struct stat *attr, const struct stat *to, int to_set)
{
	if (to_set & FUSE_SET_ATTR_MODE)
		attr->st_mode = S_IFREG | (to->st_mode & 07777);
	if (to_set & FUSE_SET_ATTR_UID)
		attr->st_uid = to->st_uid;
	if (to_set & FUSE_SET_ATTR_GID)
		attr->st_gid = to->st_gid;
	set_times(attr, to, to_set);
}

static void touch(struct ck_fs *fs, struct ck_scratch *s)
{
	pthread_mutex_lock(&fs->scratches->lock);
	ck_scratch_now(&s->attr.st_mtim);
	s->attr.st_ctim = s->attr.st_mtim;
	pthread_mutex_unlock(&fs->scratches->lock);
}

static int set_size(struct ck_fs *fs, struct ck_scratch *s, off_t size)
{
	int rc = 0;

	pthread_mutex_lock(&s->io);
	if (s->taken)
		rc = -ESTALE;
	else if (ftruncate(s->fd, size))
		rc = -errno;
	else if (size == 0)
		ck_written_clear(&s->written);
	else
		ck_written_size(&s->written, (uint64_t)size);
	pthread_mutex_unlock(&s->io);
	if (rc == 0)
		touch(fs, s);
	return rc;
}

int ck_scratch_setattr(struct ck_fs *fs, uint32_t number,
		       const struct stat *attr, int to_set)
{
	struct ck_scratch *s = ck_scratch_hold(fs, number);
	int rc = 0;

	if (!s)
		return -ESTALE;
	if (to_set & FUSE_SET_ATTR_SIZE)
		rc = set_size(fs, s, attr->st_size);
	if (rc == 0) {
		pthread_mutex_lock(&fs->scratches->lock);
		set_attr(&s->attr, attr, to_set);
		pthread_mutex_unlock(&fs->scratches->lock);
	}
	ck_scratch_drop(fs, s);
	return rc;
}

/* --- bytes ---------------------------------------------------------------- */

static int read_now(const struct ck_scratch *s, uint64_t fpos, size_t *len,
		    void *bytes)
{
	struct stat st;
	uint64_t size;

	if (fstat(s->fd, &st))
		return -errno;
	size = (uint64_t)st.st_size;
	*len = fpos < size ? (size_t)ck_min(*len, size - fpos) : 0;
	return ck_pread_full(s->fd, bytes, *len, fpos);
}

int ck_scratch_read(struct ck_scratch *s, uint64_t fpos, size_t *len,
		    void *bytes)
{
	int rc;

	do /* -ENODATA: truncated meanwhile */
		rc = read_now(s, fpos, len, bytes);
	while (rc == -ENODATA);
	return rc;
}

/* Under s->io. The range is recorded first: a write that then fails loses it. */
static int write_now(struct ck_scratch *s, uint64_t fpos, const void *bytes,
		     size_t len, pid_t thread)
{
	int lost, rc = ck_written_write(&s->written, fpos, bytes, len,
					(uint32_t)thread);

	if (rc == 0)
		rc = ck_pwrite_full(s->fd, bytes, len, fpos);
	if (rc == 0)
		return 0;
	lost = ck_written_lose(&s->written, fpos, fpos + len);
	return lost ? lost : rc;
}

int ck_scratch_write(struct ck_fs *fs, struct ck_scratch *s, uint64_t fpos,
		     const void *bytes, size_t len, pid_t thread)
{
	int rc = -ESTALE;

	pthread_mutex_lock(&s->io);
	if (!s->taken)
		rc = write_now(s, fpos, bytes, len, thread);
	pthread_mutex_unlock(&s->io);
	if (rc == 0)
		touch(fs, s);
	return rc;
}

/* Under s->io. The backing file may be unable to allocate; the size grows
 * nevertheless. */
static int allocate_now(struct ck_scratch *s, int mode, uint64_t fpos,
			uint64_t len)
{
	uint64_t end = fpos + len;
	bool grows = !(mode & FALLOC_FL_KEEP_SIZE) && end > s->written.end;

	if (fallocate(s->fd, mode, (off_t)fpos, (off_t)len) &&
	    errno != EOPNOTSUPP)
		return -errno;
	if (grows && ftruncate(s->fd, (off_t)end))
		return -errno;
	if (grows)
		ck_written_allocate(&s->written, end);
	return 0;
}

int ck_scratch_allocate(struct ck_fs *fs, struct ck_scratch *s, int mode,
			uint64_t fpos, uint64_t len)
{
	int rc = -ESTALE;

	pthread_mutex_lock(&s->io);
	if (!s->taken)
		rc = allocate_now(s, mode, fpos, len);
	pthread_mutex_unlock(&s->io);
	if (rc == 0)
		touch(fs, s);
	return rc;
}

void ck_scratch_closed_by(struct ck_scratch *s, pid_t thread)
{
	pthread_mutex_lock(&s->io);
	ck_written_close(&s->written, (uint32_t)thread);
	pthread_mutex_unlock(&s->io);
}

void ck_scratch_synced(struct ck_scratch *s)
{
	pthread_mutex_lock(&s->io);
	ck_written_sync(&s->written);
	pthread_mutex_unlock(&s->io);
}

uint64_t ck_scratches_bytes(struct ck_fs *fs)
{
	struct ck_scratches *all = fs->scratches;
	uint64_t bytes = 0;
	struct stat st;

	pthread_mutex_lock(&all->lock);
	for (const struct ck_scratch *s = all->first; s; s = s->next)
		if (fstat(s->fd, &st) == 0)
			bytes += (uint64_t)st.st_blocks * 512;
	pthread_mutex_unlock(&all->lock);
	return bytes;
}
