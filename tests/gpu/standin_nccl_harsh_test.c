/* SPDX-License-Identifier: MIT */
/*
 * standin_nccl_harsh: the fake NCCL under misuse. Ranks with different orders hang until an abort;
 * a dead rank is silent; errors that NCCL may tolerate abort the program, with a message about the
 * cause.
 */
#include "standin/nccl_loaded.h"

enum { SIZE = 1000 };

static CUdeviceptr at;
static ncclComm_t comm;

static void send_to(int peer, size_t count)
{
	well(nc.ncclSend(device_pointer(at), count, ncclUint8, peer, comm,
			 gpu.a),
	     comm);
}

static void recv_from(int peer, size_t count)
{
	well(nc.ncclRecv(device_pointer(at), count, ncclUint8, peer, comm,
			 gpu.a),
	     comm);
}

/* Transfers in both directions connect the two ranks. */
static void both_ways(int peer)
{
	need(nc.ncclGroupStart() == ncclSuccess, "a group");
	(void)nc.ncclSend(device_pointer(at), 1, ncclUint8, peer, comm, gpu.a);
	(void)nc.ncclRecv(device_pointer(at + 1), 1, ncclUint8, peer, comm,
			  gpu.a);
	well(nc.ncclGroupEnd(), comm);
	need(stream_wait(gpu.a, LONG), "the first transfers");
}

static void begin(int rank, int ranks)
{
	at = gpu_alloc(SIZE);
	comm = comm_of(rank, ranks);
	for (int i = 0; i < ranks; i++)
		if (i != rank)
			both_ways(i);
}

/* The transfer hangs without an error, and an abort ends it. */
static void hangs(void)
{
	ncclResult_t state;

	need(!stream_wait(gpu.a, SHORT), "it should hang");
	need(nc.ncclCommGetAsyncError(comm, &state) == ncclSuccess &&
		     state == ncclSuccess,
	     "no error should be reported");
	comm_abort(comm);
	must(cu.cuMemFree(at));
}

/* --- orders -------------------------------------------------------------------------------- */

/* A transfer in each direction; rank 1 has the opposite order. */
static void swapped(int rank)
{
	begin(rank, 2);
	send_to(!rank, SIZE);
	recv_from(!rank, SIZE);
	hangs();
}

/* The same with equal orders. */
static void not_swapped(int rank)
{
	begin(rank, 2);
	for (int i = 0; i < 2; i++)
		if (rank == i)
			send_to(!rank, SIZE);
		else
			recv_from(!rank, SIZE);
	need(stream_wait(gpu.a, LONG), "it should not hang");
	comm_close(comm);
	must(cu.cuMemFree(at));
}

/* Each rank waits for the next one in a ring; the same calls in a group would not hang. */
static void ring(int rank)
{
	begin(rank, 3);
	recv_from((rank + 1) % 3, SIZE);
	send_to((rank + 2) % 3, SIZE);
	hangs();
}

/* A round between unconnected ranks is never submitted to the stream. */
static void not_met(int rank)
{
	ncclResult_t result;

	at = gpu_alloc(SIZE);
	comm = comm_of(rank, 2);
	result = nc.ncclRecv(device_pointer(at), SIZE, ncclUint8, !rank, comm,
			     gpu.a);
	need(result == ncclInProgress, "it cannot be over");
	need(comm_wait(comm, SHORT) == ncclInProgress, "it should hang");
	need(stream_wait(gpu.a, 0), "nothing should be in the stream");
	comm_abort(comm);
	must(cu.cuMemFree(at));
}

/* All ranks abort a round that hangs, and then make a new communicator. */
static void again(int rank)
{
	begin(rank, 2);
	recv_from(!rank, SIZE);
	need(!stream_wait(gpu.a, SHORT), "it should hang");
	comm_abort(comm);
	must(cu.cuMemFree(at));
	barrier(2);
	if (rank == 0)
		shared->has_id = false;
	barrier(2);
	not_swapped(rank);
}

/* --- dead ranks ---------------------------------------------------------------------------- */

static void die(void)
{
	(void)kill(getpid(), SIGKILL);
}

static void dead_in_round(int rank)
{
	begin(rank, 2);
	if (rank == 1)
		die();
	recv_from(1, SIZE);
	hangs();
}

