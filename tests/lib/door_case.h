/* SPDX-License-Identifier: MIT */
/*
 * door_case: what the tests of a door share: movers that come in, and others who only
 * come near.
 */
#ifndef CK_RENDEZVOUS_CASE_H
#define CK_RENDEZVOUS_CASE_H

#include "dist/launch/rendezvous.h"
#include "tap.h"

#include <dirent.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	SIZE = 3 << 20,
	IN_TIME = 60000, /* msec, a limit against hangs */
	PREFIX = 7,	 /* of a name: characters before its parts */
	PART = 16,	 /* of each of its three parts */
	NOBODY = 65534
};

static inline unsigned fds_count(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static inline struct sockaddr_un address_of(const char *name, socklen_t *len)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	memcpy(a.sun_path + 1, name, PREFIX + PART);
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + PREFIX +
			   PART);
	return a;
}

static inline void way_close(struct ck_rendezvous_link *w)
{
	ck_fd_cleanup(&w->sock);
	ck_fd_cleanup(&w->memory);
}

static inline void door_make(struct ck_rendezvous *door)
{
	if (ck_rendezvous_open(door))
		abort();
}

/* --- a mover -------------------------------------------------------------------------- */

struct backend {
	char name[CK_RENDEZVOUS_NAME];
	unsigned late; /* usec */
	int rc;
	uint64_t msec; /* that it took */
	struct ck_rendezvous_link way;
	pthread_t thread;
};

static inline void *mover_run(void *arg)
{
	struct backend *m = arg;
	uint64_t begin;

	usleep(m->late);
	begin = ck_msec_now();
	m->rc = ck_rendezvous_enter(m->name, &m->way);
	m->msec = ck_msec_now() - begin;
	return NULL;
}

static inline void mover_start(struct backend *m, const char *name)
{
	memcpy(m->name, name, CK_RENDEZVOUS_NAME);
	m->way = (struct ck_rendezvous_link){ -1, -1, 0 };
	m->rc = 1;
	if (ck_thread_start(&m->thread, mover_run, m))
		abort();
}

/* Connects, sends these bytes, and stays connected. */
static inline int comer(const char *name, const char *says, size_t len)
{
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			  0);
	socklen_t alen;
	struct sockaddr_un a = address_of(name, &alen);

	if (sock < 0)
		abort();
	if (connect(sock, (struct sockaddr *)&a, alen) ||
	    (len && send(sock, says, len, MSG_NOSIGNAL) != (ssize_t)len))
		ck_fd_cleanup(&sock);
	return sock;
}

#endif
