/* SPDX-License-Identifier: MIT */
/*
 * What tests of transports share: directories for a job, descriptors that are open,
 * bytes that depend on a key, and sockets that are no transport's.
 */
#ifndef CK_TRANSPORT_CASE_H
#define CK_TRANSPORT_CASE_H

#include "dist/transport/transport.h"
#include "tap.h"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Makes a directory; rmdir() fails later if a file remains in it. */
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

static inline uint64_t now_msec(void)
{
	struct timespec t = ck_time_in(CLOCK_MONOTONIC, 0);

	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- sockets ---------------------------------------------------------------------- */

static inline struct sockaddr_un address(const char *directory, uint32_t rank)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/%u", directory,
		       rank);
	return a;
}

static inline int raw_listen(const char *directory, uint32_t rank)
{
	struct sockaddr_un a = address(directory, rank);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) ||
	    listen(fd, 5))
		abort();
	return fd;
}

/* Returns -1 if no process listens. */
static inline int raw_connect(const char *directory, uint32_t rank)
{
	struct sockaddr_un a = address(directory, rank);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	for (unsigned i = 0; i < 60000; i++) {
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
			return fd;
		usleep(2000);
	}
	close(fd);
	return -1;
}

static inline void say(int fd, const void *bytes, size_t len)
{
	if (fd >= 0 && send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		abort();
}

static inline void say_ping(int fd)
{
	uint8_t head[CK_WIRE_HEAD];

	ck_wire_head_put(&(struct ck_wire_head){ .type = CK_WIRE_PING }, head);
	say(fd, head, sizeof(head));
}

#endif
