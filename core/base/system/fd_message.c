/* SPDX-License-Identifier: MIT */
/* fd_message: see fd_message.h. */
#include "fd_message.h"
#include <errno.h>
#include <sys/socket.h>

/* Room for the descriptors of a message. */
union control {
	char bytes[CMSG_SPACE(CK_MESSAGE_FDS * sizeof(int))];
	struct cmsghdr header;
};

int ck_message_send(int socket, const void *bytes, size_t len, const int *fds,
		    size_t n)
{
	struct iovec part = { (void *)(uintptr_t)bytes, len };
	union control control = { .header = { .cmsg_len = CMSG_LEN(
						      n * sizeof(*fds)),
					      .cmsg_level = SOL_SOCKET,
					      .cmsg_type = SCM_RIGHTS } };
	struct msghdr m = { .msg_iov = &part,
			    .msg_iovlen = 1,
			    .msg_control = control.bytes,
			    .msg_controllen = n ? CMSG_SPACE(n * sizeof(*fds))
						: 0 };
	ssize_t sent;

	if (n > 0)
		memcpy(CMSG_DATA(&control.header), fds, n * sizeof(*fds));
	do
		sent = sendmsg(socket, &m, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

int ck_message_receive(int socket, void *bytes, size_t len, int *fds, size_t n)
{
	struct iovec part = { bytes, len };
	union control control = { 0 };
	struct msghdr m = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		/* without padding, which has room for another one */
		.msg_controllen = CMSG_LEN(n * sizeof(*fds))
	};
	struct cmsghdr *c;
	ssize_t got;

	for (size_t i = 0; i < n; i++)
		fds[i] = -1;
	do
		got = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(c),
		       ck_min(c->cmsg_len - CMSG_LEN(0), n * sizeof(*fds)));
	if (got == 0)
		return -EPIPE;
	return (size_t)got == len && !(m.msg_flags & MSG_TRUNC) ? 0 : -EBADMSG;
}
