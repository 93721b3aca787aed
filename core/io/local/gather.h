/* SPDX-License-Identifier: MIT */
/*
 * gather: copies the runs of a plan into one buffer, and changes values there. No
 * state; any thread.
 */
#ifndef CK_GATHER_H
#define CK_GATHER_H

#include "ckptfs/io.h"

struct ck_gather {
	const struct ck_plan *plan;
	/* for each plan op its first run; NULL if the op is skipped */
	const uint8_t *const *from;
	uint8_t *to; /* byte 0 of the destination of the plan */
};

/* Copies all runs. Takes a const struct ck_gather *, as an argument of
 * ck_sigbus_guard(), which must be around it if `from` is in mapped files: it returns
 * -EIO if one of them became too short meanwhile. */
void ck_gather_run(void *gather);

/* Changes the values that plan op i wrote to `to`. how: a set of enum ck_change. The
 * range of the plan must consist of whole elements. */
void ck_gather_change(const struct ck_gather *g, size_t i,
		      const struct ck_dtype *dtype, unsigned how);

/* Where the bytes of a plan are delivered that is run in memory of its own. */
struct ck_delivery {
	uint8_t dtype; /* of the elements of the plan */
	bool convert;  /* to float32 */
	/* bytes of the result, of which `len` are copied to `to` */
	uint64_t skip, len;
	uint8_t *to;
};

/* whole: what the plan has filled. With `convert`, `skip` must be less than an element. */
void ck_deliver(const struct ck_delivery *d, const uint8_t *whole);

#endif
