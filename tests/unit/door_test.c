/* SPDX-License-Identifier: MIT */
/*
 * door: who comes in, and who does not: strangers, those who say nothing, go away or do
 * not know the whole name; and what a mover makes of a door that is none.
 */
#include "ckptfs/door.h"
#include "ckptfs/wire.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SIZE = 3 << 20,
	IN_TIME = 5000, /* msec that nobody should need */
	PREFIX = 7,	/* of a name: characters before its parts */
	PART = 16,	/* of each of its three parts */
	NOBODY = 65534
};

static unsigned fds_count(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static struct sockaddr_un address_of(const char *name, socklen_t *len)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	memcpy(a.sun_path + 1, name, PREFIX + PART);
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + PREFIX +
			   PART);
	return a;
}

static void way_close(struct ck_door_way *w)
{
	ck_fd_cleanup(&w->sock);
	ck_fd_cleanup(&w->memory);
}

static void door_make(struct ck_door *door)
{
	if (ck_door_open(door))
		abort();
}

/* --- a mover -------------------------------------------------------------------------- */

struct mover {
	char name[CK_DOOR_NAME];
	unsigned late; /* usec */
	int rc;
	uint64_t msec; /* that it took */
	struct ck_door_way way;
	pthread_t thread;
};

static void *mover_run(void *arg)
{
	struct mover *m = arg;
	uint64_t begin;

	usleep(m->late);
	begin = ck_msec_now();
	m->rc = ck_door_enter(m->name, &m->way);
	m->msec = ck_msec_now() - begin;
	return NULL;
}

static void mover_start(struct mover *m, const char *name)
{
	memcpy(m->name, name, CK_DOOR_NAME);
	m->way = (struct ck_door_way){ -1, -1, 0 };
	m->rc = 1;
	if (ck_thread_start(&m->thread, mover_run, m))
		abort();
}

/* The right one comes, and nobody else is taken for him: both hold ends of one link. */
static void right_one(const struct ck_door *door)
{
	struct ck_door_way way = { -1, -1, 0 };
	struct mover m = { .late = 20000 };
	char byte = 0;

	mover_start(&m, door->name);
	eq_err(ck_door_wait(door, SIZE, -1, IN_TIME, &way), 0);
	pthread_join(m.thread, NULL);
	eq_err(m.rc, 0);
	ok(send(m.way.sock, "x", 1, MSG_NOSIGNAL) == 1 &&
	   recv(way.sock, &byte, 1, MSG_DONTWAIT) == 1 && byte == 'x');
	way_close(&m.way);
	way_close(&way);
}

/* --- coming in ------------------------------------------------------------------------- */

static void memory_checked(const struct ck_door_way *mount,
			   const struct ck_door_way *mover)
{
	uint8_t *a = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			  mount->memory, 0);
	uint8_t *b = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			  mover->memory, 0);
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	if (a == MAP_FAILED || b == MAP_FAILED)
		abort();
	eq_i64(fcntl(mount->memory, F_GET_SEALS), seals);
	eq_i64(fcntl(mover->memory, F_GET_SEALS), seals);
	ok(ftruncate(mover->memory, SIZE - 1) && errno == EPERM);
	ok(ftruncate(mover->memory, SIZE + 1) && errno == EPERM);
	ok(fcntl(mover->memory, F_ADD_SEALS, F_SEAL_WRITE) && errno == EPERM);
	a[0] = 7;
	b[SIZE - 1] = 9;
	ok(b[0] == 7 && a[SIZE - 1] == 9);
	munmap(a, SIZE);
	munmap(b, SIZE);
}

static void test_in(void)
{
	unsigned fds = fds_count();
	struct ck_door_way way = { -1, -1, 0 };
	struct timeval most = { 1, 1 };
	socklen_t len = sizeof(most);
	struct mover m = { 0 };
	struct ck_door door;

	door_make(&door);
	mover_start(&m, door.name);
	eq_err(ck_door_wait(&door, SIZE, -1, IN_TIME, &way), 0);
	pthread_join(m.thread, NULL);
	ck_door_close(&door);
	eq_err(m.rc, 0);
	eq_u64(way.size, SIZE);
	eq_u64(m.way.size, SIZE);
	memory_checked(&way, &m.way);
	ok(fcntl(m.way.sock, F_GETFD) == FD_CLOEXEC &&
	   fcntl(m.way.memory, F_GETFD) == FD_CLOEXEC &&
	   fcntl(way.sock, F_GETFD) == FD_CLOEXEC &&
	   fcntl(way.memory, F_GETFD) == FD_CLOEXEC);
	/* Later it waits as long as it takes. */
	ok(getsockopt(m.way.sock, SOL_SOCKET, SO_RCVTIMEO, &most, &len) == 0 &&
	   most.tv_sec == 0 && most.tv_usec == 0);
	way_close(&m.way);
	way_close(&way);
	eq_u64(fds_count(), fds);
}

