/* SPDX-License-Identifier: MIT */
/*
 * nccl_comms: a fake NCCL. It implements the functions of NCCL that ckptfs uses, over sockets and
 * the memory of the fake CUDA driver, which is the libcuda.so.1 beside it. It has NCCL's rules, and
 * is strict where NCCL may tolerate an error.
 *
 * The transfers of a group are one operation of a stream, a round. A thread of the communicator
 * submits the round late, when the state is ncclSuccess again; before that no operation of the
 * stream waits for it. Two ranks without an earlier transfer in a direction connect first, and the
 * state stays ncclInProgress until both have done so. Rounds of a communicator run one after the
 * other; in a round, transfers with different peers run in parallel. A transfer ends only when the
 * other side has reached it, so that ranks with different orders hang as on GPUs. A dead peer is
 * silent: the other ranks are not notified. The program is aborted by counts, types or groups that
 * differ on the two sides, addresses outside of the device, overlapping transfers of a group, and
 * a communicator that is used before the end of its last call, or after its own end.
 *
 * The fake NCCL cannot show: speed, faults of NCCL itself, and two communicators on one device
 * that block each other.
 *
 * Faults are words of CKPTFS_STANDIN (standin.h): nccl=N is the version, as 21805; a call with an
 * injected fault returns ncclUnhandledCudaError. The call name ncclAsync is the work of a
 * communicator's thread; its fault sets the state ncclRemoteError. NCCL_SOCKET_IFNAME is the
 * interface of the sockets (lo), NCCL_HOSTID identifies a host (its name). Like NCCL, it refuses
 * two ranks on one GPU, unless NCCL_MULTI_RANK_GPU_ENABLE is 1 and the version is 2.30 or later.
 */
#ifndef NCCL_COMMS_H
#define NCCL_COMMS_H

#include "standin.h"

#pragma GCC visibility push(default)
#include <nccl.h>

/* nccl.h declares functions without prototypes. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
#pragma GCC diagnostic pop
#pragma GCC visibility pop

#include <pthread.h>

#include "ckptfs/base.h"

enum { COMM_RANKS = 64 }; /* at most */

/* The direction: to a peer, or from a peer. */
enum comm_way { COMM_SEND, COMM_RECV };

struct comm_transfer {
	struct comm_transfer *next;
	enum comm_way way;
	int peer;
	uint64_t at, bytes; /* memory of the device */
	uint64_t count;
	ncclDataType_t type;
	/* Position, from 1, and count, among transfers of the group in this direction. */
	uint64_t nth, of;
	/* While its round runs: */
	struct comm_transfer *behind; /* the next one in this direction */
	struct comm_round *round;
	uint8_t *memory;
	uint64_t done;
	bool matched; /* the other side has reached the same transfer */
};

/* The transfers of a communicator in a group. */
struct comm_round {
	struct comm_round *next; /* of the group */
	struct ncclComm *comm;
	CUstream stream;
	uint64_t number; /* of the communicator, from 0 */
	struct comm_transfer *first, *last;
	unsigned left; /* transfers that have not ended */
};

/* The notice of a peer about its side of a transfer. */
struct comm_notice {
	struct comm_notice *next;
	uint64_t count, type, nth, of;
};

struct comm_peer {
	int fd; /* -1: this rank itself */
	bool silent;
	bool bye;			/* received */
	bool sent[2], received[2];	/* announcements, by direction */
	struct ck_buf in, out;		/* of the socket */
	struct comm_transfer *now[2];	/* of the running round */
	struct comm_notice *notices[2]; /* by the direction of this side */
};

/* All fields are under the lock, except for constant ones. */
struct ncclComm {
	struct ncclComm *next;
	unsigned refs;		       /* the handle, and operations */
	struct standin_device *device; /* constant */
	int rank, ranks;	       /* constant */
	bool blocking;		       /* constant */
	ncclUniqueId id;	       /* constant */
	pid_t process;		       /* constant */
	pthread_t thread;	       /* constant */
	int wake;		       /* constant: eventfd of the thread */
	uint64_t random;	       /* of the thread */
	ncclResult_t state;
	bool aborting;		      /* later results are ignored */
	bool ending, sent_bye, ended; /* ncclCommFinalize */
	struct comm_round *launching;
	uint64_t rounds, done; /* numbers of rounds */
	struct comm_peer peers[COMM_RANKS];
};

/* --- nccl_comms.c ----------------------------------------------------------------------- */

/* One lock guards all data of the library. The driver's lock may be acquired under it. */
void comms_lock(void);
void comms_unlock(void);
/* Waits for comms_wake(). */
void comms_wait(void);
/* Wakes all waiting threads, and the communicator's thread; comm may be NULL. */
void comms_wake(struct ncclComm *comm);
/* Begins a call: returns its fault, or ncclSuccess. Stores the device of the current context;
 * `device` is NULL if the call needs no context. */
ncclResult_t comms_enter(const char *call, struct standin_device **device);
/* Under the lock. Aborts the program if the communicator has ended, or its last call has not.
 * Returns the result of that call. */
ncclResult_t comm_ready(const char *call, struct ncclComm *comm);
/* Under the lock. Waits until the state is not ncclInProgress, and returns it. */
ncclResult_t comm_await(struct ncclComm *comm);
/* Called by the thread of the communicator. */
void comm_state_set(struct ncclComm *comm, ncclResult_t state);
void comm_put(struct ncclComm *comm);

/* --- nccl_groups.c ---------------------------------------------------------------------- */

bool comms_in_group(void);
/* Adds the communicator to the group, whose end waits for its call. */
void comms_group_add(struct ncclComm *comm);
/* Called by the thread: submits a round to its stream. */
void comm_launch(struct ncclComm *comm);
void comm_round_free(struct comm_round *round);

/* --- nccl_mesh.c ------------------------------------------------------------------------- */

/* Opens sockets to all peers. Waits for missing peers until the communicator is aborted. */
ncclResult_t comm_meet(struct ncclComm *comm);

/* --- nccl_wire.c ------------------------------------------------------------------------- */

/* All under the lock. Announces transfers in a direction. */
void comm_say_way(struct comm_peer *peer, enum comm_way way);
void comm_say_bye(struct comm_peer *peer);
/* Appends the transfer to those of its peer and direction. */
void comm_post(struct comm_transfer *transfer);
/* Waits for bytes and moves them, once. */
void comm_exchange(struct ncclComm *comm);
void comm_peer_end(struct comm_peer *peer);

#endif
