/* SPDX-License-Identifier: MIT */
/*
 * files: the set of data files of a checkpoint, by number and by path. The
 * facts of a local file never change once they are recorded. revalidate.c
 * records and compares them, and open_cache.c opens files. One thread at a time
 * adds files; any thread uses files that were added before.
 */
#include "files_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Mappings use address space, which may be limited. They may use a quarter of
 * it; the rest is for memory and stacks. */
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
	f->reach.dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
	if (f->reach.dirfd < 0) {
		free(f);
		return NULL;
	}
	f->reach.how = how;
	f->reach.linkroot = -1;
	f->hash_seed = ck_hash_seed();
	f->max_open = max_open < 16 ? 16 : max_open;
	f->map_most = map_most();
	f->idle.older = f->idle.newer = &f->idle;
	pthread_mutex_init(&f->lock, NULL);
	return f;
}

int ck_files_set_linkroot(struct ck_files *f, int linkroot)
{
	f->reach.linkroot = fcntl(linkroot, F_DUPFD_CLOEXEC, 0);
	return f->reach.linkroot < 0 ? -errno : 0;
}

void ck_files_map_most(struct ck_files *f, uint64_t bytes)
{
	f->map_most = bytes;
}

void ck_files_free(struct ck_files *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->count; i++) {
		if (ck_file_of(f, i)->slot)
			ck_file_slot_close(ck_file_of(f, i)->slot);
		ck_file_head_free(ck_file_of(f, i)->head);
	}
	close(f->reach.dirfd);
	if (f->reach.linkroot >= 0)
		close(f->reach.linkroot);
	ck_fetch_fini(&f->kept);
	pthread_mutex_destroy(&f->lock);
	ck_arena_fini(&f->arena);
	for (unsigned k = 0; k < CK_FILES_BLOCKS; k++)
		free(f->blocks[k]);
	free(f->by_path);
	free(f);
}

void ck_files_set_stats(struct ck_files *f, struct ck_stats *stats)
{
	f->stats = stats;
}

struct ck_stats *ck_files_stats(const struct ck_files *f)
{
	return f ? f->stats : NULL;
}

uint32_t ck_files_count(const struct ck_files *f)
{
	return __atomic_load_n(&f->count, __ATOMIC_ACQUIRE);
}

bool ck_files_is_seen(const struct ck_files *f, uint32_t number)
{
	return __atomic_load_n(&ck_file_of(f, number)->seen, __ATOMIC_ACQUIRE);
}

int ck_files_trouble(const struct ck_files *f, uint32_t number)
{
	const struct ck_seen_file *file = ck_file_of(f, number);

	return file->info.err ? 0 : -file->trouble;
}

const struct ck_file_info *ck_files_info(const struct ck_files *f,
					 uint32_t number)
{
	return &ck_file_of(f, number)->info;
}

struct timespec ck_files_mtime(const struct ck_files *f, uint32_t number)
{
	const struct ck_seen_file *file = ck_file_of(f, number);

	return ck_time_newest(file->newest, file->info.mtime);
}

/* The bucket with this path, or the empty bucket where it belongs. */
static uint32_t *bucket_of(const struct ck_files *f, struct ck_str path)
{
	uint64_t i = ck_hash64_seeded(path, f->hash_seed);

	for (;; i++) {
		uint32_t *bucket = &f->by_path[i & (f->nbuckets - 1)];

		if (!*bucket)
			return bucket;
		if (ck_str_eq(ck_file_of(f, *bucket - 1)->info.path, path))
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
		*bucket_of(f, ck_file_of(f, i)->info.path) = i + 1;
	return 0;
}

/* Ensures room for one more file in a block and in the hash table. */
static int grow(struct ck_files *f)
{
	uint32_t at;
	unsigned k = ck_file_block(f->count, &at);
	size_t n = (size_t)CK_FILES_FIRST << k;

	if (k >= CK_FILES_BLOCKS)
		return -ENOMEM;
	if (!f->blocks[k])
		f->blocks[k] = calloc(n, sizeof(struct ck_seen_file *));
	return f->blocks[k] ? grow_table(f) : -ENOMEM;
}

int ck_files_add(struct ck_files *f, struct ck_str path, uint32_t *number)
{
	struct ck_seen_file *file;
	uint32_t *bucket, at;
	unsigned k;

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
	k = ck_file_block(f->count, &at);
	f->blocks[k][at] = file;
	*bucket = f->count + 1;
	__atomic_store_n(&f->count, f->count + 1, __ATOMIC_RELEASE);
	return 0;
}
