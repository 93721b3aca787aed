/* SPDX-License-Identifier: MIT */
/*
 * protocol: see protocol.h. Headers of Linux before 6.9 lack the last fields of two replies,
 * which are accessed by their places.
 */
#include "protocol.h"
#include "../internal.h"
#include <linux/fuse.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	OPEN_PASSTHROUGH = 1 << 7, /* a flag of an open file */
	STACK_DEPTH_MOST = 1, /* a backing file is of no stacked file system */
};

/* What the next reply of this thread has. */
static _Thread_local struct {
	uint64_t capabilities;
	int backing;
} next;

void ck_protocol_request(uint64_t capabilities)
{
	next.capabilities = capabilities;
}

void ck_protocol_back(int id)
{
	next.backing = id;
}

static uint64_t capabilities_of(uint32_t flags, uint32_t flags2)
{
	return flags & FUSE_INIT_EXT ? flags | (uint64_t)flags2 << 32 : flags;
}

/* A request of this kernel, which sends the fields that follow the header. */
static ssize_t device_read(int fd, void *buf, size_t len, void *userdata)
{
	struct {
		struct fuse_in_header header;

		union {
			struct fuse_init_in init;
			struct fuse_create_in create;
		};
	} *request = buf;
	struct ck_fs *fs = userdata;
	ssize_t n = read(fd, buf, len);

	if (n < (ssize_t)sizeof(request->header))
		return n;
	switch (request->header.opcode) {
	case FUSE_INIT:
		fs->offered = capabilities_of(request->init.flags,
					      request->init.flags2);
		break;
	case FUSE_TMPFILE: /* has the fields of FUSE_CREATE, and so has its reply */
		request->header.opcode = FUSE_CREATE;
		request->create.flags |= O_TMPFILE;
		break;
	}
	return n;
}

static void field_set(void *reply, size_t at, uint32_t value)
{
	memcpy((char *)reply + at, &value, sizeof(value));
}

/* max_stack_depth follows flags2. */
static void init_complete(struct fuse_init_out *out)
{
	out->flags |= (uint32_t)next.capabilities;
	if (!(next.capabilities & CK_PROTOCOL_PASSTHROUGH))
		return;
	out->flags |= FUSE_INIT_EXT;
	out->flags2 |= (uint32_t)(next.capabilities >> 32);
	field_set(out, offsetof(struct fuse_init_out, flags2) + 4,
		  STACK_DEPTH_MOST);
}

/* The id is the last field. */
static void open_complete(struct fuse_open_out *out)
{
	out->open_flags |= OPEN_PASSTHROUGH;
	field_set(out, offsetof(struct fuse_open_out, open_flags) + 4,
		  (uint32_t)next.backing);
}

/* The reply is in a buffer of libfuse that it sends once. An error has a header only. */
static ssize_t device_writev(int fd, struct iovec *iov, int count,
			     void *userdata)
{
	struct iovec *last = iov + count - 1;
	char *end = (char *)last->iov_base + last->iov_len;

	(void)userdata;
	if (next.capabilities && count > 1 &&
	    last->iov_len == sizeof(struct fuse_init_out))
		init_complete(last->iov_base);
	if (next.backing && count > 1 &&
	    last->iov_len >= sizeof(struct fuse_open_out))
		open_complete((void *)(end - sizeof(struct fuse_open_out)));
	next.capabilities = 0;
	next.backing = 0;
	return writev(fd, iov, count);
}

int ck_protocol_begin(struct ck_fs *fs)
{
	const struct fuse_custom_io io = { .writev = device_writev,
					   .read = device_read };

	return fuse_session_custom_io(fs->session, &io,
				      fuse_session_fd(fs->session));
}
