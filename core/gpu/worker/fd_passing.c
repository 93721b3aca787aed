/* SPDX-License-Identifier: MIT */
/*
 * fd_passing: accepts connections, reads a token from each, and sends the
 * descriptor for it. A connection without a token stays until a time limit;
 * under load the oldest one is replaced. If the process has no free descriptor,
 * connections are rejected or wait. One thread.
 */
#include "fd_passing.h"
#include "dist/rpc/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	STAY_MSEC = 5000, /* limit for the token */
	CROWD_MSEC = 500, /* the same while all places are taken */
	DEAF_MSEC = 100,  /* pause if there is no descriptor at all */
	BACKLOG = 1024,	  /* connections waiting to be accepted */
	AT_ONCE = 64,
};

int ck_fd_passing_token(uint8_t out[static CK_FD_PASSING_TOKEN])
{
	ssize_t n = getrandom(out, CK_FD_PASSING_TOKEN, 0);

	return n == CK_FD_PASSING_TOKEN ? 0 : n < 0 ? -errno : -EIO;
}

static int name_make(char out[static CK_FD_PASSING_NAME])
{
	char parts[2][17];
	int rc = ck_random_hex(parts[0]);

	if (rc == 0)
		rc = ck_random_hex(parts[1]);
	if (rc == 0)
		(void)snprintf(out, CK_FD_PASSING_NAME, "ckptfs-gpu-%s%s",
			       parts[0], parts[1]);
	return rc;
}

int ck_fd_passing_open(struct ck_fd_passing *h)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	socklen_t len = offsetof(struct sockaddr_un, sun_path) + 1;
	int rc;

	for (size_t i = 0; i < CK_FD_PASSING_COMERS; i++)
		h->comers[i].sock = -1;
	h->spare = -1;
	h->deaf = 0;
	h->listener = socket(AF_UNIX,
			     SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (h->listener < 0)
		return -errno;
	h->spare = fcntl(h->listener, F_DUPFD_CLOEXEC, 0);
	rc = name_make(h->name);
	if (rc)
		return rc;
	memcpy(at.sun_path + 1, h->name, strlen(h->name));
	len += (socklen_t)strlen(h->name);
	return bind(h->listener, (struct sockaddr *)&at, len) ||
			       listen(h->listener, BACKLOG)
		       ? -errno
		       : 0;
}

void ck_fd_passing_close(struct ck_fd_passing *h)
{
	if (h->listener < 0)
		return;
	ck_fd_cleanup(&h->listener);
	ck_fd_cleanup(&h->spare);
	for (size_t i = 0; i < CK_FD_PASSING_COMERS; i++)
		ck_fd_cleanup(&h->comers[i].sock);
}

/* --- connections ---------------------------------------------------------- */

static bool may_come(int sock)
{
	uid_t user;

	return ck_sock_user(sock, &user) && (user == 0 || user == geteuid());
}

/* Returns a free place, or that of the oldest connection without a token. */
static size_t place_in(const struct ck_fd_passing *h)
{
	size_t at = 0;

	for (size_t i = 1; i < CK_FD_PASSING_COMERS && h->comers[at].sock >= 0;
	     i++)
		if (h->comers[i].sock < 0 ||
		    h->comers[i].since < h->comers[at].since)
			at = i;
	return at;
}

/* Milliseconds until a connection can be accepted. */
static uint64_t crowd(const struct ck_fd_passing *h, uint64_t now)
{
	size_t at = place_in(h);
	uint64_t free = h->comers[at].sock < 0
				? 0
				: h->comers[at].since + CROWD_MSEC;
	uint64_t from = ck_max(free, h->deaf);

	return from > now ? from - now : 0;
}

uint32_t ck_fd_passing_wait(const struct ck_fd_passing *h)
{
	uint64_t msec = crowd(h, ck_msec_now());

	return msec ? (uint32_t)msec * 1000 : UINT32_MAX;
}

void ck_fd_passing_fds(const struct ck_fd_passing *h,
		       struct pollfd out[static CK_FD_PASSING_POLL])
{
	bool open = crowd(h, ck_msec_now()) == 0;

	out[0] = (struct pollfd){ .fd = open ? h->listener : -1,
				  .events = POLLIN };
	for (size_t i = 0; i < CK_FD_PASSING_COMERS; i++)
		out[1 + i] = (struct pollfd){ .fd = h->comers[i].sock,
					      .events = POLLIN };
}

/* Answers a token, which must arrive as a whole. False if there is no data
 * yet. */
static bool answer(int sock, int (*file)(void *arg, const uint8_t *token),
		   void *arg)
{
	uint8_t token[CK_FD_PASSING_TOKEN];
	ssize_t n = recv(sock, token, sizeof(token), MSG_DONTWAIT);
	int found = n == sizeof(token) ? file(arg, token) : -1;

	if (found >= 0)
		(void)!ck_sock_send_file(sock, "", 1, found, MSG_DONTWAIT);
	return n >= 0 || errno != EAGAIN;
}

/* No descriptor is left to accept a connection: rejects one by means of the
 * spare descriptor. Without a spare, connections wait. */
static void send_away(struct ck_fd_passing *h)
{
	int sock;

	ck_fd_cleanup(&h->spare);
	sock = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC);
	ck_fd_cleanup(&sock);
	h->spare = fcntl(h->listener, F_DUPFD_CLOEXEC, 0);
	if (h->spare < 0)
		h->deaf = ck_msec_now() + DEAF_MSEC;
}

static bool let_in(struct ck_fd_passing *h,
		   int (*file)(void *arg, const uint8_t *token), void *arg)
{
	size_t at = place_in(h);
	int sock;

	if (crowd(h, ck_msec_now()))
		return false;
	sock = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (sock < 0 && (errno == EMFILE || errno == ENFILE)) {
		send_away(h);
		return true;
	}
	if (sock < 0)
		return false;
	if (!may_come(sock) || answer(sock, file, arg)) {
		close(sock);
		return true;
	}
	if (h->comers[at].sock >= 0)
		(void)answer(h->comers[at].sock, file, arg);
	ck_fd_cleanup(&h->comers[at].sock);
	h->comers[at].sock = sock;
	h->comers[at].since = ck_msec_now();
	return true;
}

void ck_fd_passing_serve(struct ck_fd_passing *h,
			 const struct pollfd fds[static CK_FD_PASSING_POLL],
			 int (*file)(void *arg, const uint8_t *token),
			 void *arg)
{
	uint64_t now = ck_msec_now();

	for (size_t i = 0; i < CK_FD_PASSING_COMERS; i++) {
		int *sock = &h->comers[i].sock;

		if (*sock < 0)
			continue;
		if (fds[1 + i].revents)
			(void)answer(*sock, file, arg);
		if (fds[1 + i].revents || now - h->comers[i].since > STAY_MSEC)
			ck_fd_cleanup(sock);
	}
	for (unsigned i = 0; fds[0].revents && i < AT_ONCE; i++)
		if (!let_in(h, file, arg))
			break;
}
