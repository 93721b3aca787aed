/* SPDX-License-Identifier: MIT */
/*
 * nccl_groups: the calls of a thread between ncclGroupStart and ncclGroupEnd, which run as one
 * operation of a stream. A transfer outside of a group is a group by itself.
 */
#include "nccl_comms.h"

static _Thread_local struct {
	unsigned depth;
	bool failed, blocking, some;
	struct comm_round *rounds; /* one for each communicator */
	struct ncclComm
		*begun[COMM_RANKS]; /* the end of the group waits for these */
	unsigned count;
} group;

bool comms_in_group(void)
{
	return group.depth > 0;
}

/* NCCL refuses groups of both kinds of communicators. */
static bool suits(const struct ncclComm *comm)
{
	bool good = !group.some || group.blocking == comm->blocking;

	group.some = true;
	group.blocking = comm->blocking;
	group.failed |= !good;
	return good;
}

void comms_group_add(struct ncclComm *comm)
{
	if (!suits(comm) || group.count == COMM_RANKS)
		standin_die("ncclCommInitRankConfig", "no group for that");
	group.begun[group.count++] = comm;
}

void comm_round_free(struct comm_round *round)
{
	struct comm_transfer *t = round->first, *next;

	for (; t; t = next) {
		next = t->next;
		free(t);
	}
	free(round);
}

/* --- as one operation ---------------------------------------------------------------------- */

/* Transfers of a rank to itself are pairs in the same group. */
static bool self_copy(struct comm_round *round)
{
	struct comm_transfer *to = round->first;

	for (struct comm_transfer *from = round->first; from;
	     from = from->next) {
		if (from->peer != round->comm->rank || from->way != COMM_SEND)
			continue;
		while (to && (to->peer != from->peer || to->way != COMM_RECV))
			to = to->next;
		if (from->bytes)
			memcpy(to->memory, from->memory, from->bytes);
		round->left -= 2;
		to = to->next;
	}
	return round->left == 0;
}

static struct standin_range range_of(const struct comm_transfer *t)
{
	return (struct standin_range){ .at = t->at,
				       .len = t->bytes,
				       .writes = t->way == COMM_RECV };
}

static void memory_use(struct comm_round *round, struct standin_uses *uses)
{
	struct standin_memory *memory;

	for (struct comm_transfer *t = round->first; t; t = t->next) {
		uses->call = t->way == COMM_SEND ? "ncclSend" : "ncclRecv";
		if (t->bytes)
			t->memory = standin_use(uses, range_of(t), &memory);
	}
}

/* Under the lock. */
static void round_exchange(struct comm_round *round)
{
	struct ncclComm *comm = round->comm;

	if (!self_copy(round))
		for (struct comm_transfer *t = round->first; t; t = t->next)
			if (t->peer != comm->rank)
				comm_post(t);
	comms_wake(comm);
	while (round->left > 0 && !comm->aborting)
		comms_wait();
	for (int i = 0; i < comm->ranks; i++)
		memset(comm->peers[i].now, 0, sizeof(comm->peers[i].now));
}

/* Under the lock. Injected fault: the last received byte differs from the sent one. */
static void round_spoil(const struct comm_round *round)
{
	if (!standin_is_short("ncclRecv"))
		return;
	for (const struct comm_transfer *t = round->first; t; t = t->next)
		if (t->way == COMM_RECV && t->bytes)
			t->memory[t->bytes - 1] ^= 0xff;
}

/* Under the lock. */
static void round_end(struct comm_round *round)
{
	round->comm->done++;
	comms_wake(round->comm);
	comm_put(round->comm);
	comm_round_free(round);
}

/* Rounds of a communicator run in the order of their calls. */
static void round_run(struct standin_op *op)
{
	struct comm_round *round = op->data;
	struct ncclComm *comm = round->comm;
	struct standin_uses uses = { .device = op->device };

	comms_lock();
	while (comm->done < round->number && !comm->aborting)
		comms_wait();
	if (!comm->aborting) {
		memory_use(round, &uses);
		round_exchange(round);
		round_spoil(round);
	}
	comms_unlock();
	standin_uses_end(&uses);
	comms_lock();
	round_end(round);
	comms_unlock();
}

/* The device is lost. */
static void round_drop(struct standin_op *op)
{
	comms_lock();
	round_end(op->data);
	comms_unlock();
}

