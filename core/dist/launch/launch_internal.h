/* SPDX-License-Identifier: MIT */
/* launch_internal: words of a command as they are collected; networks. */
#ifndef CKPTFS_LAUNCH_INTERNAL_H
#define CKPTFS_LAUNCH_INTERNAL_H

#include "ckptfs/base.h"

#include <ifaddrs.h>

/* Zero-initialise. What does not fit into memory is remembered, as by struct ck_buf. */
struct ck_words {
	char **words; /* owned, as they are; NULL behind the last */
	size_t n, cap;
	int err;
};

void ck_words_add(struct ck_words *w, struct ck_str word);
void ck_words_text(struct ck_words *w, const char *text);
/* Those between the spaces of a text. */
void ck_words_split(struct ck_words *w, const char *text);
/* All, for ck_launch_words_free(); NULL if one is missing. Empties *w. */
char **ck_words_take(struct ck_words *w);

/* Whether other hosts are reached there, from an address in one of those networks. */
CK_MUST_USE bool ck_launch_is_in_network(const struct ifaddrs *i,
					 const char *net);

#endif
