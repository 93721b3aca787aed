/* SPDX-License-Identifier: MIT */
/*
 * The rendezvous of a mount and its worker process: which processes connect, and which are
 * refused. Strangers, silent processes, processes that disconnect, and processes that do not
 * know the whole name are refused.
 */
#include "door_case.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* The right process connects: both ends belong to one socket pair. */
static void right_one(const struct ck_rendezvous *door)
{
	struct ck_rendezvous_link way = { -1, -1, 0 };
	struct backend m = { .late = 20000 };
	char byte = 0;

	mover_start(&m, door->name);
	eq_err(ck_rendezvous_wait(door, SIZE, -1, IN_TIME, &way), 0);
	pthread_join(m.thread, NULL);
	eq_err(m.rc, 0);
	ok(send(m.way.sock, "x", 1, MSG_NOSIGNAL) == 1 &&
	   recv(way.sock, &byte, 1, MSG_DONTWAIT) == 1 && byte == 'x');
	way_close(&m.way);
	way_close(&way);
}

/* --- connecting ------------------------------------------------------------------------ */

static void memory_checked(const struct ck_rendezvous_link *mount,
			   const struct ck_rendezvous_link *backend)
{
	uint8_t *a = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			  mount->memory, 0);
	uint8_t *b = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			  backend->memory, 0);
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	if (a == MAP_FAILED || b == MAP_FAILED)
		abort();
	eq_i64(fcntl(mount->memory, F_GET_SEALS), seals);
	eq_i64(fcntl(backend->memory, F_GET_SEALS), seals);
	ok(ftruncate(backend->memory, SIZE - 1) && errno == EPERM);
	ok(ftruncate(backend->memory, SIZE + 1) && errno == EPERM);
	ok(fcntl(backend->memory, F_ADD_SEALS, F_SEAL_WRITE) && errno == EPERM);
	a[0] = 7;
	b[SIZE - 1] = 9;
	ok(b[0] == 7 && a[SIZE - 1] == 9);
	munmap(a, SIZE);
	munmap(b, SIZE);
}

static void test_in(void)
{
	unsigned fds = fds_count();
	struct ck_rendezvous_link way = { -1, -1, 0 };
	struct timeval most = { 1, 1 };
	socklen_t len = sizeof(most);
	struct backend m = { 0 };
	struct ck_rendezvous door;

	door_make(&door);
	mover_start(&m, door.name);
	eq_err(ck_rendezvous_wait(&door, SIZE, -1, IN_TIME, &way), 0);
	pthread_join(m.thread, NULL);
	ck_rendezvous_close(&door);
	eq_err(m.rc, 0);
	eq_u64(way.size, SIZE);
	eq_u64(m.way.size, SIZE);
	memory_checked(&way, &m.way);
	ok(fcntl(m.way.sock, F_GETFD) == FD_CLOEXEC &&
	   fcntl(m.way.memory, F_GETFD) == FD_CLOEXEC &&
	   fcntl(way.sock, F_GETFD) == FD_CLOEXEC &&
	   fcntl(way.memory, F_GETFD) == FD_CLOEXEC);
	/* The limit of the rendezvous is removed from the connected socket. */
	ok(getsockopt(m.way.sock, SOL_SOCKET, SO_RCVTIMEO, &most, &len) == 0 &&
	   most.tv_sec == 0 && most.tv_usec == 0);
	way_close(&m.way);
	way_close(&way);
	eq_u64(fds_count(), fds);
}

static void test_pair(void)
{
	struct ck_rendezvous_link one = { -1, -1, 0 }, other = { -1, -1, 0 };
	unsigned fds = fds_count();
	char byte = 0;

	eq_err(ck_rendezvous_pair(SIZE, &one, &other), 0);
	eq_u64(one.size, SIZE);
	eq_u64(other.size, SIZE);
	memory_checked(&one, &other);
	ok(send(one.sock, "x", 1, MSG_NOSIGNAL) == 1 &&
	   recv(other.sock, &byte, 1, MSG_DONTWAIT) == 1 && byte == 'x');
	ok(fcntl(other.sock, F_GETFD) == FD_CLOEXEC &&
	   fcntl(other.memory, F_GETFD) == FD_CLOEXEC);
	way_close(&one);
	way_close(&other);
	eq_u64(fds_count(), fds);
}

