/* SPDX-License-Identifier: MIT */
/* ncclcheck_use: opens the device and NCCL in a check's process, and waits for communicators. */
#include "ncclcheck_use.h"

#include <unistd.h>

enum { LOOK_USEC = 200 };

bool use_good(struct checks *c, const struct use *u, CUresult rc)
{
	if (rc != CUDA_SUCCESS)
		check_fails(c, "%s", ck_cuda_error(&u->cuda, rc));
	return rc == CUDA_SUCCESS;
}

bool use_nccl(struct checks *c, const struct use *u, ncclResult_t rc,
	      const char *what)
{
	struct ck_diag d = { 0 };

	if (rc == ncclSuccess)
		return true;
	(void)ck_nccl_fail(&u->nccl, rc, what, &d);
	check_fails(c, "%s", d.text);
	return false;
}

bool use_open(struct checks *c, struct use *u)
{
	struct ck_diag d = { 0 };
	int rc = ck_cuda_load(&u->cuda, &d);

	if (rc == 0)
		rc = ck_device_open(&u->cuda, 0, &u->device, &d);
	if (rc == 0)
		rc = ck_nccl_load(&u->nccl, &d);
	if (rc) {
		check_fails(c, "%s", d.text);
		return false;
	}
	return use_good(
		c, u,
		u->cuda.cuStreamCreate(&u->stream, CU_STREAM_NON_BLOCKING));
}

/* Waits for the result of a call, without a timeout: the check has a time limit. */
static bool wait_for(struct checks *c, struct use *u, ncclResult_t rc,
		     const char *what)
{
	ncclResult_t state = ncclInProgress;

	if (rc != ncclSuccess && rc != ncclInProgress)
		return use_nccl(c, u, rc, what);
	do {
		rc = u->nccl.ncclCommGetAsyncError(u->comm, &state);
		if (rc == ncclSuccess && state == ncclInProgress)
			(void)usleep(LOOK_USEC);
	} while (rc == ncclSuccess && state == ncclInProgress);
	return use_nccl(c, u, rc ? rc : state, what);
}

bool use_comm(struct checks *c, struct use *u, const ncclUniqueId *id,
	      int ranks, int rank, ncclConfig_t config)
{
	ncclResult_t rc = u->nccl.ncclCommInitRankConfig(&u->comm, ranks, *id,
							 rank, &config);

	return wait_for(c, u, rc, "a communicator");
}

bool use_exchange(struct checks *c, struct use *u, int peer, CUdeviceptr from,
		  CUdeviceptr to, size_t bytes)
{
	const struct ck_nccl *n = &u->nccl;
	ncclResult_t end, rc = n->ncclGroupStart();

	if (rc == ncclSuccess)
		rc = n->ncclSend((void *)(uintptr_t)from, bytes, ncclUint8,
				 peer, u->comm, u->stream);
	if (rc == ncclSuccess)
		rc = n->ncclRecv((void *)(uintptr_t)to, bytes, ncclUint8, peer,
				 u->comm, u->stream);
	end = n->ncclGroupEnd();
	return wait_for(c, u, rc ? rc : end, "to send and to receive");
}

bool use_end(struct checks *c, struct use *u)
{
	if (!use_good(c, u, u->cuda.cuStreamSynchronize(u->stream)))
		return false;
	if (!use_nccl(c, u, u->nccl.ncclCommAbort(u->comm),
		      "a communicator's end"))
		return false;
	u->comm = NULL;
	return use_good(c, u, u->cuda.cuStreamSynchronize(u->stream));
}

bool use_free_bytes(struct checks *c, const struct use *u, size_t *bytes)
{
	size_t all;

	return use_good(c, u, u->cuda.cuMemGetInfo(bytes, &all));
}
