/* SPDX-License-Identifier: MIT */
/*
 * control_msg: sends and receives one control message per call over a
 * SOCK_SEQPACKET socket, with its descriptors in SCM_RIGHTS. No state beyond
 * the socket; any thread, one at a time for each socket.
 */
#include "control_msg.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

struct head {
	uint32_t kind, err;
	uint64_t size;
};

union control {
	char bytes[CMSG_SPACE(CK_CONTROL_MSG_FILES * sizeof(int))];
	struct cmsghdr head;
};

int ck_control_msg_sockets(int ends[static 2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)
		       ? -errno
		       : 0;
}

int ck_control_msg_job(char *const words[], int *sock,
		       struct ck_subprocess *out)
{
	int ends[2], rc = ck_control_msg_sockets(ends);

	if (rc)
		return rc;
	rc = ck_subprocess_start_beside(words, &ends[1], 1, out);
	close(ends[1]);
	if (rc)
		close(ends[0]);
	else
		*sock = ends[0];
	return rc;
}

static void put_files(struct msghdr *m, union control *control,
		      const struct ck_control_msg *n)
{
	size_t files = 0;

	while (files < CK_CONTROL_MSG_FILES && n->files[files] >= 0)
		files++;
	if (files == 0)
		return;
	m->msg_control = control;
	m->msg_controllen = CMSG_SPACE(files * sizeof(int));
	control->head =
		(struct cmsghdr){ .cmsg_len = CMSG_LEN(files * sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control->head), n->files, files * sizeof(int));
}

int ck_control_msg_send(int sock, const struct ck_control_msg *n, bool wait)
{
	struct head head = { n->kind, n->err, n->size };
	struct iovec pieces[] = { { &head, sizeof(head) },
				  { (void *)(uintptr_t)n->bytes.p,
				    n->bytes.len } };
	struct msghdr m = { .msg_iov = pieces, .msg_iovlen = 2 };
	union control control = { 0 };
	ssize_t rc;

	put_files(&m, &control, n);
	do
		rc = sendmsg(sock, &m,
			     MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : 0;
}

static void take_files(struct msghdr *m, struct ck_control_msg *out)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(m);

	for (size_t i = 0; i < CK_CONTROL_MSG_FILES; i++)
		out->files[i] = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len <= CMSG_LEN(sizeof(out->files)))
		memcpy(out->files, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
}

void ck_control_msg_close(struct ck_control_msg *n)
{
	for (size_t i = 0; i < CK_CONTROL_MSG_FILES; i++)
		ck_fd_cleanup(&n->files[i]);
}

int ck_control_msg_take(int sock, struct ck_control_msg *out, char *room)
{
	struct head head;
	struct iovec pieces[] = { { &head, sizeof(head) },
				  { room, CK_CONTROL_MSG_MOST } };
	union control control = { 0 };
	struct msghdr m = { .msg_iov = pieces,
			    .msg_iovlen = 2,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control.bytes) };
	ssize_t n;

	do
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	take_files(&m, out);
	if ((size_t)n < sizeof(head) ||
	    m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		ck_control_msg_close(out);
		return -EPROTO;
	}
	out->kind = (enum ck_control_msg_kind)head.kind;
	out->err = head.err;
	out->size = head.size;
	out->bytes = (struct ck_str){ room, (size_t)n - sizeof(head) };
	return 0;
}
