/* SPDX-License-Identifier: MIT */
/*
 * cp_progress: the progress line of a command. Its thread waits for the period or the end with
 * the lock released, and draws with the lock held. Drawing never blocks: a line is skipped
 * while stderr does not accept output.
 */
#include "cp_progress.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { PERIOD = 200 }; /* milliseconds */

static const char wipe[] = "\r\033[K";

void ck_progress_init(struct ck_progress *p, int (*given_up)(void))
{
	pthread_condattr_t attr;

	p->given_up = given_up;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->ending, &attr);
	pthread_condattr_destroy(&attr);
}

void ck_progress_fini(struct ck_progress *p)
{
	pthread_cond_destroy(&p->ending);
	pthread_mutex_destroy(&p->lock);
}

void ck_progress_add(struct ck_progress *p, uint64_t done)
{
	atomic_fetch_add_explicit(&p->done, done, memory_order_relaxed);
}

/* --- the line ------------------------------------------------------------------------ */

/* True if stderr accepts output within msec. A write(2) to a stopped terminal or a full pipe
 * would block, and SA_RESTART signals do not interrupt it. */
static bool is_read(int msec)
{
	struct pollfd end = { .fd = STDERR_FILENO, .events = POLLOUT };
	int n = poll(&end, 1, msec);

	return n > 0 || (n < 0 && errno != EINTR);
}

static void put(const struct ck_buf *line)
{
	/* An error is ignored: there is no other place to report it. */
	if (!line->err && is_read(0))
		(void)!ck_write_full(STDERR_FILENO, line->data, line->len);
}

static void wipe_line(struct ck_progress *p)
{
	if (p->shown && is_read(0))
		(void)!ck_write_full(STDERR_FILENO, wipe, sizeof(wipe) - 1);
	p->shown = false;
}

static double seconds_since(const struct timespec *then)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - then->tv_sec) +
	       (double)(now.tv_nsec - then->tv_nsec) / 1e9;
}

static void add_time(struct ck_buf *line, uint64_t seconds)
{
	if (seconds >= 3600)
		ck_buf_printf(line, ", %ju:%02u:%02u left",
			      (uintmax_t)seconds / 3600,
			      (unsigned)(seconds / 60 % 60),
			      (unsigned)(seconds % 60));
	else
		ck_buf_printf(line, ", %u:%02u left", (unsigned)(seconds / 60),
			      (unsigned)(seconds % 60));
}

/* Uses the unit that suits the total. rate: bytes a second. */
static void add_bytes(struct ck_buf *line, uint64_t done, uint64_t total,
		      double rate)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
	double unit = 1024;
	size_t i = 0;

	while (i + 1 < CK_ARRAY_SIZE(units) && (double)total >= 1024 * unit) {
		unit *= 1024;
		i++;
	}
	ck_buf_printf(line, "\rckptfs: %.1f of %.1f %s, %.0f MiB/s",
		      (double)done / unit, (double)total / unit, units[i],
		      rate / 1048576);
}

static void draw(struct ck_progress *p)
{
	uint64_t done = atomic_load(&p->done);
	double seconds = seconds_since(&p->begun);
	double rate = seconds > 0 ? (double)done / seconds : 0;
	struct ck_buf line = { 0 };

	if (p->counts_items)
		ck_buf_printf(&line, "\rckptfs: %ju of %ju items, %.0f items/s",
			      (uintmax_t)done,
			      (uintmax_t)ck_max(done, p->total), rate);
	else
		add_bytes(&line, done, ck_max(done, p->total), rate);
	if (rate >= 1 && p->total >= done)
		add_time(&line, (uint64_t)((double)(p->total - done) / rate));
	ck_buf_text(&line, "\033[K");
	put(&line);
	ck_buf_fini(&line);
	p->shown = true;
}

/* --- thread ---------------------------------------------------------------------------- */

static void *drawing(void *arg)
{
	struct ck_progress *p = arg;
	struct timespec next;

	pthread_mutex_lock(&p->lock);
	while (!p->over) {
		next = ck_time_in(CLOCK_MONOTONIC, PERIOD);
		while (!p->over &&
		       pthread_cond_timedwait(&p->ending, &p->lock, &next) == 0)
			continue;
		if (!p->over)
			draw(p);
	}
	wipe_line(p);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

void ck_progress_begin(struct ck_progress *p, uint64_t total)
{
	p->total = total;
	clock_gettime(CLOCK_MONOTONIC, &p->begun);
	p->is_on = pthread_create(&p->thread, NULL, drawing, p) == 0;
}

void ck_progress_end(struct ck_progress *p)
{
	if (!p->is_on)
		return;
	pthread_mutex_lock(&p->lock);
	p->over = true;
	pthread_cond_signal(&p->ending);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	p->is_on = false;
}

bool ck_progress_hide(struct ck_progress *p)
{
	pthread_mutex_lock(&p->lock);
	while (!p->given_up() && !is_read(PERIOD))
		continue;
	if (p->given_up()) {
		pthread_mutex_unlock(&p->lock);
		return false;
	}
	wipe_line(p);
	return true;
}

void ck_progress_show(struct ck_progress *p)
{
	pthread_mutex_unlock(&p->lock);
}
