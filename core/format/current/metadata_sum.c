/* SPDX-License-Identifier: MIT */
/*
 * metadata_sum: detects that the metadata was rewritten although its size and mtime are
 * unchanged. If the ctime changed, the bytes are hashed and compared with the recorded hash:
 *
 *   same hash     chmod, rename or link. The new ctime is recorded.
 *   other hash    a save wrote over the file in place, or a copy restored its times.
 *   no hash       The metadata is a data file, a directory, or on another host. A change of
 *                 ctime is then ignored.
 *
 * The hash is under cp->lock; no lock is held while the file is read. Any thread.
 */
#include "current_metadata.h"

#include <errno.h>
#include <unistd.h>

/* The hash of the bytes of the metadata. */
struct ck_metadata_sum {
	uint64_t seed, sum;
	/* The last ctime at which the file had other bytes. */
	struct timespec other;
};

static void lock(const struct ck_checkpoint *cp)
{
	pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&cp->lock);
}

static void unlock(const struct ck_checkpoint *cp)
{
	pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&cp->lock);
}

void ck_metadata_note_sum(struct ck_checkpoint *cp, uint64_t seed, uint64_t sum)
{
	struct ck_metadata_sum *to = calloc(1, sizeof(*to));
	struct ck_metadata_sum *old;

	if (to)
		*to = (struct ck_metadata_sum){ .seed = seed, .sum = sum };
	lock(cp);
	old = cp->metadata_sum;
	cp->metadata_sum = to;
	unlock(cp);
	free(old);
}

void ck_metadata_hash_begin(struct ck_metadata_text *text)
{
	text->seed = ck_hash_seed();
	text->hasher = ck_hasher_make(text->seed);
}

void ck_metadata_hash_end(struct ck_checkpoint *cp,
			  struct ck_metadata_text *text, bool read)
{
	if (text->hasher && read)
		ck_metadata_note_sum(cp, text->seed,
				     ck_hasher_sum(text->hasher));
	ck_hasher_free(text->hasher);
	text->hasher = NULL;
}

static bool is_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Copies the hash of `was`. False if no hash is recorded, `was` is not the current metadata, or
 * the ctime of `now` is the recorded one. */
static bool sum_of(const struct ck_checkpoint *cp, const struct stat *was,
		   const struct stat *now, struct ck_metadata_sum *out)
{
	bool is;

	lock(cp);
	is = cp->metadata_sum && ck_metadata_is_same(&cp->metadata, was) &&
	     !is_time(&cp->metadata.st_ctim, &now->st_ctim);
	if (is)
		*out = *cp->metadata_sum;
	unlock(cp);
	return is;
}

static void note(const struct ck_checkpoint *cp, const struct stat *was,
		 const struct stat *now, bool same)
{
	struct ck_checkpoint *to = (struct ck_checkpoint *)(uintptr_t)cp;

	lock(cp);
	/* A commit may have replaced the metadata meanwhile. */
	if (to->metadata_sum && ck_metadata_is_same(&to->metadata, was)) {
		if (same)
			to->metadata.st_ctim = now->st_ctim;
		else
			to->metadata_sum->other = now->st_ctim;
	}
	unlock(cp);
}

/* Hashes the metadata file. Returns 0, or: -ESTALE if its stat is not *now after that; errors of
 * opening and reading it; -ENOMEM. */
static int hash_file(const struct ck_checkpoint *cp, const struct stat *now,
		     uint64_t seed, uint64_t *sum)
{
	struct ck_hasher *h = ck_hasher_make(seed);
	ck_auto_fd int fd = -1;
	struct ck_diag d;
	struct stat st;
	int rc = h ? ck_metadata_open_again(cp, &fd, &st, &d) : -ENOMEM;

	if (rc == 0)
		rc = ck_hash_range(h, fd, 0, (uint64_t)st.st_size);
	if (rc == 0 && fstat(fd, &st))
		rc = -errno;
	if (rc == 0 && (!ck_metadata_is_same(&st, now) ||
			!is_time(&st.st_ctim, &now->st_ctim)))
		rc = -ESTALE;
	if (rc == 0)
		*sum = ck_hasher_sum(h);
	ck_hasher_free(h);
	return rc;
}

bool ck_metadata_is_rewritten(const struct ck_checkpoint *cp,
			      const struct stat *now, const struct stat *was)
{
	struct ck_metadata_sum known;
	uint64_t sum;
	bool same;

	if (is_time(&now->st_ctim, &was->st_ctim) ||
	    !sum_of(cp, was, now, &known))
		return false;
	if (is_time(&now->st_ctim, &known.other))
		return true;
	if (hash_file(cp, now, known.seed, &sum))
		return false;
	same = sum == known.sum;
	note(cp, was, now, same);
	return !same;
}
