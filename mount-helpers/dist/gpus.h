/* SPDX-License-Identifier: MIT */
/*
 * gpus: a mount's mover of GPUs; a rank without mount has one, too, where there are rounds.
 * A mount has given up what it takes to start a program when a
 * mover has to be replaced; so a process is started early that forks one when it is asked,
 * and ends the one before. It never touches a GPU itself.
 */
#ifndef CKPTFS_GPUS_H
#define CKPTFS_GPUS_H

#include "ckptfs/fs.h"
#include "ckptfs/subprocess.h"

struct ck_gpus; /* opaque */
struct ck_hosts;

/* *out stays NULL without gpu=. Called before hosts are started, whose options for rounds it
 * sets. -EINVAL if nccl=force without hosts; -ENOMEM. In all functions below g may be NULL. */
CK_MUST_USE int ck_gpus_make(struct ck_mount_options *options,
			     struct ck_gpus **out, struct ck_diag *d);
/* Starts it. What is done until ck_gpus_settle() need not wait for it. */
CK_MUST_USE int ck_gpus_start(struct ck_gpus *g, struct ck_diag *d);
/* Waits for the worker, and sets the members of the options that are for a gatherer. -EIO if
 * gather=gpu and no GPU can be used. */
CK_MUST_USE int ck_gpus_settle(struct ck_gpus *g, struct ck_diag *d);
/* What is read of it is counted. -ENOMEM. */
CK_MUST_USE int ck_gpus_count(struct ck_gpus *g, struct ck_checkpoint *cp,
			      struct ck_diag *d);
/* With nccl=force, waits until NCCL has transferred bytes from every host; hosts may be NULL.
 * -EIO if a host cannot. ck_gpus_part() must be called before the hosts end. */
CK_MUST_USE int ck_gpus_meet(struct ck_gpus *g, struct ck_hosts *hosts,
			     struct ck_diag *d);
void ck_gpus_part(struct ck_gpus *g);
/* Nothing is read any more. */
void ck_gpus_end(struct ck_gpus *g);
/* Of the counters, when the checkpoint is closed. */
void ck_gpus_free(struct ck_gpus *g);

/* Starts what forks movers of these devices, which it does for each CK_CONTROL_MSG_START or
 * CK_CONTROL_MSG_ROUNDS that comes by *sock, and ends with the process that has that. Errors of
 * ck_control_msg_job(). */
CK_MUST_USE int ck_gpus_forker_start(const struct ck_gpu_choice *c, int *sock,
				     struct ck_subprocess *job);

/* The process itself, that `ckptfs serve` is with these words. Its exit status. */
#define CK_GPUS_WORD "--gpus"
int ck_gpus_run(char **words);

#endif
