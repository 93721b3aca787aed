/* SPDX-License-Identifier: MIT */
/*
 * loader: loads the MPI transport in the way of ckptfs, twice, and prints the result:
 * "ERRNO TEXT" or "rank N of M".
 */
#include "dist/transport/mpi_load.h"

#include <stdio.h>
#include <unistd.h>

static struct ck_transport *load(void)
{
	struct ck_diag d = { 0 };
	struct ck_transport *x;
	int rc = ck_transport_mpi(&x, &d);

	if (rc)
		printf("%d %s\n", -rc, d.text);
	else
		printf("rank %u of %u\n", x->rank, x->size);
	fflush(stdout);
	return rc ? NULL : x;
}

int main(void)
{
	struct ck_transport *x = load(), *again = x ? load() : NULL;

	if (x)
		x->close(x);
	_exit(!x || again);
}
