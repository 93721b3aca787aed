/* SPDX-License-Identifier: MIT */
/*
 * Passing of descriptors for tokens. Each client with a valid token gets the descriptor: with
 * many clients at once, beside clients that send no token, and after the process had no free
 * descriptors.
 */
#include "gpu/worker/fd_passing.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { MANY = 200, SILENT = CK_FD_PASSING_COMERS, LONG_MSEC = 60000 };

static const uint8_t right[CK_FD_PASSING_TOKEN] = "right";
static int file = -1; /* the descriptor of the valid token */
static unsigned turns;

static int file_of(void *arg, const uint8_t *token)
{
	(void)arg;
	return memcmp(token, right, sizeof(right)) == 0 ? file : -1;
}

/* Runs the server, as the worker process does, for msec milliseconds. */
static void serve(struct ck_fd_passing *h, uint32_t msec)
{
	uint64_t end = ck_msec_now() + msec;

	do {
		struct pollfd fds[CK_FD_PASSING_POLL];
		uint32_t usec = ck_fd_passing_wait(h);

		ck_fd_passing_fds(h, fds);
		(void)poll(fds, CK_FD_PASSING_POLL,
			   (int)ck_min(usec / 1000 + 1, 5));
		ck_fd_passing_serve(h, fds, file_of, NULL);
		turns++;
	} while (ck_msec_now() < end);
}

static int come(const struct ck_fd_passing *h)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			  0);
	size_t len = strlen(h->name);

	memcpy(at.sun_path + 1, h->name, len);
	if (sock < 0 ||
	    connect(sock, (struct sockaddr *)&at,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				len)))
		abort();
	return sock;
}

static void say(int sock, const uint8_t *token)
{
	(void)send(sock, token, CK_FD_PASSING_TOKEN, MSG_NOSIGNAL);
}

/* Returns 1 if the file was received, 0 if nothing yet, or -1 if the server hung up. */
static int heard(int sock)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .room = { 0 } };

	char byte;
	struct iovec v = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct stat got, wanted;
	int given;

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0 || !CMSG_FIRSTHDR(&m))
		return -1;
	memcpy(&given, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(given));
	if (fstat(given, &got) || fstat(file, &wanted))
		abort();
	close(given);
	return got.st_ino == wanted.st_ino && got.st_dev == wanted.st_dev ? 1
									  : -1;
}

/* Milliseconds until heard() returns `what`, or LONG_MSEC. */
static uint64_t until(struct ck_fd_passing *h, int sock, int what)
{
	uint64_t begun = ck_msec_now();
	int got = 0;

	while (got == 0 && ck_msec_now() - begun < LONG_MSEC) {
		serve(h, 0);
		got = heard(sock);
	}
	return got == what ? ck_msec_now() - begun : LONG_MSEC;
}

static void begin(struct ck_fd_passing *h)
{
	file = memfd_create("memory", MFD_CLOEXEC);
	if (file < 0 || ck_fd_passing_open(h))
		abort();
}

static void end(struct ck_fd_passing *h)
{
	ck_fd_passing_close(h);
	close(file);
}

static void test_one(void)
{
	static const uint8_t wrong[CK_FD_PASSING_TOKEN] = "wrong";
	struct ck_fd_passing h;
	int a, b;

	begin(&h);
	a = come(&h);
	b = come(&h);
	say(a, right);
	say(b, wrong);
	ok(until(&h, a, 1) < LONG_MSEC);
	ok(until(&h, b, -1) < LONG_MSEC);
	close(a);
	close(b);
	end(&h);
}

/* All clients connect before the first is served; half of them send their token at once. */
static void test_many(void)
{
	struct ck_fd_passing h;
	unsigned good = 0;
	int socks[MANY];

	begin(&h);
	for (unsigned i = 0; i < MANY; i++) {
		socks[i] = come(&h);
		if (i % 2)
			say(socks[i], right);
	}
	for (unsigned i = 0; i < MANY; i++) {
		serve(&h, 0);
		if (i % 2 == 0)
			say(socks[i], right);
	}
	for (unsigned i = 0; i < MANY; i++) {
		good += until(&h, socks[i], 1) < LONG_MSEC;
		close(socks[i]);
	}
	eq_u64(good, MANY);
	end(&h);
}

/* Silent clients occupy all places until they expire. */
static void test_silent(void)
{
	struct ck_fd_passing h;
	int silent[SILENT], sock;

	begin(&h);
	for (unsigned i = 0; i < SILENT; i++)
		silent[i] = come(&h);
	serve(&h, 20);
	sock = come(&h);
	say(sock, right);
	turns = 0;
	ok(until(&h, sock, 1) < LONG_MSEC);
	/* The server did not busy-poll meanwhile. */
	ok(turns < 1000);
	close(sock);
	/* A further silent client replaces the oldest one. */
	sock = come(&h);
	ok(until(&h, silent[0], -1) < LONG_MSEC);
	ok(heard(silent[SILENT - 1]) == 0);
	say(silent[SILENT - 1], right);
	ok(until(&h, silent[SILENT - 1], 1) < LONG_MSEC);
	for (unsigned i = 0; i < SILENT; i++)
		close(silent[i]);
	close(sock);
	end(&h);
}

static unsigned take_all(int *out, unsigned most)
{
	unsigned n = 0;

	while (n < most && (out[n] = fcntl(file, F_DUPFD_CLOEXEC, 0)) >= 0)
		n++;
	return n;
}

/* A client is refused at once, or served when descriptors are free again. */
static void test_no_descriptors(void)
{
	struct rlimit before, few = { .rlim_cur = 256, .rlim_max = 256 };
	struct ck_fd_passing h;
	int all[256], a, b;
	unsigned n;

	if (getrlimit(RLIMIT_NOFILE, &before))
		abort();
	few.rlim_max = before.rlim_max;
	begin(&h);
	a = come(&h);
	b = come(&h);
	if (setrlimit(RLIMIT_NOFILE, &few))
		abort();
	n = take_all(all, 256);
	say(a, right);
	ok(until(&h, a, -1) < LONG_MSEC);
	turns = 0;
	serve(&h, 300);
	ok(turns < 200);
	while (n)
		close(all[--n]);
	say(b, right);
	(void)until(&h, b, 1);
	if (setrlimit(RLIMIT_NOFILE, &before))
		abort();
	close(b);
	b = come(&h);
	say(b, right);
	ok(until(&h, b, 1) < LONG_MSEC);
	close(a);
	close(b);
	end(&h);
}

int main(void)
{
	test_one();
	test_many();
	test_silent();
	test_no_descriptors();
	return tap_done();
}
