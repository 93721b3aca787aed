/* SPDX-License-Identifier: MIT */
/*
 * rendezvous: both ends. The mount accepts up to COMERS_MOST connections at a
 * time. A connection is accepted, then authenticated, then it receives the
 * link; the first authenticated one ends the wait. The serving process
 * connects, sends the second part of the name, and checks the third in the
 * reply. Each end runs in the calling thread.
 */
#include "rendezvous.h"
#include "dist/proto/wire.h"
#include "dist/rpc/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Seconds that ck_rendezvous_enter() waits for the mount; tests shorten it. */
#ifndef CK_RENDEZVOUS_SECONDS
#define CK_RENDEZVOUS_SECONDS 10
#endif

enum {
	PART = 16,	 /* characters of a part of a name */
	PREFIX = 7,	 /* characters before the first part */
	COMERS_MOST = 8, /* connections without authentication */
};

/* A name has three parts of PART characters. The first is the socket's address,
 * which every process of the network namespace reads in /proc/net/unix. Root of
 * a container counts as the same user there. So the serving process must send
 * the second part, and the mount the third one: only processes that know the
 * whole name have them. */
static const char prefix[] = "ckptfs-";

/* The mount's reply; the descriptor of the memory is attached. */
struct welcome {
	uint32_t magic, version;
	uint64_t size;
	char answer[PART]; /* the third part of the name */
};

enum { MAGIC = 0x64706b63 }; /* "ckpd" */

static const char *knock_of(const char *name)
{
	return name + PREFIX + PART;
}

static const char *answer_of(const char *name)
{
	return knock_of(name) + PART;
}

static struct sockaddr_un address(const char *name, socklen_t *len)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	/* The first byte of the path is NUL: an abstract address. */
	memcpy(a.sun_path + 1, name, PREFIX + PART);
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + PREFIX +
			   PART);
	return a;
}

/* --- the mount ------------------------------------------------------------ */

static int make_name(char name[static CK_RENDEZVOUS_NAME])
{
	uint64_t random[3];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	(void)snprintf(name, CK_RENDEZVOUS_NAME, "%s%016llx%016llx%016llx",
		       prefix, (unsigned long long)random[0],
		       (unsigned long long)random[1],
		       (unsigned long long)random[2]);
	return 0;
}

int ck_rendezvous_open(struct ck_rendezvous *door)
{
	struct sockaddr_un a;
	socklen_t len;
	int rc = make_name(door->name);

	if (rc)
		return rc;
	a = address(door->name, &len);
	door->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (door->listener < 0)
		return -errno;
	if (bind(door->listener, (struct sockaddr *)&a, len) == 0 &&
	    listen(door->listener, 4) == 0)
		return 0;
	rc = -errno;
	ck_fd_cleanup(&door->listener);
	return rc;
}

void ck_rendezvous_close(struct ck_rendezvous *door)
{
	ck_fd_cleanup(&door->listener);
}

/* Sealed: if one process could shrink the memory, the other would get a
 * SIGBUS. */
