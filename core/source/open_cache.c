/* SPDX-License-Identifier: MIT */
/*
 * open_cache: a cache of open data files. An open file is a slot: a descriptor, a
 * mapping and a count of users. Slots without users form a list, from the least
 * to the most recently used; when there are too many slots, the least recently
 * used one is closed. A slot in use is never closed, so the limit may be
 * exceeded while all slots are in use. A retired slot is not found any more and
 * is closed after its last use.
 *
 * Any thread. The lock covers counts and lists of slots; no system call is made
 * under it.
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

/* Must hold f->lock. */
static void slot_use(struct ck_file_slot *s)
{
	if (s->users++ == 0)
		idle_remove(s);
}

/* Must hold f->lock. Makes a slot unfindable. */
static void slot_forget(struct ck_files *f, const struct ck_file_slot *s)
{
	ck_file_of(f, s->number)->slot = NULL;
	f->nopen--;
	f->mapped -= s->map_len;
}

/* Must hold f->lock. Removes the least recently used slots until the limit is
 * met. They are linked by `newer`, for slots_close() without the lock. */
static struct ck_file_slot *slots_evict(struct ck_files *f)
{
	struct ck_file_slot *victims = NULL;

	while (f->nopen > f->max_open && f->idle.newer != &f->idle) {
		struct ck_file_slot *s = f->idle.newer;

		idle_remove(s);
		slot_forget(f, s);
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

/* Acquires the slot of a file, or returns NULL if the file is not open. */
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
	if (--s->users == 0 && s->retired) {
		victims = s;
		victims->newer = NULL;
	} else if (s->users == 0) {
		idle_append(f, s);
		victims = slots_evict(f);
	}
	pthread_mutex_unlock(&f->lock);
	slots_close(victims);
}

/* Makes the next user of the file open it again: a descriptor on which fstat(2)
 * fails may be a stale handle of a file server. */
static void slot_retire(struct ck_files *f, struct ck_file_slot *s)
{
	pthread_mutex_lock(&f->lock);
	if (!s->retired)
		slot_forget(f, s);
	s->retired = true;
	pthread_mutex_unlock(&f->lock);
}

/* Publishes a slot and acquires it; or acquires the slot that another thread
 * published first. */
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

/* True if a mapping of `size` bytes stays within the limit. */
static bool map_has_room(struct ck_files *f, uint64_t size)
{
	bool has;

	pthread_mutex_lock(&f->lock);
	has = f->mapped <= f->map_most && size <= f->map_most - f->mapped;
	pthread_mutex_unlock(&f->lock);
	return has;
}

/* Must hold f->lock. */
static void slot_map_set(struct ck_files *f, struct ck_file_slot *s, void *map,
			 size_t len)
{
	s->map_len = len;
	f->mapped += len;
	__atomic_store_n(&s->map, map, __ATOMIC_RELEASE);
}

/* Maps the file of an acquired slot, if possible; else the file is read with
 * read(2). */
static void slot_map(struct ck_files *f, struct ck_file_slot *s, uint64_t size)
{
	void *map;
	bool mine;

	if (size == 0 || size > SIZE_MAX || !map_has_room(f, size))
		return;
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, s->fd, 0);
	if (map == MAP_FAILED)
		return;
	/* Else a page fault would read the disk's read-ahead size, possibly
	 * megabytes. The backends announce the ranges that they need. */
	(void)madvise(map, size, MADV_RANDOM);
	pthread_mutex_lock(&f->lock);
	mine = !s->map && !s->retired;
	if (mine)
		slot_map_set(f, s, map, size);
	pthread_mutex_unlock(&f->lock);
	if (!mine)
		munmap(map, size);
}

static int slot_open(struct ck_files *f, uint32_t number,
		     struct ck_file_slot **out, bool *transient)
{
	struct ck_seen_file *file = ck_file_of(f, number);
	struct ck_file_slot *s = calloc(1, sizeof(*s));
	int rc;

	*transient = true;
	if (!s)
		return -ENOMEM;
	s->number = number;
	s->fd = ck_file_open(f, file, transient);
	if (s->fd < 0) {
		rc = s->fd;
		free(s);
		return rc;
	}
	*out = slot_publish(f, file, s);
	return 0;
}

/* --- use ----------------------------------------------------------------- */

/* Records a file that could not be recorded when it was added. If two threads
 * record different states, the first one counts. */
