/* SPDX-License-Identifier: MIT */
/*
 * nccl_comm: a communicator with its stream and event, and calls of NCCL that
 * never block. State: struct ck_nccl_comm; nccl_epochs.h has its thread and
 * lock.
 */
#include "nccl_comm.h"

#include <errno.h>

/* --- in flight ------------------------------------------------------------ */

ncclResult_t ck_nccl_comm_state(const struct ck_nccl_comm *l,
				const struct ck_nccl *nccl)
{
	ncclResult_t state = ncclSuccess;
	ncclResult_t rc = nccl->ncclCommGetAsyncError(l->comm, &state);

	return rc == ncclSuccess ? state : rc;
}

/* ncclGroupEnd() must be called even after an error: otherwise the thread would
 * stay in the group. */
ncclResult_t ck_nccl_group_end(const struct ck_nccl *nccl, ncclResult_t rc)
{
	ncclResult_t end = nccl->ncclGroupEnd();

	return rc == ncclSuccess && end != ncclInProgress ? end : rc;
}

void ck_nccl_comm_abort(struct ck_nccl_comm *l, const struct ck_nccl *nccl)
{
	if (l->comm)
		(void)nccl->ncclCommAbort(l->comm);
	l->comm = NULL;
}

int ck_nccl_comm_mark(struct ck_nccl_comm *l)
{
	struct ck_device *g = l->device;

	return ck_device_check(g, g->cuda->cuEventRecord(l->done, l->stream));
}

int ck_nccl_comm_is_marked(struct ck_nccl_comm *l)
{
	CUresult rc = l->device->cuda->cuEventQuery(l->done);

	return rc == CUDA_ERROR_NOT_READY ? -EINPROGRESS
					  : ck_device_check(l->device, rc);
}

/* --- creation and end ----------------------------------------------------- */

static CUresult make(struct ck_nccl_comm *l, size_t bytes)
{
	const struct ck_cuda *cuda = l->device->cuda;
	CUresult rc = cuda->cuStreamCreate(&l->stream, CU_STREAM_NON_BLOCKING);

	if (rc != CUDA_SUCCESS) {
		l->stream = NULL;
		return rc;
	}
	rc = cuda->cuEventCreate(&l->done, CU_EVENT_DISABLE_TIMING);
	if (rc != CUDA_SUCCESS) {
		l->done = NULL;
		return rc;
	}
	rc = cuda->cuMemAlloc(&l->bytes, bytes);
	if (rc != CUDA_SUCCESS)
		l->bytes = 0;
	return rc;
}

int ck_nccl_comm_open(struct ck_nccl_comm *l, struct ck_device *g,
		      uint32_t exchanges, struct ck_diag *d)
{
	CUresult rc;

	l->device = g;
	(void)ck_device_use(g);
	rc = make(l, (size_t)CK_NCCL_COMM_APART * exchanges);
	if (rc == CUDA_SUCCESS)
		return 0;
	return ck_fail(d, -ck_device_check(g, rc), "GPU %d: for NCCL: %s",
		       g->ordinal, ck_cuda_error(g->cuda, rc));
}

void ck_nccl_comm_close(struct ck_nccl_comm *l)
{
	const struct ck_cuda *cuda;

	if (!l->device)
		return;
	cuda = l->device->cuda;
	(void)ck_device_use(l->device);
	if (l->stream) {
		(void)cuda->cuStreamSynchronize(l->stream);
		(void)cuda->cuStreamDestroy(l->stream);
	}
	if (l->done)
		(void)cuda->cuEventDestroy(l->done);
	if (l->bytes)
		(void)cuda->cuMemFree(l->bytes);
}
