/* SPDX-License-Identifier: MIT */
/*
 * raw_ranks: a serving rank 0 in a thread. The other ranks, and the mount's end of
 * its link, are plain sockets of the test.
 */
#ifndef CK_RAW_RANKS_H
#define CK_RAW_RANKS_H

#include "serve_case.h"
#include "wire_case.h"
#include "xport_case.h"
#include "xport_local.h"
#include "xport_mesh.h"

enum { RAW_RANKS = 3, RAW_MEMORY = 72 << 20 };

struct raw_ranks {
	char directory[64];
	struct ck_serve_options serve; /* memory_most, threads: set before */
	int link;		       /* the end of the test, or -1 */
	int rounds; /* the same of the process of rounds; -1: no process */
	int memory;
	int fds[RAW_RANKS]; /* of all ranks but 0 */
	pthread_t thread;
	int rc; /* of it */
};

static inline void *raw_ranks_run(void *arg)
{
	struct raw_ranks *r = arg;

	if (ck_transport_local(r->directory, 0, RAW_RANKS, 60000,
			       &r->serve.xport))
		abort();
	r->serve.owner = owner_make();
	r->rc = ck_serve_run(&r->serve);
	ck_file_server_free(r->serve.owner);
	close(r->serve.link);
	ck_fd_cleanup(&r->serve.rounds.link);
	return NULL;
}

/* Adds a link of the process of rounds, and its memory if the options have a
 * size. */
static inline void raw_ranks_add_rounds(struct raw_ranks *r)
{
	struct ck_serve_rounds *rounds = &r->serve.rounds;
	int ends[2] = { -1, -1 };

	if (rounds->size &&
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		abort();
	r->rounds = ends[0];
	rounds->link = ends[1];
	rounds->memory = rounds->size ? memory_make(rounds->size) : -1;
}

/* Sets the transport and the descriptors of links in the given options. */
static inline void raw_ranks_begin_with(struct raw_ranks *r,
					struct ck_serve_options options)
{
	const struct timeval patience = { 120, 0 };
	int ends[2];

	*r = (struct raw_ranks){ 0 };
	memset(&taken, 0, sizeof(taken));
	xport_directory(r->directory);
	r->memory = memory_make(RAW_MEMORY);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		abort();
	r->link = ends[0];
	r->serve = options;
	r->serve.link = ends[1];
	r->serve.memory = r->memory;
	r->serve.size = RAW_MEMORY;
	raw_ranks_add_rounds(r);
	if (pthread_create(&r->thread, NULL, raw_ranks_run, r))
		abort();
	for (uint32_t i = 1; i < RAW_RANKS; i++) {
		const struct ck_mesh_hello hello = { CK_MESH_MAGIC, RAW_RANKS,
						     i };

		r->fds[i] = raw_connect(r->directory, 0);
		if (write(r->fds[i], &hello, sizeof(hello)) != sizeof(hello) ||
		    setsockopt(r->fds[i], SOL_SOCKET, SO_RCVTIMEO, &patience,
			       sizeof(patience)))
			abort();
	}
}

static inline void raw_ranks_begin(struct raw_ranks *r, unsigned threads,
				   uint64_t memory_most)
{
	raw_ranks_begin_with(
		r, (struct ck_serve_options){ .threads = threads,
					      .memory_most = memory_most,
					      .stop = -1 });
}

/* Ends rank 0 and returns its result. */
static inline int raw_ranks_end(struct raw_ranks *r)
{
	close(r->link);
	pthread_join(r->thread, NULL);
	for (uint32_t i = 1; i < RAW_RANKS; i++)
		if (r->fds[i] >= 0)
			close(r->fds[i]);
	close(r->memory);
	ck_fd_cleanup(&r->rounds);
	ck_fd_cleanup(&r->serve.rounds.memory);
	eq_i64(rmdir(r->directory), 0);
	return r->rc;
}

/* --- messages ------------------------------------------------------------------------- */

static inline void raw_add(struct ck_buf *b, struct ck_query *a, uint64_t id)
{
	a->head.id = id;
	wire_add_ask(b, a);
	ck_query_fini(a);
}

static inline void raw_add_look(struct ck_buf *b, uint64_t id)
{
	struct ck_str name = file_name(0);
	struct ck_query a;
	size_t n;

	if (ck_query_stat(&a, (struct ck_ids){ 0, 0 }, &name, 1, &n))
		abort();
	raw_add(b, &a, id);
}

/* A READ of file 0 with several runs. */
static inline void raw_add_read(struct ck_buf *b, uint64_t id, uint64_t run,
				uint64_t turns)
{
	static uint8_t to[1];
	const struct ck_loop loop = { turns, run, 0 };
	struct ck_copy_desc m = {
		.run = run, .to = to, .nloops = 1, .loops = &loop
	};
	struct ck_reads reads;
	struct ck_query a;

	ck_reads_begin(&reads, &m, 1);
	if (!ck_reads_left(&reads) || ck_query_read(&reads, &a))
		abort();
	raw_add(b, &a, id);
}

static inline void raw_add_ping(struct ck_buf *b, uint64_t id)
{
	struct ck_query a;

	if (ck_query_ping(&a))
		abort();
	raw_add(b, &a, id);
}

/* Sends and empties the buffer. False if the other end is closed. */
static inline bool raw_send(int fd, struct ck_buf *b)
{
	size_t done = 0;

	while (done < b->len) {
		ssize_t n = send(fd, b->data + done, b->len - done,
				 MSG_NOSIGNAL);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	b->len -= done;
	return b->len == 0;
}

/* Reads the next message and discards its body and payload. False if there is
 * no message. */
static inline bool raw_read(int fd, struct ck_wire_head *out)
{
	static uint8_t away[CK_WIRE_READ_MAX + CK_WIRE_BODY_MAX];
	uint8_t head[CK_WIRE_HEAD];
	uint64_t rest;

	if (recv(fd, head, sizeof(head), MSG_WAITALL) != sizeof(head) ||
	    ck_wire_head_get(head, out))
		return false;
	rest = out->body + out->payload;
	return rest == 0 || recv(fd, away, rest, MSG_WAITALL) == (ssize_t)rest;
}

#endif
