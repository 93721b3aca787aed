/* SPDX-License-Identifier: MIT */
/*
 * rank_rounds: starts and ends the GPU worker of a rank without mount. No
 * threads.
 */
#include "rank_rounds.h"
#include "ckptfs/launch.h"
#include "cluster.h"
#include "dist/launch/control_msg.h"
#include "gpus.h"

#include <errno.h>

enum { END_MSEC = 1000 }; /* limit to end by itself */

/* True for the first rank that mpirun has started on this host. */
static bool is_first_here(void)
{
	const char *number = getenv("OMPI_COMM_WORLD_LOCAL_RANK");

	return !number || strcmp(number, "0") == 0;
}

static int hand_over(const struct ck_rank_rounds *r,
		     const struct ck_rendezvous_link *link_fds)
{
	const struct ck_control_msg note = {
		.kind = CK_CONTROL_MSG_ROUNDS,
		.size = link_fds->size,
		.files = { link_fds->sock, link_fds->memory, -1 }
	};

	return ck_control_msg_send(r->sock, &note, true);
}

static int start(struct ck_rank_rounds *r, const struct ck_gpu_choice *gpus)
{
	struct ck_rendezvous_link other = CK_RENDEZVOUS_NO_LINK;
	int rc = ck_gpus_forker_start(gpus, &r->sock, &r->job);

	if (rc == 0)
		rc = ck_rendezvous_pair(CK_CLUSTER_ROUNDS, &r->link_fds,
					&other);
	if (rc == 0)
		rc = hand_over(r, &other);
	ck_rendezvous_link_fini(&other);
	return rc;
}

int ck_rank_rounds_start(struct ck_rank_rounds *r, const char *devices,
			 const char *net, struct ck_diag *d)
{
	struct ck_gpu_choice gpus = { 0 };
	int rc = ck_gpu_choice_set(&gpus, "gpu=", devices, d);

	if (rc || !gpus.used || !is_first_here())
		return rc;
	rc = ck_launch_bind_nccl(net, CK_LAUNCH_RDMA);
	if (rc == 0)
		rc = start(r, &gpus);
	if (rc == 0)
		return 0;
	ck_rank_rounds_end(r);
	return ck_fail(d, -rc, "%s", strerror(-rc));
}

void ck_rank_rounds_end(struct ck_rank_rounds *r)
{
	ck_rendezvous_link_fini(&r->link_fds);
	ck_fd_cleanup(&r->sock);
	if (r->job.ended >= 0)
		ck_subprocess_end(&r->job, END_MSEC);
}
