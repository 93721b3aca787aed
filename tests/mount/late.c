/* SPDX-License-Identifier: MIT */
/*
 * late: mounts a checkpoint with a mover whose reads take MSEC milliseconds, and
 * keep no thread of the mount meanwhile: what a mover does that asks other hosts.
 *
 *	late MSEC SOURCE MOUNTPOINT [OPTIONS]
 *
 * Writes a line when the tree can be used; serves it until it is unmounted.
 */
#include "ckptfs/fs.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

struct waiting {
	struct waiting *next;
	struct ck_read *read;
	struct timespec until;
};

static struct late {
	struct ck_mover mover;
	struct ck_host_mover host;
	unsigned msec;
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
	return __atomic_load_n(&w->read->unwanted, __ATOMIC_ACQUIRE);
}

/* One that can be answered now, out of the list; under the lock. */
static struct waiting *take(void)
{
	struct waiting **at = &late.first, *w;

	while ((w = *at) && !is_over(w) && !is_unwanted(w))
		at = &w->next;
	if (w)
		*at = w->next;
	return w;
}

static void answer(struct waiting *w)
{
	struct ck_mover *host = &late.host.mover;
	struct ck_read *r = w->read;
	int rc = is_unwanted(w) ? -EINTR : host->read(host, r);

	free(w);
	r->done(r, rc);
}

static void *run(void *unused)
{
	(void)unused;
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

static int late_read(struct ck_mover *m, struct ck_read *r)
{
	struct waiting *w = malloc(sizeof(*w));

	(void)m;
	if (!w)
		return -ENOMEM;
	w->read = r;
	w->until = ck_time_in(CLOCK_MONOTONIC, late.msec);
	pthread_mutex_lock(&late.lock);
	if (!late.started && pthread_create(&late.thread, NULL, run, NULL))
		abort();
	late.started = true;
	w->next = late.first;
	late.first = w;
	pthread_cond_signal(&late.changed);
	pthread_mutex_unlock(&late.lock);
	return -EINPROGRESS;
}

static void late_interrupt(struct ck_mover *m, struct ck_read *r)
{
	(void)m, (void)r;
	pthread_cond_signal(&late.changed);
}

static void ready(uint64_t mount, void *unused)
{
	(void)mount, (void)unused;
	puts("ready");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct ck_mount_options options = { .mover = &late.mover };
	struct ck_checkpoint *cp = NULL;
	struct ck_diag d = { 0 };
	int rc;

	if (argc < 4)
		return 2;
	late.msec = (unsigned)strtoul(argv[1], NULL, 10);
	pthread_mutex_init(&late.lock, NULL);
	pthread_cond_init(&late.changed, NULL);
	late.mover = (struct ck_mover){ "late", true, late_read,
					late_interrupt };
	rc = ck_options_parse(&options, argc > 4 ? argv[4] : "", &d);
	options.format.write = options.write;
	if (rc == 0)
		rc = ck_checkpoint_open(argv[2], &options.format, &cp, &d);
	if (rc == 0) {
		ck_host_mover_init(&late.host, cp->files);
		rc = ck_fs_serve(cp, argv[3], &options, NULL, ready, NULL, &d);
	}
	if (rc)
		fprintf(stderr, "%s\n", d.text);
	ck_checkpoint_close(cp);
	ck_options_fini(&options);
	return rc != 0;
}
