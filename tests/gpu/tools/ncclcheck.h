/* SPDX-License-Identifier: MIT */
/*
 * ncclcheck: checks on this machine's GPU the functions of NCCL that ckptfs needs, and prints lines
 * of JSON. Each check is a separate process, which is killed after its time limit, since NCCL may
 * hang. Its result is in memory shared with the program.
 */
#ifndef NCCLCHECK_H
#define NCCLCHECK_H

#include "ckptfs/base.h"

enum check_state {
	CHECK_SILENT, /* no result */
	CHECK_WELL,
	CHECK_FAILED,
	CHECK_SKIPPED, /* not applicable */
};

struct check {
	enum check_state state;
	char why[512];	/* reason, if failed or skipped */
	char more[768]; /* members of JSON, each with a comma before it */
};

/* State of all checks, shared with their processes. */
struct checks {
	uint64_t rounds; /* rounds of two ranks */
	uint64_t seed;
	/* Results of the first checks: */
	bool no_gpu;
	int version;
	char file[512]; /* path of NCCL, or empty */
	struct check now;
	/* Directory of sockets, which a killed check leaves; or empty. */
	char place[64];
};

/* Called by the process of a check. Each sets the result once. */
void check_version(struct checks *c);
void check_device(struct checks *c);
void check_self(struct checks *c);
void check_memory(struct checks *c);
void check_two_ranks(struct checks *c);
void check_killed(struct checks *c);

/* --- results of a check ----------------------------------------------------------------- */

void check_well(struct checks *c);
void check_fails(struct checks *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void check_skips(struct checks *c, const char *why);
/* Adds figures, for any result. */
void check_adds(struct checks *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
