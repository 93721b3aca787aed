/* SPDX-License-Identifier: MIT */
/* door: see door.h. */
#include "ckptfs/door.h"
#include "ckptfs/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	ANSWER_SECONDS = 10
}; /* that who comes in waits for what it is handed */

/* What the mount says to who comes in; the memory goes with it. */
struct welcome {
	uint32_t magic, version;
	uint64_t size;
};

enum { MAGIC = 0x64706b63 }; /* "ckpd" */

static struct sockaddr_un address(const char *name, socklen_t *len)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	/* The first byte of the path is NUL: it is in no directory. */
	(void)snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "%s", name);
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   strlen(a.sun_path + 1));
	return a;
}

static bool is_same_user(int fd)
{
	struct ucred other;
	socklen_t len = sizeof(other);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &len) == 0 &&
	       other.uid == geteuid();
}

/* --- the mount ---------------------------------------------------------------------- */

static int make_name(char name[static CK_DOOR_NAME])
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	(void)snprintf(name, CK_DOOR_NAME, "ckptfs-%016llx%016llx",
		       (unsigned long long)random[0],
		       (unsigned long long)random[1]);
	return 0;
}

int ck_door_open(struct ck_door *door)
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

void ck_door_close(struct ck_door *door)
{
	ck_fd_cleanup(&door->listener);
}

/* Nobody can make it smaller under the other's eyes, which would be a SIGBUS. */
static int make_memory(uint64_t size)
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

static int welcome(int sock, int memory, uint64_t size)
{
	const struct welcome w = { MAGIC, CK_WIRE_VERSION, size };
	struct iovec piece = { (void *)(uintptr_t)&w, sizeof(w) };

	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };

	struct msghdr m = { .msg_iov = &piece,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control.bytes) };

	memcpy(CMSG_DATA(&control.head), &memory, sizeof(memory));
	if (sendmsg(sock, &m, MSG_NOSIGNAL) != sizeof(w))
		return errno ? -errno : -EIO;
	return 0;
}

/* 1: somebody has come in. 0: he was a stranger. */
static int let_in(const struct ck_door *door, uint64_t size,
		  struct ck_door_way *out)
{
	ck_auto_fd int sock = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC);
	ck_auto_fd int memory = -1;
	int rc;

	if (sock < 0)
		return -errno;
	if (!is_same_user(sock))
		return 0;
	memory = make_memory(size);
	rc = memory < 0 ? memory : welcome(sock, memory, size);
	if (rc)
		return rc;
	*out = (struct ck_door_way){ sock, memory, size };
	sock = memory = -1;
	return 1;
}

int ck_door_wait(const struct ck_door *door, uint64_t size, int ended, int msec,
		 struct ck_door_way *out)
{
	uint64_t end = ck_msec_now() + (uint64_t)msec;
	int rc = 0;

	while (rc == 0) {
		struct pollfd fds[] = { { .fd = door->listener,
					  .events = POLLIN },
					{ .fd = ended, .events = POLLIN } };
		uint64_t now = ck_msec_now();

		if (now >= end)
			return -ETIMEDOUT;
		if (poll(fds, 2, (int)(end - now)) < 0 && errno != EINTR)
			return -errno;
		if (fds[0].revents)
			rc = let_in(door, size, out);
		else if (fds[1].revents)
			return -ECHILD;
	}
	return rc < 0 ? rc : 0;
}

/* --- the mover ------------------------------------------------------------------------- */

/* The descriptor that came with a message; -1: none. */
static int handed(struct msghdr *m)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static int hear_welcome(int sock, struct ck_door_way *out)
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
			    .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL);

	if (n < 0)
		return -errno;
	out->memory = handed(&m);
	out->size = w.size;
	if (n == sizeof(w) && w.magic == MAGIC &&
	    w.version == CK_WIRE_VERSION && out->memory >= 0)
		return 0;
	ck_fd_cleanup(&out->memory);
	return -EPROTO;
}

int ck_door_enter(const char *name, struct ck_door_way *out)
{
	const struct timeval most = { .tv_sec = ANSWER_SECONDS };
	const struct timeval ever = { 0 };
	ck_auto_fd int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;
	socklen_t len;
	int rc;

	if (sock < 0)
		return -errno;
	a = address(name, &len);
	if (connect(sock, (struct sockaddr *)&a, len) ||
	    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)))
		return -errno;
	if (!is_same_user(sock))
		return -EPERM;
	rc = hear_welcome(sock, out);
	if (rc)
		return rc;
	(void)setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &ever, sizeof(ever));
	out->sock = sock;
	sock = -1;
	return 0;
}