static int learn(struct ck_files *f, struct ck_seen_file *file, bool *transient)
{
	struct ck_seen_file now = { .info = { .path = file->info.path } };
	int rc = ck_file_record(f, &now);

	*transient = rc != 0;
	if (rc)
		return rc;
	pthread_mutex_lock(&f->lock);
	if (!file->seen) {
		file->info = now.info;
		file->dev = now.dev;
		file->ino = now.ino;
		file->plain = now.plain;
		__atomic_store_n(&file->ctime, now.ctime, __ATOMIC_RELAXED);
		ck_file_access_copy(&file->access, &now.access);
		__atomic_store_n(&file->seen, true, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&f->lock);
	return 0;
}

/* Ensures that the file is recorded. Returns 0, or the error for which it
 * cannot be used. */
static int known(struct ck_files *f, uint32_t number, bool *transient)
{
	struct ck_seen_file *file = ck_file_of(f, number);
	int rc = ck_files_is_seen(f, number) ? 0 : learn(f, file, transient);

	if (rc)
		return rc;
	*transient = false;
	return -file->info.err;
}

static int slot_check(struct ck_files *f, struct ck_file_slot *s,
		      bool *transient)
{
	struct ck_seen_file *file = ck_file_of(f, s->number);
	int rc = ck_file_check_name(f, file, transient);

	if (rc)
		return rc;
	rc = ck_file_check_fd(f, file, s->fd, transient);
	if (rc)
		slot_retire(f, s);
	return rc;
}

/* Acquires a slot of the recorded file. *touched: the number of the last
 * change of its ctime. Bytes that are read after this call are newer than
 * that change. */
static int slot_get(struct ck_files *f, uint32_t number,
		    struct ck_file_slot **out, uint64_t *touched,
		    bool *transient)
{
	struct ck_seen_file *file = ck_file_of(f, number);
	int rc = known(f, number, transient);

	if (rc)
		return rc;
	*out = slot_find(f, file);
	rc = *out ? slot_check(f, *out, transient)
		  : slot_open(f, number, out, transient);
	*touched = ck_files_touched(f, number);
	if (rc == 0 && ck_file_is_doubtful(file, *touched))
		rc = ck_file_head_check(file, *touched, (*out)->fd, transient);
	if (rc && *out)
		slot_put(f, *out);
	return rc;
}

/* Compares the head of a file, and opens the file for that. */
static int check_head(struct ck_files *f, uint32_t number, bool *transient)
{
	struct ck_file_slot *s = NULL;
	uint64_t touched;
	int rc = slot_get(f, number, &s, &touched, transient);

	if (rc == 0)
		slot_put(f, s);
	return rc;
}

static int check_here(struct ck_files *f, uint32_t number, bool *transient)
{
	struct ck_seen_file *file = ck_file_of(f, number);
	struct ck_file_slot *s;
	int rc = known(f, number, transient);

	if (rc)
		return rc;
	s = slot_find(f, file);
	rc = s ? slot_check(f, s, transient)
	       : ck_file_check_name(f, file, transient);
	if (s)
		slot_put(f, s);
	return rc == 0 && ck_file_is_doubtful(file, ck_files_touched(f, number))
		       ? check_head(f, number, transient)
		       : rc;
}

/* Records a change of a local file, because a cache may have its bytes. */
static int noted(struct ck_files *f, uint32_t number, int rc)
{
	if (rc == 0 || rc == -ESTALE)
		ck_files_note_changed(f, number, rc != 0);
	return rc;
}

int ck_files_check(struct ck_files *f, uint32_t number, bool *transient)
{
	const struct ck_seen_file *file = ck_file_of(f, number);
	bool unused;
	int rc;

	if (!transient)
		transient = &unused;
	if (!ck_file_is_remote(file)) {
		rc = check_here(f, number, transient);
		if (rc == 0 || !ck_files_fail_over(f, number, rc))
			return noted(f, number, rc);
	}
	return ck_file_check_remote(file, transient);
}

/* The host of a remote file compares it at each read, so nothing is compared
 * here. */
static int get_remote(const struct ck_seen_file *file, uint32_t number,
		      struct ck_file *out)
{
	out->transient = !__atomic_load_n(&file->seen, __ATOMIC_ACQUIRE);
	if (out->transient)
		return -EIO;
	if (file->info.err)
		return -file->info.err;
	*out = (struct ck_file){ .fd = -1,
				 .size = file->info.size,
				 .number = number,
				 .remote = true };
	return 0;
}

static int get_here(struct ck_files *f, uint32_t number, struct ck_file *out)
{
	const struct ck_file_info *info = &ck_file_of(f, number)->info;
	struct ck_file_slot *s = NULL;
	uint64_t touched;
	int rc = slot_get(f, number, &s, &touched, &out->transient);

	if (rc)
		return rc;
	/* Set once, by the first thread. */
	if (!__atomic_load_n(&s->map, __ATOMIC_ACQUIRE))
		slot_map(f, s, info->size);
	*out = (struct ck_file){ .fd = s->fd,
				 .map = __atomic_load_n(&s->map,
							__ATOMIC_ACQUIRE),
				 .size = info->size,
				 .touched = touched,
				 .number = number,
				 .slot = s };
	return 0;
}

int ck_files_get(struct ck_files *f, uint32_t number, struct ck_file *out)
{
	const struct ck_seen_file *file = ck_file_of(f, number);
	int rc;

	if (!ck_file_is_remote(file)) {
		rc = get_here(f, number, out);
		if (rc == 0 || !ck_files_fail_over(f, number, rc))
			return noted(f, number, rc);
	}
	return get_remote(file, number, out);
}

int ck_files_revalidate(struct ck_files *f, const struct ck_file *file,
			bool *transient)
{
	int rc;

	*transient = false;
	if (file->remote)
		return 0;
	rc = ck_file_check_fd(f, ck_file_of(f, file->number), file->fd,
			      transient);
	return *transient ? rc : noted(f, file->number, rc);
}

bool ck_files_is_open(struct ck_files *f, uint32_t number)
{
	bool is;

	pthread_mutex_lock(&f->lock);
	is = ck_file_of(f, number)->slot != NULL;
	pthread_mutex_unlock(&f->lock);
	return is;
}

void ck_files_put(struct ck_files *f, struct ck_file *file)
{
	if (file->slot)
		slot_put(f, file->slot);
	*file = (struct ck_file){ .fd = -1 };
}
