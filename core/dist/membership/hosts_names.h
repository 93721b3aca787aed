/* SPDX-License-Identifier: MIT */
/*
 * hosts_names: lists the directories of all hosts, for checkpoints without
 * metadata, and tests the first bytes of files. The names are unknown until the
 * first list, then constant. Of the opening thread.
 */
#ifndef CK_HOSTS_NAMES_H
#define CK_HOSTS_NAMES_H

#include "source/remote_source.h"

struct ck_hosts;

/* The names in the directories of all hosts. */
struct ck_hosts_names {
	struct ck_remote_source_name *list;
	size_t n;
	struct ck_arena text;
	bool known; /* they have been listed */
};

/* Implement struct ck_remote_source; see there. */
CK_MUST_USE int ck_hosts_list(struct ck_remote_source *e,
			      const struct ck_remote_source_name **list,
			      size_t *n, struct ck_diag *d);
CK_MUST_USE int ck_hosts_begins(struct ck_remote_source *e,
				const struct ck_str *names, size_t n,
				bool (*is)(const uint8_t *head, size_t len),
				bool *out, struct ck_diag *d);
CK_MUST_USE int ck_hosts_fetch(struct ck_remote_source *e,
			       struct ck_fetch *wanted);
/* Frees the names; they are unknown again. */
void ck_hosts_names_fini(struct ck_hosts *h);

#endif
