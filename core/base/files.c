/* SPDX-License-Identifier: MIT */
/*
 * The data files of one checkpoint, by number. What was seen of a file when
 * it was added is kept for good and compared at every use, by name and by
 * descriptor: a file that was replaced, cut or rewritten answers ESTALE and
 * never gives a byte of another generation.
 *
 * An open file is a slot: descriptor and mapping with a count of users. Slots
 * without users form a list from the longest unused to the last used; when
 * there are too many slots the longest unused is closed. A slot in use is
 * never closed, so there may be more of them while all are in use.
 *
 * The lock covers the slots' counts and lists. No system call is made under
 * it.
 */
#include "ckptfs/files.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

/* What may be added while files are used: addresses, not memory. */
enum { FILES_RESERVED = 1 << 22 };

struct ck_file_slot {
	struct ck_file_slot *older, *newer; /* in the idle list, while users
					     * is 0 */
	uint32_t number;
	uint32_t users;
	int fd;
	void *map; /* NULL if the file is empty */
	size_t map_len;
};

struct file {
	struct ck_file_info info;
	dev_t dev;
	ino_t ino;
	bool plain; /* one component and no symlink: fstatat() can check it */
	struct ck_file_slot *slot; /* NULL: not open. Under the lock */
};

struct ck_files {
	int dirfd;
	enum ck_beneath how;
	struct ck_arena arena; /* struct file and paths */
	struct file **files;
	size_t reserved; /* bytes of pages at files; 0: on the heap */
	uint32_t count;	 /* atomic: files may be added while others are used */
	uint32_t cap;
	uint32_t *by_path; /* hash table: number + 1, 0 empty */
	uint32_t nbuckets; /* power of two, 0 at first */
	uint64_t hash_seed;

	uint32_t max_open;
	pthread_mutex_t lock;
	uint32_t nopen;		  /* slots */
	struct ck_file_slot idle; /* list head: newer is the longest unused */
};

/* --- looking at files ---------------------------------------------------- */

/* Errors that say: there is no such file, or it may not be used. The others
 * say that somebody could not look. */
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

/* Network file systems may be interrupted; a reader must not hear of it. */
static int stat_fd(int fd, struct stat *st)
{
	return TEMP_FAILURE_RETRY(fstat(fd, st)) ? -errno : 0;
}

/* Of a data file; no FIFO makes the open wait. */
enum { OPEN_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY };

static int look_as(const struct ck_files *f, struct ck_str path, int flags,
		   struct stat *st)
{
	ck_auto_fd int fd = ck_open_beneath(f->dirfd, path, flags, f->how);

	if (fd < 0)
		return fd;
	return stat_fd(fd, st);
}

/* The file at path, as it is now. First without opening it, since opening a
 * device or a FIFO does something to it. */
static int look(const struct ck_files *f, struct ck_str path, struct stat *st)
{
	int rc = look_as(f, path, O_PATH, st);

	if (!rc && S_ISREG(st->st_mode))
		rc = look_as(f, path, OPEN_FLAGS, st);
	if (rc)
		return is_refusal(-rc) ? -ENODATA : rc;
	return S_ISREG(st->st_mode) ? 0 : -ENODATA;
}

static bool is_same(const struct file *file, const struct stat *st)
{
	const struct ck_file_info *seen = &file->info;

	return S_ISREG(st->st_mode) && st->st_dev == file->dev &&
	       st->st_ino == file->ino && (uint64_t)st->st_size == seen->size &&
	       st->st_mtim.tv_sec == seen->mtime.tv_sec &&
	       st->st_mtim.tv_nsec == seen->mtime.tv_nsec;
}

static int compare(const struct file *file, int rc, const struct stat *st)
{
	if (rc)
		return is_refusal(-rc) ? -ESTALE : rc;
	return is_same(file, st) ? 0 : -ESTALE;
}

static int check_name(const struct ck_files *f, const struct file *file)
{
	struct stat st;
	int rc;

	if (!file->plain)
		rc = look_as(f, file->info.path, O_PATH, &st);
	else if (TEMP_FAILURE_RETRY(fstatat(f->dirfd, file->info.path.p, &st,
					    AT_SYMLINK_NOFOLLOW)))
		rc = -errno;
	else
		rc = 0;
	return compare(file, rc, &st);
}

static int check_fd(const struct file *file, int fd)
{
	struct stat st;

	return compare(file, stat_fd(fd, &st), &st);
}

/* --- the set ------------------------------------------------------------- */

struct ck_files *ck_files_make(int dirfd, enum ck_beneath how,
			       uint32_t max_open)
{
	struct ck_files *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
	if (f->dirfd < 0) {
		free(f);
		return NULL;
	}
	f->how = how;
	f->hash_seed = ck_hash_seed();
	f->max_open = max_open < 16 ? 16 : max_open;
	f->idle.older = f->idle.newer = &f->idle;
	pthread_mutex_init(&f->lock, NULL);
	return f;
}

static void slot_close(struct ck_file_slot *s)
{
	if (s->map)
		munmap(s->map, s->map_len);
	close(s->fd);
	free(s);
}

