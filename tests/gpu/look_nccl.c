/* SPDX-License-Identifier: MIT */
/*
 * look_nccl: loads NCCL, for tests/gpu/nccl. Prints a line for each step, and the reason of a
 * failure. Exit status: its errno, or 0.
 *
 *	look_nccl [init]
 *
 * init: also makes a communicator of one rank.
 */
#include "gpu/nccl/nccl_load.h"

#include <stdio.h>
#include <unistd.h>

static int fail(int rc, const struct ck_diag *d)
{
	printf("failed %s\n", d->text);
	return -rc;
}

/* Polls the non-blocking communicator for at most 10 s. */
static ncclResult_t wait(const struct ck_nccl *nccl, ncclComm_t comm)
{
	ncclResult_t result, state = ncclInProgress;

	for (unsigned i = 0; i < 1000 && state == ncclInProgress; i++) {
		result = nccl->ncclCommGetAsyncError(comm, &state);
		if (result != ncclSuccess)
			return result;
		(void)usleep(10000);
	}
	return state;
}

static int init(const struct ck_nccl *nccl)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct ck_diag d = { 0 };
	ncclComm_t comm = NULL;
	ncclUniqueId id;
	ncclResult_t result = nccl->ncclGetUniqueId(&id);

	if (result != ncclSuccess)
		return fail(ck_nccl_fail(nccl, result, "the identity", &d), &d);
	config.blocking = 0;
	result = nccl->ncclCommInitRankConfig(&comm, 1, id, 0, &config);
	if (result == ncclInProgress)
		result = wait(nccl, comm);
	if (result != ncclSuccess)
		return fail(ck_nccl_fail(nccl, result, "a communicator", &d),
			    &d);
	(void)nccl->ncclCommAbort(comm);
	printf("init good\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct ck_diag d = { 0 };
	struct ck_nccl nccl;
	int rc = ck_nccl_load(&nccl, &d);

	(void)argv;
	if (rc)
		return fail(rc, &d);
	printf("file %s\nversion %s\n", nccl.file,
	       ck_nccl_version(nccl.version));
	if (argc > 1)
		rc = init(&nccl);
	ck_nccl_fini(&nccl);
	return rc;
}