/* --- to its stream --------------------------------------------------------------------------- */

/* True if the rank is connected to all peers of the round, in each direction used. */
static bool is_connected(struct comm_round *round)
{
	bool all = true;

	for (struct comm_transfer *t = round->first; t; t = t->next) {
		struct comm_peer *peer = &round->comm->peers[t->peer];

		if (t->peer == round->comm->rank)
			continue;
		comm_say_way(peer, t->way);
		all = all && peer->received[t->way];
	}
	return all;
}

void comm_launch(struct ncclComm *comm)
{
	struct comm_round *round = comm->launching;
	struct standin_op op = { .call = "ncclGroupEnd",
				 .device = comm->device,
				 .run = round_run,
				 .drop = round_drop,
				 .data = round };

	if (!round || !is_connected(round))
		return;
	comms_unlock();
	standin_pause(&comm->random, standin_delay());
	comms_lock();
	if (comm->aborting)
		return;
	comm->launching = NULL;
	comm->refs++;
	(void)standin_submit(round->stream, &op);
	comm_state_set(comm, ncclSuccess);
}

/* --- the group -------------------------------------------------------------------------------- */

/* Numbers the transfers with a peer in a direction, which the other side compares. */
static uint64_t count(const struct comm_round *round, int peer,
		      enum comm_way way)
{
	uint64_t n = 0;

	for (const struct comm_transfer *t = round->first; t; t = t->next)
		n += t->peer == peer && t->way == way;
	return n;
}

/* True if sends to the rank itself match receives from itself. */
static bool self_agrees(const struct comm_round *round)
{
	int self = round->comm->rank;
	const struct comm_transfer *to = round->first;

	if (count(round, self, COMM_SEND) != count(round, self, COMM_RECV))
		return false;
	for (const struct comm_transfer *from = to; from; from = from->next) {
		if (from->peer != self || from->way != COMM_SEND)
			continue;
		while (to->peer != self || to->way != COMM_RECV)
			to = to->next;
		if (to->count != from->count || to->type != from->type)
			standin_die("ncclSend", "to this rank itself, which "
						"wants something else");
		to = to->next;
	}
	return true;
}

/* Overlapping transfers of a group would run at the same time. */
static void overlap_refuse(const struct comm_round *round)
{
	for (const struct comm_transfer *t = round->first; t; t = t->next)
		for (const struct comm_transfer *u = round->first; u;
		     u = u->next)
			if (t != u && t->way == COMM_RECV &&
			    t->at < u->at + u->bytes &&
			    u->at < t->at + t->bytes)
				standin_die("ncclRecv",
					    "over bytes of another "
					    "transfer of the group");
}

/* Under the lock. */
static void round_begin(struct comm_round *round)
{
	struct ncclComm *comm = round->comm;

	overlap_refuse(round);
	for (struct comm_transfer *t = round->first; t; t = t->next) {
		t->of = count(round, t->peer, t->way);
		round->left++;
	}
	round->number = comm->rounds++;
	comm->state = ncclInProgress;
	comm->launching = round;
	comms_wake(comm);
}

static void group_drop(void)
{
	struct comm_round *next;

	for (struct comm_round *r = group.rounds; r; r = next) {
		next = r->next;
		comm_round_free(r);
	}
}

/* Under the lock. A group without a wait for peers ends at once in some calls. */
static bool is_quick(void)
{
	static _Thread_local uint64_t random;

	for (struct comm_round *r = group.rounds; r; r = r->next)
		if (!is_connected(r))
			return false;
	return standin_random(&random) % 4 == 0;
}

/* Under the lock. Waits for the calls in flight if `waits`. */
static ncclResult_t group_result(bool waits)
{
	ncclResult_t result = ncclSuccess;

	for (unsigned i = 0; i < group.count; i++) {
		struct ncclComm *comm = group.begun[i];
		ncclResult_t one = waits ? comm_await(comm) : comm->state;

		result = result ? result : one;
	}
	return result;
}

/* Under the lock. */
static ncclResult_t group_run(void)
{
	bool waits = group.blocking || (group.count == 0 && is_quick());
	struct comm_round *next;

	for (struct comm_round *r = group.rounds; r; r = r->next)
		if (!self_agrees(r))
			group.failed = true;
	if (group.failed) {
		group_drop();
		return ncclInvalidUsage;
	}
	for (struct comm_round *r = group.rounds; r; r = next) {
		next = r->next;
		if (group.count == COMM_RANKS)
			standin_die("ncclGroupEnd", "too many communicators");
		group.begun[group.count++] = r->comm;
		round_begin(r);
	}
	return group_result(waits);
}

