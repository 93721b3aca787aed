/* SPDX-License-Identifier: MIT */
/* mpi_rank: what programs that are a rank of a job have in common. */
#ifndef CK_MPI_RANK_H
#define CK_MPI_RANK_H

#include "dist/transport/mpi_load_internal.h"

#include <stdio.h>
#include <unistd.h>

/* The transport; the process ends if it cannot be had, or after ten minutes. */
static inline struct ck_transport *rank_open(const char *plugin)
{
	struct ck_diag d = { 0 };
	struct ck_transport *x;

	alarm(600);
	if (ck_plugin_open(plugin, &x, &d) == 0)
		return x;
	printf("no transport: %s\n", d.text);
	fflush(stdout);
	_exit(2);
}

/* Ends the process as is right after close(). */
static inline _Noreturn void rank_end(uint32_t rank, uint32_t size, bool good)
{
	printf("rank %u of %u is %s\n", rank, size, good ? "good" : "bad");
	fflush(stdout);
	_exit(good ? 0 : 1);
}

#endif
