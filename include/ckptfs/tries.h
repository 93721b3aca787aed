/* SPDX-License-Identifier: MIT */
/*
 * tries: with which of the hosts that are not up the next job is tried, and when. A job
 * fails as a whole if one of its hosts cannot take part, so a host that has made one fail
 * is left out of the next, and tried again after longer and longer pauses, when no other
 * host is waiting. Where it is not known which one it was, half of them are tried, and so
 * on. No input or output here, and no clock: times are milliseconds of one that never goes
 * back. One thread.
 */
#ifndef CKPTFS_TRIES_H
#define CKPTFS_TRIES_H

#include "ckptfs/base.h"

enum { CK_TRIES_PAUSE_MOST = 5 * 60 * 1000 }; /* milliseconds */

/* What a host is to the next job. Whoever makes it takes those that are doubtful only if
 * none that is wanted can take part, but for the first host, which is in each. */
enum ck_try {
	CK_TRY_WANTED, /* it is not up, and nothing speaks against it */
	CK_TRY_UP, /* in the job that there is: without it there is to be none */
	CK_TRY_LEFT_OUT,
	CK_TRY_DOUBTFUL, /* it may have made a job fail */
};

/* What a host was in a job that was tried. */
enum ck_tried {
	CK_TRIED_NOT, /* it was not in it */
	CK_TRIED_IN,
	CK_TRIED_ABSENT, /* it was to be, and nothing was started there: for that, or
			  * because another one was faster to fail */
	CK_TRIED_BAD, /* the same, and nothing can be: that was tried by itself */
};

struct ck_tries_host {
	bool up;
	bool doubtful;	 /* it was in a job that failed, as others were */
	unsigned failed; /* jobs, one after the other, that failed by it */
	uint64_t due;	 /* it is left out until then */
	uint64_t last;	 /* when a job with it has failed */
	bool offered;	 /* the next may have it */
	bool untold;	 /* that it is left out, see ck_tries_tell() */
	bool told;
};

struct ck_tries {
	struct ck_tries_host *hosts; /* n; the first is this one */
	size_t n;
	uint64_t every;	 /* milliseconds between two tries */
	size_t most;	 /* doubtful hosts that are tried together */
	unsigned failed; /* jobs, one after the other, that failed by no host */
	uint64_t due;	 /* when the next is tried */
};

/* up: of n hosts. -ENOMEM. */
CK_MUST_USE int ck_tries_make(struct ck_tries *t, const bool *up, size_t n,
			      uint64_t every, uint64_t now);
void ck_tries_fini(struct ck_tries *t);

/* Notes which hosts are up now; one that has gone down is tried at once. Whether a job is
 * to be tried now, if none is. */
bool ck_tries_look(struct ck_tries *t, const bool *up, uint64_t now);
/* With whom: n of enum ck_try. */
void ck_tries_choose(struct ck_tries *t, uint64_t now, uint8_t *how);

/* What came of it, one of these: */

/* No other host than those that are up can take part: who was chosen did not answer. */
void ck_tries_nobody(struct ck_tries *t, uint64_t now);
/* It has failed. tried: n of enum ck_tried; NULL: it had not begun. By those that are bad,
 * and by no other one where this host is, or one that is up. */
void ck_tries_failed(struct ck_tries *t, const uint8_t *tried, uint64_t now);
/* It has taken over. in: who was in it; up: who is now. */
void ck_tries_over(struct ck_tries *t, const bool *in, const bool *up,
		   uint64_t now);

/* The number of a host that is left out from now on, once each time; n: there is none. */
size_t ck_tries_tell(struct ck_tries *t);

#endif