void ck_files_free(struct ck_files *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->count; i++)
		if (f->files[i]->slot)
			slot_close(f->files[i]->slot);
	close(f->dirfd);
	pthread_mutex_destroy(&f->lock);
	ck_arena_fini(&f->arena);
	if (f->reserved)
		ck_pages_free(f->files, f->reserved);
	else
		free(f->files);
	free(f->by_path);
	free(f);
}

uint32_t ck_files_count(const struct ck_files *f)
{
	return __atomic_load_n(&f->count, __ATOMIC_ACQUIRE);
}

const struct ck_file_info *ck_files_info(const struct ck_files *f,
					 uint32_t number)
{
	return &f->files[number]->info;
}

/* The bucket that holds path, or the empty one where it belongs. */
static uint32_t *bucket_of(const struct ck_files *f, struct ck_str path)
{
	uint64_t i = ck_hash64_seeded(path, f->hash_seed);

	for (;; i++) {
		uint32_t *bucket = &f->by_path[i & (f->nbuckets - 1)];

		if (!*bucket)
			return bucket;
		if (ck_str_eq(f->files[*bucket - 1]->info.path, path))
			return bucket;
	}
}

static int grow_table(struct ck_files *f)
{
	uint32_t n = f->nbuckets ? f->nbuckets * 2 : 32;
	uint32_t *by_path;

	if (f->count < f->nbuckets / 2)
		return 0;
	by_path = calloc(n, sizeof(*by_path));
	if (!by_path)
		return -ENOMEM;
	free(f->by_path);
	f->by_path = by_path;
	f->nbuckets = n;
	for (uint32_t i = 0; i < f->count; i++)
		*bucket_of(f, f->files[i]->info.path) = i + 1;
	return 0;
}

/* Room for one more file in the array and the hash table. */
static int grow(struct ck_files *f)
{
	struct file **files;
	uint32_t cap = f->cap ? f->cap * 2 : 16;

	if (f->count < f->cap)
		return grow_table(f);
	if (f->cap >= UINT32_C(1) << 29 || f->reserved)
		return -ENOMEM;
	files = realloc(f->files, cap * sizeof(struct file *));
	if (!files)
		return -ENOMEM;
	f->files = files;
	f->cap = cap;
	return grow_table(f);
}

int ck_files_reserve(struct ck_files *f)
{
	uint32_t cap = f->count + FILES_RESERVED;
	size_t bytes = cap * sizeof(struct file *);
	struct file **files = ck_pages_alloc(bytes);

	if (!files)
		return -ENOMEM;
	if (f->count)
		memcpy(files, f->files, f->count * sizeof(struct file *));
	free(f->files);
	f->files = files;
	f->reserved = bytes;
	f->cap = cap;
	return 0;
}

/* In words for a person: why a file cannot be used. rc: what look() said,
 * mode: of what it saw, if anything. */
static const char *reason(const struct ck_files *f, struct ck_str path, int rc,
			  mode_t mode)
{
	struct stat st;

	if (rc == 0)
		return NULL;
	if (rc != -ENODATA)
		return "cannot be opened";
	if (mode && !S_ISREG(mode))
		return S_ISLNK(mode) ? "is a link that is not followed"
				     : "is no regular file";
	switch (look_as(f, path, O_PATH, &st)) {
	case -ENOENT: return "is missing";
	case -ELOOP: return "is a link that is not followed";
	default: return "is refused: not beneath the checkpoint's directory";
	}
}

/* An error says nothing about the file. */
static int record(const struct ck_files *f, struct file *file)
{
	struct ck_file_info *info = &file->info;
	struct stat st = { 0 };
	struct stat by_name;
	int rc;

	rc = look(f, info->path, &st);
	if (ck_is_shortage(rc))
		return rc;
	info->err = -rc;
	info->why = reason(f, info->path, rc, st.st_mode);
	info->size = (uint64_t)st.st_size;
	info->mtime = st.st_mtim;
	info->mode = st.st_mode;
	info->uid = st.st_uid;
	info->gid = st.st_gid;
	file->dev = st.st_dev;
	file->ino = st.st_ino;
	if (!info->err && !memchr(info->path.p, '/', info->path.len) &&
	    !fstatat(f->dirfd, info->path.p, &by_name, AT_SYMLINK_NOFOLLOW))
		file->plain = is_same(file, &by_name);
	return 0;
}

int ck_files_add(struct ck_files *f, struct ck_str path, uint32_t *number)
{
	struct file *file;
	uint32_t *bucket;
	int rc;

	if (grow(f))
		return -ENOMEM;
	bucket = bucket_of(f, path);
	if (*bucket) {
		*number = *bucket - 1;
		return 0;
	}
	file = ck_arena_alloc(&f->arena, sizeof(*file));
	if (!file)
		return -ENOMEM;
	memset(file, 0, sizeof(*file));
	file->info.path = ck_arena_copy(&f->arena, path);
	if (!file->info.path.p)
		return -ENOMEM;
	rc = record(f, file);
	if (rc)
		return rc;
	*number = f->count;
	f->files[f->count] = file;
	*bucket = f->count + 1;
	__atomic_store_n(&f->count, f->count + 1, __ATOMIC_RELEASE);
	return 0;
}

