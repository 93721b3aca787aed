/* SPDX-License-Identifier: MIT */
/*
 * gpus: the GPU worker of a mount, or of a rank without mount if there are
 * rounds. Mounts drop the privileges needed to start programs, but may have to
 * replace a worker. So a process is started early that forks workers on
 * request, one at a time. It never uses a GPU itself.
 */
#ifndef CKPTFS_GPUS_H
#define CKPTFS_GPUS_H

#include "base/system/component.h"
#include "ckptfs/fs.h"
#include "dist/launch/subprocess.h"

struct ck_gpus; /* opaque */
struct ck_hosts;

/* Makes *out, which stays NULL without gpu=. Must be called before hosts are
 * started: sets their options for rounds. Returns 0, or: -EINVAL if nccl=force
 * without hosts; -ENOENT and others if the module cannot be loaded; -ENOMEM. In all
 * functions below g may be NULL. */
CK_MUST_USE int ck_gpus_make(struct ck_mount_options *options,
			     struct ck_gpus **out, struct ck_diag *d);
/* Starts the worker, without waiting for it. Returns 0, or an errno with a
 * message. */
CK_MUST_USE int ck_gpus_start(struct ck_gpus *g, struct ck_diag *d);
/* Waits for the worker, and sets the members of the options that are for a
 * gather engine. Counts the bytes that it reads of cp. With nccl=force, waits
 * until NCCL has transferred bytes from every host; hosts may be NULL. Returns
 * 0, or: -EIO if gather=gpu and no GPU can be used, or if a host has no NCCL;
 * -ENOMEM. ck_gpus_part() must be called before the hosts end. */
CK_MUST_USE int ck_gpus_settle(struct ck_gpus *g, struct ck_checkpoint *cp,
			       struct ck_hosts *hosts, struct ck_diag *d);
/* Ends the use of hosts. */
void ck_gpus_part(struct ck_gpus *g);
/* Ends the worker and frees g. No read may be in progress. The checkpoint must still be
 * open. */
void ck_gpus_end(struct ck_gpus *g);

/* Starts a process that forks a worker for these devices for each
 * CK_CONTROL_MSG_START or CK_CONTROL_MSG_ROUNDS received on *sock, and ends
 * with its parent. Returns 0, or errors of ck_control_msg_job(). */
CK_MUST_USE int ck_gpus_forker_start(const struct ck_gpu_choice *c, int *sock,
				     struct ck_subprocess *job);

/* The main function of that process, which is run as `ckptfs serve` with these
 * words. Returns the exit status. */
#define CK_GPUS_WORD "--gpus"
int ck_gpus_run(char **words);

/* --- the module ---------------------------------------------------------------------- */

#define CK_GPUS_FILE   "ckptfs-gpu.so"
#define CK_GPUS_SYMBOL "ckptfs_gpu"

enum { CK_GPUS_VERSION = 2 }; /* of the struct */

/* The module ckptfs-gpu.so, which the program loads for gpu= (gpu_load.c): a mount for its
 * side of the link to the worker, the worker for the devices. It calls functions of the
 * program that are CK_EXPORT. Module and program must be of the same version. Each member
 * is the function ck_gpus_NAME. */
struct ck_gpus_module {
	struct ck_component_is is;
	int (*make)(struct ck_mount_options *options, struct ck_gpus **out,
		    struct ck_diag *d);
	int (*start)(struct ck_gpus *g, struct ck_diag *d);
	int (*settle)(struct ck_gpus *g, struct ck_checkpoint *cp,
		      struct ck_hosts *hosts, struct ck_diag *d);
	void (*part)(struct ck_gpus *g);
	void (*end)(struct ck_gpus *g);
	int (*forker_start)(const struct ck_gpu_choice *c, int *sock,
			    struct ck_subprocess *job);
	int (*run)(char **words);
};

#endif
