/* SPDX-License-Identifier: MIT */
/*
 * gpuwire: layout of a slot, sending and receiving. No state. Messages are
 * atomic: several threads may send on one socket.
 */
#include "gpuwire.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

static size_t paged(size_t size)
{
	enum { PAGE = 4096 };

	return (size + PAGE - 1) / PAGE * PAGE;
}

static size_t loops_at(void)
{
	return 2UL * CK_GPU_ROOM +
	       CK_GPU_COPIES * sizeof(struct ck_gather_desc);
}

static size_t wants_at(void)
{
	return loops_at() + CK_GPU_LOOPS * sizeof(struct ck_loop);
}

size_t ck_gpu_slot_size(void)
{
	return paged(wants_at() + CK_GPU_WANTS);
}

void ck_gpu_slot_at(uint8_t *memory, uint32_t slot, struct ck_gather_slot *out)
{
	uint8_t *at = memory + slot * ck_gpu_slot_size();

	*out = (struct ck_gather_slot){
		.fill = at,
		.result = at + CK_GPU_ROOM,
		.copies = (void *)(at + 2UL * CK_GPU_ROOM),
		.loops = (void *)(at + loops_at()),
		.wants = at + wants_at(),
		.wants_most = CK_GPU_WANTS,
		.room = CK_GPU_ROOM,
		.copies_most = CK_GPU_COPIES,
		.loops_most = CK_GPU_LOOPS,
	};
}

int ck_gpu_send(int sock, const struct ck_gpu_message *m, bool wait)
{
	size_t len = offsetof(struct ck_gpu_message, text);
	ssize_t n;

	if (*m->text)
		len = sizeof(*m);
	do
		n = send(sock, m, len,
			 MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Buffer for descriptors attached to a message. */
union files {
	char bytes[CMSG_SPACE(CK_GPU_FILES * sizeof(int))];
	struct cmsghdr head;
};

int ck_gpu_send_files(int sock, const struct ck_gpu_message *m,
		      const int files[static CK_GPU_FILES])
{
	size_t bytes = CK_GPU_FILES * sizeof(files[0]);
	struct iovec piece = { (void *)(uintptr_t)m,
			       offsetof(struct ck_gpu_message, text) };
	union files control = { .head = { .cmsg_len = CMSG_LEN(bytes),
					  .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS } };
	const struct msghdr head = { .msg_iov = &piece,
				     .msg_iovlen = 1,
				     .msg_control = &control,
				     .msg_controllen = sizeof(control.bytes) };
	ssize_t n;

	memcpy(CMSG_DATA(&control.head), files, bytes);
	do
		n = sendmsg(sock, &head, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Takes one or two attached descriptors; unset ones are -1. The kernel discards
 * those that exceed the buffer. */
static void take_files(struct msghdr *head, int *files)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(head);
	size_t bytes = CK_GPU_FILES * sizeof(files[0]);

	for (int i = 0; i < CK_GPU_FILES; i++)
		files[i] = -1;
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return;
	if (c->cmsg_len == CMSG_LEN(bytes))
		memcpy(files, CMSG_DATA(c), bytes);
	else if (c->cmsg_len == CMSG_LEN(sizeof(files[0])))
		memcpy(files, CMSG_DATA(c), sizeof(files[0]));
}

int ck_gpu_take(int sock, struct ck_gpu_message *out, int *files)
{
	size_t least = offsetof(struct ck_gpu_message, text);
	struct iovec piece = { out, sizeof(*out) };
	union files control = { .bytes = { 0 } };
	struct msghdr head = { .msg_iov = &piece, .msg_iovlen = 1 };
	ssize_t n;

	if (files) {
		head.msg_control = &control;
		head.msg_controllen = sizeof(control.bytes);
	}
	do
		n = recvmsg(sock, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (files)
		take_files(&head, files);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	if (n == 0)
		return -EPIPE;
	if ((size_t)n == least)
		out->text[0] = '\0';
	else if ((size_t)n != sizeof(*out))
		return -EPROTO;
	out->text[CK_GPU_TEXT - 1] = '\0';
	return 0;
}
