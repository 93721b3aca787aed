/* SPDX-License-Identifier: MIT */
/*
 * dist: the module ckptfs-dist.so for several hosts. The program loads it when hosts are
 * given (dist_load.c); a mount of one directory never does. The module calls functions of the program that are CK_EXPORT.
 * Module and program must be of the same version.
 */
#ifndef CKPTFS_DIST_H
#define CKPTFS_DIST_H

#include "base/system/component.h"
#include "cluster.h"
#include "inherit_fds.h"

#define CK_DIST_FILE   "ckptfs-dist.so"
#define CK_DIST_SYMBOL "ckptfs_dist"

enum { CK_DIST_VERSION = 2 }; /* of the struct */

/* Each member is the function ck_NAME of cluster.h, hosts.h or inherit_fds.h. */
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
	struct ck_backend *(*hosts_backend)(struct ck_hosts *h);
	int (*inherited_take)(struct ck_inherited *h,
			      struct ck_hosts_options *options,
			      struct ck_diag *d);
	void (*inherited_fini)(struct ck_inherited *h);
	void (*hosts_peer)(const struct ck_hosts *h, uint32_t i,
			   struct ck_hosts_peer *out);
	int (*hosts_rounds)(struct ck_hosts *h,
			    const struct ck_round_routes *by);
};

/* `ckptfs serve`: one process on each host of a checkpoint. Returns the exit status. */
int ck_cmd_serve(int argc, char **argv);

#endif
