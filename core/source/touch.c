/* SPDX-License-Identifier: MIT */
/*
 * touch: data files of this host whose ctime changes while device, inode, size
 * and mtime stay: after chmod, rename or link, and after a file was written
 * over and its times were restored. Such changes are numbered in the order in
 * which they are seen. A cache of data of a file stores the number of the
 * file's last change, and is refilled if the number differs.
 *
 * A head is the bytes that load() read of a file to find the positions in the
 * catalog: the header of safetensors, the pickle and the directory of a file of
 * torch.save. After a change of ctime these bytes are read again. If they
 * differ, the file gives ESTALE until the next change of its ctime. Any thread;
 * the lock of the file set covers the ctime.
 */
#include "files_internal.h"
#include "head.h"

#include <errno.h>
#include <time.h>

enum { BLOCK = 256 << 10 };

struct head_range {
	uint64_t fpos, len;
};

struct ck_file_head {
	struct head_range *ranges; /* in the order in which they were read */
	size_t n, cap;
	struct ck_hasher *hasher; /* of their bytes */
	uint64_t seed;
	bool failed; /* out of memory */
};

/* --- changes -------------------------------------------------------------- */

void ck_files_watch_ctime(struct ck_files *f)
{
	f->watches_ctime = true;
}

uint64_t ck_files_touches(const struct ck_files *f)
{
	return __atomic_load_n(&f->touches, __ATOMIC_ACQUIRE);
}

uint64_t ck_files_touched(const struct ck_files *f, uint32_t number)
{
	return __atomic_load_n(&ck_file_of(f, number)->touched,
			       __ATOMIC_ACQUIRE);
}

/* True if a ctime is later than the present time: the clock was set back. */
static bool is_ahead(uint64_t ctime)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return ctime > ck_ctime_stamp(&now);
}

/* Must hold f->lock. Threads without the lock see the number of the change
 * before the new ctime. */
