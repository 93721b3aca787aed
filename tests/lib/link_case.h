/* SPDX-License-Identifier: MIT */
/*
 * link_case: a directory with files whose bytes are known, a link to a mover, and moves
 * through it that are checked byte by byte.
 */
#ifndef CK_LINK_CASE_H
#define CK_LINK_CASE_H

#include "dist/client/remote_client.h"
#include "dist/rpc/link.h"
#include "dist/server/serve.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 5, FILE_BYTES = 300000 };

static char dir[] = "/tmp/link_test.XXXXXX";
static uint8_t content[FILES][FILE_BYTES];
static int dirfd_all = -1; /* of dir */

/* --- the directory ------------------------------------------------------------------- */

static inline struct ck_str file_name(unsigned file)
{
	static const char *names[FILES] = { "f0", "f1", "f2", "f3", "f4" };

	return (struct ck_str){ names[file], 2 };
}

static inline void *thread_of_nothing(void *arg)
{
	return arg;
}

/* What a sanitizer begins with the first thread is there from now on. */
static inline void threads_prepare(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, thread_of_nothing, NULL))
		abort();
	pthread_join(thread, NULL);
}

static inline void dir_make(void)
{
	uint64_t r = 9;

	threads_prepare();
	if (!mkdtemp(dir) || ck_sigbus_install())
		abort();
	dirfd_all = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < FILES; i++) {
		int fd = openat(dirfd_all, file_name(i).p,
				O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		for (size_t k = 0; k < FILE_BYTES; k++)
			content[i][k] = (uint8_t)(tap_random(&r) >> 32 & 0xff);
		if (write(fd, content[i], FILE_BYTES) != FILE_BYTES)
			abort();
		close(fd);
	}
}

static inline void dir_remove(void)
{
	for (unsigned i = 0; i < FILES; i++)
		unlinkat(dirfd_all, file_name(i).p, 0);
	close(dirfd_all);
	rmdir(dir);
}

static inline struct ck_file_server *owner_make(void)
{
	struct ck_file_server *o =
		ck_file_server_make(dirfd_all, CK_BENEATH_NO_SYMLINKS, 16);

	if (!o)
		abort();
	return o;
}

/* Whether a thread of this process ends: pthread_join(3) may return before its entry in
 * /proc is removed. */