static void test_nobody_comes(void)
{
	unsigned fds = fds_count();
	uint64_t begin = ck_msec_now(), took;
	struct ck_rendezvous_link way;
	struct ck_rendezvous door;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		abort();
	door_make(&door);
	eq_err(ck_rendezvous_wait(&door, SIZE, ends[0], 150, &way), -ETIMEDOUT);
	took = ck_msec_now() - begin;
	ok(took >= 150 && took < IN_TIME);
	eq_err(ck_rendezvous_wait(&door, SIZE, -1, 0, &way), -ETIMEDOUT);
	close(ends[1]); /* now the other one is readable */
	eq_err(ck_rendezvous_wait(&door, SIZE, ends[0], IN_TIME, &way),
	       -ECHILD);
	/* A process that exits after it connected is detected later, by its socket. */
	right_one(&door);
	close(ends[0]);
	ck_rendezvous_close(&door);
	eq_u64(fds_count(), fds);
}

/* --- names ------------------------------------------------------------------------------ */

/* The number of lines of /proc/net/unix that contain the text. */
static unsigned seen(const char *text, size_t len)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512], what[CK_RENDEZVOUS_NAME];
	unsigned n = 0;

	snprintf(what, sizeof(what), "%.*s", (int)len, text);
	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, what) != NULL;
	if (f)
		fclose(f);
	return n;
}

static void test_names(void)
{
	enum { DOORS = 50 };
	struct ck_rendezvous doors[DOORS];
	unsigned same = 0;

	for (int i = 0; i < DOORS; i++) {
		door_make(&doors[i]);
		eq_u64(strlen(doors[i].name), CK_RENDEZVOUS_NAME - 1);
		for (int k = 0; k < i; k++)
			for (int part = 0; part < 3; part++)
				same += memcmp(doors[i].name + PREFIX +
						       part * PART,
					       doors[k].name + PREFIX +
						       part * PART,
					       PART) == 0;
	}
	eq_u64(same, 0);
	/* Other users see the first part of the name only. */
	eq_u64(seen(doors[0].name, PREFIX + PART), 1);
	eq_u64(seen(doors[0].name + PREFIX + PART, PART), 0);
	eq_u64(seen(doors[0].name + PREFIX + 2 * PART, PART), 0);
	for (int i = 0; i < DOORS; i++)
		ck_rendezvous_close(&doors[i]);
	eq_u64(seen(doors[0].name, PREFIX + PART), 0);
}

/* --- other processes at the rendezvous ---------------------------------------------------- */

/* True if the rendezvous sent no byte, and so no descriptor. */
static bool has_nothing(int sock)
{
	char byte;
	ssize_t n = recv(sock, &byte, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && (errno == EAGAIN || errno == ECONNRESET));
}

/* Regression: the first process of the same user was accepted without a check. */
static void test_silent(void)
{
	unsigned fds = fds_count();
	const char *knock;
	struct ck_rendezvous door;
	char wrong[PART];
	int socks[4];

	door_make(&door);
	knock = door.name + PREFIX + PART;
	memcpy(wrong, knock, PART);
	wrong[PART - 1] ^= 1;
	socks[0] = comer(door.name, NULL, 0);
	socks[1] = comer(door.name, wrong, PART);
	socks[2] = comer(door.name, knock, PART - 1);
	socks[3] = comer(door.name, door.name + PREFIX, PART);
	right_one(&door);
	for (size_t i = 0; i < CK_ARRAY_SIZE(socks); i++) {
		ok(socks[i] >= 0 && has_nothing(socks[i]));
		ck_fd_cleanup(&socks[i]);
	}
	ck_rendezvous_close(&door);
	eq_u64(fds_count(), fds);
}

