/* SPDX-License-Identifier: MIT */
/* A pickle whose objects are read opcode by opcode, to compare with those that are read in one go. */
#ifndef CKPTFS_TESTS_STEPWISE_H
#define CKPTFS_TESTS_STEPWISE_H

#include "ckptfs/pickle.h"

/* The same pickle with an empty FRAME before each BUILD: free it. */
static inline char *stepwise(struct ck_str in, size_t *len)
{
	static const char frame[] = "\x95\0\0\0\0\0\0\0";
	struct ck_pickle_build *builds = calloc(in.len + 1, sizeof(*builds));
	char *out = malloc(in.len * (1 + sizeof(frame)) + 1);
	struct ck_pickle_frames frames;
	size_t from = 0, to = 0;

	for (size_t i = 0; i <= in.len; i++)
		builds[i] = (struct ck_pickle_build){ (uint32_t)i + 1,
						      UINT64_MAX, 0 };
	/* There are fewer: those that it met have their places. */
	(void)!ck_pickle_walk(in, builds, in.len + 1, &frames, NULL);
	free(frames.rows);
	for (size_t i = 0; builds[i].at != UINT64_MAX; i++) {
		memcpy(out + to, in.p + from, builds[i].at - from);
		to += builds[i].at - from;
		from = builds[i].at;
		memcpy(out + to, frame, sizeof(frame));
		to += sizeof(frame);
	}
	if (in.len)
		memcpy(out + to, in.p + from, in.len - from);
	*len = to + in.len - from;
	free(builds);
	return out;
}

#endif