/* The stream of rank 1 is stopped, so that it dies in the middle of a transfer. */
static void dead_in_transfer(int rank)
{
	at = gpu_alloc(16 << 20);
	comm = comm_of(rank, 2);
	both_ways(!rank);
	if (rank == 0)
		recv_from(1, 16 << 20);
	else
		send_to(0, 16 << 20);
	if (rank == 1) {
		(void)usleep(2000);
		die();
	}
	if (stream_wait(gpu.a, SHORT)) { /* the transfer was too fast */
		comm_abort(comm);
		must(cu.cuMemFree(at));
		return;
	}
	hangs();
}

static void dead_at_begin(int rank)
{
	if (rank == 1) {
		(void)id_of(rank);
		die();
	}
	comm = comm_begin(rank, 2);
	need(comm_wait(comm, SHORT) == ncclInProgress, "it should hang");
	comm_abort(comm);
}

/* The rank that made the identity is dead. */
static void dead_root(int rank)
{
	if (rank == 0) {
		(void)id_of(rank);
		die();
	}
	(void)usleep(50000);
	comm = comm_begin(rank, 2);
	need(comm_wait(comm, SHORT) == ncclInProgress, "it should hang");
	comm_abort(comm);
}

static void dead_at_end(int rank)
{
	begin(rank, 2);
	if (rank == 1)
		die();
	need(nc.ncclCommFinalize(comm) == ncclInProgress, "ncclCommFinalize");
	need(comm_wait(comm, SHORT) == ncclInProgress, "it should hang");
	comm_abort(comm);
	must(cu.cuMemFree(at));
}

/* An abort by one rank is silent for the other one. */
static void aborted_there(int rank)
{
	begin(rank, 2);
	if (rank == 1) {
		comm_abort(comm);
		must(cu.cuMemFree(at));
		return;
	}
	recv_from(1, SIZE);
	hangs();
}

/* The same for an operation that has not begun. */
static void aborted_in_a_queue(int rank)
{
	begin(rank, 2);
	need(cu.standin_control("run=0") == 0, "words");
	recv_from(!rank, SIZE);
	recv_from(!rank, SIZE);
	need(nc.ncclCommAbort(comm) == ncclSuccess, "ncclCommAbort");
	need(cu.standin_control("reset") == 0, "words");
	need(stream_wait(gpu.a, LONG), "a stream after it");
	must(cu.cuMemFree(at));
}

static void ends_in_the_middle(int rank)
{
	begin(rank, 2);
	recv_from(!rank, SIZE);
	exit(0);
}

/* One rank is killed, and `survivor` ends its communicator. */
static bool survives(void (*run)(int rank), int survivor)
{
	struct ends ends = ranks_run(run, 2);
	bool good = ends.status[survivor] == 0 &&
		    WIFSIGNALED(ends.status[!survivor]);

	if (!good)
		printf("# %x, %x, said: %.*s\n", (unsigned)ends.status[0],
		       (unsigned)ends.status[1],
		       (int)strcspn(ends.output, "\n"), ends.output);
	return good;
}

/* --- misuse aborts the program -------------------------------------------------------------- */

/* The rank that is not aborted waits in vain. */
static void in_vain(void)
{
	uint64_t until = msec_now() + LONG;

	while (!__atomic_load_n(&shared->died, __ATOMIC_SEQ_CST) &&
	       msec_now() < until)
		(void)usleep(100);
	while (dying)
		(void)pause();
	_exit(9);
}

static void other_count(int rank)
{
	begin(rank, 2);
	if (rank)
		recv_from(0, 11);
	else
		send_to(1, 10);
	in_vain();
}

static void other_type(int rank)
{
	begin(rank, 2);
	if (rank)
		recv_from(0, 10);
	else
		well(nc.ncclSend(device_pointer(at), 10, ncclInt8, 1, comm,
				 gpu.a),
		     comm);
	in_vain();
}

static void other_groups(int rank)
{
	begin(rank, 2);
	if (rank) {
		recv_from(0, 10);
		recv_from(0, 10);
	} else {
		need(nc.ncclGroupStart() == ncclSuccess, "a group");
		send_to(1, 10);
		send_to(1, 10);
		well(nc.ncclGroupEnd(), comm);
	}
	in_vain();
}

static void host_address(int rank)
{
	uint8_t *host = gpu_host(SIZE);

	begin(rank, 1);
	(void)nc.ncclSend(host, SIZE, ncclUint8, 0, comm, gpu.a);
}

static void beyond_the_end(int rank)
{
	begin(rank, 1);
	(void)nc.ncclRecv(device_pointer(at + 4), SIZE / 4, ncclInt32, 0, comm,
			  gpu.a);
}