/* A process that sends its part of the name late, while others connect. */
static void *slow_run(void *arg)
{
	const struct backend *m = arg;

	usleep(100000);
	(void)!send(m->way.sock, m->name + PREFIX + PART, PART, MSG_NOSIGNAL);
	return NULL;
}

static void test_slow(void)
{
	struct ck_rendezvous_link way = { -1, -1, 0 };
	struct backend m = { 0 };
	struct ck_rendezvous door;
	int socks[3];

	door_make(&door);
	memcpy(m.name, door.name, sizeof(m.name));
	m.way.sock = comer(door.name, NULL, 0);
	for (size_t i = 0; i < CK_ARRAY_SIZE(socks); i++)
		socks[i] = comer(door.name, NULL, 0);
	if (ck_thread_start(&m.thread, slow_run, &m))
		abort();
	eq_err(ck_rendezvous_wait(&door, SIZE, -1, IN_TIME, &way), 0);
	pthread_join(m.thread, NULL);
	for (size_t i = 0; i < CK_ARRAY_SIZE(socks); i++)
		ck_fd_cleanup(&socks[i]);
	ck_fd_cleanup(&m.way.sock);
	way_close(&way);
	ck_rendezvous_close(&door);
}

/* Regression: a process that disconnected before it was accepted ended the wait. */
static void test_gone(void)
{
	unsigned fds = fds_count();
	struct ck_rendezvous door;
	int sock;

	door_make(&door);
	sock = comer(door.name, NULL, 0);
	ck_fd_cleanup(&sock);
	sock = comer(door.name, door.name + PREFIX + PART, PART);
	ck_fd_cleanup(&sock);
	right_one(&door);
	ck_rendezvous_close(&door);
	eq_u64(fds_count(), fds);
}

struct crowd {
	const char *name;
	bool ending;
	uint64_t random, comers;
	pthread_t thread;
};

/* Opens connections, sends a part of a name or less, and closes some of them. */
static void *crowd_run(void *arg)
{
	struct crowd *c = arg;
	int socks[6] = { -1, -1, -1, -1, -1, -1 };

	while (!__atomic_load_n(&c->ending, __ATOMIC_RELAXED)) {
		size_t i = tap_random(&c->random) % CK_ARRAY_SIZE(socks);
		size_t len = tap_random(&c->random) % (PART + 1);

		ck_fd_cleanup(&socks[i]);
		socks[i] = comer(c->name, c->name, len);
		c->comers += socks[i] >= 0;
		if (tap_random(&c->random) % 4 == 0)
			usleep((useconds_t)(tap_random(&c->random) % 200));
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(socks); i++)
		ck_fd_cleanup(&socks[i]);
	return NULL;
}

/* A worker process that was refused because of too many others tries again; it never hangs. */
static bool comes_in(const struct ck_rendezvous *door, uint64_t late)
{
	struct ck_rendezvous_link way = { -1, -1, 0 };
	struct backend m = { .late = (unsigned)late };
	uint64_t end = ck_msec_now() + IN_TIME;
	bool good = false;

	while (!good && ck_msec_now() < end) {
		mover_start(&m, door->name);
		good = ck_rendezvous_wait(door, SIZE, -1, 300, &way) == 0;
		/* Continue until the worker process gives up. */
		while (!good && pthread_tryjoin_np(m.thread, NULL) == EBUSY)
			good = ck_rendezvous_wait(door, SIZE, -1, 300, &way) ==
			       0;
		if (good)
			pthread_join(m.thread, NULL);
	}
	good = good && m.rc == 0 && m.way.size == SIZE;
	way_close(&m.way);
	way_close(&way);
	return good;
}

