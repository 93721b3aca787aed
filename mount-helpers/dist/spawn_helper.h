/* SPDX-License-Identifier: MIT */
/*
 * spawn_helper: jobs of a mount whose files lie on several hosts are started beside it, and
 * again when hosts return; but a mount has given up by then what it takes to start a
 * program. So a process is started early that does so when it is asked. Each job has a
 * keeper, forked by that: it asks the hosts, starts mpirun, hands over the link to the
 * job's first process, passes on what its processes say, and ends all of them when the
 * other end of its socket is closed, however that came.
 */
#ifndef CKPTFS_SPAWN_HELPER_H
#define CKPTFS_SPAWN_HELPER_H

#include "ckptfs/control_msg.h"
#include "ckptfs/launch.h"
#include "ckptfs/subprocess.h"

struct ck_spawn_helper {
	struct ck_subprocess job; /* it; ended -1: there is none */
	int sock;		  /* -1: the same */
};

/* launch: without a door. Errors of ck_subprocess_start_beside(). */
CK_MUST_USE int ck_spawn_helper_make(const struct ck_launch_options *launch,
				     struct ck_spawn_helper *out);
/* No more jobs. Those that there are have their keepers. */
void ck_spawn_helper_end(struct ck_spawn_helper *s);
/* Asks for a job. how: by host, of enum ck_try: it is not started if it had no others than
 * those that are up. *keeper: the socket from which notes come: of what it says,
 * then that it is up or has failed; it is closed when the job has ended. -EPIPE: the
 * starter is gone; errors of sockets. */
CK_MUST_USE int ck_spawn_helper_begin(struct ck_spawn_helper *s,
				      const uint8_t *how, size_t n,
				      int ask_msec, int *keeper);

/* The process itself, that `ckptfs serve` is with these words. Its exit status. */
#define CK_SPAWN_HELPER_WORD "--jobs"
int ck_spawn_helper_run(char **words);

#endif