static void freed(int rank)
{
	begin(rank, 2);
	need(cu.standin_control("run=0") == 0, "words");
	recv_from(!rank, SIZE);
	must(cu.cuMemFree(at));
	need(cu.standin_control("reset") == 0, "words");
	in_vain();
}

static void freed_while_used(int rank)
{
	begin(rank, 2);
	recv_from(!rank, SIZE);
	(void)stream_wait(gpu.a, SHORT);
	must(cu.cuMemFree(at));
}

static void too_early(int rank)
{
	comm = comm_begin(rank, 2);
	(void)nc.ncclGroupStart();
	(void)nc.ncclSend(NULL, 0, ncclUint8, !rank, comm, gpu.a);
}

static void after_abort(int rank)
{
	begin(rank, 1);
	comm_abort(comm);
	(void)nc.ncclCommFinalize(comm);
}

static void after_its_end(int rank)
{
	begin(rank, 1);
	need(nc.ncclCommFinalize(comm) == ncclInProgress, "ncclCommFinalize");
	need(comm_wait(comm, LONG) == ncclSuccess, "its end");
	(void)nc.ncclSend(NULL, 0, ncclUint8, 0, comm, gpu.a);
}

static void no_end(int rank)
{
	begin(rank, 1);
	(void)nc.ncclCommDestroy(comm);
}

static void two_streams(int rank)
{
	begin(rank, 1);
	(void)nc.ncclGroupStart();
	(void)nc.ncclSend(NULL, 0, ncclUint8, 0, comm, gpu.a);
	(void)nc.ncclRecv(NULL, 0, ncclUint8, 0, comm, gpu.b);
}

static void same_bytes(int rank)
{
	begin(rank, 1);
	(void)nc.ncclGroupStart();
	(void)nc.ncclSend(device_pointer(at), 100, ncclUint8, 0, comm, gpu.a);
	(void)nc.ncclRecv(device_pointer(at + 99), 100, ncclUint8, 0, comm,
			  gpu.a);
	(void)nc.ncclGroupEnd();
}

static void no_stream(int rank)
{
	begin(rank, 1);
	(void)nc.ncclGroupStart();
	(void)nc.ncclSend(NULL, 0, ncclUint8, 0, comm, NULL);
	(void)nc.ncclRecv(NULL, 0, ncclUint8, 0, comm, NULL);
	(void)nc.ncclGroupEnd();
	(void)comm_wait(comm, LONG);
}

static void not_given_back(int rank)
{
	(void)comm_of(rank, 1);
	need(cu.standin_control("leaks=abort") == 0, "words");
	exit(0);
}

static const struct {
	void (*run)(int rank);
	int ranks;
	const char *saying;
} deaths[] = {
	{ other_count, 2, " of type 1 here, 1" },
	{ other_type, 2, " here, 10 of type " },
	{ other_groups, 2, "of a group here, the 1. of" },
	{ host_address, 1, "an address of the host where one of a device" },
	{ beyond_the_end, 1, "1000 bytes from 4 on of an allocation of 1000" },
	{ freed, 2, "memory that was freed" },
	{ freed_while_used, 2, "memory that an operation uses" },
	{ too_early, 2, "has not come to its end" },
	{ after_abort, 1, "an invalid or ended communicator" },
	{ after_its_end, 1, "a communicator that has ended" },
	{ no_end, 1, "a communicator without an end" },
	{ two_streams, 1, "a group in two streams" },
	{ same_bytes, 1, "over bytes of another transfer of the group" },
	{ no_stream, 1, "a stream that was not created" },
	{ not_given_back, 1, "1 communicators left" },
};

int main(int argc, char **argv)
{
	if (!ranks_begin(argc, argv))
		return 2;
	ok(ends_well(swapped, 2));
	ok(ends_well(not_swapped, 2));
	ok(ends_well(ring, 3));
	ok(ends_well(not_met, 2));
	ok(ends_well(again, 2));
	ok(survives(dead_in_round, 0));
	ok(survives(dead_in_transfer, 0));
	ok(survives(dead_at_begin, 0));
	ok(survives(dead_root, 1));
	ok(survives(dead_at_end, 0));
	ok(ends_well(aborted_there, 2));
	ok(ends_well(aborted_in_a_queue, 2));
	ok(ends_well(ends_in_the_middle, 2));
	for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
		printf("# \"%s\"\n", deaths[i].saying);
		ok(ends_with(deaths[i].run, deaths[i].ranks, deaths[i].saying));
	}
	return tap_done();
}
