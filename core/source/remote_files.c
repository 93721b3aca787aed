/* SPDX-License-Identifier: MIT */
/*
 * remote_files: data files on other hosts. The report of the host replaces a local
 * stat. The bytes are fetched by the remote backend, see fetch.h. A file may
 * become remote, when a local read fails and it has replicas. Any thread,
 * except where source.h requires one.
 */
#include "files_internal.h"

#include <errno.h>

void ck_files_set_remote(struct ck_files *f, uint32_t number,
			 const struct ck_file_info *reported)
{
	struct ck_seen_file *file = ck_file_of(f, number);
	struct ck_str path = file->info.path;

	file->info = *reported;
	file->info.path = path;
	file->access = (struct ck_file_access){ .mode = reported->mode,
						.uid = reported->uid,
						.gid = reported->gid,
						.closed = reported->closed };
	file->dev = 0;
	file->ino = 0;
	file->trouble = 0;
	file->seen = true;
	file->remote = true;
	__atomic_store_n(&f->any_remote, true, __ATOMIC_RELAXED);
}

void ck_files_set_down(struct ck_files *f, uint32_t number)
{
	const struct ck_file_info nothing = { 0 };

	ck_files_set_remote(f, number, &nothing);
	ck_file_of(f, number)->trouble = -EIO;
	ck_file_of(f, number)->seen = false;
}

