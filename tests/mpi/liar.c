/* SPDX-License-Identifier: MIT */
/*
 * liar: a rank that speaks MPI itself, and says what is no message: see liar_case.h.
 *
 *	liar FIRST
 */
#include "liar_case.h"

#include <mpi.h>

enum { PIECE = 4 << 20, BIG = 9 << 20 };

static MPI_Comm control, bulk;
static uint8_t *bytes; /* BIG */

static void say_control(int to, const void *from, size_t len)
{
	MPI_Request request;

	/* Who hears it may not take it at all: nothing is waited for. */
	MPI_Isend(from, (int)len, MPI_BYTE, to, 0, control, &request);
	MPI_Request_free(&request);
}

static void say_bulk(int to, size_t len)
{
	MPI_Request request;

	MPI_Isend(bytes, (int)len, MPI_BYTE, to, 0, bulk, &request);
	MPI_Request_free(&request);
}

static void say_head(int to, struct ck_wire_head head, size_t with)
{
	uint8_t *p = calloc(1, CK_WIRE_HEAD + with); /* never freed: MPI's */

	if (!p)
		abort();
	ck_wire_head_put(&head, p);
	fill_bytes(p + CK_WIRE_HEAD, head.body < with ? head.body : with, 1);
	say_control(to, p, CK_WIRE_HEAD + with);
}

static void say_hello(int to)
{
	say_head(to, (struct ck_wire_head){ .type = CK_WIRE_PING }, 0);
}

/* The head of the answer, with a body of so many bytes, and a small payload. */
static void say_answer(int to, uint64_t payload, size_t with)
{
	say_head(to,
		 (struct ck_wire_head){ .type = CK_WIRE_READ,
					.answer = true,
					.id = 7,
					.payload = payload,
					.body = BODY },
		 with);
}

static void say_garbage(int to, const struct garbage *g)
{
	static uint8_t patched[64][CK_WIRE_HEAD + BODY];
	static unsigned n;
	uint8_t *p = patched[n++];

	garbage_put(g, PAYLOAD, BODY, p);
	say_control(to, p, CK_WIRE_HEAD + (g->answer ? BODY : 0));
}

static void say_flood(int to)
{
	for (unsigned i = 0; i < 3000; i++)
		say_control(to, bytes, i % 3 ? 40 : CK_WIRE_HEAD + 5000);
}

static void lie_about_bulk(int to, unsigned lie)
{
	say_answer(to, lie_payload(lie), BODY);
	if (lie == NO_BULK)
		say_control(to, bytes, 1);
	else if (lie == BULK_SHORT)
		say_bulk(to, PAYLOAD - 1);
	else if (lie == BULK_LONG)
		say_bulk(to, PAYLOAD + 1);
	else if (lie == NO_LIE)
		say_bulk(to, PAYLOAD);
	if (lie == SECOND_LONG) {
		say_bulk(to, PIECE);
		say_bulk(to, PIECE);
	}
}

static void tell(int to, unsigned lie)
{
	say_hello(to);
	if (lie < CK_ARRAY_SIZE(garbage))
		say_garbage(to, &garbage[lie]);
	else if (lie <= HALF_HEAD)
		say_control(to, bytes, lie == ONE_BYTE ? 1 : 63);
	else if (lie <= FAR_TOO_LONG)
		say_control(to, bytes,
			    lie == TOO_LONG ? (1 << 20) + (32 << 10) + 65
					    : BIG);
	else if (lie <= BODY_LONG)
		say_answer(to, PAYLOAD,
			   lie == BODY_SHORT ? BODY - 1 : BODY + 1);
	else if (lie == SMALL_SHORT)
		say_answer(to, 1000, BODY + 999);
	else if (lie == FLOOD)
		say_flood(to);
	else if (lie == AFTER_BYE)
		say_control(to, NULL, 0);
	else if (lie == TAKES_NONE)
		say_control(to, bytes, 1);
	else
		lie_about_bulk(to, lie);
	say_hello(to);
	if (lie == NO_LIE)
		say_control(to, NULL, 0);
}

/* Until all have said goodbye; what else they say is read. */
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

/* Has MPI carry on with what this rank sends. */
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

/* As a rank that closes at the same time, but that does not end MPI then. */
static void meet_all(void)
{
	MPI_Request met;

	MPI_Ibarrier(control, &met);
	MPI_Request_free(&met);
}

/* As all ranks do at first. */
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
	/* As the other ranks tell MPI: it takes no part with one that does otherwise. */
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
		tell(i, lie);
	if (lie != TAKES_NONE)
		listen_to_all();
	if (lie == NO_LIE)
		meet_all();
	take_nothing(lie == TAKES_NONE ? SHUT_MSEC : 300);
	printf("liar %d has ended\n", rank);
	fflush(stdout);
	_exit(0);
}
