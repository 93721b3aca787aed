/* SPDX-License-Identifier: MIT */
/*
 * liar: a malicious rank that calls MPI directly and sends the invalid messages of liar_case.h.
 *
 *	liar FIRST
 */
#include "liar_case.h"

#include <mpi.h>

enum { PIECE = 4 << 20, BIG = 9 << 20 };

static MPI_Comm control, bulk;
static uint8_t *bytes; /* BIG */

static void send_control(int to, const void *from, size_t len)
{
	MPI_Request request;

	/* The receiver may never receive the message, so this must not block. */
	MPI_Isend(from, (int)len, MPI_BYTE, to, 0, control, &request);
	MPI_Request_free(&request);
}

static void send_bulk(int to, size_t len)
{
	MPI_Request request;

	MPI_Isend(bytes, (int)len, MPI_BYTE, to, 0, bulk, &request);
	MPI_Request_free(&request);
}

static void send_head(int to, struct ck_wire_head head, size_t with)
{
	uint8_t *p = calloc(1, CK_WIRE_HEAD + with); /* never freed: MPI's */

	if (!p)
		abort();
	ck_wire_head_put(&head, p);
	fill_bytes(p + CK_WIRE_HEAD, head.body < with ? head.body : with, 1);
	send_control(to, p, CK_WIRE_HEAD + with);
}

static void send_hello(int to)
{
	send_head(to, (struct ck_wire_head){ .type = CK_WIRE_PING }, 0);
}

/* The head of the reply, with a body of `with` bytes and a small payload. */
static void send_answer(int to, uint64_t payload, size_t with)
{
	send_head(to,
		  (struct ck_wire_head){ .type = CK_WIRE_READ,
					 .answer = true,
					 .id = 7,
					 .payload = payload,
					 .body = BODY },
		  with);
}

static void send_garbage(int to, const struct garbage *g)
{
	static uint8_t patched[64][CK_WIRE_HEAD + BODY];
	static unsigned n;
	uint8_t *p = patched[n++];

	garbage_put(g, PAYLOAD, BODY, p);
	send_control(to, p, CK_WIRE_HEAD + (g->answer ? BODY : 0));
}

static void send_flood(int to)
{
	for (unsigned i = 0; i < 3000; i++)
		send_control(to, bytes, i % 3 ? 40 : CK_WIRE_HEAD + 5000);
}

static void lie_about_bulk(int to, unsigned lie)
{
	send_answer(to, lie_payload(lie), BODY);
	if (lie == NO_BULK)
		send_control(to, bytes, 1);
	else if (lie == BULK_SHORT)
		send_bulk(to, PAYLOAD - 1);
	else if (lie == BULK_LONG)
		send_bulk(to, PAYLOAD + 1);
	else if (lie == NO_LIE)
		send_bulk(to, PAYLOAD);
	if (lie == SECOND_LONG) {
		send_bulk(to, PIECE);
		send_bulk(to, PIECE);
	}
}

static void send_lie(int to, unsigned lie)
{
	send_hello(to);
	if (lie < CK_ARRAY_SIZE(garbage))
		send_garbage(to, &garbage[lie]);
	else if (lie <= HALF_HEAD)
		send_control(to, bytes, lie == ONE_BYTE ? 1 : 63);
	else if (lie <= FAR_TOO_LONG)
		send_control(to, bytes,
			     lie == TOO_LONG ? (1 << 20) + (32 << 10) + 65
					     : BIG);
	else if (lie <= BODY_LONG)
		send_answer(to, PAYLOAD,
			    lie == BODY_SHORT ? BODY - 1 : BODY + 1);
	else if (lie == SMALL_SHORT)
		send_answer(to, 1000, BODY + 999);
	else if (lie == FLOOD)
		send_flood(to);
	else if (lie == AFTER_BYE)
		send_control(to, NULL, 0);
	else if (lie == TAKES_NONE)
		send_control(to, bytes, 1);
	else
		lie_about_bulk(to, lie);
	send_hello(to);
	if (lie == NO_LIE)
		send_control(to, NULL, 0);
}

/* Receives messages until each honest rank has sent its last, empty one. */
static void listen_to_all(void)
{
	unsigned byes = 0;

	while (byes < LIARS) {
		MPI_Status status;
		int len;

		MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, control, &status);
		MPI_Get_count(&status, MPI_BYTE, &len);
		MPI_Recv(bytes, len, MPI_BYTE, status.MPI_SOURCE,
			 status.MPI_TAG, control, MPI_STATUS_IGNORE);
		byes += len == 0;
	}
}

/* Lets MPI make progress with the messages that this rank sends. */
static void take_nothing(unsigned msec)
{
	uint64_t end = now_msec() + msec;
	int flag;

	while (now_msec() < end) {
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, control, &flag,
			   MPI_STATUS_IGNORE);
		usleep(1000);
	}
}

/* Enters the barrier of a closing rank, without MPI_Finalize afterwards. */
static void meet_all(void)
{
	MPI_Request met;

	MPI_Ibarrier(control, &met);
	MPI_Request_free(&met);
}

/* Opens connections in the way of all ranks. */
static void connect_to_all(int rank)
{
	int size;

	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = rank + 1; i < size; i++) {
		MPI_Request request;

		MPI_Isend(NULL, 0, MPI_BYTE, i, 0, MPI_COMM_WORLD, &request);
		MPI_Request_free(&request);
	}
	for (int i = 0; i < rank; i++)
		MPI_Recv(NULL, 0, MPI_BYTE, i, 0, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
	unsigned lie;
	int rank, level;

	if (argc != 2)
		return 2;
	alarm(60);
	bytes = calloc(1, BIG);
	/* The setting of the other ranks: MPI needs the same one in all ranks. */
	if (setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0))
		return 2;
	if (!bytes || MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level))
		return 2;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	connect_to_all(rank);
	MPI_Comm_dup(MPI_COMM_WORLD, &control);
	MPI_Comm_dup(MPI_COMM_WORLD, &bulk);
	lie = (unsigned)(atoi(argv[1]) + rank - LIARS);
	for (int i = 0; i < LIARS; i++)
		send_lie(i, lie);
	if (lie != TAKES_NONE)
		listen_to_all();
	if (lie == NO_LIE)
		meet_all();
	take_nothing(lie == TAKES_NONE ? SHUT_MSEC : 300);
	printf("liar %d has ended\n", rank);
	fflush(stdout);
	_exit(0);
}
