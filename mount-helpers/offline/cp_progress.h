/* SPDX-License-Identifier: MIT */
/*
 * progress: a line on a terminal that says how much of so many bytes is done.
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
	_Atomic uint64_t done; /* bytes */
	/* Constant: */
	int (*given_up)(void);
	/* Constant while the line is there: */
	uint64_t total;
	struct timespec begun; /* CLOCK_MONOTONIC */
	pthread_mutex_t lock;  /* the terminal's, too */
	pthread_cond_t ending;
	/* Under lock: */
	bool over, shown;
	/* One thread, that which began it: */
	pthread_t thread; /* draws, if is_on */
	bool is_on;
};

/* Before anything else, by one thread. given_up(): not 0 when nobody has to be told
 * anything any more; any thread. */
void ck_progress_init(struct ck_progress *p, int (*given_up)(void));
void ck_progress_fini(struct ck_progress *p);
/* Shows the line from soon on, five times a second, until it ends. */
void ck_progress_begin(struct ck_progress *p, uint64_t total);
void ck_progress_end(struct ck_progress *p);
/* So many bytes more are done. Any thread. */
void ck_progress_add(struct ck_progress *p, uint64_t bytes);
/* Between these the line is not there, and the calling thread alone prints. Waits
 * until somebody reads what is printed. False: it was given up, nothing may be
 * printed, and it is not to be shown again. */
CK_MUST_USE bool ck_progress_hide(struct ck_progress *p);
void ck_progress_show(struct ck_progress *p);

#endif
