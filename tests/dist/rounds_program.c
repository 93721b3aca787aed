/* SPDX-License-Identifier: MIT */
/*
 * rounds_beside: ckptfs with a test double for the initiator of rounds beside a mount. If
 * CKPTFS_ROUNDS names a file, each job of a mount or of an external launcher is for rounds on
 * the GPUs 0 and 1. A line is added to the file for each message from the rank beside a mount to
 * the initiator:
 *
 *	take EPOCH NUMBER...	a job has started; the rank of each peer in it, or -
 *	job EPOCH RANK RANKS	the first message of the rank
 *	lost EPOCH RANK
 *	message EPOCH RANK BYTES	a message of that rank
 *	end EPOCH
 */
#include "cluster.h"
#include "dist/rpc/link.h"
#include "dist/rpc/link_internal.h"
#include "serve_rank.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

int __real_ck_cluster_start(struct ck_hosts_options *options,
			    struct ck_format_options *format,
			    const char **source, int wanted,
			    struct ck_cluster **out, struct ck_diag *d);
int __wrap_ck_cluster_start(struct ck_hosts_options *options,
			    struct ck_format_options *format,
			    const char **source, int wanted,
			    struct ck_cluster **out, struct ck_diag *d);

int __real_ck_cluster_join(struct ck_hosts_options *options,
			   struct ck_inherited *handed,
			   struct ck_format_options *format,
			   struct ck_cluster **out, struct ck_diag *d);
int __wrap_ck_cluster_join(struct ck_hosts_options *options,
			   struct ck_inherited *handed,
			   struct ck_format_options *format,
			   struct ck_cluster **out, struct ck_diag *d);
int __real_ck_serve_rank_parse(struct ck_serve_rank *l);
int __wrap_ck_serve_rank_parse(struct ck_serve_rank *l);

struct job {
	struct ck_rendezvous_link way;
	struct ck_frames frames;
	uint32_t epoch;
};

static void note(const char *line)
{
	ck_auto_fd int fd = open(getenv("CKPTFS_ROUNDS"),
				 O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
				 0600);

	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		abort();
}

static void note_frame(uint32_t epoch, const struct ck_framed *f)
{
	uint32_t peer = f->frame.peer;

	switch (f->frame.kind) {
	case CK_FRAME_JOB:
		note(ck_shown("job %" PRIu32 " %" PRIu32 " %" PRIu64 "\n",
			      epoch, peer, f->frame.place));
		break;
	case CK_FRAME_LOST:
		note(ck_shown("lost %" PRIu32 " %" PRIu32 "\n", epoch, peer));
		break;
	default:
		note(ck_shown("message %" PRIu32 " %" PRIu32 " %" PRIu32 "\n",
			      epoch, peer, f->head.body));
	}
}

static void *listen_run(void *arg)
{
	struct job *j = arg;
	struct pollfd fd = { .fd = j->way.sock, .events = POLLIN };
	struct ck_framed f;
	int rc = 0;

	while (rc == 0) {
		(void)poll(&fd, 1, -1);
		rc = ck_frames_read(&j->frames);
		while (ck_frames_next(&j->frames, &f) > 0)
			note_frame(j->epoch, &f);
	}
	note(ck_shown("end %" PRIu32 "\n", j->epoch));
	ck_frames_fini(&j->frames);
	ck_rendezvous_link_fini(&j->way);
	free(j);
	return NULL;
}

static void take(void *arg, struct ck_rendezvous_link *way, uint32_t epoch,
		 const uint32_t *numbers, uint32_t npeers)
{
	struct job *j = calloc(1, sizeof(*j));
	struct ck_buf line = { 0 };
	pthread_t thread;

	(void)arg;
	if (!j)
		abort();
	j->way = *way;
	j->frames.fd = way->sock;
	j->epoch = epoch;
	ck_buf_printf(&line, "take %" PRIu32, epoch);
	for (uint32_t i = 0; i < npeers; i++)
		if (numbers[i] == CK_LINK_NO_RANK)
			ck_buf_text(&line, " -");
		else
			ck_buf_printf(&line, " %" PRIu32, numbers[i]);
	ck_buf_text(&line, "\n");
	note(line.data);
	ck_buf_fini(&line);
	if (ck_thread_start(&thread, listen_run, j) || pthread_detach(thread))
		abort();
}

static void ask_for(struct ck_hosts_options *options)
{
	static const struct ck_rounds_taker taker = { .take = take };

	if (!getenv("CKPTFS_ROUNDS"))
		return;
	options->nccl = "0+1";
	options->rounds = &taker;
}

int __wrap_ck_serve_rank_parse(struct ck_serve_rank *l)
{
	ask_for(&l->options.hosts);
	return __real_ck_serve_rank_parse(l);
}

int __wrap_ck_cluster_join(struct ck_hosts_options *options,
			   struct ck_inherited *handed,
			   struct ck_format_options *format,
			   struct ck_cluster **out, struct ck_diag *d)
{
	ask_for(options);
	return __real_ck_cluster_join(options, handed, format, out, d);
}

int __wrap_ck_cluster_start(struct ck_hosts_options *options,
			    struct ck_format_options *format,
			    const char **source, int wanted,
			    struct ck_cluster **out, struct ck_diag *d)
{
	ask_for(options);
	return __real_ck_cluster_start(options, format, source, wanted, out, d);
}
