/* SPDX-License-Identifier: MIT */
/*
 * gpulink_rounds: the job whose rounds the worker takes part in, so that bytes
 * of other hosts arrive directly on its device. A worker that replaces another
 * one takes part only in the next job. State: struct ck_gpulink_job, under the
 * lock. Any thread.
 */
#include "gpulink_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>

/* Must hold the lock. */
static void set_job(struct ck_gpulink *l, int rc, const char *text)
{
	l->job.reported = true;
	l->job.rc = rc;
	(void)snprintf(l->job.text, sizeof(l->job.text), "%s", text);
	__atomic_store_n(&l->is.rounds, rc ? 0 : l->job.set, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&l->changed);
}

void ck_gpulink_job_fini(struct ck_gpulink_job *job)
{
	ck_rendezvous_link_fini(&job->link_fds);
	while (job->absent) {
		struct ck_gpulink_absent *next = job->absent->next;

		free(job->absent);
		job->absent = next;
	}
}

void ck_gpulink_join(struct ck_gpulink *l,
		     const struct ck_rendezvous_link *link_fds, uint32_t set)
{
	pthread_mutex_lock(&l->lock);
	ck_gpulink_job_fini(&l->job);
	l->job = (struct ck_gpulink_job){ .link_fds = *link_fds, .set = set };
	__atomic_store_n(&l->is.rounds, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&l->lock);
	(void)eventfd_write(l->wake, 1);
}

void ck_gpulink_hand_over(struct ck_gpulink *l, struct ck_gpulink_worker *m)
{
	struct ck_rendezvous_link *link_fds = &l->job.link_fds;
	int rc = -EAGAIN;

	pthread_mutex_lock(&l->lock);
	if (m->up && link_fds->sock >= 0) {
		const int files[CK_GPU_FILES] = { link_fds->sock,
						  link_fds->memory };
		const struct ck_gpu_message message = {
			.kind = CK_GPU_JOIN,
			.set = l->job.set,
			.bytes = link_fds->size
		};

		rc = ck_gpu_send_files(m->sock, &message, files);
	}
	if (rc != -EAGAIN)
		ck_rendezvous_link_fini(link_fds);
	pthread_mutex_unlock(&l->lock);
}

/* Messages about an earlier job are ignored. */
void ck_gpulink_handle_joined(struct ck_gpulink *l, struct ck_gpulink_worker *m,
			      const struct ck_gpu_message *message)
{
	bool news;

	(void)m;
	pthread_mutex_lock(&l->lock);
	news = message->set == l->job.set && l->job.set;
	if (news)
		set_job(l, message->rc, message->text);
	pthread_mutex_unlock(&l->lock);
	/* The end of a job is reported by hosts. */
	if (news && message->rc && message->rc != -EPIPE)
		ck_log("no bytes come by NCCL: %s",
		       ck_show(ck_str_from(message->text)));
}

/* The first report of a rank counts. */
static struct ck_gpulink_absent *find_absent(const struct ck_gpulink *l,
					     uint32_t rank)
{
	struct ck_gpulink_absent *a = l->job.absent;

	while (a && a->rank != rank)
		a = a->next;
	return a;
}

void ck_gpulink_handle_absent(struct ck_gpulink *l,
			      const struct ck_gpu_message *message)
{
	size_t len = strlen(message->text);
	struct ck_gpulink_absent *a = NULL;

	pthread_mutex_lock(&l->lock);
	if (len && message->set == l->job.set && !find_absent(l, message->rank))
		a = calloc(1, sizeof(*a) + len + 1);
	if (a) {
		a->rank = message->rank;
		memcpy(a->why, message->text, len);
		a->next = l->job.absent;
		l->job.absent = a;
	}
	pthread_mutex_unlock(&l->lock);
}

bool ck_gpulink_why_absent(struct ck_gpulink *l, uint32_t set, uint32_t rank,
			   char *out, size_t size)
{
	const struct ck_gpulink_absent *a = NULL;

	pthread_mutex_lock(&l->lock);
	if (set == l->job.set)
		a = find_absent(l, rank);
	if (a)
		(void)snprintf(out, size, "%s", a->why);
	pthread_mutex_unlock(&l->lock);
	return a != NULL;
}

void ck_gpulink_job_lost(struct ck_gpulink *l)
{
	if (l->job.set && l->job.link_fds.sock < 0)
		set_job(l, -EPIPE,
			"the process with the GPU was replaced; the next job "
			"of the hosts has NCCL again");
}

int ck_gpulink_joined(struct ck_gpulink *l, uint32_t set, uint32_t msec,
		      struct ck_diag *d)
{
	struct timespec end = ck_time_in(CLOCK_REALTIME, msec);
	int rc = 0;

	pthread_mutex_lock(&l->lock);
	while (!l->job.reported && l->job.set == set && rc == 0)
		rc = pthread_cond_timedwait(&l->changed, &l->lock, &end);
	if (l->job.set != set)
		rc = ck_fail(d, ESTALE, "another job is there");
	else if (!l->job.reported)
		rc = ck_fail(d, ETIMEDOUT,
			     "the process with the GPU does not "
			     "answer");
	else if (l->job.rc)
		rc = ck_fail(d, -l->job.rc, "%s", l->job.text);
	else
		rc = 0;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

bool ck_gpulink_nccl(struct ck_gpulink *l, char *out, size_t size)
{
	bool there;

	pthread_mutex_lock(&l->lock);
	there = l->job.set && l->job.reported && l->job.rc == 0;
	(void)snprintf(out, size, "%s",
		       l->job.reported ? l->job.text
		       : l->job.set    ? "it has not begun"
				       : "no job of hosts takes part");
	pthread_mutex_unlock(&l->lock);
	return there;
}
