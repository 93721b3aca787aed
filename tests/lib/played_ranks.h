/* SPDX-License-Identifier: MIT */
/*
 * played_ranks: this process simulates the ranks of a job for real processes of
 * rounds. It forwards their messages and serves files to them. A separate forker
 * forks each process, as if it ran on its own host.
 */
#ifndef CK_PLAYED_RANKS_H
#define CK_PLAYED_RANKS_H

#include "only_child.h"

#include "dist/launch/control_msg.h"
#include "dist/launch/rendezvous.h"
#include "dist/launch/subprocess.h"
#include "dist/round/no_rounds.h"
#include "dist/rpc/link_internal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	RANKS = 3,
	MEMORY = 64 << 20,   /* of a link */
	TIMEOUT_MSEC = 4000, /* of a round */
	BAD_FILE = 99,	     /* cannot be read */
};

static char *program; /* ckptfs */

/* One rank's end of the link to its process. */
struct rank {
	struct ck_frames frames; /* fd -1: no process */
	uint8_t *memory;
	struct ck_subprocess forker;
	int sock; /* to the forker; of the first rank: the link */
};

struct ranks {
	struct rank list[RANKS];
	int wake;
	pthread_t thread;
	/* Atomic: */
	bool over, cut[RANKS], mute;
	unsigned reads;
};

/* Byte i of a file. */
static inline uint8_t truth(uint32_t rank, uint32_t file, uint64_t i)
{
	return (uint8_t)((i * 2654435761U >> 7) + rank * 31 + file * 7 + i);
}

static inline void send_frame(struct rank *r, uint32_t peer,
			      enum ck_frame_kind kind,
			      const struct ck_wire_head *head,
			      struct ck_str body)
{
	const struct ck_frame frame = { .peer = peer, .kind = kind };

	if (r->frames.fd >= 0 && ck_frames_put(&r->frames, &frame, head, body))
		r->frames.fd = -1;
}

/* Packs the runs of a move. Returns the number of bytes. */
static inline uint64_t fill_move(uint32_t rank, const struct ck_copy_desc *m,
				 uint32_t loop, uint64_t fpos, uint8_t *to)
{
	uint64_t bytes = 0;

	if (loop == m->nloops) {
		for (uint64_t i = 0; i < m->run; i++)
			to[i] = truth(rank, m->file, fpos + i);
		return m->run;
	}
	for (uint64_t i = 0; i < m->loops[loop].count; i++)
		bytes += fill_move(rank, m, loop + 1,
				   fpos + i * m->loops[loop].src, to + bytes);
	return bytes;
}

/* A READ of one move, as cut.c makes it. */
static inline void answer_read(struct ranks *all, uint32_t rank,
			       const struct ck_framed *f)
{
	struct rank *r = &all->list[rank];
	struct ck_cur c = ck_cur_make(f->body.p, f->body.len);
	struct ck_loop loops[CK_MAX_DIMS] = { 0 };
	struct ck_copy_desc m = { .loops = loops };
	struct ck_wire_head head = f->head;
	struct ck_buf body = { 0 };
	uint32_t n, zero;

	if (!ck_cur_u32(&c, &n) || !ck_cur_u32(&c, &zero) || n != 1 ||
	    !ck_cur_u32(&c, &m.file) || !ck_cur_u32(&c, &m.nloops) ||
	    !ck_cur_u64(&c, &m.fpos) || !ck_cur_u64(&c, &m.run))
		abort();
	for (uint32_t k = 0; k < m.nloops; k++)
		if (!ck_cur_u64(&c, &loops[k].count) ||
		    !ck_cur_u64(&c, &loops[k].src))
			abort();
	head.answer = true;
	head.payload = fill_move(rank, &m, 0, m.fpos,
				 r->memory + f->frame.place);
	if (head.payload > f->frame.room)
		abort();
	ck_buf_u64(&body, head.payload);
	ck_buf_u32(&body, m.file == BAD_FILE ? EIO : 0);
	head.body = (uint32_t)body.len;
	__atomic_fetch_add(&all->reads, 1, __ATOMIC_RELAXED);
	send_frame(r, rank, CK_FRAME_MESSAGE, &head,
		   (struct ck_str){ body.data, body.len });
	ck_buf_fini(&body);
}

