/* SPDX-License-Identifier: MIT */
/*
 * owners_case: owners of files in temporary directories, whose bytes the test knows, and
 * messages on their way to and from them.
 */
#ifndef CK_OWNERS_CASE_H
#define CK_OWNERS_CASE_H

#include "boxes.h"
#include "dist/rpc/calls.h"
#include "wire_case.h"

#include <fcntl.h>
#include <unistd.h>

enum { OWNERS = 4, OWNED = 3, OWNED_BYTES = 2048 };

struct owners {
	char path[40];
	int top;
	int dirs[OWNERS];
	struct ck_file_server *owner[OWNERS];
	uint8_t bytes[OWNERS][OWNED][OWNED_BYTES];
};

static inline void owned_write(const struct owners *o, unsigned peer,
			       unsigned file, const void *bytes, size_t len)
{
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "f%u", file);
	fd = openat(o->dirs[peer], "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	/* Not in its place, for which file systems wait for the disk. */
	unlinkat(o->dirs[peer], name, 0);
	if (fd < 0 || ck_write_full(fd, bytes, len) ||
	    renameat(o->dirs[peer], "new", o->dirs[peer], name))
		abort();
	close(fd);
}

/* Has an owner that saw the files as they are now; number i is file i. */
static inline void owner_look(struct owners *o, unsigned peer)
{
	static const struct ck_str names[OWNED] = { { "f0", 2 },
						    { "f1", 2 },
						    { "f2", 2 } };
	struct ck_buf answer;
	struct ck_query a;
	size_t taken;

	ck_file_server_free(o->owner[peer]);
	o->owner[peer] = ck_file_server_make(o->dirs[peer],
					     CK_BENEATH_NO_SYMLINKS, 16);
	if (!o->owner[peer] ||
	    ck_query_stat(&a, (struct ck_ids){ getuid(), getgid() }, names,
			  OWNED, &taken) ||
	    taken != OWNED || wire_serve(o->owner[peer], &a, &answer))
		abort();
	ck_buf_fini(&answer);
	ck_query_fini(&a);
}

/* A file of an owner becomes another one, with other bytes. */
static inline void owned_replace(const struct owners *o, unsigned peer,
				 unsigned file)
{
	uint8_t other[OWNED_BYTES - 1];

	for (size_t i = 0; i < sizeof(other); i++)
		other[i] = (uint8_t)~o->bytes[peer][file][i];
	owned_write(o, peer, file, other, sizeof(other));
}

static inline void owned_restore(struct owners *o, unsigned peer)
{
	for (unsigned f = 0; f < OWNED; f++)
		owned_write(o, peer, f, o->bytes[peer][f], OWNED_BYTES);
	owner_look(o, peer);
}

static inline void owners_begin(struct owners *o)
{
	uint64_t random = 7;

	memset(o, 0, sizeof(*o));
	strcpy(o->path, "/tmp/ckptfs-owners-XXXXXX");
	if (!mkdtemp(o->path) || ck_sigbus_install())
		abort();
	o->top = open(o->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (unsigned p = 0; p < OWNERS; p++) {
		char name[16];

		snprintf(name, sizeof(name), "p%u", p);
		if (mkdirat(o->top, name, 0700))
			abort();
		o->dirs[p] = openat(o->top, name,
				    O_PATH | O_DIRECTORY | O_CLOEXEC);
		for (size_t i = 0; i < sizeof(o->bytes[p]); i++)
			o->bytes[p][i / OWNED_BYTES][i % OWNED_BYTES] =
				(uint8_t)tap_random(&random);
		owned_restore(o, p);
	}
}

static inline int owners_end(struct owners *o)
{
	char command[80];

	for (unsigned p = 0; p < OWNERS; p++) {
		ck_file_server_free(o->owner[p]);
		close(o->dirs[p]);
	}
	close(o->top);
	snprintf(command, sizeof(command), "rm -rf '%s'", o->path);
	return system(command) ? 2 : 0;
}

/* --- messages on their way ------------------------------------------------------------- */

struct packet {
	struct ck_buf bytes; /* a whole message */
	uint32_t peer;
	uint64_t due; /* when it is there */
	struct ck_wire_head head;
};

struct packets {
	struct packet *list;
	size_t n, cap;
};

static inline struct packet *packets_add(struct packets *all)
{
	struct packet *list = ck_grow(all->list, &all->cap, all->n, 1,
				      sizeof(*list));

	if (!list)
		abort();
	all->list = list;
	list[all->n] = (struct packet){ 0 };
	return &list[all->n++];
}

/* Takes one out; it is the caller's. */
static inline struct packet packets_take(struct packets *all, size_t i)
{
	struct packet p = all->list[i];

	all->list[i] = all->list[--all->n];
	return p;
}

static inline void packets_drop(struct packets *all, size_t i)
{
	struct packet p = packets_take(all, i);

	ck_buf_fini(&p.bytes);
}

static inline void packets_fini(struct packets *all)
{
	while (all->n)
		packets_drop(all, 0);
	free(all->list);
	*all = (struct packets){ 0 };
}

static inline struct ck_message packet_open(const struct packet *p)
{
	struct ck_message m;

	if (wire_split(p->bytes.data, p->bytes.len, &m))
		abort();
	return m;
}

/* Replaces a request by the reply of a file server. */
static inline void packet_answer(struct packet *p, struct ck_file_server *o)
{
	struct ck_message m = packet_open(p);
	struct ck_answer answer;

	if (ck_file_server_answer(o, &m, &answer))
		abort();
	ck_buf_fini(&p->bytes);
	wire_add_answer(&p->bytes, &answer);
	p->head = answer.head;
	ck_answer_fini(&answer);
}

#endif