static bool take_ctime(struct ck_files *f, struct ck_seen_file *file,
		       uint64_t now)
{
	uint64_t was = file->ctime, touches = f->touches + 1;

	/* The thread that gets the lock later may have the earlier stat. */
	if (was == now || (now < was && !is_ahead(was)))
		return false;
	if (was) {
		__atomic_store_n(&file->touched, touches, __ATOMIC_RELEASE);
		__atomic_store_n(&f->touches, touches, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&file->ctime, now, __ATOMIC_RELEASE);
	return was;
}

void ck_file_note_ctime(struct ck_files *f, struct ck_seen_file *file,
			const struct timespec *ctime)
{
	uint64_t now = ck_ctime_stamp(ctime);
	bool touched;

	if (__atomic_load_n(&file->ctime, __ATOMIC_ACQUIRE) == now)
		return;
	pthread_mutex_lock(&f->lock);
	touched = take_ctime(f, file, now);
	pthread_mutex_unlock(&f->lock);
	if (touched)
		ck_log("%s: its ctime changed, its size and mtime did not: its "
		       "headers are read again",
		       ck_show(file->info.path));
}

void ck_files_forget_ctime(struct ck_files *f, uint32_t number)
{
	pthread_mutex_lock(&f->lock);
	__atomic_store_n(&ck_file_of(f, number)->ctime, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&f->lock);
}

/* --- heads ---------------------------------------------------------------- */

static struct ck_file_head *head_make(void)
{
	struct ck_file_head *head = calloc(1, sizeof(*head));

	if (!head)
		return NULL;
	head->seed = ck_hash_seed();
	head->hasher = ck_hasher_make(head->seed);
	if (head->hasher)
		return head;
	free(head);
	return NULL;
}

int ck_files_head_begin(struct ck_files *f, struct ck_file *file)
{
	struct ck_seen_file *seen = ck_file_of(f, file->number);

	if (!seen->head) {
		seen->head = head_make();
		seen->verified = file->touched;
	}
	file->head = seen->head;
	return file->head ? 0 : -ENOMEM;
}

void ck_file_head_free(struct ck_file_head *head)
{
	if (!head)
		return;
	ck_hasher_free(head->hasher);
	free(head->ranges);
	free(head);
}

void ck_file_head_add(struct ck_file_head *head, const void *bytes, size_t len,
		      uint64_t fpos)
{
	struct head_range *last = head->n ? &head->ranges[head->n - 1] : NULL;
	struct head_range *ranges;

	ck_hasher_add(head->hasher, (struct ck_str){ bytes, len });
	if (last && last->fpos + last->len == fpos) {
		last->len += len;
		return;
	}
	ranges = ck_grow(head->ranges, &head->cap, head->n, 1, sizeof(*ranges));
	if (!ranges) {
		head->failed = true;
		return;
	}
	head->ranges = ranges;
	ranges[head->n++] = (struct head_range){ fpos, len };
}

int ck_files_head_end(struct ck_files *f, struct ck_file *file, bool keep)
{
	struct ck_seen_file *seen = ck_file_of(f, file->number);
	struct ck_file_head *head = file->head;
	bool failed = head->failed;

	file->head = NULL;
	if (keep && !failed && !file->remote) {
		head->ranges = ck_trim(head->ranges, head->n,
				       sizeof(*head->ranges));
		head->cap = head->n;
		return 0;
	}
	ck_file_head_free(head);
	seen->head = NULL;
	return failed ? -ENOMEM : 0;
}

bool ck_file_is_doubtful(const struct ck_seen_file *file, uint64_t touched)
{
	return file->head &&
	       touched > __atomic_load_n(&file->verified, __ATOMIC_ACQUIRE);
}

bool ck_file_has_other_head(const struct ck_seen_file *file)
{
	uint64_t other = __atomic_load_n(&file->other, __ATOMIC_ACQUIRE);

	return other &&
	       other == __atomic_load_n(&file->touched, __ATOMIC_ACQUIRE);
}

int ck_hash_range(struct ck_hasher *h, int fd, uint64_t fpos, uint64_t len)
{
	size_t size = (size_t)ck_min((uint64_t)BLOCK, len);
	ck_auto_free char *block = malloc(size + 1);
	int rc = block ? 0 : -ENOMEM;

	for (uint64_t at = 0; at < len && rc == 0; at += size) {
		size_t n = (size_t)ck_min((uint64_t)size, len - at);

		rc = ck_pread_full(fd, block, n, fpos + at);
		if (rc == 0)
			ck_hasher_add(h, (struct ck_str){ block, n });
	}
	return rc;
}

/* Sets *same to whether the bytes of the head are unchanged. */
static int head_compare(const struct ck_file_head *head, int fd, bool *same)
{
	struct ck_hasher *h = ck_hasher_make(head->seed);
	int rc = h ? 0 : -ENOMEM;

	for (size_t i = 0; i < head->n && rc == 0; i++)
		rc = ck_hash_range(h, fd, head->ranges[i].fpos,
				   head->ranges[i].len);
	*same = rc == 0 && ck_hasher_sum(h) == ck_hasher_sum(head->hasher);
	ck_hasher_free(h);
	return rc;
}

/* Records a changed head, and logs it once, also if several threads detect
 * it. */
static void note_other(struct ck_seen_file *file, uint64_t touched)
{
	if (__atomic_exchange_n(&file->other, touched, __ATOMIC_ACQ_REL) ==
	    touched)
		return;
	ck_log("%s: its header is not the one that was read: its tensors "
	       "are ESTALE; mount the checkpoint again",
	       ck_show(file->info.path));
}

int ck_file_head_check(struct ck_seen_file *file, uint64_t touched, int fd,
		       bool *transient)
{
	bool same;
	int rc = head_compare(file->head, fd, &same);

	/* -ENODATA: the file is shorter now, which is a change. */
	*transient = rc && rc != -ENODATA;
	if (rc)
		return *transient ? rc : -ESTALE;
	if (same) {
		__atomic_store_n(&file->verified, touched, __ATOMIC_RELEASE);
		return 0;
	}
	note_other(file, touched);
	return -ESTALE;
}
