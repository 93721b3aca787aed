/* SPDX-License-Identifier: MIT */
/*
 * stats: counters of reads and the time spent on requests, since the mount or
 * the last reset, and the text of .ckptfs/stats. Any thread.
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
	uint64_t file_bytes; /* read from data files of this host */
	uint64_t wire_bytes; /* received from this host, with headers */
};

struct ck_stats {
	/* Atomic: */
	uint64_t read_bytes; /* returned to readers */
	uint64_t copies;     /* copies from another replica than the first */
	/* Bytes of other hosts that are cached now; updated by the cache. */
	uint64_t cache_bytes;
	uint64_t restarts;  /* failovers to another job */
	uint64_t gpu_bytes; /* of reads that were gathered on a GPU */
	uint64_t rounds;    /* segments of them received in rounds */
	uint64_t nsec;	    /* from begin to end of each request, summed up */
	/* Reads that waited for other hosts from 2^(i-1) to below 2^i
	 * milliseconds. */
	uint64_t waits[CK_STATS_WAITS];
	uint64_t errors[CK_STATS_ERRORS]; /* returned to readers, by errno */

	uint32_t n; /* constant */
	/* By peer; the first is this host. Processes of one host are
	 * adjacent. */
	struct ck_stats_host hosts[];
};

/* Creates counters of 0. The caller sets the names, which must outlive the
 * counters, and frees the result with free(). NULL when out of memory. */
struct ck_stats *ck_stats_make(uint32_t n);
/* The same for this host only, with its name. */
struct ck_stats *ck_stats_make_here(void);
/* Writes the name of this host, with '_' for each character that JSON or a
 * field of a report could escape. */
CK_EXPORT void ck_stats_name_host(char *out, size_t size);

static inline void ck_count(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

/* In all of the following functions, s is NULL without statistics. */

/* Counts the result of a read: a number of bytes, or a negative errno. */
void ck_stats_answered(struct ck_stats *s, uint64_t bytes, int rc);
/* Counts the time that a read waited for other hosts. */
void ck_stats_waited(struct ck_stats *s, uint64_t msec);
/* Counts a message received from a peer. */
void ck_stats_received(struct ck_stats *s, uint32_t peer, uint64_t bytes);
/* Counts bytes of files that a peer has read. */
void ck_stats_read(struct ck_stats *s, uint32_t peer, uint64_t bytes);
/* Sets all counters to 0. cache_bytes is a level and stays. */
void ck_stats_reset(struct ck_stats *s);

/* --- time of requests ----------------------------------------------------- */

/* The time of a request belongs to the thread that runs the request. A request
 * that another thread continues takes it along, so that the wait is counted. */
struct ck_request_time {
	struct ck_stats *stats;
	uint64_t begun; /* CLOCK_MONOTONIC, in nanoseconds; 0: no request */
};

/* Begins a request of the calling thread. */
void ck_request_time_begin(struct ck_stats *s);
/* Takes the time from the calling thread, for another one. */
struct ck_request_time ck_request_time_take(void);
/* Continues a request in the calling thread. */
void ck_request_time_resume(const struct ck_request_time *t);
/* Ends the request of the calling thread and counts its time. Does nothing if
 * the time was taken. */
void ck_request_time_end(void);
/* Counts the time of a request that was taken and is answered. */
void ck_request_time_count(const struct ck_request_time *t);

/* --- text ----------------------------------------------------------------- */

/* A path by which bytes arrive, one row of "paths". */
struct ck_stats_path {
	const char *host, *path; /* without a character that JSON escapes */
	double gbps, usec;	 /* as measured; 0: unknown */
	bool used;
	const char *reason; /* NULL if the path has not failed */
};

/* Appends a row and a comma. */
void ck_stats_print_path(const struct ck_stats_path *p, struct ck_buf *out);
/* Appends the counters as one JSON object and a newline. print_paths appends the rows of
 * "paths"; NULL: counters of other hosts and of GPUs are left out. */
void ck_stats_print(const struct ck_stats *s,
		    void (*print_paths)(void *arg, struct ck_buf *out),
		    void *arg, struct ck_buf *out);

#endif
