/* SPDX-License-Identifier: MIT */
/*
 * rounds: one rank of a job that moves random rounds over MPI, see rounds_rank.h.
 *
 *	rounds PLUGIN ROUNDS
 *
 * Says "rank N of M is good" if all bytes were equal.
 */
#include "mpi_rank.h"
#include "rounds_rank.h"

int main(int argc, char **argv)
{
	struct rank_plan plan = { .prepare_msec = 30000,
				  .round_msec = 30000,
				  .late_one_in = 16,
				  .late_usec = 2000,
				  .refuse_one_in = 100 };
	struct rank_result t = { 0 };
	uint32_t rank, size;
	struct ck_transport *x;

	if (argc != 3)
		return 2;
	plan.seed = tap_seed(1);
	plan.rounds = strtoull(argv[2], NULL, 10);
	x = rank_open(argv[1]);
	rank = x->rank;
	size = x->size;
	rank_run(x, &plan, &t);
	rank_end(rank, size,
		 t.over && t.wrong == 0 && t.aborts + t.differ == 0 &&
			 t.good + t.failed == plan.rounds);
}