static void test_nobody_comes(void)
{
	unsigned fds = fds_count();
	uint64_t begin = ck_msec_now(), took;
	struct ck_door_way way;
	struct ck_door door;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		abort();
	door_make(&door);
	eq_err(ck_door_wait(&door, SIZE, ends[0], 150, &way), -ETIMEDOUT);
	took = ck_msec_now() - begin;
	ok(took >= 150 && took < IN_TIME);
	eq_err(ck_door_wait(&door, SIZE, -1, 0, &way), -ETIMEDOUT);
	close(ends[1]); /* now the other one is readable */
	begin = ck_msec_now();
	eq_err(ck_door_wait(&door, SIZE, ends[0], IN_TIME, &way), -ECHILD);
	ok(ck_msec_now() - begin < IN_TIME / 2);
	/* It came in before it ended: that is for others to find. */
	right_one(&door);
	close(ends[0]);
	ck_door_close(&door);
	eq_u64(fds_count(), fds);
}

/* --- names ------------------------------------------------------------------------------ */

/* How many lines of /proc/net/unix have that text. */
static unsigned seen(const char *text, size_t len)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512], what[CK_DOOR_NAME];
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
	struct ck_door doors[DOORS];
	unsigned same = 0;

	for (int i = 0; i < DOORS; i++) {
		door_make(&doors[i]);
		eq_u64(strlen(doors[i].name), CK_DOOR_NAME - 1);
		for (int k = 0; k < i; k++)
			for (int part = 0; part < 3; part++)
				same += memcmp(doors[i].name + PREFIX +
						       part * PART,
					       doors[k].name + PREFIX +
						       part * PART,
					       PART) == 0;
	}
	eq_u64(same, 0);
	/* Others see the first part, and nothing else. */
	eq_u64(seen(doors[0].name, PREFIX + PART), 1);
	eq_u64(seen(doors[0].name + PREFIX + PART, PART), 0);
	eq_u64(seen(doors[0].name + PREFIX + 2 * PART, PART), 0);
	for (int i = 0; i < DOORS; i++)
		ck_door_close(&doors[i]);
	eq_u64(seen(doors[0].name, PREFIX + PART), 0);
}

static void test_no_names(void)
{
	static const char *const names[] = {
		"", "ckptfs-", "/tmp/socket",
		"ckptfs-0123456789abcdef0123456789abcdef0123456789abcdef0"
	};
	char longer[1024];
	struct ck_door_way way;
	unsigned fds = fds_count();

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++)
		eq_err(ck_door_enter(names[i], &way), -EINVAL);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	eq_err(ck_door_enter(longer, &way), -EINVAL);
	longer[CK_DOOR_NAME - 1] = 0;
	eq_err(ck_door_enter(longer, &way), -ECONNREFUSED);
	eq_u64(fds_count(), fds);
}

/* --- others at the door ------------------------------------------------------------------- */

/* Connects, says that much, and stays. */
static int comer(const char *name, const char *says, size_t len)
{
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			  0);
	socklen_t alen;
	struct sockaddr_un a = address_of(name, &alen);

	if (sock < 0)
		abort();
	if (connect(sock, (struct sockaddr *)&a, alen) ||
	    (len && send(sock, says, len, MSG_NOSIGNAL) != (ssize_t)len))
		ck_fd_cleanup(&sock);
	return sock;
}

/* All that he was sent, or the first byte of it: nothing, and no descriptor. */
static bool has_nothing(int sock)
{
	char byte;
	ssize_t n = recv(sock, &byte, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && (errno == EAGAIN || errno == ECONNRESET));
}

/* Regression: the first of the same user was let in, whatever he did. */
static void test_silent(void)
{
	unsigned fds = fds_count();
	const char *knock;
	struct ck_door door;
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
	ck_door_close(&door);
	eq_u64(fds_count(), fds);
}

/* Regression: who had gone when it was his turn was the end of waiting. */
static void test_gone(void)
{
	unsigned fds = fds_count();
	struct ck_door door;
	int sock;

	door_make(&door);
	sock = comer(door.name, NULL, 0);
	ck_fd_cleanup(&sock);
	sock = comer(door.name, door.name + PREFIX + PART, PART);
	ck_fd_cleanup(&sock);
	right_one(&door);
	ck_door_close(&door);
	eq_u64(fds_count(), fds);
}

struct crowd {
	const char *name;
	bool ending;
	uint64_t random, comers;
	pthread_t thread;
};

/* Some stay for a while, some speak, some go. */
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

