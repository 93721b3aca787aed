/* SPDX-License-Identifier: MIT */
/*
 * nccl_comms: communicators, from their begin to their end. Each has a thread for all slow work:
 * it connects to the other ranks, submits rounds, transfers bytes, and exchanges the last
 * messages.
 */
#include "nccl_comms.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct ncclComm *comms; /* under the lock */

void comms_lock(void)
{
	pthread_mutex_lock(&lock);
}

void comms_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void comms_wait(void)
{
	pthread_cond_wait(&changed, &lock);
}

void comms_wake(struct ncclComm *comm)
{
	const uint64_t one = 1;

	pthread_cond_broadcast(&changed);
	if (comm && write(comm->wake, &one, sizeof(one)) < 0)
		standin_die("NCCL", "a communicator that cannot wake");
}

ncclResult_t comms_enter(const char *call, struct standin_device **device)
{
	CUresult code = standin_enter(call, device);

	/* NCCL initializes CUDA itself. */
	if (code == CUDA_ERROR_NOT_INITIALIZED && !device)
		code = CUDA_SUCCESS;
	return code ? ncclUnhandledCudaError : ncclSuccess;
}

/* Under the lock. Aborts the program if the communicator has ended. */
static struct ncclComm **comm_find(const char *call,
				   const struct ncclComm *comm)
{
	struct ncclComm **at = &comms;

	while (*at && *at != comm)
		at = &(*at)->next;
	if (!*at)
		standin_die(call, "an invalid or ended communicator");
	return at;
}

ncclResult_t comm_ready(const char *call, struct ncclComm *comm)
{
	(void)comm_find(call, comm);
	if (comm->state == ncclInProgress)
		standin_die(call, "the last call of the communicator has not "
				  "come to its end");
	return comm->state;
}

ncclResult_t comm_await(struct ncclComm *comm)
{
	while (comm->state == ncclInProgress)
		comms_wait();
	return comm->state;
}

/* --- its thread ---------------------------------------------------------------------------- */

void comm_state_set(struct ncclComm *comm, ncclResult_t state)
{
	comms_unlock();
	standin_pause(&comm->random, standin_delay());
	if (state == ncclSuccess && comms_enter("ncclAsync", NULL))
		state = ncclRemoteError;
	comms_lock();
	comm->state = state;
	comms_wake(NULL);
}

/* Sends the last message after all rounds, and waits for those of all other ranks. */
static void comm_end(struct ncclComm *comm)
{
	bool all = true;

	if (!comm->ending || comm->ended || comm->done < comm->rounds)
		return;
	for (int i = 0; i < comm->ranks; i++) {
		struct comm_peer *p = &comm->peers[i];

		if (!comm->sent_bye)
			comm_say_bye(p);
		all = all && (i == comm->rank || (p->bye && !p->out.len));
	}
	comm->sent_bye = true;
	if (all) {
		comm->ended = true;
		comm_state_set(comm, ncclSuccess);
	}
}

static void *comm_main(void *arg)
{
	struct ncclComm *comm = arg;
	ncclResult_t met = comm_meet(comm);

	comms_lock();
	if (!comm->aborting)
		comm_state_set(comm, met);
	while (!comm->aborting && met == ncclSuccess) {
		comm_launch(comm);
		comm_end(comm);
		if (!comm->aborting)
			comm_exchange(comm);
	}
	comms_unlock();
	return NULL;
}

/* --- begin --------------------------------------------------------------------------------- */

static struct ncclComm *comm_make(int ranks, const ncclUniqueId *id, int rank,
				  const ncclConfig_t *config)
{
	struct ncclComm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	comm->refs = 1;
	comm->rank = rank;
	comm->ranks = ranks;
	comm->id = *id;
	comm->blocking = !config || config->blocking != 0;
	comm->process = getpid();
	comm->random = standin_seed() + (unsigned)rank + standin_number();
	comm->state = ncclInProgress;
	comm->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (int i = 0; i < ranks; i++)
		comm->peers[i].fd = -1;
	return comm;
}

