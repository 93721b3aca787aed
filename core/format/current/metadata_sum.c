/* SPDX-License-Identifier: MIT */
/*
 * metadata_sum: whether the metadata is still the file that was read, where its ctime
 * changed and its size and mtime did not. After chmod, rename or link its bytes are the
 * same: the new ctime is noted. A save that wrote over it in place, and a copy that
 * restored its times, have other bytes. No hash is known of metadata that is a data file,
 * a directory, or on another host: there the ctime does not count.
 */
#include "current_metadata.h"

#include <errno.h>
#include <unistd.h>

/* The hash of the bytes of the metadata. */
struct ck_metadata_sum {
	uint64_t seed, sum;
	struct timespec
		other; /* the last ctime with which it had other bytes */
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

/* The hash of `was`, if that is the present metadata and its ctime not the noted one. */
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
	/* Unless a commit came between. */
	if (to->metadata_sum && ck_metadata_is_same(&to->metadata, was)) {
		if (same)
			to->metadata.st_ctim = now->st_ctim;
		else
			to->metadata_sum->other = now->st_ctim;
	}
	unlock(cp);
}

/* The hash of the file, which has the ctime of *now before and after. */
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