/* A mover that was thrown out by too many comes again here; it hangs never. */
static bool comes_in(const struct ck_door *door, uint64_t late)
{
	struct ck_door_way way = { -1, -1, 0 };
	struct mover m = { .late = (unsigned)late };
	bool good = false;

	for (int i = 0; i < 20 && !good; i++) {
		mover_start(&m, door->name);
		good = ck_door_wait(door, SIZE, -1, 300, &way) == 0;
		/* The door of one who waits no more. */
		while (!good && pthread_tryjoin_np(m.thread, NULL) == EBUSY)
			good = ck_door_wait(door, SIZE, -1, 300, &way) == 0;
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
		struct ck_door door;
		struct crowd c = { .name = door.name,
				   .random = tap_random(&random) | 1 };

		door_make(&door);
		if (ck_thread_start(&c.thread, crowd_run, &c))
			abort();
		good += comes_in(&door, tap_random(&random) % 4000);
		__atomic_store_n(&c.ending, true, __ATOMIC_RELAXED);
		pthread_join(c.thread, NULL);
		ck_door_close(&door);
		comers += c.comers;
	}
	printf("# %llu others at %u doors\n", (unsigned long long)comers,
	       rounds);
	eq_u64(good, rounds);
	ok(comers > 0);
	eq_u64(fds_count(), fds);
}

/* --- strangers ---------------------------------------------------------------------------- */

/* All that a stranger can do who was even told the whole name. Exit status: 0 if he was
 * let in by neither end. */
static int stranger(const char *name, int ready)
{
	uint64_t end = ck_msec_now() + 300;
	struct ck_door_way way;
	bool in = false, near = false;

	if (setgid(NOBODY) || setuid(NOBODY))
		return 2;
	in = ck_door_enter(name, &way) != -EPERM;
	while (ck_msec_now() < end) {
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

static pid_t stranger_start(const char *name, int ready)
{
	pid_t child = fork();

	if (child < 0)
		abort();
	if (child == 0)
		_exit(stranger(name, ready));
	return child;
}

static void test_strangers(void)
{
	unsigned fds = fds_count();
	pid_t children[3];
	struct ck_door door;
	int ends[2], status;
	char byte;

	if (geteuid() != 0) {
		printf("ok %u # SKIP only root can be another user\n",
		       ++tap_count);
		return;
	}
	if (pipe2(ends, O_CLOEXEC))
		abort();
	door_make(&door);
	for (size_t i = 0; i < CK_ARRAY_SIZE(children); i++)
		children[i] = stranger_start(door.name, ends[1]);
	ok(read(ends[0], &byte, 1) == 1);
	right_one(&door);
	for (size_t i = 0; i < CK_ARRAY_SIZE(children); i++) {
		struct ck_door_way way;

		/* Nobody is let in while they go on. */
		eq_err(ck_door_wait(&door, SIZE, -1, 100, &way), -ETIMEDOUT);
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(children); i++) {
		waitpid(children[i], &status, 0);
		eq_i64(status, 0);
	}
	close(ends[0]);
	close(ends[1]);
	ck_door_close(&door);
	eq_u64(fds_count(), fds);
}

/* --- doors that are none --------------------------------------------------------------------- */

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
	char name[CK_DOOR_NAME];
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

/* Sends len bytes with n times the descriptor. */
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

/* In the place of a door that is closed, of which the name was told. */
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

static void old_name(char name[CK_DOOR_NAME])
{
	struct ck_door door;

	door_make(&door);
	memcpy(name, door.name, CK_DOOR_NAME);
	ck_door_close(&door);
}

/* Regression: of two descriptors both were kept. */
static void test_liars(void)
{
	for (enum kind k = 0; k < KINDS; k++) {
		unsigned fds = fds_count();
		struct liar l = { .kind = k };
		struct ck_door_way way = { -1, -1, 0 };

		old_name(l.name);
		l.listener = listener_make(l.name, 1);
		if (ck_thread_start(&l.thread, liar_run, &l))
			abort();
		eq_err(ck_door_enter(l.name, &way), k == RIGHT ? 0
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

/* --- doors whose owner does not answer ---------------------------------------------------------- */

static void took_ten_seconds(struct mover *m)
{
	pthread_join(m->thread, NULL);
	eq_err(m->rc, -ETIMEDOUT);
	ok(m->msec >= 9900 && m->msec < 12000);
}

/* Regression: before a door at which others stand it waited for ever. */
static void test_no_answer(void)
{
	struct mover alone = { 0 }, behind = { .late = 100000 };
	unsigned fds = fds_count();
	int first, others[2];
	char name[CK_DOOR_NAME], full[CK_DOOR_NAME];

	old_name(name);
	old_name(full);
	first = listener_make(name, 1);
	others[0] = listener_make(full, 0);
	others[1] = comer(full, NULL, 0);
	mover_start(&alone, name);
	mover_start(&behind, full);
	took_ten_seconds(&alone);
	took_ten_seconds(&behind);
	close(first);
	close(others[0]);
	close(others[1]);
	eq_u64(fds_count(), fds);
}

int main(void)
{
	test_strangers(); /* it forks: before there are threads */
	test_in();
	test_nobody_comes();
	test_names();
	test_no_names();
	test_silent();
	test_gone();
	test_crowd();
	test_liars();
	test_no_answer();
	return tap_done();
}
