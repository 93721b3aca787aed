/* SPDX-License-Identifier: MIT */
/* cluster: see cluster.h. */
#include "cluster.h"
#include "ckptfs/door.h"
#include "ckptfs/job.h"
#include "ckptfs/link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	COME_MSEC = 30000, /* until all processes have found each other */
	END_MSEC = 3000,   /* until they have ended by themselves */
	MEMORY = 64 << 20, /* bytes of answers, shared with the mover */
	WINDOW = 16 << 20,
	PING_MSEC = 1000,
	SILENCE_MSEC = 5000,
};

struct ck_cluster {
	const struct ck_cluster_options *options;
	bool *there; /* by host of the list */
	struct ck_host_rank *ranks;
	uint32_t nranks;
	struct ck_door door;
	struct ck_job job;
	struct ck_link *link;
	struct ck_hosts *hosts;
	/* What the processes say is logged by a thread. */
	pthread_t listener;
	int stop; /* an eventfd that ends it; -1: it was not started */
};

/* --- what they say ------------------------------------------------------------------ */

/* Whole lines; what is left waits for its end. */
static void log_lines(struct ck_buf *said)
{
	struct ck_cur c = ck_cur_make(said->data, said->len);
	struct ck_str line;

	while (ck_cur_line(&c, &line))
		if (line.len)
			ck_log("%s", ck_show(line));
	if (ck_cur_left(&c)) {
		size_t left = ck_cur_left(&c);

		memmove(said->data, said->data + said->len - left, left);
		said->len = left;
	} else {
		said->len = 0;
	}
}

static void *listen_run(void *arg)
{
	struct ck_cluster *c = arg;
	struct ck_buf said = { 0 };
	struct pollfd fds[] = { { .fd = c->stop, .events = POLLIN },
				{ .fd = c->job.said, .events = POLLIN } };

	while (!fds[0].revents) {
		if (poll(fds, 2, -1) < 0)
			continue;
		ck_job_hear(&c->job, &said);
		log_lines(&said);
		if (fds[1].revents && !(fds[1].revents & POLLIN))
			fds[1].fd = -1; /* all of them have closed it */
	}
	ck_buf_fini(&said);
	return NULL;
}