int ck_rendezvous_memory(uint64_t size)
{
	ck_auto_fd int fd = memfd_create("ckptfs",
					 MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int out;

	if (fd < 0 || ftruncate(fd, (off_t)size) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	out = fd;
	fd = -1;
	return out;
}

int ck_rendezvous_pair(uint64_t size, struct ck_rendezvous_link *one,
		       struct ck_rendezvous_link *other)
{
	int ends[2], memory = ck_rendezvous_memory(size), again;

	if (memory < 0)
		return memory;
	again = fcntl(memory, F_DUPFD_CLOEXEC, 0);
	if (again < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
		int rc = -errno;

		close(memory);
		ck_fd_cleanup(&again);
		return rc;
	}
	*one = (struct ck_rendezvous_link){ ends[0], memory, size };
	*other = (struct ck_rendezvous_link){ ends[1], again, size };
	return 0;
}

static int welcome(const char *name, int sock, int memory, uint64_t size)
{
	struct welcome w = { MAGIC, CK_WIRE_VERSION, size, { 0 } };

	memcpy(w.answer, answer_of(name), sizeof(w.answer));
	return ck_sock_send_file(sock, &w, sizeof(w), memory, 0);
}

/* Sends the link to a connection. Returns 1, and takes *sock; 0 if the peer has
 * closed the connection; else an error. */
static int hand_over(const struct ck_rendezvous *door, uint64_t size, int *sock,
		     struct ck_rendezvous_link *out)
{
	ck_auto_fd int memory = ck_rendezvous_memory(size);
	int rc;

	if (memory < 0)
		return memory;
	rc = welcome(door->name, *sock, memory, size);
	if (rc)
		return rc == -EPIPE || rc == -ECONNRESET ? 0 : rc;
	*out = (struct ck_rendezvous_link){ *sock, memory, size };
	*sock = memory = -1;
	return 1;
}

/* The accepted connections. */
struct comers {
	struct pollfd *polled; /* COMERS_MOST; fd -1: unused */
	size_t next;	       /* the one to replace by the next */
};

/* Accepts a connection of the same user. If all entries are in use, it replaces
 * the oldest one, so that idle connections do not block others. */
static int let_near(const struct ck_rendezvous *door, struct comers *c)
{
	ck_auto_fd int sock = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC);

	if (sock < 0)
		return errno == ECONNABORTED || errno == EINTR ? 0 : -errno;
	if (!ck_sock_is_ours(sock))
		return 0;
	ck_fd_cleanup(&c->polled[c->next].fd);
	c->polled[c->next] = (struct pollfd){ .fd = sock, .events = POLLIN };
	c->next = (c->next + 1) % COMERS_MOST;
	sock = -1;
	return 0;
}

/* Returns true if the connection has sent the second part of the name, in one
 * piece. */
static bool knocks(const struct ck_rendezvous *door, int sock)
{
	char said[PART];

	return recv(sock, said, PART, MSG_DONTWAIT) == PART &&
	       memcmp(said, knock_of(door->name), PART) == 0;
}

/* Returns hand_over() for the first connection that authenticates; closes those
 * that send anything else. */
static int let_in(const struct ck_rendezvous *door, uint64_t size,
		  struct comers *c, struct ck_rendezvous_link *out)
{
	int rc = 0;

	for (size_t i = 0; i < COMERS_MOST && rc == 0; i++) {
		struct pollfd *p = &c->polled[i];

		if (p->fd < 0 || !p->revents)
			continue;
		if (knocks(door, p->fd))
			rc = hand_over(door, size, &p->fd, out);
		ck_fd_cleanup(&p->fd);
	}
	return rc;
}

/* Returns 1 if the link was sent; 0 if nothing has happened; else an error. */
static int wait_once(const struct ck_rendezvous *door, uint64_t size,
		     struct pollfd fds[static 2 + COMERS_MOST],
		     struct comers *c, int msec, struct ck_rendezvous_link *out)
{
	int n = poll(fds, 2 + COMERS_MOST, msec), rc;

	if (n <= 0)
		return n == 0 || errno == EINTR ? 0 : -errno;
	rc = let_in(door, size, c, out);
	if (rc == 0 && fds[0].revents)
		return let_near(door, c);
	if (rc == 0 && n == 1 && fds[1].revents)
		return -ECHILD;
	return rc;
}

int ck_rendezvous_wait(const struct ck_rendezvous *door, uint64_t size,
		       int ended, int msec, struct ck_rendezvous_link *out)
{
	uint64_t end = ck_msec_now() + (uint64_t)msec, now;
	struct pollfd fds[2 + COMERS_MOST] = {
		{ .fd = door->listener, .events = POLLIN },
		{ .fd = ended, .events = POLLIN }
	};
	struct comers c = { .polled = fds + 2 };
	int rc = 0;

	for (size_t i = 0; i < COMERS_MOST; i++)
		c.polled[i].fd = -1;
	while (rc == 0 && (now = ck_msec_now()) < end)
		rc = wait_once(door, size, fds, &c, (int)(end - now), out);
	for (size_t i = 0; i < COMERS_MOST; i++)
		ck_fd_cleanup(&c.polled[i].fd);
	if (rc == 0)
		return -ETIMEDOUT;
	return rc < 0 ? rc : 0;
}

/* --- the serving process -------------------------------------------------- */

/* The descriptor of a message; -1 without one. The buffer has room for one; the
 * kernel drops further ones and sets MSG_CTRUNC. */
static int handed(struct msghdr *m)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* Returns true if the size is fixed by a seal; otherwise an access may be a
 * SIGBUS. */
static bool is_memory(int fd, uint64_t size)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK && fstat(fd, &st) == 0 &&
	       (uint64_t)st.st_size == size;
}

static int check_welcome(const struct welcome *w, const char *name,
			 const struct ck_rendezvous_link *link_fds)
{
	if (w->magic != MAGIC || w->version != CK_WIRE_VERSION ||
	    link_fds->memory < 0)
		return -EPROTO;
	if (memcmp(w->answer, answer_of(name), PART) != 0)
		return -EPERM;
	return is_memory(link_fds->memory, w->size) ? 0 : -EPROTO;
}

static int hear_welcome(int sock, const char *name,
			struct ck_rendezvous_link *out)
{
	struct welcome w = { 0 };
	struct iovec piece = { &w, sizeof(w) };

	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control = { 0 };

	struct msghdr m = { .msg_iov = &piece,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = CMSG_LEN(sizeof(int)) };
	ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL);
	int rc = -EPROTO;

	if (n < 0)
		return -errno;
	out->memory = handed(&m);
	out->size = w.size;
	if (n == sizeof(w) && !(m.msg_flags & MSG_CTRUNC))
		rc = check_welcome(&w, name, out);
	if (rc)
		ck_fd_cleanup(&out->memory);
	return rc;
}

/* Connects and authenticates. If the backlog of the listener is full,
 * connect(2) fails with EAGAIN after the timeout. */
static int come_near(int sock, const char *name)
{
	const struct timeval most = { .tv_sec = CK_RENDEZVOUS_SECONDS };
	struct sockaddr_un a;
	socklen_t len;

	a = address(name, &len);
	if (setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)) ||
	    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)))
		return -errno;
	if (connect(sock, (struct sockaddr *)&a, len))
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (!ck_sock_is_ours(sock))
		return -EPERM;
	if (send(sock, knock_of(name), PART, MSG_NOSIGNAL) != PART)
		return -EPIPE;
	return 0;
}

int ck_rendezvous_enter(const char *name, struct ck_rendezvous_link *out)
{
	const struct timeval ever = { 0 };
	ck_auto_fd int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc;

	if (sock < 0)
		return -errno;
	if (strlen(name) != CK_RENDEZVOUS_NAME - 1)
		return -EINVAL;
	rc = come_near(sock, name);
	if (rc == 0)
		rc = hear_welcome(sock, name, out);
	if (rc)
		return rc == -EAGAIN ? -ETIMEDOUT : rc;
	(void)setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &ever, sizeof(ever));
	(void)setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &ever, sizeof(ever));
	out->sock = sock;
	sock = -1;
	return 0;
}
