/* SPDX-License-Identifier: MIT */
/*
 * xport: ranks connect late, never, or under names in use. Meanwhile other connections arrive
 * that do not come from a rank, or come from another user.
 */
#include "xport_case.h"
#include "xport_local.h"
#include "xport_mesh.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { JOIN_MSEC = 60000 };

static char directory[64];

/* --- late, never, and names ------------------------------------------------------------------------------ */

struct joiner {
	uint32_t rank, size;
	unsigned late; /* milliseconds */
	int msec, rc;
	struct ck_transport *x;
	pthread_t thread;
};

static void *joiner_thread(void *arg)
{
	struct joiner *j = arg;

	usleep(j->late * 1000);
	j->rc = ck_transport_local(directory, j->rank, j->size, j->msec, &j->x);
	return NULL;
}

static void test_late(void)
{
	struct joiner all[3];

	for (uint32_t last = 0; last < 3; last++) {
		xport_directory(directory);
		for (uint32_t i = 0; i < 3; i++) {
			all[i] = (struct joiner){
				i, 3, 0, JOIN_MSEC, 1, NULL, 0
			};
			all[i].late = i == last ? 120 : 0;
			if (pthread_create(&all[i].thread, NULL, joiner_thread,
					   &all[i]))
				abort();
		}
		for (uint32_t i = 0; i < 3; i++) {
			pthread_join(all[i].thread, NULL);
			eq_err(all[i].rc, 0);
		}
		for (uint32_t i = 0; i < 3; i++)
			if (all[i].rc == 0)
				all[i].x->close(all[i].x);
		eq_i64(rmdir(directory), 0);
	}
}

static void test_never(void)
{
	struct ck_transport *x;

	xport_directory(directory);
	for (uint32_t rank = 0; rank < 3; rank++) {
		uint64_t start = now_msec(), took;

		eq_err(ck_transport_local(directory, rank, 3, 60, &x),
		       -ETIMEDOUT);
		took = now_msec() - start;
		ok(took >= 59);
		ok(took < 5000 || !tap_is_long());
		eq_err(ck_transport_local(directory, rank, 3, 0, &x),
		       -ETIMEDOUT);
	}
	eq_err(ck_transport_local(directory, 3, 3, 60, &x), -EINVAL);
	eq_err(ck_transport_local(directory, 0, 0, 60, &x), -EINVAL);
	eq_i64(rmdir(directory), 0);
	eq_err(ck_transport_local(directory, 0, 1, 60, &x), -ENOENT);
}

/* A rank that exists already, and long names of directories. */
static void test_names(void)
{
	char path[400], other[420];
	struct ck_transport *x;
	struct stat st;

	xport_directory(directory);
	(void)snprintf(path, sizeof(path), "%s/%0200d", directory, 0);
	eq_i64(mkdir(path, 0700), 0);
	eq_err(ck_transport_local(path, 0, 1, 60, &x), 0);
	x->close(x);
	(void)snprintf(other, sizeof(other), "%s/0", path);
	eq_i64(mkdir(other, 0700), 0);
	eq_err(ck_transport_local(path, 0, 1, 60, &x), -EADDRINUSE);
	eq_i64(stat(other, &st), 0);
	eq_err(ck_transport_local(other, 0, 1, 60, &x), 0);
	x->close(x);
	eq_i64(rmdir(other), 0);
	eq_i64(rmdir(path), 0);
	eq_i64(rmdir(directory), 0);
}

/* --- foreign connections ----------------------------------------------------------------------- */

enum { SIZE = 3 };

static struct ck_transport *joined;

static void *join_as_first(void *arg)
{
	(void)arg;
	eq_err(ck_transport_local(directory, 0, SIZE, JOIN_MSEC, &joined), 0);
	return NULL;
}

/* The ranks sent these PINGs directly after their hello. */
static void got_ping(void *arg, uint32_t from, const struct ck_message *m)
{
	unsigned *ranks = arg;

	ok(from && m->head.type == CK_WIRE_PING && !(*ranks & 1U << from));
	*ranks |= 1U << from;
}

static void lost_none(void *arg, uint32_t rank)
{
	(void)arg, (void)rank;
	ok(false);
}

static void expect_pings(void)
{
	unsigned ranks = 0;

	joined->arg = &ranks;
	joined->got = got_ping;
	joined->lost = lost_none;
	for (uint64_t until = now_msec() + JOIN_MSEC;
	     ranks != 6 && now_msec() < until;)
		eq_err(joined->wait(joined, NULL, 0, JOIN_MSEC), 0);
	eq_u64(ranks, 6);
	joined->close(joined);
}

