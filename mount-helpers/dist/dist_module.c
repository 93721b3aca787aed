/* SPDX-License-Identifier: MIT */
/*
 * dist_module: the table that ckptfs-dist.so exports. Constant.
 */
#include "dist.h"

CK_EXPORT extern const struct ck_dist ckptfs_dist;
const struct ck_dist ckptfs_dist = {
	.is = { .version = CK_DIST_VERSION, .program = CK_VERSION },
	.cmd_serve = ck_cmd_serve,
	.cluster_start = ck_cluster_start,
	.cluster_join = ck_cluster_join,
	.cluster_ready = ck_cluster_ready,
	.cluster_hosts = ck_cluster_hosts,
	.cluster_end = ck_cluster_end,
	.hosts_let_wait = ck_hosts_let_wait,
	.hosts_backend = ck_hosts_backend,
	.inherited_take = ck_inherited_take,
	.inherited_fini = ck_inherited_fini,
	.hosts_peer = ck_hosts_peer,
	.hosts_rounds = ck_hosts_rounds,
};
