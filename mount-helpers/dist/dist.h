/* SPDX-License-Identifier: MIT */
/*
 * dist: the module ckptfs-dist.so, which has all that is for several hosts and for GPUs.
 * The program loads it when hosts or GPUs are asked for (dist_load.c); a mount of one
 * directory never does. The module calls functions of the program that are CK_EXPORT.
 * Module and program must be of the same version.
 */
#ifndef CKPTFS_DIST_H
#define CKPTFS_DIST_H

#include "base/system/component.h"
#include "cluster.h"
#include "gpus.h"
#include "inherit_fds.h"

#define CK_DIST_FILE   "ckptfs-dist.so"
#define CK_DIST_SYMBOL "ckptfs_dist"

enum { CK_DIST_VERSION = 1 }; /* of the struct */

/* Each member is the function ck_NAME of cluster.h, hosts.h, inherit_fds.h or gpus.h. */
struct ck_dist {
	struct ck_component_is is;
	int (*cmd_serve)(int argc, char **argv);
	int (*cluster_start)(struct ck_hosts_options *options,
			     struct ck_format_options *format,
			     const char **source, int wanted,
			     struct ck_cluster **out, struct ck_diag *d);
	int (*cluster_join)(struct ck_hosts_options *options,
			    struct ck_inherited *handed,
			    struct ck_format_options *format,
			    struct ck_cluster **out, struct ck_diag *d);
	void (*cluster_ready)(struct ck_cluster *c);
	struct ck_hosts *(*cluster_hosts)(struct ck_cluster *c);
	void (*cluster_end)(struct ck_cluster *c);
	void (*hosts_let_wait)(struct ck_hosts *h);
	struct ck_backend *(*hosts_mover)(struct ck_hosts *h);
	int (*inherited_take)(struct ck_inherited *h,
			      struct ck_hosts_options *options,
			      struct ck_diag *d);
	void (*inherited_fini)(struct ck_inherited *h);
	int (*gpus_make)(struct ck_mount_options *options, struct ck_gpus **out,
			 struct ck_diag *d);
	int (*gpus_start)(struct ck_gpus *g, struct ck_diag *d);
	int (*gpus_settle)(struct ck_gpus *g, struct ck_diag *d);
	int (*gpus_count)(struct ck_gpus *g, struct ck_checkpoint *cp,
			  struct ck_diag *d);
	int (*gpus_meet)(struct ck_gpus *g, struct ck_hosts *hosts,
			 struct ck_diag *d);
	void (*gpus_part)(struct ck_gpus *g);
	void (*gpus_end)(struct ck_gpus *g);
	void (*gpus_free)(struct ck_gpus *g);
};

/* `ckptfs serve`: one process on each host of a checkpoint. Returns the exit status. */
int ck_cmd_serve(int argc, char **argv);

#endif
