/* SPDX-License-Identifier: MIT */
/*
 * bisect_search: finds the first of n steps that has a property, by a binary search which assumes
 * that the property stays, or in a test of every step. Stateless; one thread.
 */
#ifndef CKPTFS_BISECT_SEARCH_H
#define CKPTFS_BISECT_SEARCH_H

#include "ckptfs/base.h"

enum ck_verdict {
	CK_STEP_UNREAD, /* not tested */
	CK_STEP_CLEAN,	/* does not have it */
	CK_STEP_HAS,
	CK_STEP_UNSURE, /* cannot be read in full */
};

struct ck_bisection {
	/* Set by the caller: */
	size_t n;
	bool every;	   /* test every step */
	uint8_t *verdicts; /* n: enum ck_verdict; zeroed */
	size_t *order; /* room for n: the steps, in the order of the tests */
	/* Tests a step. Returns 0, or a negative errno, which ends the search. */
	int (*test)(void *arg, size_t step, enum ck_verdict *out);
	void *arg;
	/* Results: */
	size_t ntested;
	size_t found; /* the first step known to have it; n: none */
	/* A step between the last one known not to have it, and `found`, is CK_STEP_UNSURE: it may
	 * be the first. With `every`: a step before `found`. */
	bool unsure;
	/* A step behind `found` does not have it: the property does not stay, and a step that was not
	 * tested may be the first. Never with `every`. */
	bool contradicted;
};

/* Searches. Both neighbours of the step found are tested. Without unsure steps, at most 2 + log2(n)
 * steps are tested. Returns 0, or an error of test(). */
CK_MUST_USE int ck_bisect(struct ck_bisection *b);

#endif
