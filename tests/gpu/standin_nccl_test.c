/* SPDX-License-Identifier: MIT */
/*
 * standin_nccl: ranks exchange random rounds on the fake NCCL, and each byte is compared.
 * CKPTFS_ROUNDS: the number of rounds. standin_nccl_harsh_test.c tests faults and refused calls.
 */
#include "standin/nccl_loaded.h"

enum { ROOM = 1 << 18, TRANSFERS = 24 };

static unsigned rounds = 60;
static int ranks = 3;
static uint64_t seed;
static bool forgets;   /* the ranks do not wait for received bytes */
static unsigned swaps; /* the round that rank 1 swaps with the next one, or 0 */
static uint64_t limit = LONG;

struct transfer {
	int from, to;
	ncclDataType_t type;
	size_t count, bytes;
};

static const struct {
	ncclDataType_t type;
	unsigned size;
} types[] = { { ncclInt8, 1 },	  { ncclUint8, 1 }, { ncclBfloat16, 2 },
	      { ncclFloat32, 4 }, { ncclInt64, 8 }, { ncclFloat64, 8 } };

/* A random size: mostly small; some need many segments on the wire, some are empty. */
static size_t count_by_lot(uint64_t *random)
{
	switch (tap_random(random) % 8) {
	case 0: return 0;
	case 1: return 1;
	case 2: return tap_random(random) % (ROOM / TRANSFERS / 8);
	default: return tap_random(random) % 200;
	}
}

/* Makes a round, equal for all ranks; returns the number of transfers. */
static unsigned deal(unsigned number, struct transfer *list)
{
	uint64_t random = seed * 1000003 + number + 1;
	unsigned n, all = 1 + (unsigned)(tap_random(&random) % TRANSFERS);

	for (n = 0; n < all; n++) {
		size_t i = tap_random(&random) %
			   (sizeof(types) / sizeof(types[0]));

		list[n].from = (int)(tap_random(&random) % (unsigned)ranks);
		list[n].to = (int)(tap_random(&random) % (unsigned)ranks);
		list[n].type = types[i].type;
		list[n].count = count_by_lot(&random);
		list[n].bytes = list[n].count * types[i].size;
	}
	return n;
}

static void fill(uint8_t *bytes, unsigned number, unsigned which, size_t len)
{
	uint64_t random = seed + ((uint64_t)number << 8) + which + 1;

	for (size_t i = 0; i < len; i++)
		bytes[i] = i % 64 ? (uint8_t)(bytes[i - 1] * 5 + 1)
				  : (uint8_t)tap_random(&random);
}

/* --- a rank ------------------------------------------------------------------------------- */

static struct rank {
	int rank;
	ncclComm_t comm;
	uint8_t *host;	      /* ROOM to send, ROOM received */
	CUdeviceptr from, to; /* ROOM each */
	CUevent filled, received;
} self;

static void ask(const struct transfer *list, unsigned n)
{
	size_t from = 0, to = 0;

	need(nc.ncclGroupStart() == ncclSuccess, "ncclGroupStart");
	for (unsigned i = 0; i < n; i++) {
		const struct transfer *t = &list[i];

		if (t->from == self.rank) {
			need(nc.ncclSend(device_pointer(self.from + from),
					 t->count, t->type, t->to, self.comm,
					 gpu.b) == ncclSuccess,
			     "ncclSend");
			from += t->bytes;
		}
		if (t->to == self.rank) {
			need(nc.ncclRecv(device_pointer(self.to + to), t->count,
					 t->type, t->from, self.comm,
					 gpu.b) == ncclSuccess,
			     "ncclRecv");
			to += t->bytes;
		}
	}
	well(nc.ncclGroupEnd(), self.comm);
}

static void compare(const struct transfer *list, unsigned n, unsigned number)
{
	static uint8_t want[ROOM];
	const uint8_t *got = self.host + ROOM;

	for (unsigned i = 0; i < n; i++) {
		if (list[i].to != self.rank)
			continue;
		fill(want, number, i, list[i].bytes);
		if (memcmp(got, want, list[i].bytes) != 0)
			__atomic_add_fetch(&shared->wrong, 1, __ATOMIC_SEQ_CST);
		got += list[i].bytes;
	}
}

