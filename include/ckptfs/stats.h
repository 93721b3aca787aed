/* SPDX-License-Identifier: MIT */
/*
 * stats: what was read since the mount of a checkpoint that lies on several hosts, as
 * counters, and as the text of .ckptfs/stats. Any thread.
 */
#ifndef CKPTFS_STATS_H
#define CKPTFS_STATS_H

#include "ckptfs/base.h"

enum {
	CK_STATS_WAITS = 24,   /* the last one is for all that are longer */
	CK_STATS_ERRORS = 134, /* errnos of Linux, and 0 for any other */
};

struct ck_stats_host {
	const char *name; /* constant */
	/* Atomic: */
	uint64_t file_bytes; /* read from data files there */
	uint64_t wire_bytes; /* that came from there, with heads */
};

struct ck_stats {
	/* Atomic: */
	uint64_t read_bytes; /* that readers were given */
	uint64_t copies;     /* moves by another copy than the first */
	uint64_t
		cache_bytes; /* kept now of other hosts; for whoever keeps them to add to
			       * and take from */
	uint64_t restarts;  /* jobs that took over */
	uint64_t gpu_bytes; /* of reads that were put together on a GPU */
	uint64_t
		rounds; /* pieces of them that came from other hosts by rounds */
	/* Readers who waited for other hosts less than 2 to the i milliseconds, and not less
	 * than half of that. */
	uint64_t waits[CK_STATS_WAITS];
	uint64_t
		errors[CK_STATS_ERRORS]; /* that readers were given, by errno */

	uint32_t n; /* constant */
	/* By peer: the first is this host; processes of one host follow each other. */
	struct ck_stats_host hosts[];
};

/* All 0, without names, which are the caller's to set, and last as long. NULL: out of
 * memory. free() it. */
struct ck_stats *ck_stats_make(uint32_t n);

static inline void ck_count(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

/* Of all these, s is NULL where nobody counts. */

/* What a reader was answered: so many bytes, or a negative errno. */
void ck_stats_answered(struct ck_stats *s, uint64_t bytes, int rc);
/* A reader has waited for other hosts. */
void ck_stats_waited(struct ck_stats *s, uint64_t msec);
/* A message of so many bytes came from a peer. */
void ck_stats_came(struct ck_stats *s, uint32_t peer, uint64_t bytes);
/* So many bytes of files were read by a peer. */
void ck_stats_read(struct ck_stats *s, uint32_t peer, uint64_t bytes);

/* Appends them, one JSON object and a newline. */
void ck_stats_print(const struct ck_stats *s, struct ck_buf *out);

#endif