static void test_crowd(void)
{
	unsigned fds = fds_count(), rounds = TAP_SLOW ? 50 : 300, good = 0;
	uint64_t random = tap_seed(1), comers = 0;

	for (unsigned i = 0; i < rounds; i++) {
		struct ck_rendezvous door;
		struct crowd c = { .name = door.name,
				   .random = tap_random(&random) | 1 };

		door_make(&door);
		if (ck_thread_start(&c.thread, crowd_run, &c))
			abort();
		good += comes_in(&door, tap_random(&random) % 4000);
		__atomic_store_n(&c.ending, true, __ATOMIC_RELAXED);
		pthread_join(c.thread, NULL);
		ck_rendezvous_close(&door);
		comers += c.comers;
	}
	printf("# %llu others at %u doors\n", (unsigned long long)comers,
	       rounds);
	eq_u64(good, rounds);
	eq_u64(fds_count(), fds);
}

/* --- strangers ---------------------------------------------------------------------------- */

/* A stranger (another user) that knows the whole name tries both ends. Exit status: 0 if
 * neither end accepted it. */
static int stranger(const char *name, int ready)
{
	uint64_t end = ck_msec_now() + 300;
	struct ck_rendezvous_link way;
	bool in = false, near = false;

	if (setgid(NOBODY) || setuid(NOBODY))
		return 2;
	in = ck_rendezvous_enter(name, &way) != -EPERM;
	while (ck_msec_now() < (near ? end : end + IN_TIME)) {
		int sock = comer(name, name + PREFIX + PART, PART);

		near |= sock >= 0;
		if (!near)
			continue;
		(void)!write(ready, "", 1);
		usleep(500);
		in |= sock >= 0 && !has_nothing(sock);
		ck_fd_cleanup(&sock);
	}
	return in || !near;
}

/* near: a pipe that has a byte once the stranger has connected. */
static pid_t stranger_start(const char *name, int *near)
{
	int ends[2];
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		abort();
	child = fork();
	if (child < 0)
		abort();
	if (child == 0)
		_exit(stranger(name, ends[1]));
	close(ends[1]);
	*near = ends[0];
	return child;
}

/* The number of strangers that have connected. */
static unsigned count_near(const int *pipes, size_t n)
{
	unsigned near = 0;
	int bytes;

	for (size_t i = 0; i < n; i++)
		near += ioctl(pipes[i], FIONREAD, &bytes) == 0 && bytes;
	return near;
}

static void test_strangers(void)
{
	enum { STRANGERS = 3 };

	unsigned fds = fds_count(), turns = 0;
	int status, pipes[STRANGERS];
	pid_t children[STRANGERS];
	struct ck_rendezvous_link way;
	struct ck_rendezvous door;

	if (geteuid() != 0) {
		printf("ok %u # SKIP only root can be another user\n",
		       ++tap_count);
		return;
	}
	door_make(&door);
	for (size_t i = 0; i < STRANGERS; i++)
		children[i] = stranger_start(door.name, &pipes[i]);
	for (unsigned i = 0; i < 6000 && !count_near(pipes, STRANGERS); i++)
		usleep(10000);
	right_one(&door);
	/* The rendezvous accepts no connection while the strangers continue. */
	do
		eq_err(ck_rendezvous_wait(&door, SIZE, -1, 100, &way),
		       -ETIMEDOUT);
	while (++turns < 3 ||
	       (count_near(pipes, STRANGERS) < STRANGERS && turns < 600));
	for (size_t i = 0; i < STRANGERS; i++) {
		waitpid(children[i], &status, 0);
		eq_i64(status, 0);
		close(pipes[i]);
	}
	ck_rendezvous_close(&door);
	eq_u64(fds_count(), fds);
}

int main(void)
{
	test_strangers(); /* it forks, so it runs before threads start */
	test_in();
	test_pair();
	test_nobody_comes();
	test_names();
	test_silent();
	test_slow();
	test_gone();
	test_crowd();
	return tap_done();
}
