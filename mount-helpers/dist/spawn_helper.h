/* SPDX-License-Identifier: MIT */
/*
 * spawn_helper: a process that starts jobs for a mount. A mount drops the
 * privileges needed to start programs, but needs another job when hosts return,
 * so the helper is started before.
 *
 * Each job has a supervisor, forked by the helper. It probes the hosts, starts
 * mpirun, passes on the link to the job's first rank and the output of its
 * processes, and ends all of them when the other end of its socket closes.
 */
#ifndef CKPTFS_SPAWN_HELPER_H
#define CKPTFS_SPAWN_HELPER_H

#include "ckptfs/launch.h"
#include "dist/launch/control_msg.h"
#include "dist/launch/subprocess.h"

struct ck_spawn_helper {
	struct ck_subprocess
		job; /* the helper; ended is -1 if it was not started */
	int sock;    /* -1 if it was not started */
};

/* Starts the helper. launch: without rendezvous socket. Returns 0, or: -ENOMEM; an errno
 * of finding the program; errors of ck_control_msg_job(). */
CK_MUST_USE int ck_spawn_helper_make(const struct ck_launch_options *launch,
				     struct ck_spawn_helper *out);
/* Ends the helper. The supervisors of running jobs continue. */
void ck_spawn_helper_end(struct ck_spawn_helper *s);
/* Requests a job. how: by host, enum ck_try; the job fails if it would have no
 * more hosts than those that are up. *keeper: the supervisor's socket, owned by
 * the caller. It receives output, then success or failure, and is closed when
 * the job has ended. Returns 0, or: -EPIPE if the helper has ended; errors of
 * sockets. */
CK_MUST_USE int ck_spawn_helper_begin(struct ck_spawn_helper *s,
				      const uint8_t *how, size_t n,
				      int ask_msec, int *keeper);

/* The main function of the helper, which is run as `ckptfs serve` with these
 * words. Returns the exit status. */
#define CK_SPAWN_HELPER_WORD "--jobs"
int ck_spawn_helper_run(char **words);

#endif