ncclResult_t ncclGroupStart(void)
{
	ncclResult_t result = comms_enter(__func__, NULL);

	if (!result)
		group.depth++;
	return result;
}

ncclResult_t ncclGroupEnd(void)
{
	ncclResult_t result = comms_enter(__func__, NULL);

	if (group.depth == 0)
		return ncclInvalidUsage;
	if (--group.depth > 0)
		return result;
	comms_lock();
	if (result)
		group_drop();
	else
		result = group_run();
	comms_unlock();
	memset(&group, 0, sizeof(group));
	return result;
}

/* --- transfers -------------------------------------------------------------------------------- */

static uint64_t size_of(ncclDataType_t type)
{
	static const uint8_t sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

	return type < CK_ARRAY_SIZE(sizes) ? sizes[type] : 0;
}

/* Under the lock. The round of the communicator in this group. */
static struct comm_round *round_of(const char *call, struct ncclComm *comm,
				   CUstream stream)
{
	struct comm_round *round = group.rounds;

	while (round && round->comm != comm)
		round = round->next;
	if (round && round->stream != stream)
		standin_die(call, "a group in two streams");
	if (round)
		return round;
	round = calloc(1, sizeof(*round));
	if (!round)
		standin_die(call, "no memory for the stand-in");
	round->comm = comm;
	round->stream = stream;
	round->next = group.rounds;
	group.rounds = round;
	return round;
}

/* Under the lock. */
static void transfer_add(struct comm_round *round,
			 const struct comm_transfer *t)
{
	struct comm_transfer *own = malloc(sizeof(*own));

	if (!own)
		standin_die("ncclGroupEnd", "no memory for the stand-in");
	*own = *t;
	own->round = round;
	own->nth = count(round, t->peer, t->way) + 1;
	if (round->first)
		round->last->next = own;
	else
		round->first = own;
	round->last = own;
}

static ncclResult_t transfer(const char *call, struct comm_transfer t,
			     struct ncclComm *comm, CUstream stream)
{
	ncclResult_t result = comms_enter(call, NULL);
	uint64_t size = size_of(t.type);

	comms_lock();
	if (!result)
		result = comm_ready(call, comm);
	if (!result && (size == 0 || t.peer < 0 || t.peer >= comm->ranks ||
			!ck_mul(&t.bytes, t.count, size)))
		result = ncclInvalidArgument;
	if (!result && comm->ending)
		standin_die(call, "a communicator that has ended");
	if (!result && !suits(comm))
		result = ncclInvalidUsage;
	if (!result) {
		if (t.bytes)
			standin_check(call, comm->device, range_of(&t));
		transfer_add(round_of(call, comm, stream), &t);
	}
	group.failed |= result != ncclSuccess;
	comms_unlock();
	return result;
}

/* Adds a transfer to the group, or runs it as a group by itself. */
static ncclResult_t transfer_ask(const char *call, struct comm_transfer t,
				 struct ncclComm *comm, CUstream stream)
{
	ncclResult_t result, end;

	if (comms_in_group())
		return transfer(call, t, comm, stream);
	group.depth++;
	result = transfer(call, t, comm, stream);
	end = ncclGroupEnd();
	return result ? result : end;
}

ncclResult_t ncclSend(const void *from, size_t count_, ncclDataType_t type,
		      int peer, ncclComm_t comm, cudaStream_t stream)
{
	const struct comm_transfer t = { .way = COMM_SEND,
					 .peer = peer,
					 .at = (uintptr_t)from,
					 .count = count_,
					 .type = type };

	return transfer_ask(__func__, t, comm, stream);
}

ncclResult_t ncclRecv(void *to, size_t count_, ncclDataType_t type, int peer,
		      ncclComm_t comm, cudaStream_t stream)
{
	const struct comm_transfer t = { .way = COMM_RECV,
					 .peer = peer,
					 .at = (uintptr_t)to,
					 .count = count_,
					 .type = type };

	return transfer_ask(__func__, t, comm, stream);
}
