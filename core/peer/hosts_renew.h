/* SPDX-License-Identifier: MIT */
/*
 * hosts_renew: see hosts_renew.c; what ranks say when another job takes over. Files that
 * were away are looked after in hosts_renew_away.c.
 */
#ifndef CK_HOSTS_RENEW_H
#define CK_HOSTS_RENEW_H

#include "hosts_conflicts.h"

/* What one rank is asked for. */
struct ck_renewal_rank {
	struct ck_str *names;
	uint32_t *files;
	struct ck_looked *said;
	size_t n, cap_names, cap;
	struct ck_hosts_digest *digests; /* of copies that are compared */
	size_t ndigests;
	size_t *places; /* by file: 1 more than in the digests; 0: none */
	size_t of_metadata; /* 1: that is asked for, too, and said behind all others */
	bool there;	    /* it has said all */
	bool is_back;	/* and was not up in the job before */
	bool is_beside; /* it may have copies beside those that are read */
};

struct ck_renewal {
	struct ck_hosts *hosts;
	struct ck_calls *calls;
	const bool *there;		     /* who takes part, by rank */
	struct ck_renewal_rank *asked;	     /* the same */
	struct ck_hosts_tables at;	     /* what comes of it */
	struct ck_hosts_conflicts conflicts; /* the same */
};

/* It was nowhere when it was last looked for. */
bool ck_renewal_is_away(const struct ck_hosts *h, uint32_t file);
/* NULL: nothing, it was not asked for the file, or has not answered. */
const struct ck_looked *ck_renewal_said_of(const struct ck_renewal *r,
					   uint32_t rank, uint32_t file);

/* Copies of files that were away are compared, where several ranks have them. -ENOMEM;
 * errors of pthread_create(3). */
CK_MUST_USE int ck_renewal_compare(struct ck_renewal *r);
/* Such a file has a place, if it can be said which. After the above, files in their order.
 * -ENOMEM. */
CK_MUST_USE int ck_renewal_place_first(struct ck_renewal *r, uint32_t file);

#endif