void ck_files_set_up(struct ck_files *f, uint32_t number,
		     const struct ck_file_info *reported)
{
	struct ck_seen_file *file = ck_file_of(f, number);

	pthread_mutex_lock(&f->lock);
	if (!file->seen) {
		struct ck_str path = file->info.path;

		file->info = *reported;
		file->info.path = path;
		ck_files_note_access(f, number, reported);
		__atomic_store_n(&file->seen, true, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&f->lock);
}

void ck_files_set_copied(struct ck_files *f, uint32_t number)
{
	__atomic_store_n(&f->any_remote, true, __ATOMIC_RELAXED);
	__atomic_store_n(&ck_file_of(f, number)->copied, true,
			 __ATOMIC_RELEASE);
}

static bool is_copied(const struct ck_seen_file *file)
{
	return __atomic_load_n(&file->copied, __ATOMIC_ACQUIRE);
}

bool ck_files_fail_over(struct ck_files *f, uint32_t number, int rc)
{
	struct ck_seen_file *file = ck_file_of(f, number);

	if (!is_copied(file) ||
	    (rc != -EIO && rc != -ENODATA && rc != -ESTALE) ||
	    __atomic_exchange_n(&file->remote, true, __ATOMIC_ACQ_REL))
		return false;
	ck_log("%s: %s; it is read on other hosts from now on",
	       ck_show(file->info.path), strerror(-rc));
	return true;
}

bool ck_files_has_failed_over(const struct ck_files *f, uint32_t number)
{
	const struct ck_seen_file *file;

	if (number >= ck_files_count(f))
		return false;
	file = ck_file_of(f, number);
	return is_copied(file) && ck_file_is_remote(file);
}

void ck_files_set_differs(struct ck_files *f, uint32_t number, const char *text)
{
	const char *why = ck_arena_copy(&f->arena, ck_str_from(text)).p;
	const struct ck_file_info reported = {
		.err = EIO, .why = why ? why : ck_file_why_differs()
	};

	ck_files_set_remote(f, number, &reported);
}

void ck_files_note_differs(struct ck_files *f, uint32_t number,
			   const char *text)
{
	const char *why = ck_arena_copy(&f->arena, ck_str_from(text)).p;

	ck_file_of(f, number)->differs = why ? why : ck_file_why_differs();
}

const char *ck_files_differs(const struct ck_files *f, uint32_t number)
{
	return ck_file_of(f, number)->differs;
}

void ck_files_set_newest(struct ck_files *f, uint32_t number,
			 struct timespec newest)
{
	ck_file_of(f, number)->newest = newest;
}

/* Sets the r bits that replicas deny; the bits that the path denies stay those
 * of the last stat. */
void ck_files_note_others(struct ck_files *f, uint32_t number, mode_t closed)
{
	struct ck_seen_file *file = ck_file_of(f, number);
	mode_t way = file->plain ? 0
				 : ck_file_access_noted(&file->access).closed;

	__atomic_store_n(&file->others, closed, __ATOMIC_RELAXED);
	__atomic_store_n(&file->access.closed, way | closed, __ATOMIC_RELAXED);
}

void ck_files_need(struct ck_files *f, uint32_t number, uint64_t end)
{
	struct ck_seen_file *file = ck_file_of(f, number);

	file->needed = ck_max(file->needed, end);
}

uint64_t ck_files_needed(const struct ck_files *f, uint32_t number)
{
	return ck_file_of(f, number)->needed;
}

void ck_files_need_end(struct ck_files *f, uint32_t number)
{
	ck_file_of(f, number)->needs_end = true;
}

bool ck_files_needs_end(const struct ck_files *f, uint32_t number)
{
	return ck_file_of(f, number)->needs_end;
}

bool ck_files_is_remote(const struct ck_files *f, uint32_t number)
{
	return number < ck_files_count(f) &&
	       ck_file_is_remote(ck_file_of(f, number));
}

bool ck_files_any_remote(const struct ck_files *f)
{
	return __atomic_load_n(&f->any_remote, __ATOMIC_RELAXED);
}

void ck_files_set_reader(struct ck_files *f, struct ck_remote_reader *reader)
{
	f->reader = reader;
}

void ck_files_keep(struct ck_files *f, struct ck_fetch *fetched)
{
	ck_fetch_fini(&f->kept);
	ck_fetch_forget_failed(fetched);
	f->kept = *fetched;
	*fetched = (struct ck_fetch){ 0 };
}

void ck_files_note_changed(struct ck_files *f, uint32_t number, bool changed)
{
	bool *noted = &ck_file_of(f, number)->changed;

	if (__atomic_load_n(noted, __ATOMIC_RELAXED) == changed)
		return;
	__atomic_store_n(noted, changed, __ATOMIC_RELAXED);
	if (changed)
		__atomic_fetch_add(&f->changes, 1, __ATOMIC_RELAXED);
}

uint64_t ck_files_changes(const struct ck_files *f)
{
	return __atomic_load_n(&f->changes, __ATOMIC_RELAXED);
}

void ck_files_note_access(struct ck_files *f, uint32_t number,
			  const struct ck_file_info *reported)
{
	const struct ck_file_access now = { .mode = reported->mode,
					    .uid = reported->uid,
					    .gid = reported->gid,
					    .closed = reported->closed };

	ck_file_access_copy(&ck_file_of(f, number)->access, &now);
}

int ck_file_check_remote(const struct ck_seen_file *file, bool *transient)
{
	*transient = !__atomic_load_n(&file->seen, __ATOMIC_ACQUIRE);
	if (*transient)
		return -EIO;
	if (file->info.err)
		return -file->info.err;
	return __atomic_load_n(&file->changed, __ATOMIC_RELAXED) ? -ESTALE : 0;
}

/* --- bytes of remote files -------------------------------------------------------- */

/* The length to fetch: it grows with each repetition of a request, so that a
 * reader with small steps does not need a round trip for each. */
static size_t widened(const struct ck_fetch *fetch, size_t len, uint64_t room)
{
	enum { FIRST = 4096, LAST_ROUND = 5 };

	size_t wide = fetch->rounds ? (size_t)FIRST << 2 * ck_min(fetch->rounds,
								  LAST_ROUND)
				    : 0;

	return (size_t)ck_min(ck_max(len, wide), room);
}

int ck_files_read(struct ck_files *f, const struct ck_file *file, void *to,
		  size_t len, uint64_t fpos, uint64_t end)
{
	struct ck_fetch *fetch;
	int rc;

	if (!file->remote) {
		rc = ck_pread_full(file->fd, to, len, fpos);
		ck_stats_read(ck_files_stats(f), 0, len);
		if (rc == 0 && file->head)
			ck_file_head_add(file->head, to, len, fpos);
		if (rc == 0 || !ck_files_fail_over(f, file->number, rc))
			return rc;
	}
	if (fpos > file->size || len > file->size - fpos)
		return -ENODATA;
	rc = ck_fetch_take(&f->kept, file->number, fpos, len, to);
	if (rc != -EREMOTE)
		return rc;
	fetch = ck_fetch_present();
	if (!fetch)
		return f->reader ? f->reader->read(f->reader, file->number, to,
						   len, fpos)
				 : -EREMOTE;
	rc = ck_fetch_take(fetch, file->number, fpos, len, to);
	if (rc == -EREMOTE)
		ck_fetch_add(
			fetch, file->number, fpos,
			widened(fetch, len, ck_min(end, file->size) - fpos));
	return fetch->err ? fetch->err : rc;
}

void ck_files_fetch_add(struct ck_files *f, const struct ck_file *file,
			uint64_t fpos, size_t len)
{
	struct ck_fetch *fetch = ck_fetch_present();

	if (!file->remote || !fetch || fpos >= file->size)
		return;
	len = (size_t)ck_min(len, file->size - fpos);
	if (!ck_fetch_has(&f->kept, file->number, fpos, len))
		ck_fetch_add(fetch, file->number, fpos, len);
}
