/* SPDX-License-Identifier: MIT */
/*
 * nccl_comms: those functions of NCCL that ckptfs uses, over sockets and the memory of the
 * stand-in for CUDA's driver, which is the libcuda.so.1 beside it. Test equipment, as that is:
 * it has NCCL's rules, and is hard where NCCL may let something pass.
 *
 * The transfers of a group are one operation of a stream, a round. It is put there late, by
 * a thread of the communicator, when its state is ncclSuccess again; before that nothing in
 * the stream waits for it. Two ranks that have never exchanged anything in a direction meet first,
 * and until both have come the state stays ncclInProgress. Rounds of a communicator run one
 * after the other; in one of them transfers of different peers go on beside each other, and a
 * transfer ends only when the other side has come to it, so that ranks which have
 * different orders hang as they would on GPUs. A peer that is dead is silent: nobody is told.
 * What ends the program: counts, types or groups that differ on the two sides, addresses that are
 * not of the device, transfers of a group over each other's bytes, a communicator that is used before its last call has come to its end, or after
 * its own end.
 *
 * What it can not show: speed, what NCCL itself does wrong, and that two communicators on one
 * device may wait for each other: here they do not.
 *
 * Faults are words of CKPTFS_STANDIN (standin.h): nccl=N is the version, as 21805; a call that is
 * to fail comes to ncclUnhandledCudaError. A call, too, is ncclAsync: what a communicator's
 * thread has done, of which the state is ncclRemoteError then. NCCL_SOCKET_IFNAME is the interface
 * of the sockets (lo), NCCL_HOSTID what hosts are told apart by (their names). As NCCL does, it
 * refuses two ranks on one GPU, unless NCCL_MULTI_RANK_GPU_ENABLE is 1, and it is 2.30 or later.
 */
#ifndef NCCL_COMMS_H
#define NCCL_COMMS_H

#include "standin.h"

#pragma GCC visibility push(default)
#include <nccl.h>

/* It declares these as C once did. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
#pragma GCC diagnostic pop
#pragma GCC visibility pop

#include <pthread.h>

#include "ckptfs/base.h"

enum { COMM_RANKS = 64 }; /* at most */

/* To a peer, or from one. */
enum comm_way { COMM_SEND, COMM_RECV };

struct comm_transfer {
	struct comm_transfer *next;
	enum comm_way way;
	int peer;
	uint64_t at, bytes; /* memory of the device */
	uint64_t count;
	ncclDataType_t type;
	uint64_t nth, of; /* of its group with that peer that way, from 1 */
	/* While its round runs: */
	struct comm_transfer *behind; /* the next with that peer that way */
	struct comm_round *round;
	uint8_t *memory;
	uint64_t done;
	bool matched; /* the other side has come, with the same */
};

/* The transfers of a group that a communicator has. */
struct comm_round {
	struct comm_round *next; /* of the group */
	struct ncclComm *comm;
	CUstream stream;
	uint64_t number; /* of the communicator, from 0 */
	struct comm_transfer *first, *last;
	unsigned left; /* transfers that have not ended */
};

/* What a peer has said of a transfer of its own. */
struct comm_notice {
	struct comm_notice *next;
	uint64_t count, type, nth, of;
};

struct comm_peer {
	int fd; /* -1: this rank itself */
	bool silent;
	bool bye;			/* heard */
	bool said[2], heard[2];		/* that they will transfer that way */
	struct ck_buf in, out;		/* of the socket */
	struct comm_transfer *now[2];	/* of the round that runs */
	struct comm_notice *notices[2]; /* by what they are for here */
};

/* All under the lock, but what is constant. */
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
	bool aborting;		      /* and what it does is of no interest */
	bool ending, said_bye, ended; /* ncclCommFinalize */
	struct comm_round *launching;
	uint64_t rounds, done; /* how many there were */
	struct comm_peer peers[COMM_RANKS];
};

/* --- nccl_comms.c ----------------------------------------------------------------------- */

/* One lock guards everything in the library. The driver's may be taken under it. */
void comms_lock(void);
void comms_unlock(void);
/* Until something changed. */
void comms_wait(void);
/* Something did; the communicator's thread looks, too, if there is one. */
void comms_wake(struct ncclComm *comm);
/* A call: whether it fails. Stores the device of the current context; NULL: it needs none. */
ncclResult_t comms_enter(const char *call, struct standin_device **device);
/* Under the lock. Ends the program if it is no communicator any more, or its last call has not
 * come to its end; what that came to. */
ncclResult_t comm_ready(const char *call, struct ncclComm *comm);
/* Under the lock. Its state, when that is known. */
ncclResult_t comm_await(struct ncclComm *comm);
/* Of its thread. */
void comm_state_set(struct ncclComm *comm, ncclResult_t state);
void comm_put(struct ncclComm *comm);

/* --- nccl_groups.c ---------------------------------------------------------------------- */

bool comms_in_group(void);
/* The call is part of a group that waits for it. */
void comms_group_add(struct ncclComm *comm);
/* Of the thread: a round on its way to its stream. */
void comm_launch(struct ncclComm *comm);
void comm_round_free(struct comm_round *round);

/* --- nccl_mesh.c ------------------------------------------------------------------------- */

/* Sockets to all peers. Who does not come is waited for, until the communicator is aborted. */
ncclResult_t comm_meet(struct ncclComm *comm);

/* --- nccl_wire.c ------------------------------------------------------------------------- */

/* All under the lock. That there will be transfers that way. */
void comm_say_way(struct comm_peer *peer, enum comm_way way);
void comm_say_bye(struct comm_peer *peer);
/* The transfer is the last one now. */
void comm_post(struct comm_transfer *transfer);
/* Waits for bytes and moves them, once. */
void comm_exchange(struct ncclComm *comm);
void comm_peer_end(struct comm_peer *peer);

#endif
