/* SPDX-License-Identifier: MIT */
/*
 * files: see source.h. What was seen of a file when it was added is kept for
 * good: this file has the set of them, look.c looks and compares, and use.c
 * opens.
 */
#include "ckptfs/memory.h"
#include "files_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

/* What may be added while files are used: addresses, not memory. */
enum { FILES_RESERVED = 1 << 22 };

/* Mappings take addresses, which may be limited: a quarter of them, the
 * rest is for memory and stacks. */
static uint64_t map_most(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur / 4;
}

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
	f->map_most = map_most();
	f->idle.older = f->idle.newer = &f->idle;
	pthread_mutex_init(&f->lock, NULL);
	return f;
}

void ck_files_map_most(struct ck_files *f, uint64_t bytes)
{
	f->map_most = bytes;
}

void ck_files_free(struct ck_files *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->count; i++)
		if (f->files[i]->slot)
			ck_file_slot_close(f->files[i]->slot);
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

bool ck_files_is_seen(const struct ck_files *f, uint32_t number)
{
	return __atomic_load_n(&f->files[number]->seen, __ATOMIC_ACQUIRE);
}

int ck_files_trouble(const struct ck_files *f, uint32_t number)
{
	const struct ck_seen_file *file = f->files[number];

	return file->info.err ? 0 : -file->trouble;
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
	struct ck_seen_file **files;
	uint32_t cap = f->cap ? f->cap * 2 : 16;

	if (f->count < f->cap)
		return grow_table(f);
	if (f->cap >= UINT32_C(1) << 29 || f->reserved)
		return -ENOMEM;
	files = realloc(f->files, cap * sizeof(struct ck_seen_file *));
	if (!files)
		return -ENOMEM;
	f->files = files;
	f->cap = cap;
	return grow_table(f);
}

int ck_files_reserve(struct ck_files *f)
{
	uint32_t cap = f->count + FILES_RESERVED;
	size_t bytes = cap * sizeof(struct ck_seen_file *);
	struct ck_seen_file **files = ck_pages_alloc(bytes);

	if (!files)
		return -ENOMEM;
	if (f->count)
		memcpy(files, f->files,
		       f->count * sizeof(struct ck_seen_file *));
	free(f->files);
	f->files = files;
	f->reserved = bytes;
	f->cap = cap;
	return 0;
}

int ck_files_add(struct ck_files *f, struct ck_str path, uint32_t *number)
{
	struct ck_seen_file *file;
	uint32_t *bucket;

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
	file->seen = ck_file_record(f, file) == 0;
	*number = f->count;
	f->files[f->count] = file;
	*bucket = f->count + 1;
	__atomic_store_n(&f->count, f->count + 1, __ATOMIC_RELEASE);
	return 0;
}
