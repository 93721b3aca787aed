/* SPDX-License-Identifier: MIT */
/*
 * gpus_run: the process that forks workers, and the start of a worker. The
 * process has one thread; a worker is killed when another one is requested.
 */
#include "base/system/privileges.h"
#include "cli.h"
#include "dist/launch/control_msg.h"
#include "dist/launch/subprocess.h"
#include "gpu/worker/gpuserve.h"
#include "gpus.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SOCK = CK_SUBPROCESS_FILES };

/* --- a worker ------------------------------------------------------------- */

static int drop(enum ck_sockets sockets, struct ck_diag *d)
{
	return geteuid() == 0 ? ck_privileges_drop(CK_ROLE_READER, sockets, d)
			      : 0;
}

/* The driver has its sockets already. */
static int keep_no_sockets(struct ck_diag *d)
{
	return drop(CK_SOCKETS_NONE, d);
}

/* NCCL opens connections at any time. */
static int keep_sockets(struct ck_diag *d)
{
	return drop(CK_SOCKETS_ALL, d);
}

/* Runs a worker, which is killed when its parent ends. */
static int worker_run(struct ck_gpuserve_options *options, pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		return CK_EXIT_TROUBLE;
	/* The worker polls devices every 20 us: the kernel's default timer
	 * slack would add 50 us. */
	(void)prctl(PR_SET_TIMERSLACK, 1UL);
	close(SOCK);
	return ck_gpuserve_run(options) ? CK_EXIT_TROUBLE : CK_EXIT_FINE;
}

static pid_t worker_fork(struct ck_gpuserve_options *options)
{
	pid_t parent = getpid(), child = fork();

	if (child == 0)
		_exit(worker_run(options, parent));
	return child;
}

/* SIGKILL, since a call of the driver may never return. */
static void worker_end(pid_t worker)
{
	if (worker <= 0)
		return;
	(void)kill(worker, SIGKILL);
	while (waitpid(worker, NULL, 0) < 0 && errno == EINTR)
		;
}

/* --- the process ---------------------------------------------------------- */

static bool take_devices(char **words, uint32_t *devices, uint32_t *n)
{
	for (*n = 0; words[*n]; (*n)++) {
		if (*n == CK_GPUS_GIVEN_MOST)
			return false;
		devices[*n] = (uint32_t)strtoul(words[*n], NULL, 10);
	}
	return true;
}

/* Sets the purpose of a worker. False if the message is not a request for
 * one. */
static bool take_note(const struct ck_control_msg *n,
		      struct ck_gpuserve_options *o)
{
	const int *of_mount = n->kind == CK_CONTROL_MSG_START ? n->files : NULL;
	const int *of_rounds = n->kind == CK_CONTROL_MSG_ROUNDS ? n->files
								: NULL;

	o->sock = of_mount ? of_mount[0] : -1;
	o->memory = of_mount ? of_mount[1] : -1;
	o->rounds_sock = of_rounds ? of_rounds[0] : -1;
	o->rounds_memory = of_rounds ? of_rounds[1] : -1;
	o->rounds_size = of_rounds ? n->size : 0;
	o->opened = of_rounds || n->err ? keep_sockets : keep_no_sockets;
	return (of_mount || of_rounds) && n->files[1] >= 0;
}

int ck_gpus_run(char **words)
{
	uint32_t devices[CK_GPUS_GIVEN_MOST];
	struct ck_gpuserve_options options = { .devices = devices };
	ck_auto_free char *room = malloc(CK_CONTROL_MSG_MOST);
	struct ck_control_msg note;
	pid_t worker = -1;

	if (!room || !take_devices(words, devices, &options.n) ||
	    ck_subprocess_settle())
		return CK_EXIT_TROUBLE;
	while (ck_control_msg_take(SOCK, &note, room) == 0) {
		worker_end(worker);
		worker = -1;
		if (take_note(&note, &options))
			worker = worker_fork(&options);
		ck_control_msg_close(&note);
	}
	worker_end(worker);
	return CK_EXIT_FINE;
}
