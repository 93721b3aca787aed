/* SPDX-License-Identifier: MIT */
/*
 * launch_internal: the words of a command line while they are collected, and a
 * test for networks; shared by the launch files. One thread at a time.
 */
#ifndef CKPTFS_LAUNCH_INTERNAL_H
#define CKPTFS_LAUNCH_INTERNAL_H

#include "ckptfs/base.h"

#include <ifaddrs.h>

/* Zero-initialise. The first error stays in err, as in struct ck_buf; words
 * after it are ignored. */
struct ck_words {
	char **words; /* owned; NULL after the last one */
	size_t n, cap;
	int err;
};

/* Appends a copy of a word. */
void ck_words_add(struct ck_words *w, struct ck_str word);
void ck_words_text(struct ck_words *w, const char *text);
/* Appends the words of a text that are separated by spaces. */
void ck_words_split(struct ck_words *w, const char *text);
/* Returns the words, for ck_launch_words_free(), and empties *w. NULL if any
 * append failed. */
char **ck_words_take(struct ck_words *w);

/* Returns true if the interface is up, is not loopback, and has an IPv4 address
 * in one of the networks. net: CIDR[+CIDR]. */
CK_MUST_USE bool ck_launch_is_in_network(const struct ifaddrs *i,
					 const char *net);

#endif
