/* SPDX-License-Identifier: MIT */
/*
 * load: runs a plan op on a file that is not mapped. One system call for each run would
 * mean one for each element of a box that is cut by columns. So the loops are
 * sorted by their stride in the file, the longest outermost. As many iterations of a loop
 * as fit into the block are read at once, with the bytes between their runs, and are
 * gathered from there.
 *
 * If the gap between runs is longer than GAP, each run is read by itself. A run that
 * is longer than the block is read straight to its destination. No state. Any thread.
 */
#include "load.h"
#include "gather.h"

#include <errno.h>

/* longest gap, in bytes, that is read rather than skipped by another system call */
enum { GAP = 32 << 10 };

/* One plan op, its loops sorted by their stride in the file. */
struct load {
	int fd;
	uint64_t run;
	uint32_t nloops;
	struct ck_loop loops[CK_MAX_DIMS];
	/* of loop k and the loops inside of it: bytes of the file from the first
	 * byte to the last one */
	uint64_t span[CK_MAX_DIMS + 1];
	uint8_t *block;
	uint64_t *bytes; /* bytes read so far */
};

static void sort_loops(struct load *l)
{
	for (uint32_t i = 1; i < l->nloops; i++)
		for (uint32_t k = i;
		     k > 0 && l->loops[k - 1].src < l->loops[k].src; k--) {
			struct ck_loop loop = l->loops[k];

			l->loops[k] = l->loops[k - 1];
			l->loops[k - 1] = loop;
		}
}

/* Sets the spans. Cannot overflow, since the last run ends inside of a file. */
static void measure(struct load *l)
{
	l->span[l->nloops] = l->run;
	for (uint32_t k = l->nloops; k > 0; k--)
		l->span[k - 1] = l->span[k] + (l->loops[k - 1].count - 1) *
						      l->loops[k - 1].src;
}

static int read_at(const struct load *l, uint64_t fpos, uint64_t len, void *to)
{
	int rc = ck_pread_full(l->fd, to, len, fpos);

	*l->bytes += len;
	return rc == -ENODATA ? -EIO : rc;
}

/* Runs n iterations of loop k with one read into the block. */
static int load_block(const struct load *l, uint32_t k, uint64_t n,
		      uint64_t fpos, uint8_t *to)
{
	uint64_t span = l->span[k + 1] + (n - 1) * l->loops[k].src;
	struct ck_loop loops[CK_MAX_DIMS];
	struct ck_plan_op copy = { .run = l->run, .nloops = l->nloops - k };
	struct ck_plan plan = { .copies = &copy,
				.loops = loops,
				.ncopies = 1,
				.nloops = copy.nloops };
	const uint8_t *from = l->block;
	struct ck_gather g = { &plan, &from, to };
	int rc = read_at(l, fpos, span, l->block);

	memcpy(loops, l->loops + k, copy.nloops * sizeof(loops[0]));
	loops[0].count = n;
	return rc ? rc : ck_sigbus_guard(ck_gather_run, &g);
}

/* Number of iterations of loop k that one read covers; 1 if an iteration may need
 * several reads. */
static uint64_t iterations_at_once(const struct load *l, uint32_t k)
{
	const struct ck_loop *loop = &l->loops[k];
	uint64_t inner = l->span[k + 1];

	if (inner > CK_LOAD_BLOCK || loop->src > inner + GAP)
		return 1;
	if (loop->src == 0)
		return loop->count;
	return 1 + (CK_LOAD_BLOCK - inner) / loop->src;
}

/* Runs loop k and the loops inside of it. */
static int load_loop(const struct load *l, uint32_t k, uint64_t fpos,
		     uint8_t *to)
{
	const struct ck_loop *loop = &l->loops[k];
	uint64_t most, n;
	int rc = 0;

	if (k == l->nloops)
		return read_at(l, fpos, l->run, to);
	most = iterations_at_once(l, k);
	for (uint64_t i = 0; i < loop->count && !rc; i += n) {
		uint64_t src = fpos + i * loop->src;
		uint8_t *dst = to + i * loop->dst;

		n = ck_min(most, loop->count - i);
		rc = most > 1 ? load_block(l, k, n, src, dst)
			      : load_loop(l, k + 1, src, dst);
	}
	return rc;
}

int ck_load_copy(int fd, const struct ck_plan *plan, size_t i, uint64_t fpos,
		 uint8_t *to, uint8_t block[static CK_LOAD_BLOCK],
		 uint64_t *bytes)
{
	const struct ck_plan_op *c = &plan->copies[i];
	struct load l = { .fd = fd,
			  .run = c->run,
			  .nloops = c->nloops,
			  .block = block,
			  .bytes = bytes };

	for (uint32_t k = 0; k < c->nloops; k++)
		l.loops[k] = plan->loops[c->loop + k];
	sort_loops(&l);
	measure(&l);
	return load_loop(&l, 0, fpos, to + c->dst);
}