/* --- slots --------------------------------------------------------------- */

static void idle_remove(struct ck_file_slot *s)
{
	s->older->newer = s->newer;
	s->newer->older = s->older;
}

static void idle_append(struct ck_files *f, struct ck_file_slot *s)
{
	s->older = f->idle.older;
	s->newer = &f->idle;
	s->older->newer = s;
	s->newer->older = s;
}

/* Lock held. */
static void slot_use(struct ck_file_slot *s)
{
	if (s->users++ == 0)
		idle_remove(s);
}

/* Lock held. Takes the longest unused slots out until there are few enough;
 * they are linked by `newer`, for slots_close() without the lock. */
static struct ck_file_slot *slots_evict(struct ck_files *f)
{
	struct ck_file_slot *victims = NULL;

	while (f->nopen > f->max_open && f->idle.newer != &f->idle) {
		struct ck_file_slot *s = f->idle.newer;

		idle_remove(s);
		f->files[s->number]->slot = NULL;
		f->nopen--;
		s->newer = victims;
		victims = s;
	}
	return victims;
}

static void slots_close(struct ck_file_slot *victims)
{
	while (victims) {
		struct ck_file_slot *next = victims->newer;

		slot_close(victims);
		victims = next;
	}
}

/* The slot of a file that is open, in use from now on; NULL if it is not. */
static struct ck_file_slot *slot_find(struct ck_files *f, struct file *file)
{
	struct ck_file_slot *s;

	pthread_mutex_lock(&f->lock);
	s = file->slot;
	if (s)
		slot_use(s);
	pthread_mutex_unlock(&f->lock);
	return s;
}

static void slot_put(struct ck_files *f, struct ck_file_slot *s)
{
	struct ck_file_slot *victims = NULL;

	pthread_mutex_lock(&f->lock);
	if (--s->users == 0) {
		idle_append(f, s);
		victims = slots_evict(f);
	}
	pthread_mutex_unlock(&f->lock);
	slots_close(victims);
}

/* Makes a slot known, in use; or uses the one another thread made first. */
static struct ck_file_slot *slot_publish(struct ck_files *f, struct file *file,
					 struct ck_file_slot *mine)
{
	struct ck_file_slot *s, *victims;

	pthread_mutex_lock(&f->lock);
	if (file->slot) {
		s = file->slot;
		slot_use(s);
		victims = mine;
		victims->newer = NULL;
	} else {
		s = file->slot = mine;
		s->users = 1;
		f->nopen++;
		victims = slots_evict(f);
	}
	pthread_mutex_unlock(&f->lock);
	slots_close(victims);
	return s;
}

static int slot_map(struct ck_file_slot *s, uint64_t size)
{
	void *map;

	if (!size)
		return 0;
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, s->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	/* A fault would read as much around it as the disk's read-ahead says,
	 * which may be megabytes. The movers say what they need. */
	(void)madvise(map, size, MADV_RANDOM);
	s->map = map;
	s->map_len = size;
	return 0;
}

static int slot_open(struct ck_files *f, uint32_t number,
		     struct ck_file_slot **out)
{
	struct file *file = f->files[number];
	struct ck_file_slot *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	s->number = number;
	s->fd = ck_open_beneath(f->dirfd, file->info.path, OPEN_FLAGS, f->how);
	if (s->fd < 0) {
		rc = compare(file, s->fd, NULL);
		free(s);
		return rc;
	}
	rc = check_fd(file, s->fd);
	if (!rc)
		rc = slot_map(s, file->info.size);
	if (rc) {
		slot_close(s);
		return rc;
	}
	*out = slot_publish(f, file, s);
	return 0;
}

/* --- use ----------------------------------------------------------------- */

static int slot_check(const struct ck_files *f, const struct ck_file_slot *s)
{
	const struct file *file = f->files[s->number];
	int rc = check_name(f, file);

	return rc ? rc : check_fd(file, s->fd);
}

int ck_files_check(struct ck_files *f, uint32_t number)
{
	struct file *file = f->files[number];
	struct ck_file_slot *s;
	int rc;

	if (file->info.err)
		return -file->info.err;
	s = slot_find(f, file);
	if (!s)
		return check_name(f, file);
	rc = slot_check(f, s);
	slot_put(f, s);
	return rc;
}

int ck_files_get(struct ck_files *f, uint32_t number, struct ck_file *out)
{
	struct file *file = f->files[number];
	struct ck_file_slot *s;
	int rc;

	if (file->info.err)
		return -file->info.err;
	s = slot_find(f, file);
	if (s) {
		rc = slot_check(f, s);
		if (rc)
			slot_put(f, s);
	} else {
		rc = slot_open(f, number, &s);
	}
	if (rc)
		return rc;
	*out = (struct ck_file){ .fd = s->fd,
				 .map = s->map,
				 .size = file->info.size,
				 .number = number,
				 .slot = s };
	return 0;
}

void ck_files_put(struct ck_files *f, struct ck_file *file)
{
	slot_put(f, file->slot);
	*file = (struct ck_file){ .fd = -1 };
}
