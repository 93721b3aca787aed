/* SPDX-License-Identifier: MIT */
/*
 * Rendezvous from the side of the worker process: invalid names, an attacker that listens at
 * the name of a closed rendezvous, and a rendezvous whose owner does not answer. The limit for
 * an answer is CK_RENDEZVOUS_SECONDS, and 10 s in door_liar_test-real.
 */
#include "dist/proto/wire.h"
#include "door_case.h"

#ifndef CK_RENDEZVOUS_SECONDS
#define CK_RENDEZVOUS_SECONDS 10
#endif

#include <fcntl.h>
#include <sys/mman.h>

static void test_no_names(void)
{
	static const char *const names[] = {
		"", "ckptfs-", "/tmp/socket",
		"ckptfs-0123456789abcdef0123456789abcdef0123456789abcdef0"
	};
	char longer[1024];
	struct ck_rendezvous_link way;
	unsigned fds = fds_count();

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++)
		eq_err(ck_rendezvous_enter(names[i], &way), -EINVAL);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	eq_err(ck_rendezvous_enter(longer, &way), -EINVAL);
	longer[CK_RENDEZVOUS_NAME - 1] = 0;
	eq_err(ck_rendezvous_enter(longer, &way), -ECONNREFUSED);
	eq_u64(fds_count(), fds);
}

/* --- fake owners ----------------------------------------------------------------------------- */

enum kind {
	GARBAGE,
	SHORT,
	NOTHING,
	VERSION,
	NO_DESCRIPTOR,
	SEVERAL,
	MANY,
	NO_MEMORY,
	UNSEALED,
	OTHER_SIZE,
	OTHER_MOUNT,
	RIGHT,
	KINDS
};

struct welcome {
	uint32_t magic, version;
	uint64_t size;
	char answer[PART];
};

struct liar {
	enum kind kind;
	char name[CK_RENDEZVOUS_NAME];
	int listener;
	pthread_t thread;
};

static int sealed(uint64_t size, int seals)
{
	int fd = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) ||
	    fcntl(fd, F_ADD_SEALS, seals))
		abort();
	return fd;
}

/* Sends len bytes with n copies of the descriptor. */
static void send_with(int sock, const void *bytes, size_t len, int fd,
		      unsigned n)
{
	enum { MOST = 100 };
	struct iovec piece = { (void *)(uintptr_t)bytes, len };

	union {
		char bytes[CMSG_SPACE(MOST * sizeof(int))];
		struct cmsghdr head;
	} control = { .head = { .cmsg_len = CMSG_LEN(n * sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };

	struct msghdr m = { .msg_iov = &piece,
			    .msg_iovlen = 1,
			    .msg_control = n ? control.bytes : NULL,
			    .msg_controllen = n ? CMSG_SPACE(n * sizeof(int))
						: 0 };

	for (unsigned i = 0; i < n; i++)
		memcpy(CMSG_DATA(&control.head) + i * sizeof(int), &fd,
		       sizeof(fd));
	if (sendmsg(sock, &m, MSG_NOSIGNAL) < 0)
		abort();
}

static void lie(const struct liar *l, int sock)
{
	enum kind k = l->kind;
	struct welcome w = { 0x64706b63, CK_WIRE_VERSION, 4096, { 0 } };
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, fd;

	memcpy(w.answer, l->name + PREFIX + 2 * PART, PART);
	w.magic ^= k == GARBAGE ? 0xff : 0;
	w.version += k == VERSION;
	w.answer[3] ^= k == OTHER_MOUNT;
	if (k == NOTHING)
		return;
	fd = k == NO_MEMORY ? dup(sock)
			    : sealed(k == OTHER_SIZE ? 4095 : 4096,
				     k == UNSEALED ? F_SEAL_GROW : seals);
	send_with(sock, &w, k == SHORT ? sizeof(w) - 1 : sizeof(w), fd,
		  k == NO_DESCRIPTOR ? 0
		  : k == SEVERAL     ? 2
		  : k == MANY	     ? 100
				     : 1);
	close(fd);
}

static void *liar_run(void *arg)
{
	struct liar *l = arg;
	char said[PART];
	int sock = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC);

	if (sock < 0 || recv(sock, said, PART, MSG_WAITALL) != PART)
		abort();
	lie(l, sock);
	close(sock);
	return NULL;
}

/* Listens at the name of a closed rendezvous, which the peer still has. */
static int listener_make(const char *name, int backlog)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len;
	struct sockaddr_un a = address_of(name, &len);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) ||
	    listen(fd, backlog))
		abort();
	return fd;
}

static void old_name(char name[CK_RENDEZVOUS_NAME])
{
	struct ck_rendezvous door;

	door_make(&door);
	memcpy(name, door.name, CK_RENDEZVOUS_NAME);
	ck_rendezvous_close(&door);
}

/* Regression: if a message had two descriptors, both were kept open. */
static void test_liars(void)
{
	for (enum kind k = 0; k < KINDS; k++) {
		unsigned fds = fds_count();
		struct liar l = { .kind = k };
		struct ck_rendezvous_link way = { -1, -1, 0 };

		old_name(l.name);
		l.listener = listener_make(l.name, 1);
		if (ck_thread_start(&l.thread, liar_run, &l))
			abort();
		eq_err(ck_rendezvous_enter(l.name, &way), k == RIGHT ? 0
							  : k == OTHER_MOUNT
								  ? -EPERM
								  : -EPROTO);
		pthread_join(l.thread, NULL);
		close(l.listener);
		if (k == RIGHT)
			way_close(&way);
		ok(way.sock == -1 && way.memory == -1);
		eq_u64(fds_count(), fds);
	}
}

/* --- owners that do not answer ------------------------------------------------------------------ */

static void took_its_time(struct backend *m)
{
	pthread_join(m->thread, NULL);
	eq_err(m->rc, -ETIMEDOUT);
	ok(m->msec >= CK_RENDEZVOUS_SECONDS * 1000 - 100);
	ok(m->msec < CK_RENDEZVOUS_SECONDS * 1000 + 2000 || !tap_is_long());
}

/* Regression: connecting blocked for ever if the backlog of the listener was full. */
static void test_no_answer(void)
{
	struct backend alone = { 0 }, behind = { .late = 100000 };
	unsigned fds = fds_count();
	int first, others[2];
	char name[CK_RENDEZVOUS_NAME], full[CK_RENDEZVOUS_NAME];

	old_name(name);
	old_name(full);
	first = listener_make(name, 1);
	others[0] = listener_make(full, 0);
	others[1] = comer(full, NULL, 0);
	mover_start(&alone, name);
	mover_start(&behind, full);
	took_its_time(&alone);
	took_its_time(&behind);
	close(first);
	close(others[0]);
	close(others[1]);
	eq_u64(fds_count(), fds);
}

int main(void)
{
	test_no_names();
	test_liars();
	test_no_answer();
	return tap_done();
}
