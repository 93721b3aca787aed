/* SPDX-License-Identifier: MIT */
/*
 * exchange: one rank of an exchange over MPI, see xport_exchange.h.
 *
 *	exchange PLUGIN sizes|random|large|waiting|flipped REQUESTS
 *
 * Says "rank N of M is good" if it is.
 */
#include "mpi_rank.h"
#include "xport_exchange.h"

static const uint64_t sizes[] = {
	0,
	1,
	4096,
	(32 << 10) - 1,
	32 << 10,
	(32 << 10) + 1,
	1 << 20,
	(4 << 20) - 1,
	4 << 20,
	(4 << 20) + 1,
	CK_WIRE_READ_MAX - 1,
	CK_WIRE_READ_MAX,
};

static struct exchange exchange_of(const char *what, struct ck_transport *x,
				   uint64_t requests)
{
	struct exchange e = { .seed = tap_seed(0x12ab),
			      .size = x->size,
			      .requests = requests,
			      .window = 4,
			      .most = 512 << 10,
			      .body_most = 64 << 10,
			      .edge = 32 << 10 };

	if (strcmp(what, "sizes") == 0) {
		e.sizes = sizes;
		e.nsizes = CK_ARRAY_SIZE(sizes);
		e.requests = e.nsizes + 4;
		e.most = CK_WIRE_READ_MAX;
		e.body_most = CK_WIRE_BODY_MAX;
		e.edge = 4 << 20;
		e.window = 2;
	}
	if (strcmp(what, "large") == 0) {
		e.most = CK_WIRE_READ_MAX;
		e.edge = 4 << 20;
	}
	if (strcmp(what, "flipped") == 0) {
		struct talk t;

		do
			t = talk_of(&e, 0, 1, ++e.flip);
		while (t.body + t.payload == 0 || t.how != EXACT);
		e.requests = e.flip > requests ? e.flip : requests;
	}
	return e;
}

/* How much was wrong. */
static uint64_t run(const char *what, struct ck_transport *x, uint64_t requests)
{
	struct exchange e = exchange_of(what, x, requests);
	struct side s = { .e = &e, .rank = x->rank, .x = x };

	side_run(&s);
	return e.flip && s.rank == 0 ? s.wrong != 1 : s.wrong;
}

int main(int argc, char **argv)
{
	uint64_t start, wrong = 0;
	uint32_t rank, size;
	struct ck_transport *x;

	if (argc != 4)
		return 2;
	x = rank_open(argv[1]);
	rank = x->rank;
	size = x->size;
	start = now_msec();
	if (strcmp(argv[2], "waiting") == 0) {
		test_wake(x);
		test_also(x);
		x->close(x);
		wrong = tap_failed;
	} else {
		wrong = run(argv[2], x, strtoull(argv[3], NULL, 10));
	}
	printf("# rank %u: %u msec\n", rank, (unsigned)(now_msec() - start));
	rank_end(rank, size, wrong == 0);
}