static inline void carry(struct ranks *all, uint32_t from,
			 const struct ck_framed *f)
{
	uint32_t to = f->frame.peer;

	if (f->head.type == CK_WIRE_ROUND && ck_no_rounds_is(f->body))
		return; /* the reason why it does not participate */
	if (f->frame.kind != CK_FRAME_MESSAGE || to >= RANKS)
		abort();
	if (f->head.type == CK_WIRE_READ && to == from)
		answer_read(all, from, f);
	else if (f->head.type == CK_WIRE_ROUND && to != from)
		send_frame(&all->list[to], from, CK_FRAME_MESSAGE, &f->head,
			   f->body);
	else
		abort();
}

/* The process of a rank is gone: informs all other ranks. */
static inline void lose(struct ranks *all, uint32_t rank)
{
	all->list[rank].frames.fd = -1;
	for (uint32_t i = 0; i < RANKS; i++)
		if (i != rank)
			send_frame(&all->list[i], rank, CK_FRAME_LOST, NULL,
				   CK_STR(""));
}

static inline void hear(struct ranks *all, uint32_t rank)
{
	struct rank *r = &all->list[rank];
	struct ck_framed f;
	int fd = r->frames.fd, rc, next = 0;

	if (fd < 0)
		return;
	rc = ck_frames_read(&r->frames);
	while (r->frames.fd >= 0 && (next = ck_frames_next(&r->frames, &f)) > 0)
		if (!__atomic_load_n(&all->mute, __ATOMIC_RELAXED))
			carry(all, rank, &f);
	if (rc || next < 0 ||
	    __atomic_load_n(&all->cut[rank], __ATOMIC_RELAXED)) {
		lose(all, rank);
		close(fd);
	} else if (r->frames.fd < 0) {
		close(fd);
	}
}

static inline void *carry_all(void *arg)
{
	struct ranks *all = arg;
	struct pollfd fds[RANKS + 1];

	while (!__atomic_load_n(&all->over, __ATOMIC_ACQUIRE)) {
		for (uint32_t i = 0; i < RANKS; i++) {
			struct rank *r = &all->list[i];

			fds[i] = (struct pollfd){ .fd = r->frames.fd,
						  .events = POLLIN };
			if (r->frames.fd >= 0 && ck_frames_waiting(&r->frames))
				fds[i].events |= POLLOUT;
		}
		fds[RANKS] = (struct pollfd){ .fd = all->wake,
					      .events = POLLIN };
		if (poll(fds, RANKS + 1, 20) < 0)
			continue;
		for (uint32_t i = 0; i < RANKS; i++) {
			if (all->list[i].frames.fd >= 0)
				(void)!ck_frames_flush(&all->list[i].frames);
			hear(all, i);
		}
	}
	return NULL;
}

static inline void say_job(struct rank *r, uint32_t rank)
{
	const struct ck_frame frame = { .peer = rank,
					.kind = CK_FRAME_JOB,
					.place = RANKS,
					.room = TIMEOUT_MSEC };

	if (ck_frames_put(&r->frames, &frame, NULL, CK_STR("")))
		abort();
}

/* standin: options of the fake driver. Every rank is on its own host. */
static inline void forker_start(struct rank *r, uint32_t rank,
				const char *standin)
{
	static char serve[] = "serve", gpus[] = "--gpus", zero[] = "0";
	char *words[] = { program, serve, gpus, zero, NULL };
	char host[16];

	(void)snprintf(host, sizeof(host), "host%u", rank);
	setenv("NCCL_HOSTID", host, 1);
	setenv("NCCL_SOCKET_IFNAME", "lo", 1);
	setenv("CKPTFS_STANDIN", standin, 1);
	if (ck_control_msg_job(words, &r->sock, &r->forker))
		abort();
}

/* Creates the link of a rank; the other end belongs to its process. */
static inline void rank_begin(struct rank *r, uint32_t rank,
			      struct ck_rendezvous_link *other)
{
	struct ck_rendezvous_link one;

	if (ck_rendezvous_pair(MEMORY, &one, other) ||
	    ck_link_map(one.memory, one.size, &r->memory))
		abort();
	close(one.memory);
	r->frames = (struct ck_frames){ .fd = one.sock };
	say_job(r, rank);
}

static inline void process_begin(struct rank *r, uint32_t rank)
{
	struct ck_rendezvous_link other;
	struct ck_control_msg note = { .kind = CK_CONTROL_MSG_ROUNDS,
				       .files = CK_CONTROL_MSG_NO_FILES };

	rank_begin(r, rank, &other);
	note.size = other.size;
	note.files[0] = other.sock;
	note.files[1] = other.memory;
	note.files[2] = -1;
	if (ck_control_msg_send(r->sock, &note, true))
		abort();
	close(other.sock);
	close(other.memory);
}

static inline pid_t process_of(const struct rank *r)
{
	return only_child(r->forker.process);
}

#endif