static inline bool thread_is_ending(const char *tid)
{
	enum { EXITING = 4 }; /* PF_EXITING of the kernel */

	char path[300];
	unsigned flags = EXITING;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/stat", tid);
	f = fopen(path, "re");
	if (f &&
	    fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		flags = EXITING;
	if (f)
		fclose(f);
	return flags & EXITING;
}

/* How many there are of this process: descriptors ("fd") or threads ("task"). */
static inline unsigned proc_count(const char *what)
{
	bool threads = strcmp(what, "task") == 0;
	const struct dirent *entry;
	char path[64];
	unsigned n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/self/%s", what);
	d = opendir(path);
	while (d && (entry = readdir(d)))
		n += entry->d_name[0] != '.' &&
		     !(threads && thread_is_ending(entry->d_name));
	if (d)
		closedir(d);
	return n;
}

static inline uint64_t msec_now(void)
{
	struct timespec t = ck_time_in(CLOCK_MONOTONIC, 0);

	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline void msec_sleep(uint64_t msec)
{
	usleep((useconds_t)(msec * 1000));
}

static inline bool is_up_within(struct ck_link *l, uint32_t peer, bool up,
				uint64_t msec)
{
	uint64_t end = msec_now() + msec;

	while (ck_calls_is_up(ck_link_calls(l), peer) != up && msec_now() < end)
		msec_sleep(5);
	return ck_calls_is_up(ck_link_calls(l), peer) == up;
}

/* --- a link and its mover -------------------------------------------------------------- */

struct joined {
	struct ck_link_options options; /* all but sock, memory: set before */
	struct ck_serve_options serve;	/* memory_most, threads: set before */
	struct ck_link *link;
	struct ck_remote_client requester;
	struct ck_location files[FILES];
	pid_t child; /* or it is the thread */
	pthread_t thread;
	int rc; /* of the thread */
};

static inline struct joined *joined_make(void)
{
	struct joined *j = calloc(1, sizeof(*j));

	if (!j)
		abort();
	j->options.size = 72 << 20;
	j->options.calls = (struct ck_calls_options){ .npeers = 1,
						      .ping_msec = 20,
						      .silence_msec = 60000,
						      .timeout_msec = 120000,
						      .window = 4 << 20 };
	j->serve = (struct ck_serve_options){
		.memory_most = 8 << 20,
		.threads = 2,
		.link = -1,
		.rounds = { .link = -1 },
		.stop = -1,
	};
	return j;
}

/* Memory for a link. */
static inline int memory_make(uint64_t size)
{
	int fd = memfd_create("link", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		abort();
	return fd;
}

/* The two ends' descriptors. */
static inline void joined_prepare(struct joined *j)
{
	int ends[2], memory = memory_make(j->options.size);

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		abort();
	j->options.sock = ends[0];
	j->options.memory = memory;
	j->serve.link = ends[1];
	j->serve.memory = dup(memory);
	j->serve.size = j->options.size;
}

static inline void *joined_run(void *arg)
{
	struct joined *j = arg;

	j->serve.owner = owner_make();
	j->rc = ck_serve_run(&j->serve);
	ck_file_server_free(j->serve.owner);
	close(j->serve.link);
	close(j->serve.memory);
	return NULL;
}

/* run: of the mover, in a thread, or in another process. */
static inline void joined_start(struct joined *j, bool forked,
				void *(*run)(void *))
{
	joined_prepare(j);
	if (forked) {
		fflush(stdout);
		j->child = fork();
		if (j->child < 0)
			abort();
		if (j->child == 0) {
			close(j->options.sock);
			close(j->options.memory);
			run(j);
			_exit(j->rc != 0);
		}
		close(j->serve.link);
		close(j->serve.memory);
	} else if (pthread_create(&j->thread, NULL, run, j)) {
		abort();
	}
	if (ck_link_make(&j->options, &j->link))
		abort();
	ck_remote_client_init(
		&j->requester,
		&(struct ck_routes){ .calls = ck_link_calls(j->link),
				     .files = j->files,
				     .n = FILES });
}

/* What the mover came to: the status of a process, 0 or an error of a thread. */
static inline int joined_end(struct joined *j)
{
	int rc = 0;

	ck_link_free(j->link);
	ck_remote_client_fini(&j->requester);
	if (j->child > 0) {
		if (waitpid(j->child, &rc, 0) != j->child)
			abort();
	} else {
		pthread_join(j->thread, NULL);
		rc = j->rc;
	}
	free(j);
	return rc;
}

/* Has it know all files' numbers at a peer. 0 or an error. */
static inline int joined_look(struct joined *j, uint32_t peer)
{
	struct ck_name_stat said[FILES];
	struct ck_str names[FILES];
	int rc;

	for (unsigned i = 0; i < FILES; i++)
		names[i] = file_name(i);
	rc = ck_calls_stat(ck_link_calls(j->link), peer,
			   (struct ck_ids){ getuid(), getgid() }, names, FILES,
			   said);
	for (unsigned i = 0; i < FILES && rc == 0; i++) {
		if (!said[i].seen || said[i].info.size != FILE_BYTES)
			return -ENOENT;
		j->files[i] = (struct ck_location){ peer, said[i].number };
	}
	return rc;
}

/* The same of a link whose limits may expire while a busy machine answers. */
static inline void joined_look_until(struct joined *j, uint32_t peer)
{
	uint64_t end = msec_now() + 60000;

	while (joined_look(j, peer)) {
		if (msec_now() > end)
			abort();
		msec_sleep(50);
	}
}

/* --- moves ------------------------------------------------------------------------------ */

enum { MOVES = 3, LOOPS = 2, TO = 200000, FILL = 0xa5 };

/* Some moves at once. */
struct trip {
	struct ck_copy_batch batch; /* first */
	struct ck_copy_desc list[MOVES];
	struct ck_loop loops[MOVES][LOOPS];
	uint8_t to[MOVES][TO], want[MOVES][TO];
	sem_t done;
	unsigned times; /* that done() was called; atomic */
};

static inline void trip_done(struct ck_copy_batch *m)
{
	struct trip *t = (struct trip *)m;

	__atomic_fetch_add(&t->times, 1, __ATOMIC_RELAXED);
	sem_post(&t->done);
}

static inline void trip_init(struct trip *t)
{
	memset(t, 0, sizeof(*t));
	sem_init(&t->done, 0, 0);
}

/* Any move that lies inside of its file and its place. */
static inline void move_make(struct ck_copy_desc *m, struct ck_loop *loops,
			     uint8_t *to, uint64_t *r)
{
	uint64_t most = tap_random(r) % 8 ? 2000 : 40000;
	uint64_t src = 0, dst;

	*m = (struct ck_copy_desc){ .file = (uint32_t)(tap_random(r) % FILES),
				    .nloops = (uint32_t)(tap_random(r) % 3),
				    .loops = loops,
				    .run = 1 + tap_random(r) % most,
				    .to = to };
	dst = m->run;
	for (uint32_t k = m->nloops; k > 0 && k--;) {
		loops[k].count = 1 + tap_random(r) % 2;
		loops[k].dst = dst + tap_random(r) % 9;
		loops[k].src = tap_random(r) % 60000;
		dst = loops[k].dst * loops[k].count;
		src += loops[k].src * (loops[k].count - 1);
	}
	m->fpos = tap_random(r) % (FILE_BYTES - src - m->run + 1);
}

/* Computes the expected bytes of a move, byte by byte. */
static inline void move_model(const struct ck_copy_desc *m, uint8_t *want)
{
	uint64_t outer = m->nloops ? m->loops[0].count : 1;
	uint64_t inner = m->nloops > 1 ? m->loops[1].count : 1;

	for (uint64_t i = 0; i < outer * inner; i++) {
		uint64_t src = m->fpos, dst = 0;

		if (m->nloops) {
			src += i / inner * m->loops[0].src;
			dst += i / inner * m->loops[0].dst;
		}
		if (m->nloops > 1) {
			src += i % inner * m->loops[1].src;
			dst += i % inner * m->loops[1].dst;
		}
		memcpy(want + dst, content[m->file] + src, m->run);
	}
}

static inline void trip_make(struct trip *t, uint64_t *r)
{
	t->batch = (struct ck_copy_batch){ .list = t->list,
					   .n = 1 + tap_random(r) % MOVES,
					   .done = trip_done };
	t->times = 0;
	for (size_t i = 0; i < t->batch.n; i++) {
		memset(t->to[i], FILL, TO);
		memset(t->want[i], FILL, TO);
		move_make(&t->list[i], t->loops[i], t->to[i], r);
		move_model(&t->list[i], t->want[i]);
	}
}

/* Waits until it is done. */
static inline void trip_wait(struct trip *t)
{
	struct timespec end = ck_time_in(CLOCK_REALTIME, 180000);

	while (sem_timedwait(&t->done, &end))
		if (errno != EINTR)
			abort(); /* it never ends */
}

/* Checks the results of a trip. False if one of them is not allowed. */
static inline bool trip_is_right(struct trip *t, bool may_fail, bool may_intr,
				 unsigned *good)
{
	bool right = __atomic_load_n(&t->times, __ATOMIC_RELAXED) <= 1;

	for (size_t i = 0; i < t->batch.n; i++) {
		int rc = t->list[i].rc;

		if (rc == 0)
			right &= memcmp(t->to[i], t->want[i], TO) == 0;
		else
			right &= (rc == -EIO && may_fail) ||
				 (rc == -EINTR && may_intr);
		*good += rc == 0;
	}
	return right;
}

/* --- threads that move all the time --------------------------------------------------------- */

struct movers {
	struct joined *j;
	bool may_fail, interrupts;
	unsigned trips; /* for each thread; 0: until `ending` */
	uint64_t random;
	/* Atomic: */
	bool ending;
	unsigned wrong, good, failed, seeds;
	uint64_t longest; /* msec of a trip */
};

static inline void count(unsigned *counter, unsigned by)
{
	__atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}

static inline void trip_interrupt(struct movers *m, struct trip *t, uint64_t *r)
{
	struct ck_backend *backend = &m->j->requester.backend;

	usleep((useconds_t)(tap_random(r) % 300));
	__atomic_store_n(&t->batch.cancelled, true, __ATOMIC_RELEASE);
	backend->interrupt(backend, &t->batch);
}

static inline void trip_run(struct movers *m, struct trip *t, uint64_t *r)
{
	struct ck_backend *backend = &m->j->requester.backend;
	bool drop = m->interrupts && tap_random(r) % 3 == 0;
	uint64_t from = msec_now(), took;
	unsigned good = 0;

	trip_make(t, r);
	if (backend->start(backend, &t->batch) == -EINPROGRESS) {
		if (drop)
			trip_interrupt(m, t, r);
		trip_wait(t);
	}
	took = msec_now() - from;
	count(&m->wrong, !trip_is_right(t, m->may_fail, drop, &good));
	count(&m->good, good);
	count(&m->failed, good < t->batch.n);
	if (took > __atomic_load_n(&m->longest, __ATOMIC_RELAXED))
		__atomic_store_n(&m->longest, took, __ATOMIC_RELAXED);
}

static inline void *mover_run(void *arg)
{
	struct movers *m = arg;
	struct trip *t = malloc(sizeof(*t));
	uint64_t r = m->random + 77 +
		     __atomic_add_fetch(&m->seeds, 1, __ATOMIC_RELAXED);

	if (!t)
		abort();
	trip_init(t);
	for (unsigned i = 0; !__atomic_load_n(&m->ending, __ATOMIC_RELAXED) &&
			     (m->trips == 0 || i < m->trips);
	     i++)
		trip_run(m, t, &r);
	sem_destroy(&t->done);
	free(t);
	return NULL;
}

enum { MOVERS = 4 };

static inline void movers_start(struct movers *m, pthread_t threads[MOVERS])
{
	for (unsigned i = 0; i < MOVERS; i++)
		if (pthread_create(&threads[i], NULL, mover_run, m))
			abort();
}

static inline void movers_join(const pthread_t threads[MOVERS])
{
	for (unsigned i = 0; i < MOVERS; i++)
		pthread_join(threads[i], NULL);
}

#endif
