/* SPDX-License-Identifier: MIT */
/*
 * What tests of transports share: directories for a job, descriptors that are open,
 * bytes that depend on a key.
 */
#ifndef CK_XPORT_CASE_H
#define CK_XPORT_CASE_H

#include "ckptfs/xport.h"
#include "tap.h"

#include <dirent.h>
#include <unistd.h>

/* A new directory; rmdir() says whether something was left in it. */
static inline void xport_directory(char out[static 64])
{
	strcpy(out, "/tmp/ckptfs-xport-XXXXXX");
	if (!mkdtemp(out))
		abort();
}

static inline size_t open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	if (!d)
		abort();
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static inline CK_WRAPS uint64_t word_of(uint64_t key, size_t at)
{
	uint64_t x = (key ^ at / 8) * UINT64_C(0x9e3779b97f4a7c15);

	return x ^ x >> 29;
}

static inline void fill_bytes(void *to, size_t len, uint64_t key)
{
	uint8_t *p = to;

	for (size_t at = 0; at < len; at += 8) {
		uint64_t word = word_of(key, at);

		memcpy(p + at, &word, len - at < 8 ? len - at : 8);
	}
}

static inline bool are_bytes(const void *bytes, size_t len, uint64_t key)
{
	const uint8_t *p = bytes;

	for (size_t at = 0; at < len; at += 8) {
		uint64_t word = word_of(key, at);

		if (memcmp(p + at, &word, len - at < 8 ? len - at : 8))
			return false;
	}
	return true;
}

#endif