/* Connects and sends the first len bytes of a hello with these values. */
static int come(uint32_t magic, uint32_t size, uint32_t rank, size_t len)
{
	const struct ck_mesh_hello hello = { magic, size, rank };
	int fd = raw_connect(directory, 0);

	ok(fd >= 0);
	say(fd, &hello, len);
	return fd;
}

/* Sends a hello without its first byte and a PING, in one write. */
static void send_rest(int fd, uint32_t rank)
{
	const struct ck_mesh_hello hello = { CK_MESH_MAGIC, SIZE, rank };
	uint8_t bytes[sizeof(hello) + CK_WIRE_HEAD];

	memcpy(bytes, &hello, sizeof(hello));
	ck_wire_head_put(&(struct ck_wire_head){ .type = CK_WIRE_PING },
			 bytes + sizeof(hello));
	say(fd, bytes + 1, sizeof(bytes) - 1);
}

static void expect_closed(int fd)
{
	char byte;

	ok(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
}

static void come_as_stranger(void)
{
	pid_t child = fork();
	int status = 1;

	if (child == 0) {
		int fd;

		alarm(100);
		if (setuid(65534))
			_exit(2);
		fd = raw_connect(directory, 0);
		if (fd < 0)
			_exit(3);
		/* The connection may be closed before the send. */
		(void)!send(fd,
			    &(struct ck_mesh_hello){ CK_MESH_MAGIC, SIZE, 1 },
			    sizeof(struct ck_mesh_hello), MSG_NOSIGNAL);
		_exit(recv(fd, &status, 1, 0) > 0);
	}
	eq_i64(waitpid(child, &status, 0), child);
	eq_i64(status, 0);
}

static void test_comers(void)
{
	const uint32_t magic = CK_MESH_MAGIC;
	const size_t whole = sizeof(struct ck_mesh_hello);
	mode_t mask = umask(0);
	pthread_t thread;
	int cut, silent, first, second;

	xport_directory(directory);
	eq_i64(chmod(directory, 0755), 0);
	if (pthread_create(&thread, NULL, join_as_first, NULL))
		abort();
	expect_closed(come(magic + 1, SIZE, 1, whole));
	expect_closed(come(magic, SIZE + 1, 1, whole));
	expect_closed(come(magic, SIZE, 0, whole));
	expect_closed(come(magic, SIZE, SIZE, whole));
	expect_closed(come(magic, SIZE, UINT32_MAX, whole));
	if (geteuid() == 0 && !TAP_THREADS)
		come_as_stranger();
	cut = come(magic, SIZE, 2, whole - 1);
	silent = come(magic, SIZE, 2, 0);
	close(cut);
	/* A valid connection, and a second one with the same rank. */
	first = come(magic, SIZE, 1, whole);
	say_ping(first);
	expect_closed(come(magic, SIZE, 1, whole));
	second = come(magic, SIZE, 2, 1);
	usleep(20000);
	send_rest(second, 2);
	pthread_join(thread, NULL);
	expect_closed(silent);
	(void)umask(mask);
	expect_pings();
	close(first);
	close(second);
	eq_i64(rmdir(directory), 0);
}

/* The lower rank is a process of another user. */
static void test_stranger_listens(void)
{
	struct ck_transport *x;
	int ready[2];
	char byte;
	pid_t child;

	xport_directory(directory);
	if (chmod(directory, 0777) || pipe2(ready, O_CLOEXEC))
		abort();
	child = fork();
	if (child == 0) {
		if (setuid(65534) || raw_listen(directory, 0) < 0 ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	eq_i64(read(ready[0], &byte, 1), 1);
	eq_err(ck_transport_local(directory, 1, 2, JOIN_MSEC, &x), -EPERM);
	kill(child, SIGKILL);
	eq_i64(waitpid(child, NULL, 0), child);
	/* After its death another process may replace it, so the rank waits until its timeout. */
	eq_err(ck_transport_local(directory, 1, 2, 30, &x), -ETIMEDOUT);
	unlink(address(directory, 0).sun_path);
	eq_i64(rmdir(directory), 0);
	close(ready[0]);
	close(ready[1]);
}

int main(void)
{
	size_t before = open_descriptors();

	alarm(300);
	test_never();
	test_names();
	test_late();
	test_comers();
	if (geteuid() == 0)
		test_stranger_listens();
	eq_u64(open_descriptors(), before);
	return tap_done();
}
