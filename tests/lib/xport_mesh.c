/* SPDX-License-Identifier: MIT */
/*
 * xport_mesh: connects the sockets between all ranks, see xport_mesh.h. A rank connects to
 * all lower ranks and accepts connections from all higher ones.
 */
#include "xport_mesh.h"
#include "dist/rpc/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { RETRY_MSEC = 5 }; /* between attempts to connect to a lower rank */

/* An accepted connection whose rank is unknown yet. */
struct comer {
	int fd; /* -1: unused */
	size_t have;

	union {
		struct ck_mesh_hello hello;
		uint8_t bytes[sizeof(struct ck_mesh_hello)];
	};
};

struct mesh {
	uint32_t rank, size;
	uint32_t missing; /* ranks without a connection */
	int dirfd;
	int listener;
	int *fds;
	struct comer *comers;  /* size */
	struct pollfd *polled; /* those, and the listener */
};

/* --- sockets --------------------------------------------------------------------- */

/* The path leads through /proc, since directory names may exceed the limit of
 * addresses. */
static struct sockaddr_un address(const struct mesh *m, uint32_t rank)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%u",
		       m->dirfd, rank);
	return a;
}

static int make_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

static int start_listening(struct mesh *m)
{
	struct sockaddr_un a = address(m, m->rank);
	ck_auto_fd int fd = make_socket();

	if (fd < 0)
		return fd;
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)))
		return -errno;
	m->listener = fd;
	fd = -1;
	return listen(m->listener, (int)ck_min(m->size, SOMAXCONN)) ? -errno
								    : 0;
}

static void stop_listening(struct mesh *m)
{
	char name[16];

	if (m->listener < 0)
		return;
	(void)snprintf(name, sizeof(name), "%u", m->rank);
	(void)unlinkat(m->dirfd, name, 0);
	ck_fd_cleanup(&m->listener);
}

static void seat(struct mesh *m, uint32_t rank, int fd)
{
	m->fds[rank] = fd;
	m->missing--;
}

/* --- to lower ranks ------------------------------------------------------------------ */

static bool is_not_there_yet(int err)
{
	return err == ENOENT || err == ECONNREFUSED || err == EAGAIN ||
	       err == EINTR;
}

static bool say_hello(const struct mesh *m, int fd)
{
	const struct ck_mesh_hello hello = { CK_MESH_MAGIC, m->size, m->rank };

	return send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello);
}

/* Returns 0 also if the rank does not listen yet. */
static int try_rank(struct mesh *m, uint32_t rank)
{
	struct sockaddr_un a = address(m, rank);
	ck_auto_fd int fd = make_socket();

	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return is_not_there_yet(errno) ? 0 : -errno;
	if (!ck_sock_is_ours(fd))
		return -EPERM;
	if (!say_hello(m, fd))
		return 0;
	seat(m, rank, fd);
	fd = -1;
	return 0;
}

/* *left: number of lower ranks without a connection. */
static int try_lower(struct mesh *m, uint32_t *left)
{
	int rc = 0;

	*left = 0;
	for (uint32_t i = 0; i < m->rank && rc == 0; i++) {
		if (m->fds[i] < 0)
			rc = try_rank(m, i);
		*left += m->fds[i] < 0;
	}
	return rc;
}

/* --- from higher ranks ----------------------------------------------------------------- */

static struct comer *free_comer(struct mesh *m)
{
	for (uint32_t i = 0; i < m->size; i++)
		if (m->comers[i].fd < 0)
			return &m->comers[i];
	return NULL;
}

/* Accepts one connection if there is one; closes it if the user is another one. */
static int take_comer(struct mesh *m, struct comer *c)
{
	int fd = accept4(m->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 &&
	    (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
		return 0;
	if (fd < 0)
		return -errno;
	if (!ck_sock_is_ours(fd)) {
		ck_fd_cleanup(&fd);
		return 0;
	}
	*c = (struct comer){ .fd = fd };
	return 0;
}

static bool is_expected(const struct mesh *m, const struct ck_mesh_hello *h)
{
	return h->magic == CK_MESH_MAGIC && h->size == m->size &&
	       h->rank > m->rank && h->rank < m->size && m->fds[h->rank] < 0;
}

/* Receives the hello of a connection, and no byte after it. Closes the connection if the
 * hello is not the expected one. */
static void receive_hello(struct mesh *m, struct comer *c)
{
	ssize_t n = recv(c->fd, c->bytes + c->have, sizeof(c->bytes) - c->have,
			 MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	c->have += n > 0 ? (size_t)n : 0;
	if (n > 0 && c->have < sizeof(c->bytes))
		return;
	if (n > 0 && is_expected(m, &c->hello)) {
		seat(m, c->hello.rank, c->fd);
		c->fd = -1;
	}
	ck_fd_cleanup(&c->fd);
}

static int wait_for_comers(struct mesh *m, int msec)
{
	struct comer *room = free_comer(m);
	struct pollfd *last = &m->polled[m->size];

	for (uint32_t i = 0; i < m->size; i++)
		m->polled[i] = (struct pollfd){ .fd = m->comers[i].fd,
						.events = POLLIN };
	*last = (struct pollfd){ .fd = room ? m->listener : -1,
				 .events = POLLIN };
	if (poll(m->polled, m->size + 1, msec) < 0)
		return errno == EINTR ? 0 : -errno;
	for (uint32_t i = 0; i < m->size; i++)
		if (m->polled[i].revents)
			receive_hello(m, &m->comers[i]);
	return last->revents ? take_comer(m, room) : 0;
}

/* --- all ------------------------------------------------------------------------------- */

static int join(struct mesh *m, int msec)
{
	uint64_t now = ck_msec_now(),
		 end = now + (msec > 0 ? (uint64_t)msec : 0);

	for (;;) {
		uint64_t left = end - ck_min(now, end);
		uint32_t lower;
		int rc = try_lower(m, &lower);

		if (rc || !m->missing)
			return rc;
		rc = wait_for_comers(
			m, (int)(lower ? ck_min(left, RETRY_MSEC) : left));
		if (rc || !m->missing)
			return rc;
		if (!left)
			return -ETIMEDOUT;
		now = ck_msec_now();
	}
}

static int mesh_begin(struct mesh *m, const char *directory)
{
	m->comers = calloc(m->size, sizeof(*m->comers));
	m->polled = calloc((size_t)m->size + 1, sizeof(*m->polled));
	if (!m->comers || !m->polled)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->size; i++)
		m->comers[i].fd = -1;
	m->dirfd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (m->dirfd < 0)
		return -errno;
	return start_listening(m);
}

static void mesh_end(struct mesh *m)
{
	stop_listening(m);
	ck_fd_cleanup(&m->dirfd);
	for (uint32_t i = 0; m->comers && i < m->size; i++)
		ck_fd_cleanup(&m->comers[i].fd);
	free(m->comers);
	free(m->polled);
}

int ck_mesh_join(const char *directory, uint32_t rank, uint32_t size, int msec,
		 int *fds)
{
	struct mesh m = { .rank = rank,
			  .size = size,

			  .dirfd = -1,
			  .listener = -1,
			  .fds = fds };
	int rc;

	for (uint32_t i = 0; i < size; i++)
		fds[i] = -1;
	if (rank >= size)
		return -EINVAL;
	m.missing = size - 1;
	rc = mesh_begin(&m, directory);
	if (rc == 0)
		rc = join(&m, msec);
	mesh_end(&m);
	for (uint32_t i = 0; rc && i < size; i++)
		ck_fd_cleanup(&fds[i]);
	return rc;
}
