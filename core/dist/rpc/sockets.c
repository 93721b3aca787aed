/* SPDX-License-Identifier: MIT */
/* sockets: SO_PEERCRED and SCM_RIGHTS of UNIX sockets. No state, any thread. */
#include "sockets.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

bool ck_sock_user(int sock, uid_t *out)
{
	struct ucred other;
	socklen_t len = sizeof(other);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &other, &len))
		return false;
	*out = other.uid;
	return true;
}

bool ck_sock_is_ours(int sock)
{
	uid_t user;

	return ck_sock_user(sock, &user) && user == geteuid();
}

int ck_sock_send_file(int sock, const void *data, size_t len, int file,
		      int flags)
{
	struct iovec piece = { (void *)(uintptr_t)data, len };

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
	ssize_t n;

	memcpy(CMSG_DATA(&control.head), &file, sizeof(file));
	n = sendmsg(sock, &m, MSG_NOSIGNAL | flags);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}
