/* SPDX-License-Identifier: MIT */
/*
 * gpus: the mount's side: starts the process that forks workers, waits for the
 * first worker, and configures the gather engine. Called by the thread that
 * prepares the mount; start() by the link's thread.
 */
#include "base/system/component.h"
#include "ckptfs/launch.h"
#include "dist/launch/control_msg.h"
#include "gpus_internal.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum {
	OPEN_MSEC = 60000, /* limit for the first worker to open its devices */
	END_MSEC = 1000,   /* limit for it to end by itself */
	TIMEOUT = 30,	   /* seconds per gather request, by default */
	NUMBER = 12,	   /* bytes of an argument with a device's number */
};

static const uint64_t pinned = UINT64_C(256) << 20; /* bytes, by default */

/* --- the process that forks workers --------------------------------------- */

int ck_gpus_forker_start(const struct ck_gpu_choice *c, int *sock,
			 struct ck_subprocess *job)
{
	static char serve[] = "serve", gpus[] = CK_GPUS_WORD;
	ck_auto_free char *program = ck_subprocess_program();
	char numbers[CK_GPUS_GIVEN_MOST][NUMBER];
	char *words[3 + CK_GPUS_GIVEN_MOST + 1] = { program, serve, gpus };

	if (!program)
		return -errno;
	for (uint32_t i = 0; i < c->n; i++) {
		(void)snprintf(numbers[i], NUMBER, "%u", c->devices[i]);
		words[3 + i] = numbers[i];
	}
	return ck_control_msg_job(words, sock, job);
}

/* Called by the link's thread. */
static int worker_start(void *arg, int sock, int memory)
{
	const struct ck_gpus *g = arg;
	const struct ck_control_msg note = { .kind = CK_CONTROL_MSG_START,
					     .err = g->options->hosts.rounds !=
						    NULL,
					     .files = { sock, memory, -1 } };

	return ck_control_msg_send(g->sock, &note, false);
}

/* --- the mount ------------------------------------------------------------ */

static void print_paths(void *arg, struct ck_buf *out)
{
	struct ck_gpus *g = arg;
	bool gathers = g->options->gathers;

	const struct ck_stats_path file = { .host = g->host,
					    .path = "file",
					    .used = !gathers };

	if (g->alone)
		ck_stats_print_path(&file, out);
	ck_gpulink_print(g->link, gathers, out);
	ck_gpus_rounds_print(g, out);
}

static void print_status(void *arg, struct ck_buf *out)
{
	struct ck_gpus *g = arg;
	char text[512];
	bool there;

	if (!g->options->hosts.rounds)
		return;
	there = ck_gpulink_nccl(g->link, text, sizeof(text));
	ck_buf_text(out, there ? "NCCL: " : "NCCL: no, ");
	ck_buf_escaped(out, ck_str_from(text));
	ck_buf_text(out, "\n");
}

/* Without a CUDA driver no worker is started, unless the options require one.
 * Returns the reason, or NULL. */
static const char *why_none(const struct ck_mount_options *o)
{
	bool requested = o->gpu.n || o->gpu.gather == CK_GATHER_GPU ||
			 o->hosts.rounds;

	return requested || ck_loader_may_find("libcuda.so.1")
		       ? NULL
		       : "no driver of CUDA: libcuda.so.1 is nowhere where the "
			 "loader looks";
}

static int link_start(struct ck_gpus *g)
{
	const struct ck_mount_options *o = g->options;
	unsigned timeout = o->hosts.timeout ? o->hosts.timeout : TIMEOUT;
	const struct ck_gpulink_options link = {
		.pinned = o->gpu.pinned ? o->gpu.pinned : pinned,
		.timeout_msec = timeout * 1000,
		.start = worker_start,
		.arg = g,
		.thread_init = ck_fs_thread_init(g->options),
		.none = why_none(o),
		.host = g->host,
	};
	int rc = 0;

	/* NCCL uses the same networks as MPI. */
	if (o->hosts.rounds)
		rc = ck_launch_bind_nccl(o->hosts.net, CK_LAUNCH_RDMA);
	if (rc == 0 && !link.none)
		rc = ck_gpus_forker_start(&o->gpu, &g->sock, &g->job);
	return rc ? rc : ck_gpulink_make(&link, &g->link);
}

/* Ends the process that forks workers. */
static void forker_end(struct ck_gpus *g)
{
	ck_fd_cleanup(&g->sock);
	if (g->job.ended >= 0)
		ck_subprocess_end(&g->job, END_MSEC);
}

/* A missing GPU is an error only with gather=gpu; otherwise the log and .ckptfs/stats have the
 * reason. Without a driver the process that forks workers ends. */
static int settle(struct ck_gpus *g, struct ck_mount_options *o,
		  struct ck_diag *d)
{
	struct ck_diag why = { 0 };
	int rc = ck_gpulink_wait(g->link, OPEN_MSEC, &why);
	bool there = rc == 0;

	if (there)
		ck_gpulink_measure(g->link);
	if (there && !ck_gpulink_works(g->link))
		rc = ck_fail(&why, EIO, "nothing came back from there");
	o->gathers = rc == 0 && o->gpu.gather == CK_GATHER_GPU;
	if (rc && o->gpu.gather == CK_GATHER_GPU)
		return ck_fail(d, EIO,
			       "option gather=gpu: no GPU can be used: %s",
			       why.text);
	if (rc)
		ck_log("%s: %s",
		       there ? "no read goes to a GPU" : "no GPU is used",
		       why.text);
	if (ck_gpulink_is_over(g->link))
		forker_end(g);
	else
		o->gather_engine = ck_gpulink_gather_engine(g->link);
	o->gpu_paths = print_paths;
	o->gpu_status = print_status;
	o->gpu_arg = g;
	return 0;
}

int ck_gpus_make(struct ck_mount_options *options, struct ck_gpus **out,
		 struct ck_diag *d)
{
	struct ck_gpus *g;

	*out = NULL;
	if (!options->gpu.used)
		return 0;
	if (options->gpu.nccl == CK_NCCL_FORCE &&
	    !ck_hosts_options_given(&options->hosts))
		return ck_fail(d, EINVAL,
			       "option nccl=force: NCCL transfers between "
			       "hosts; this mount has one, see --hosts");
	g = calloc(1, sizeof(*g));
	if (!g)
		return ck_fail(d, ENOMEM, "out of memory");
	g->options = options;
	g->sock = -1;
	g->job = (struct ck_subprocess){ .ended = -1, .errors = -1 };
	ck_stats_name_host(g->host, sizeof(g->host));
	ck_gpus_rounds_make(g);
	*out = g;
	return 0;
}

int ck_gpus_start(struct ck_gpus *g, struct ck_diag *d)
{
	int rc = g ? link_start(g) : 0;

	return rc ? ck_fail(d, -rc, "GPUs: %s", strerror(-rc)) : 0;
}

int ck_gpus_settle(struct ck_gpus *g, struct ck_checkpoint *cp,
		   struct ck_hosts *hosts, struct ck_diag *d)
{
	int rc = g ? settle(g, g->options, d) : 0;

	if (!g || rc)
		return rc;
	ck_gpus_rounds_link(g);
	g->alone = !cp->elsewhere;
	return ck_gpus_rounds_meet(g, hosts, d);
}

void ck_gpus_end(struct ck_gpus *g)
{
	if (!g)
		return;
	ck_gpulink_free(g->link);
	forker_end(g);
	ck_gpus_rounds_free(g);
	free(g);
}
