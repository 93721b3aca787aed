/* SPDX-License-Identifier: MIT */
/*
 * frames_script: inputs of the fuzz targets for the two ends of a link, and a second parser of
 * frames, independent of link_internal.h.
 *
 * An input is a sequence of steps: a kind, u8, a length, u16, and that number of bytes, or fewer
 * at the end of the input. Each target defines its kinds of steps. A target has one thread: the
 * threads of the tested code are not started, and their work is done in steps.
 */
#ifndef CK_FRAMES_SCRIPT_H
#define CK_FRAMES_SCRIPT_H

#include "dist/rpc/link_internal.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct step {
	uint8_t what;
	struct ck_str bytes;
};

static inline bool step_next(struct ck_cur *c, struct step *out)
{
	uint16_t len;

	return ck_cur_u8(c, &out->what) && ck_cur_u16(c, &len) &&
	       ck_cur_bytes(c, ck_min(len, ck_cur_left(c)), &out->bytes);
}

/* One sent frame, without its body. */
struct heard {
	struct ck_frame frame;
	struct ck_wire_head head;
	bool used; /* for use by the target */
};

/* Parses the next frame. Returns 1; 0 if it is incomplete; -1 if it is invalid. */
static inline int heard_next(struct ck_cur *c, struct heard *out)
{
	struct ck_cur at = *c;
	struct ck_str head;

	*out = (struct heard){ .used = false };
	if (!ck_cur_u32(&at, &out->frame.peer) ||
	    !ck_cur_u32(&at, &out->frame.kind) ||
	    !ck_cur_u64(&at, &out->frame.place) ||
	    !ck_cur_u64(&at, &out->frame.room))
		return 0;
	if (out->frame.kind == CK_FRAME_MESSAGE) {
		if (!ck_cur_bytes(&at, CK_WIRE_HEAD, &head))
			return 0;
		if (ck_wire_head_get((const uint8_t *)head.p, &out->head))
			return -1;
		if (!ck_cur_skip(&at, out->head.body))
			return 0;
	} else if (out->frame.kind != CK_FRAME_LOST &&
		   out->frame.kind != CK_FRAME_DROP) {
		return -1;
	}
	*c = at;
	return 1;
}

/* All bytes that one end has sent, and the position of its next unparsed frame. */
struct speech {
	struct ck_buf bytes;
	size_t at;
};

static inline void speech_send(struct speech *s, int sock, struct ck_str bytes)
{
	ssize_t n = 0;

	if (bytes.len)
		n = send(sock, bytes.p, bytes.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		ck_buf_add(&s->bytes, bytes.p, (size_t)n);
	if (s->bytes.err)
		abort();
}

static inline int speech_next(struct speech *s, struct heard *out)
{
	struct ck_cur c = ck_cur_make(s->bytes.data, s->bytes.len);
	int rc;

	if (s->at == s->bytes.len)
		return 0;
	if (!ck_cur_skip(&c, s->at))
		abort();
	rc = heard_next(&c, out);
	s->at = s->bytes.len - ck_cur_left(&c);
	return rc;
}

/* --- replaced functions (see meson.build) ---------------------------------------------- */

static int memory_fd = -1;

/* The shared memory of a link, filled with '.', as mapped by the other end. */
static inline uint8_t *memory_make(size_t size)
{
	uint8_t *p;

	memory_fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (memory_fd < 0 || ftruncate(memory_fd, (off_t)size))
		abort();
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
	if (p == MAP_FAILED)
		abort();
	memset(p, '.', size);
	return p;
}

int __wrap_ck_link_map(int memory, uint64_t size, uint8_t **out);
int __wrap_ck_thread_start(pthread_t *out, void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **value);

/* Stands for the memory of another link, which is not checked. */
enum { OTHER_MEMORY = -2 };

/* Maps less memory than a real link has, so that it is full soon and checked fast. */
int __wrap_ck_link_map(int memory, uint64_t size, uint8_t **out)
{
	bool other = memory == OTHER_MEMORY;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       other ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED,
		       other ? -1 : memory_fd, 0);

	if (p == MAP_FAILED)
		abort();
	*out = p;
	return 0;
}

int __wrap_ck_thread_start(pthread_t *out, void *(*run)(void *), void *arg)
{
	(void)out, (void)run, (void)arg;
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **value)
{
	(void)thread, (void)value;
	return 0;
}

static inline void sockets_make(int ends[static 2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		abort();
}

#endif
