/* SPDX-License-Identifier: MIT */
/* hosts_conflicts: see hosts_conflicts.c. */
#ifndef CK_HOSTS_CONFLICTS_H
#define CK_HOSTS_CONFLICTS_H

#include "hosts_internal.h"

/* Of one file. */
struct ck_hosts_conflict {
	uint32_t file; /* in the ck_files */

	struct {
		uint32_t host; /* one of the groups */
		uint64_t size;
		uint8_t digest[CK_COPY_DIGEST];
	} of[2];
};

/* Replaced as a whole; what was before stays until the end. */
struct ck_hosts_conflicts {
	struct ck_hosts_conflicts *before;
	struct ck_hosts_conflict *list;
	size_t n, cap;
};

/* Files come in their order. -ENOMEM. */
CK_MUST_USE int ck_hosts_conflicts_add(struct ck_hosts_conflicts *to,
				       const struct ck_hosts_conflict *c);
/* From now on there are those, and they are logged if there were others; takes the list.
 * By the thread that hears. */
void ck_hosts_conflicts_replace(struct ck_hosts *h,
				struct ck_hosts_conflicts *by);
void ck_hosts_conflicts_free(struct ck_hosts_conflicts *c);
/* NULL: there is none. Any thread. */
const struct ck_hosts_conflict *ck_hosts_conflict_of(const struct ck_hosts *h,
						     uint32_t file);
/* As ck_shown(). */
const char *ck_hosts_conflict_show(const struct ck_hosts *h,
				   const struct ck_hosts_conflict *c);
const char *ck_hosts_copy_show(const struct ck_hosts *h, uint32_t group,
			       uint64_t size, const uint8_t *digest);

#endif
