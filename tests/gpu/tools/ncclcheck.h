/* SPDX-License-Identifier: MIT */
/*
 * ncclcheck: whether NCCL does on this machine's GPU what ckptfs asks of it, as lines of JSON. Each
 * check is a process of its own, which is ended when its time is over, for NCCL may hang: what it
 * has to say is in memory that it shares with the program.
 */
#ifndef NCCLCHECK_H
#define NCCLCHECK_H

#include "ckptfs/base.h"

enum check_state {
	CHECK_SILENT, /* it has not said anything */
	CHECK_WELL,
	CHECK_FAILED,
	CHECK_SKIPPED, /* there is nothing to look at */
};

struct check {
	enum check_state state;
	char why[512];	/* of one that is not well */
	char more[768]; /* members of JSON, each with a comma before it */
};

/* What the checks have in common; shared with their processes. */
struct checks {
	uint64_t rounds; /* that two ranks move */
	uint64_t seed;
	/* What the first ones have found: */
	bool no_gpu;
	int version;
	char file[512]; /* of NCCL; empty: there is none */
	struct check now;
	char place
		[64]; /* of sockets, which one that was ended leaves; empty: none */
};

/* Each is for the process that makes the check: says once what came of it. */
void check_version(struct checks *c);
void check_device(struct checks *c);
void check_self(struct checks *c);
void check_memory(struct checks *c);
void check_two_ranks(struct checks *c);
void check_killed(struct checks *c);

/* --- what they say ---------------------------------------------------------------------- */

void check_well(struct checks *c);
void check_fails(struct checks *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void check_skips(struct checks *c, const char *why);
/* Figures, whatever comes of it. */
void check_adds(struct checks *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
