/* SPDX-License-Identifier: MIT */
/*
 * mpi_pair: what MPI itself gives, beside which ckptfs is measured. Rank 0 gets messages
 * of 4 MiB from all others, then goes back and forth with rank 1, then copies memory.
 *
 *	mpirun -n N mpi_pair MIB
 *
 * Prints one JSON object: GB/s and the processor time of all ranks for each GB of MIB
 * that came; microseconds of a round trip of 8 bytes; GB/s of memcpy of 4 MiB.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MESSAGE = 4 << 20, WINDOW = 4, TRIPS = 2000, COPIES = 128 };

static int rank, size;
static char *room; /* WINDOW messages */

static double cpu_now(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

/* The other end of each message: rank 0 takes them from the others in turn. */
static int partner(int i)
{
	return rank ? 0 : 1 + i % (size - 1);
}

/* WINDOW messages are on their way at any time. */
static void move(int n)
{
	MPI_Request requests[WINDOW];

	for (int i = 0; i < n + WINDOW; i++) {
		int at = i % WINDOW;
		char *part = room + (size_t)at * MESSAGE;

		if (i >= WINDOW)
			MPI_Wait(&requests[at], MPI_STATUS_IGNORE);
		if (i >= n)
			requests[at] = MPI_REQUEST_NULL;
		else if (rank)
			MPI_Isend(part, MESSAGE, MPI_BYTE, partner(i), 0,
				  MPI_COMM_WORLD, &requests[at]);
		else
			MPI_Irecv(part, MESSAGE, MPI_BYTE, partner(i), 0,
				  MPI_COMM_WORLD, &requests[at]);
	}
}

/* each: messages of every sender. */
static void bandwidth(int each)
{
	int n = rank ? each : each * (size - 1);
	double bytes = (double)each * (size - 1) * MESSAGE, used, from, sum;

	MPI_Barrier(MPI_COMM_WORLD);
	used = cpu_now();
	from = MPI_Wtime();
	move(n);
	from = MPI_Wtime() - from;
	used = cpu_now() - used;
	MPI_Reduce(&used, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("{\"gbps\": %.3f, \"cpu\": %.3f, ", bytes / from / 1e9,
		       sum / bytes * 1e9);
}

static void round_trip(void)
{
	double from = MPI_Wtime();

	for (int i = 0; rank < 2 && i < TRIPS; i++) {
		if (rank == 0)
			MPI_Send(room, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(room, 8, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(room, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	}
	if (rank == 0)
		printf("\"usec\": %.2f, ", (MPI_Wtime() - from) / TRIPS * 1e6);
}

static void copy(void)
{
	double from = MPI_Wtime();

	for (int i = 0; i < COPIES; i++) {
		memcpy(room + (size_t)(i % 2 + 1) * MESSAGE, room, MESSAGE);
		__asm__ volatile("" : : "r"(room) : "memory");
	}
	if (rank == 0)
		printf("\"memcpy\": %.3f}\n",
		       (double)COPIES * MESSAGE / (MPI_Wtime() - from) / 1e9);
}

int main(int argc, char **argv)
{
	int mib = argc > 1 ? atoi(argv[1]) : 256, each;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	room = malloc((size_t)WINDOW * MESSAGE);
	if (!room || size < 2)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(room, 1, (size_t)WINDOW * MESSAGE);
	each = mib / 4 / (size - 1) + 1;
	move(rank ? WINDOW : WINDOW * (size - 1)); /* connects them */
	bandwidth(each);
	round_trip();
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		copy();
	MPI_Finalize();
	return 0;
}
