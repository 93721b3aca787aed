/* SPDX-License-Identifier: MIT */
/*
 * job_supervisor: the process that starts and ends one job: see spawn_helper.h.
 */
#ifndef CKPTFS_JOB_SUPERVISOR_H
#define CKPTFS_JOB_SUPERVISOR_H

#include "ckptfs/launch.h"
#include "dist/launch/control_msg.h"

/* Runs the supervisor of the requested job. request: the request, with the
 * socket to report to. Does not return. */
_Noreturn void ck_job_supervisor_run(const struct ck_launch_options *launch,
				     const struct ck_control_msg *request);

#endif