/* One stream copies the bytes to send to the device, and the other stream waits for that. */
static size_t round_fill(const struct transfer *list, unsigned n,
			 unsigned number)
{
	size_t len = 0, back = 0;

	for (unsigned i = 0; i < n; i++) {
		if (list[i].from == self.rank) {
			fill(self.host + len, number, i, list[i].bytes);
			len += list[i].bytes;
		}
		if (list[i].to == self.rank)
			back += list[i].bytes;
	}
	must(cu.cuMemcpyHtoDAsync(self.from, self.host, len, gpu.a));
	must(cu.cuEventRecord(self.filled, gpu.a));
	must(cu.cuStreamWaitEvent(gpu.b, self.filled, 0));
	return back;
}

static void round_run(unsigned number)
{
	struct transfer list[TRANSFERS];
	unsigned n = deal(number, list), mine = 0;
	size_t back;

	for (unsigned i = 0; i < n; i++)
		mine += list[i].from == self.rank || list[i].to == self.rank;
	if (!mine)
		return;
	back = round_fill(list, n, number);
	ask(list, n);
	must(cu.cuEventRecord(self.received, gpu.b));
	if (!forgets)
		must(cu.cuStreamWaitEvent(gpu.a, self.received, 0));
	must(cu.cuMemcpyDtoHAsync(self.host + ROOM, self.to, back, gpu.a));
	need(stream_wait(gpu.a, limit), "the end of a round");
	compare(list, n, number);
	/* All transfers must end before the next round, also if a wait is omitted. */
	need(stream_wait(gpu.b, LONG), "the end of a round's transfers");
}

static void rank_begin(int rank)
{
	self.rank = rank;
	self.host = gpu_host(2 * ROOM);
	self.from = gpu_alloc(ROOM);
	self.to = gpu_alloc(ROOM);
	self.filled = gpu_event();
	self.received = gpu_event();
}

static void rank_end(void)
{
	must(cu.cuEventDestroy(self.filled));
	must(cu.cuEventDestroy(self.received));
	must(cu.cuMemFree(self.from));
	must(cu.cuMemFree(self.to));
	must(cu.cuMemFreeHost(self.host));
}

static void exchange(int rank)
{
	rank_begin(rank);
	self.comm = comm_of(rank, ranks);
	for (unsigned i = 0; i < rounds; i++) {
		bool swapped = swaps && rank == 1 && i / 2 == swaps / 2;

		round_run(swapped ? i ^ 1 : i);
	}
	comm_close(self.comm);
	rank_end();
}

static void test_rounds(int n, unsigned count)
{
	ranks = n;
	rounds = count;
	patience += (int)count * 20;
	ok(ends_well(exchange, n));
	eq_u64(shared->wrong, 0);
}

/* Enough rounds detect the omitted wait by wrong bytes. */
static void test_forgets(void)
{
	ranks = 2;
	rounds = 40;
	forgets = true;
	ok(ends_well(exchange, 2));
	printf("# %u transfers of 40 rounds have wrong bytes\n", shared->wrong);
	ok(shared->wrong > 0);
	forgets = false;
}

/* Swapped rounds may have any result: different counts, wrong bytes, or no effect, since some
 * rounds are independent. */
static void test_swaps(void)
{
	unsigned caught = 0;

	ranks = 3;
	rounds = 60;
	limit = SHORT;
	for (swaps = 44; swaps < 60; swaps += 2) {
		struct ends ends = ranks_run(exchange, 3);

		caught += ends.status[0] || ends.status[1] || ends.status[2] ||
			  shared->wrong;
	}
	printf("# %u of 8 swaps are found\n", caught);
	ok(caught > 0);
	limit = LONG;
	swaps = 0;
}

/* --- other modes ---------------------------------------------------------------------------- */

