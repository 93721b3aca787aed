/* SPDX-License-Identifier: MIT */
/*
 * trials: random slices of random layouts, one after the other, over files of which some
 * are remote and one may fail; for tests of what a mover answers.
 */
#ifndef CK_TRIALS_H
#define CK_TRIALS_H

#include "answerer.h"
#include "truth.h"

static struct answerer answerer;
/* Indexed by the remote files, and by whether files are mapped. */
static struct ck_files *trial_sets[2 << (BIG + 2)];

/* What each trial has. */
struct trial_world {
	struct world *w;
	struct truth truth;
	unsigned remote; /* bits of files */
	int failing;	 /* the file whose moves fail, or -1 */
};

/* Files of which those are remote. */
static inline struct ck_files *trial_files(unsigned remote, bool mapped)
{
	struct ck_files **at = &trial_sets[2 * remote + mapped];

	if (!*at) {
		*at = files_open_remote(remote);
		if (!mapped)
			ck_files_map_most(*at, 0);
	}
	return *at;
}

/* Moves of one file come to one of these errors, sometimes. */
static inline void trial_fail(struct trial_world *t, const int *errs,
			      unsigned n, uint64_t *random)
{
	memset(answerer.errs, 0, sizeof(answerer.errs));
	t->failing = -1;
	if (n == 0 || !boxes_one_in(random, 4))
		return;
	t->failing = (int)boxes_below(random, NFILES);
	answerer.errs[t->failing] = errs[boxes_below(random, n)];
}

/* Whether those bytes need any of a remote file; *fails: of the one that fails. */
static inline bool trial_needs(const struct trial_world *t, uint64_t vpos,
			       uint64_t len, bool *fails)
{
	bool remote = false;

	*fails = false;
	for (uint64_t i = vpos; i < vpos + len; i++) {
		int file = t->truth.file[i];

		if (file < 0 || !(t->remote >> file & 1))
			continue;
		remote = true;
		*fails |= file == t->failing;
	}
	return remote;
}

/* How many are wrong of `n` that check() makes, each of what a trial begins with. */
static inline unsigned trials_check(struct trial_world *t, uint64_t n,
				    uint64_t seed,
				    unsigned (*check)(struct trial_world *t,
						      uint64_t *random))
{
	uint64_t random = seed | 1;
	unsigned wrong = 0;

	t->w = world_make();
	for (uint64_t i = 0; i < n; i++) {
		unsigned more = check(t, &random);

		if (more && !wrong && !answerer.spoil)
			printf("# the first wrong one is number %" PRIu64 "\n",
			       i);
		wrong += more;
	}
	world_free(t->w);
	return wrong;
}

/* How many there are, of this many reads each; CKPTFS_CASES: how many reads. */
static inline uint64_t trials_wanted(unsigned reads, uint64_t few,
				     uint64_t many)
{
	return tap_cases("CKPTFS_CASES", few * reads, many * reads) / reads;
}

/* The exit status of a test of these two. */
static inline int trials_main(void (*random)(void), void (*canaries)(void))
{
	if (!world_begin())
		return 2;
	answerer_begin(&answerer);
	random();
	canaries();
	answerer_end(&answerer);
	for (unsigned i = 0; i < 2 << (BIG + 2); i++)
		ck_files_free(trial_sets[i]);
	return world_end();
}

#endif
