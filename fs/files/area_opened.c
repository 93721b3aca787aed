/* SPDX-License-Identifier: MIT */
/*
 * area_opened: the state of a file of files/ at its last open, which the pages of the kernel
 * are of, see area_table.h. Locks ck_area_table.lock; any thread.
 */
#include "area_table.h"

static bool is_at(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* A file that changed within the last seconds may change again within one tick of the
 * clock of its file system. */
static bool is_settled(const struct stat *st)
{
	enum { SECONDS = 2 };
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return st->st_ctim.tv_sec < now.tv_sec - SECONDS;
}

bool ck_area_note_open(struct ck_area_table *t, struct ck_area_node *n,
		       const struct stat *st)
{
	const struct ck_area_opened now = { .mtime = st->st_mtim,
					    .ctime = st->st_ctim,
					    .size = st->st_size,
					    .known = is_settled(st) };
	bool same;

	pthread_mutex_lock(&t->lock);
	same = n->opened.known && now.known && now.size == n->opened.size &&
	       is_at(now.mtime, n->opened.mtime) &&
	       is_at(now.ctime, n->opened.ctime);
	n->opened = now;
	pthread_mutex_unlock(&t->lock);
	return same;
}
