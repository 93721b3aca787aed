/* SPDX-License-Identifier: MIT */
/*
 * cp_progress: a progress line on stderr: bytes or items done, total, rate and time left. A
 * thread of its own redraws it every 200 ms, from ck_progress_begin() to ck_progress_end().
 * Other threads hide it while they print.
 */
#ifndef CKPTFS_CP_PROGRESS_H
#define CKPTFS_CP_PROGRESS_H

#include "ckptfs/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Zero-initialise. */
struct ck_progress {
	/* Atomic: */
	_Atomic uint64_t done; /* of `total` */
	/* Constant: */
	int (*given_up)(void);
	/* Constant from begin to end: */
	uint64_t total;	       /* bytes, or items */
	bool counts_items;     /* set by the caller before begin */
	struct timespec begun; /* CLOCK_MONOTONIC */
	pthread_mutex_t lock;  /* also serialises output to stderr */
	pthread_cond_t ending;
	/* Under lock: */
	bool over, shown;
	/* One thread, that of ck_progress_begin(): */
	pthread_t thread; /* draws the line, if is_on */
	bool is_on;
};

/* Called first. given_up(): returns not 0 when output must not wait any more, as after a
 * signal; called by any thread. */
void ck_progress_init(struct ck_progress *p, int (*given_up)(void));
void ck_progress_fini(struct ck_progress *p);
/* Starts the thread that draws; without one there is no line. total: bytes, or items. */
void ck_progress_begin(struct ck_progress *p, uint64_t total);
/* Stops the thread and removes the line. Does nothing if it was not begun. */
void ck_progress_end(struct ck_progress *p);
/* Adds bytes or items that are done. Any thread. */
void ck_progress_add(struct ck_progress *p, uint64_t done);
/* ck_progress_hide() removes the line and gives the calling thread the right to print, until
 * it calls ck_progress_show(). Waits until stderr accepts output. False if given_up(): the
 * caller must not print, and must not call ck_progress_show(). Any thread. */
CK_MUST_USE bool ck_progress_hide(struct ck_progress *p);
void ck_progress_show(struct ck_progress *p);

#endif