/* A blocking communicator: each call ends before it returns; a transfer is a group by itself. */
static void blocking(int rank)
{
	int count = 0, own = -1;

	rank_begin(rank);
	need(nc.ncclCommInitRank(&self.comm, 2, id_of(rank), rank) ==
		     ncclSuccess,
	     "ncclCommInitRank");
	need(nc.ncclCommCount(self.comm, &count) == ncclSuccess && count == 2,
	     "ncclCommCount");
	need(nc.ncclCommUserRank(self.comm, &own) == ncclSuccess && own == rank,
	     "ncclCommUserRank");
	memset(self.host, 7, 100);
	must(cu.cuMemcpyHtoDAsync(self.from, self.host, 100, gpu.a));
	need((rank ? nc.ncclRecv(device_pointer(self.to), 100, ncclUint8, 0,
				 self.comm, gpu.a)
		   : nc.ncclSend(device_pointer(self.from), 100, ncclUint8, 1,
				 self.comm, gpu.a)) == ncclSuccess,
	     "a transfer");
	must(cu.cuMemcpyDtoHAsync(self.host + ROOM, self.to, 100, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
	need(rank == 0 || !memcmp(self.host, self.host + ROOM, 100), "bytes");
	need(nc.ncclCommDestroy(self.comm) == ncclSuccess, "ncclCommDestroy");
	rank_end();
}

/* Large transfers in one direction and then in the other. */
static void large(int rank)
{
	enum { LEN = 3 << 20 };

	uint8_t *host = gpu_host(3 * LEN);
	CUdeviceptr at = gpu_alloc(2 * LEN);
	ncclComm_t comm = comm_of(rank, 2);

	fill(host, 0, (unsigned)rank, LEN);
	fill(host + LEN, 0, !rank, LEN);
	must(cu.cuMemcpyHtoDAsync(at, host, LEN, gpu.a));
	for (int i = 0; i < 2; i++)
		well(rank == i ? nc.ncclSend(device_pointer(at), LEN, ncclInt8,
					     !rank, comm, gpu.a)
			       : nc.ncclRecv(device_pointer(at + LEN), LEN,
					     ncclInt8, !rank, comm, gpu.a),
		     comm);
	must(cu.cuMemcpyDtoHAsync(host + (size_t)2 * LEN, at + LEN, LEN,
				  gpu.a));
	need(stream_wait(gpu.a, LONG), "the end of it");
	need(!memcmp(host + LEN, host + (size_t)2 * LEN, LEN), "its bytes");
	comm_close(comm);
	must(cu.cuMemFree(at));
	must(cu.cuMemFreeHost(host));
}

/* One process with two GPUs, and a communicator for each. */
static void two_devices(int rank)
{
	CUcontext contexts[2];
	CUstream streams[2];
	ncclComm_t comms[2];
	CUdeviceptr at[2];
	ncclUniqueId id = id_of(rank);

	need(cu.standin_control("devices=2") == 0, "two devices");
	need(nc.ncclGroupStart() == ncclSuccess, "a group");
	for (int i = 0; i < 2; i++) {
		must(cu.cuDevicePrimaryCtxRetain(&contexts[i], i));
		must(cu.cuCtxSetCurrent(contexts[i]));
		must(cu.cuStreamCreate(&streams[i], 0));
		at[i] = gpu_alloc(1000);
		need(nc.ncclCommInitRank(&comms[i], 2, id, i) == ncclSuccess,
		     "ncclCommInitRank");
	}
	need(nc.ncclGroupEnd() == ncclSuccess, "both begin");
	need(nc.ncclGroupStart() == ncclSuccess, "a group");
	for (int i = 0; i < 2; i++)
		need((i ? nc.ncclRecv : (__typeof__(nc.ncclRecv))nc.ncclSend)(
			     device_pointer(at[i]), 1000, ncclUint8, !i,
			     comms[i], streams[i]) == ncclSuccess,
		     "a transfer");
	need(nc.ncclGroupEnd() == ncclSuccess, "both transfer");
	need(nc.ncclGroupStart() == ncclSuccess, "a group");
	for (int i = 0; i < 2; i++) {
		must(cu.cuCtxSetCurrent(contexts[i]));
		need(stream_wait(streams[i], LONG), "a transfer");
		need(nc.ncclCommAbort(comms[i]) == ncclSuccess, "an end");
		must(cu.cuStreamDestroy(streams[i]));
		must(cu.cuMemFree(at[i]));
		must(cu.cuDevicePrimaryCtxRelease(i));
	}
	need(nc.ncclGroupEnd() == ncclSuccess, "a group");
	must(cu.cuCtxSetCurrent(gpu.context));
}

/* --- two on one GPU ------------------------------------------------------------------------- */

static ncclResult_t wanted;

static void same_gpu(int rank)
{
	ncclComm_t comm = comm_begin(rank, 2);

	need(comm_wait(comm, LONG) == wanted, "the final state");
	comm_abort(comm);
}

static void test_same_gpu(void)
{
	(void)setenv("NCCL_HOSTID", "one", 1);
	wanted = ncclInvalidUsage;
	ok(ends_well(same_gpu, 2));
	(void)setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
	ok(ends_well(same_gpu, 2));
	(void)setenv("CKPTFS_STANDIN", "nccl=23007", 1);
	wanted = ncclSuccess;
	ok(ends_well(same_gpu, 2));
	(void)unsetenv("CKPTFS_STANDIN");
	(void)unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
	(void)unsetenv("NCCL_HOSTID");
}

/* --- refused calls and faults ---------------------------------------------------------------- */

static void refused(int rank)
{
	void *at;
	int version = 0;

	rank_begin(rank);
	at = device_pointer(self.to);
	self.comm = comm_of(rank, 1);
	need(nc.ncclGetVersion(&version) == ncclSuccess && version == 22809,
	     "its version");
	need(nc.ncclSend(at, 1, ncclInt8, 1, self.comm, gpu.a) ==
		     ncclInvalidArgument,
	     "no such peer");
	need(nc.ncclSend(at, 1, ncclNumTypes, 0, self.comm, gpu.a) ==
		     ncclInvalidArgument,
	     "no such type");
	need(nc.ncclSend(at, 1, ncclInt8, 0, self.comm, gpu.a) ==
		     ncclInvalidUsage,
	     "to itself alone");
	need(nc.ncclGroupEnd() == ncclInvalidUsage, "no group");
	comm_close(self.comm);
	rank_end();
}

/* Errors by CKPTFS_STANDIN: of a call, and of its asynchronous result. */
static void faulty(int rank)
{
	ncclResult_t result;

	rank_begin(rank);
	self.comm = comm_of(rank, 1);
	need(cu.standin_control("fail=ncclGroupStart:1:UNKNOWN") == 0, "words");
	need(nc.ncclGroupStart() == ncclUnhandledCudaError, "a call");
	need(cu.standin_control("fail=ncclAsync:1:UNKNOWN") == 0, "words");
	need(nc.ncclGroupStart() == ncclSuccess, "a group");
	(void)nc.ncclSend(device_pointer(self.from), 9, ncclInt8, 0, self.comm,
			  gpu.a);
	(void)nc.ncclRecv(device_pointer(self.to), 9, ncclInt8, 0, self.comm,
			  gpu.a);
	result = nc.ncclGroupEnd();
	if (result == ncclInProgress)
		result = comm_wait(self.comm, LONG);
	need(result == ncclRemoteError, "the asynchronous result");
	comm_abort(self.comm);
	rank_end();
}

/* If the device is lost, all transfers fail; no call hangs. */
static void lost(int rank)
{
	rank_begin(rank);
	self.comm = comm_of(rank, 2);
	need(cu.standin_control("run=0") == 0, "words");
	well(rank ? nc.ncclRecv(device_pointer(self.to), 9, ncclInt8, 0,
				self.comm, gpu.a)
		  : nc.ncclSend(device_pointer(self.from), 9, ncclInt8, 1,
				self.comm, gpu.a),
	     self.comm);
	need(cu.standin_control("fail=operation:1:ILLEGAL_ADDRESS "
				"run=1000") == 0,
	     "words");
	need(cu.cuStreamSynchronize(gpu.a) == CUDA_ERROR_ILLEGAL_ADDRESS,
	     "a lost device");
	need(nc.ncclCommAbort(self.comm) == ncclUnhandledCudaError,
	     "ncclCommAbort");
	need(cu.standin_control("reset") == 0, "words");
	rank_end();
}

int main(int argc, char **argv)
{
	unsigned count = (unsigned)tap_cases("CKPTFS_ROUNDS", 1000, 1000);

	if (!ranks_begin(argc, argv))
		return 2;
	seed = tap_seed(1);
	test_rounds(3, count);
	test_rounds(8, count);
	if (!TAP_THREADS) /* TSan would report the omitted wait */
		test_forgets();
	test_swaps();
	ok(ends_well(blocking, 2));
	ok(ends_well(large, 2));
	ok(ends_well(two_devices, 1));
	test_same_gpu();
	ok(ends_well(refused, 1));
	ok(ends_well(faulty, 1));
	ok(ends_well(lost, 2));
	return tap_done();
}
