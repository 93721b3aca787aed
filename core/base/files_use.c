/* SPDX-License-Identifier: MIT */
/*
 * files_use: open data files. An open file is a slot: descriptor and mapping
 * with a count of users. Slots without users form a list from the longest
 * unused to the last used; when there are too many slots the longest unused
 * is closed. A slot in use is never closed, so there may be more of them
 * while all are in use.
 *
 * The lock covers the slots' counts and lists. No system call is made under
 * it.
 */
#include "files_internal.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- slots --------------------------------------------------------------- */

void ck_file_slot_close(struct ck_file_slot *s)
{
	if (s->map)
		munmap(s->map, s->map_len);
	close(s->fd);
	free(s);
}

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

		ck_file_slot_close(victims);
		victims = next;
	}
}

/* The slot of a file that is open, in use from now on; NULL if it is not. */
static struct ck_file_slot *slot_find(struct ck_files *f,
				      struct ck_seen_file *file)
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
static struct ck_file_slot *slot_publish(struct ck_files *f,
					 struct ck_seen_file *file,
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
	struct ck_seen_file *file = f->files[number];
	struct ck_file_slot *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	s->number = number;
	s->fd = ck_file_open(f, file);
	if (s->fd < 0) {
		rc = s->fd;
		free(s);
		return rc;
	}
	rc = slot_map(s, file->info.size);
	if (rc) {
		ck_file_slot_close(s);
		return rc;
	}
	*out = slot_publish(f, file, s);
	return 0;
}

/* --- use ----------------------------------------------------------------- */

static int slot_check(const struct ck_files *f, const struct ck_file_slot *s)
{
	struct ck_seen_file *file = f->files[s->number];
	int rc = ck_file_check_name(f, file);

	return rc ? rc : ck_file_check_fd(file, s->fd);
}

int ck_files_check(struct ck_files *f, uint32_t number)
{
	struct ck_seen_file *file = f->files[number];
	struct ck_file_slot *s;
	int rc;

	if (file->info.err)
		return -file->info.err;
	s = slot_find(f, file);
	if (!s)
		return ck_file_check_name(f, file);
	rc = slot_check(f, s);
	slot_put(f, s);
	return rc;
}

int ck_files_get(struct ck_files *f, uint32_t number, struct ck_file *out)
{
	struct ck_seen_file *file = f->files[number];
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
