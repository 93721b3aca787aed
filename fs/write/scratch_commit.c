/* SPDX-License-Identifier: MIT */
/*
 * scratch_commit: rename(2) of a scratch file onto a tensor or box.
 *
 * The written ranges of the file are copied into a write handle, which judges
 * missing bytes as for a program that writes the tensor directly. Then the
 * write handle is committed, or staged with commit=manual. On success the
 * scratch file is `taken`: it cannot be written any more.
 *
 * Threads: the commit thread; ck_scratch.io is held meanwhile.
 */
#include "ckptfs/memory.h"
#include "scratch_internal.h"
#include <errno.h>

#define COPY (1U << 20)

/* Copies one written range. buf has COPY bytes. */
static int copy_range(struct ck_fs *fs, const struct ck_scratch *s,
		      const struct ck_range *range, pid_t thread,
		      struct ck_write_handle *wh, void *buf)
{
	uint64_t at, len;
	int rc = 0;

	for (at = range->begin; rc == 0 && at < range->end; at += len) {
		len = ck_min(range->end - at, COPY);
		rc = ck_pread_full(s->fd, buf, len, at);
		if (rc == 0)
			rc = ck_write_handle_write(fs, wh, at, buf, len,
						   thread);
	}
	return rc;
}

/* Replays the writes, so that the write handle judges skipped bytes as if the
 * writes had been made there: by one thread (1 stands for it) front to back, or
 * by unknown threads (0). */
static int copy_through(struct ck_fs *fs, const struct ck_scratch *s,
			struct ck_write_handle *wh, void *buf)
{
	const struct ck_written_ranges *w = &s->written;
	uint64_t end = w->ranges.n ? w->ranges.r[w->ranges.n - 1].end : 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < w->ranges.n; i++)
		rc = copy_range(fs, s, &w->ranges.r[i], w->jumped ? 0 : 1, wh,
				buf);
	if (rc == 0 && w->end > end)
		rc = ck_write_handle_truncate(fs, wh, w->end);
	ck_write_handle_closed_by(wh, w->closed ? 1 : 0);
	return rc;
}

static int copy_into(struct ck_fs *fs, struct ck_scratch *s,
		     struct ck_write_handle *wh)
{
	void *buf = ck_pages_alloc(COPY);
	int rc = buf ? ck_write_handle_truncate(fs, wh, 0) : -ENOMEM;

	if (rc == 0)
		rc = copy_through(fs, s, wh, buf);
	ck_pages_free(buf, buf ? COPY : 0);
	return rc;
}

static int commit_or_stage(struct ck_fs *fs, struct ck_write_handle *wh)
{
	int rc = ck_write_handle_check(fs, wh, true);

	if (rc == 1 && fs->options->commit != CK_COMMIT_CLOSE)
		return ck_write_handle_stage(fs, wh, true);
	return rc == 1 ? ck_commit_thread_commit_here(fs, wh) : rc;
}

static int commit(struct ck_fs *fs, struct ck_scratch *s,
		  const struct ck_node *n)
{
	struct ck_write_handle *wh;
	int rc = ck_write_handle_open(fs, n, &wh);

	if (rc)
		return rc;
	ck_write_handle_allow_longer(wh);
	rc = copy_into(fs, s, wh);
	if (rc == 0)
		rc = commit_or_stage(fs, wh);
	ck_write_handle_put(fs, wh);
	return rc;
}

int ck_scratch_commit(struct ck_fs *fs, struct ck_scratch *s,
		      const struct ck_node *n)
{
	int rc;

	pthread_mutex_lock(&s->io);
	rc = commit(fs, s, n);
	s->taken = rc == 0;
	pthread_mutex_unlock(&s->io);
	return rc;
}