void comm_put(struct ncclComm *comm)
{
	if (--comm->refs > 0)
		return;
	for (int i = 0; i < comm->ranks; i++)
		comm_peer_end(&comm->peers[i]);
	close(comm->wake);
	free(comm);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id,
				    int rank, ncclConfig_t *config)
{
	struct standin_device *device;
	ncclResult_t result = comms_enter(__func__, &device);
	struct ncclComm *comm;

	*out = NULL;
	if (result)
		return result;
	if (ranks < 1 || ranks > COMM_RANKS || rank < 0 || rank >= ranks ||
	    (config && config->magic != 0xcafebeef))
		return ncclInvalidArgument;
	comm = comm_make(ranks, &id, rank, config);
	if (!comm || comm->wake < 0)
		standin_die(__func__, "no memory for the stand-in");
	comm->device = device;
	comms_lock();
	comm->next = comms;
	comms = comm;
	standin_communicators(device, 1);
	if (pthread_create(&comm->thread, NULL, comm_main, comm))
		standin_die(__func__, "no thread for the stand-in");
	*out = comm;
	if (comms_in_group())
		comms_group_add(comm);
	else if (comm->blocking)
		result = comm_await(comm);
	else
		result = ncclInProgress;
	comms_unlock();
	return result;
}

ncclResult_t ncclCommInitRank(ncclComm_t *out, int ranks, ncclUniqueId id,
			      int rank)
{
	return ncclCommInitRankConfig(out, ranks, id, rank, NULL);
}

/* --- end ------------------------------------------------------------------------------------ */

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	ncclResult_t result = comms_enter(__func__, NULL);

	comms_lock();
	if (!result)
		result = comm_ready(__func__, comm);
	if (!result && comm->ending)
		standin_die(__func__, "a communicator that has ended");
	if (!result) {
		comm->ending = true;
		comm->state = ncclInProgress;
		comms_wake(comm);
		result = comm->blocking ? comm_await(comm) : ncclInProgress;
	}
	comms_unlock();
	return result;
}

/* Under the lock. Its operations in streams stop at once. */
static void comm_free(const char *call, struct ncclComm *comm)
{
	struct ncclComm **at = comm_find(call, comm);

	*at = comm->next;
	comm->aborting = true;
	comms_wake(comm);
	comms_unlock();
	pthread_join(comm->thread, NULL);
	comms_lock();
	if (comm->launching)
		comm_round_free(comm->launching);
	comm->launching = NULL;
	standin_communicators(comm->device, -1);
	comm_put(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	ncclResult_t result = comms_enter(__func__, NULL);

	comms_lock();
	(void)comm_ready(__func__, comm);
	if (!comm->ended && !comm->blocking)
		standin_die(__func__, "a communicator without an end");
	comms_unlock();
	if (!comm->ended && !result)
		result = ncclCommFinalize(comm);
	comms_lock();
	comm_free(__func__, comm);
	comms_unlock();
	return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	ncclResult_t result = comms_enter(__func__, NULL);

	comms_lock();
	comm_free(__func__, comm);
	comms_unlock();
	return result;
}

/* At exit a process does not wait for other ranks. A forked process has no threads. */
__attribute__((destructor)) static void finish(void)
{
	struct ncclComm *all;

	comms_lock();
	all = comms;
	comms = NULL;
	for (struct ncclComm *comm = all; comm; comm = comm->next) {
		comm->aborting = true;
		comms_wake(comm);
	}
	comms_unlock();
	for (struct ncclComm *comm = all; comm; comm = comm->next)
		if (comm->process == getpid())
			pthread_join(comm->thread, NULL);
}

/* --- properties ------------------------------------------------------------------------------ */

ncclResult_t ncclGetVersion(int *version)
{
	ncclResult_t result = comms_enter(__func__, NULL);

	*version = standin_faults_now().nccl;
	return result;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
	ncclResult_t result = comms_enter(__func__, NULL);

	comms_lock();
	(void)comm_find(__func__, comm);
	*state = comm->state;
	comms_unlock();
	return result;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
	ncclResult_t result = comms_enter(__func__, NULL);

	comms_lock();
	(void)comm_ready(__func__, comm);
	*count = comm->ranks;
	comms_unlock();
	return result;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	ncclResult_t result = comms_enter(__func__, NULL);

	comms_lock();
	(void)comm_ready(__func__, comm);
	*rank = comm->rank;
	comms_unlock();
	return result;
}

const char *ncclGetErrorString(ncclResult_t result)
{
	static const char *const texts[] = {
		"no error",
		"unhandled cuda error (of the stand-in)",
		"unhandled system error (of the stand-in)",
		"internal error (of the stand-in)",
		"invalid argument (of the stand-in)",
		"invalid usage (of the stand-in)",
		"remote process exited or there was a network error",
		"NCCL operation in progress",
	};

	return result < CK_ARRAY_SIZE(texts) ? texts[result]
					     : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	return "";
}
