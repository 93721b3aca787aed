/* SPDX-License-Identifier: MIT */
/*
 * loader: loads the MPI transport as the program does, twice, and says what became of it:
 * "ERRNO TEXT" or "rank N of M".
 */
#include "ckptfs/plugin.h"

#include <stdio.h>
#include <unistd.h>

static struct ck_xport *load(void)
{
	struct ck_diag d = { 0 };
	struct ck_xport *x;
	int rc = ck_xport_mpi(&x, &d);

	if (rc)
		printf("%d %s\n", -rc, d.text);
	else
		printf("rank %u of %u\n", x->rank, x->size);
	fflush(stdout);
	return rc ? NULL : x;
}

int main(void)
{
	struct ck_xport *x = load(), *again = x ? load() : NULL;

	if (x)
		x->close(x);
	_exit(!x || again);
}
