/* SPDX-License-Identifier: MIT */
/*
 * late: mounts a checkpoint with some files marked as remote. Their backend is slow, and
 * blocks no thread of the mount meanwhile.
 *
 *	late MSEC SOURCE MOUNTPOINT [OPTIONS]
 *
 * Each reply takes MSEC milliseconds. Environment variables:
 *
 *	LATE_REMOTE   the remote files: `all`, `odd` numbers or the `first`
 *	LATE_SHUFFLE  replies take random times up to MSEC, so they come in any order
 *	LATE_ERROR=N  each Nth move fails with EIO
 *	LATE_EARLY    all moves fail until the checkpoint is mounted
 *	LATE_NEVER    only cancelled moves are answered; `bulk`: this applies to long moves
 *
 * The program prints a line when the tree can be used, and serves it until it is unmounted.
 * Then it prints the number of moves.
 */
#include "ckptfs/fs.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

struct waiting {
	struct waiting *next;
	struct ck_copy_batch *batch;
	struct timespec until;
};

static struct late {
	struct ck_backend backend;
	struct ck_local_backend host;
	struct ck_files *files; /* the same files, all local */
	unsigned msec, error;
	bool shuffle, early, bulk;
	atomic_bool ready, never;
	unsigned moved;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	struct waiting *first;
} late;

static bool is_over(const struct waiting *w)
{
	struct timespec now = ck_time_in(CLOCK_MONOTONIC, 0);

	return now.tv_sec != w->until.tv_sec ? now.tv_sec > w->until.tv_sec
					     : now.tv_nsec >= w->until.tv_nsec;
}

static bool is_unwanted(const struct waiting *w)
{
	return __atomic_load_n(&w->batch->cancelled, __ATOMIC_ACQUIRE);
}

static bool is_for_ever(const struct ck_copy_batch *batch)
{
	return late.never && (!late.bulk || batch->list[0].run > 65536);
}

/* Removes a batch that may complete now from the list, or returns NULL. Must
 * hold late.lock. */
static struct waiting *take(void)
{
	struct waiting **at = &late.first, *w;

	while ((w = *at) && !is_unwanted(w) &&
	       (is_for_ever(w->batch) || !is_over(w)))
		at = &w->next;
	if (w)
		*at = w->next;
	return w;
}

static void answer(struct waiting *w)
{
	struct ck_backend *host = &late.host.backend;
	struct ck_copy_batch *m = w->batch;
	bool cancelled = is_unwanted(w);

	free(w);
	if (!cancelled)
		(void)host->start(host, m);
	for (size_t i = 0; i < m->n; i++) {
		late.moved++;
		if (cancelled)
			m->list[i].rc = -EINTR;
		else if ((late.early && !late.ready) ||
			 (late.error && late.moved % late.error == 0))
			m->list[i].rc = -EIO;
	}
	m->done(m);
}

/* Blocks all signals: a thread of the mount waits for them. */
static void *run(void *unused)
{
	sigset_t all;

	(void)unused;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	pthread_mutex_lock(&late.lock);
	for (;;) {
		struct waiting *w = take();
		struct timespec soon = ck_time_in(CLOCK_REALTIME, 5);

		if (!w) {
			pthread_cond_timedwait(&late.changed, &late.lock,
					       &soon);
			continue;
		}
		pthread_mutex_unlock(&late.lock);
		answer(w);
		pthread_mutex_lock(&late.lock);
	}
	return NULL;
}

static int late_start(struct ck_backend *m, struct ck_copy_batch *batch)
{
	struct waiting *w = malloc(sizeof(*w));
	unsigned msec = late.msec;

	(void)m;
	if (!w)
		abort();
	pthread_mutex_lock(&late.lock);
	if (late.shuffle)
		msec = (unsigned)rand() % (late.msec + 1);
	w->batch = batch;
	w->until = ck_time_in(CLOCK_MONOTONIC, msec);
	if (!late.started && pthread_create(&late.thread, NULL, run, NULL))
		abort();
	late.started = true;
	w->next = late.first;
	late.first = w;
	pthread_cond_signal(&late.changed);
	pthread_mutex_unlock(&late.lock);
	return -EINPROGRESS;
}

static void late_interrupt(struct ck_backend *m, struct ck_copy_batch *batch)
{
	(void)m, (void)batch;
	pthread_cond_signal(&late.changed);
}

/* --- selection of remote files ------------------------------------------------------ */

static bool is_chosen(uint32_t i)
{
	const char *which = getenv("LATE_REMOTE");

	if (which && strcmp(which, "odd") == 0)
		return i % 2;
	return !which || strcmp(which, "all") == 0 || i == 0;
}

static void files_part(struct ck_checkpoint *cp,
		       const struct ck_format_options *o)
{
	late.files = ck_files_make(cp->dirfd, o->shardlinks, 64);
	for (uint32_t i = 0; i < ck_files_count(cp->files); i++) {
		struct ck_file_info info = *ck_files_info(cp->files, i);
		uint32_t number;

		if (ck_files_add(late.files, info.path, &number) || number != i)
			abort();
		if (is_chosen(i))
			ck_files_set_remote(cp->files, i, &info);
	}
	ck_local_backend_init(&late.host, late.files);
}

static void ready(uint64_t mount, void *unused)
{
	(void)mount, (void)unused;
	late.never = getenv("LATE_NEVER");
	late.ready = true;
	puts("ready");
	fflush(stdout);
}

static unsigned number_of(const char *name)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
	struct ck_mount_options options = { .remote = &late.backend };
	struct ck_checkpoint *cp = NULL;
	struct ck_diag d = { 0 };
	int rc;

	if (argc < 4)
		return 2;
	late.msec = (unsigned)strtoul(argv[1], NULL, 10);
	late.error = number_of("LATE_ERROR");
	late.shuffle = getenv("LATE_SHUFFLE");
	late.early = getenv("LATE_EARLY");
	late.bulk = getenv("LATE_NEVER") &&
		    strcmp(getenv("LATE_NEVER"), "bulk") == 0;
	srand(number_of("LATE_SEED"));
	pthread_mutex_init(&late.lock, NULL);
	pthread_cond_init(&late.changed, NULL);
	late.backend = (struct ck_backend){ .name = "late",
					    .start = late_start,
					    .interrupt = late_interrupt };
	rc = ck_options_parse(&options, argc > 4 ? argv[4] : "", &d);
	options.format.write = options.write;
	if (rc == 0)
		rc = ck_checkpoint_open(argv[2], &options.format, &cp, &d);
	if (rc == 0) {
		files_part(cp, &options.format);
		rc = ck_fs_serve(cp, argv[3], &options, NULL, ready, NULL, &d);
	}
	if (rc)
		fprintf(stderr, "%s\n", d.text);
	printf("%u moves\n", late.moved);
	ck_checkpoint_close(cp);
	ck_options_fini(&options);
	return rc != 0;
}
