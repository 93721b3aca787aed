/* SPDX-License-Identifier: MIT */
/*
 * load: see load.h. A system call for each run would be one for each element
 * of a box that is cut by columns. So the loops are taken in the order of the
 * file, the longest way outermost, and as many turns of a loop as fit into a
 * block are read at once, with what lies between their runs, and gathered from
 * there. Where more lies between them than a read costs, each is read by
 * itself; a run that is longer than a block goes straight to its place.
 */
#include "load.h"
#include "gather.h"

#include <errno.h>

enum { GAP = 32 << 10 }; /* bytes read in vain rather than a read more */

/* One copy, its loops sorted by their way in the file. */
struct load {
	int fd;
	uint64_t run;
	uint32_t nloops;
	struct ck_loop loops[CK_MAX_DIMS];
	uint64_t span[CK_MAX_DIMS + 1]; /* bytes of the file that loops k and
					 * all inside of it reach over */
	uint8_t *block;
	uint64_t *bytes; /* read so far */
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

/* No overflow: the last run ends inside of a file. */
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

/* n turns of loop k, through the block. */
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
	return rc ? rc : ck_gather_desc(&g);
}

/* How many turns of loop k are read at once; 1: each may be more than one
 * read. */
static uint64_t turns_at_once(const struct load *l, uint32_t k)
{
	const struct ck_loop *loop = &l->loops[k];
	uint64_t inner = l->span[k + 1];

	if (inner > CK_LOAD_BLOCK || loop->src > inner + GAP)
		return 1;
	if (loop->src == 0)
		return loop->count;
	return 1 + (CK_LOAD_BLOCK - inner) / loop->src;
}

/* Loop k and all inside of it. */
static int load_loop(const struct load *l, uint32_t k, uint64_t fpos,
		     uint8_t *to)
{
	const struct ck_loop *loop = &l->loops[k];
	uint64_t most, n;
	int rc = 0;

	if (k == l->nloops)
		return read_at(l, fpos, l->run, to);
	most = turns_at_once(l, k);
	for (uint64_t i = 0; i < loop->count && !rc; i += n) {
		uint64_t turn = fpos + i * loop->src;
		uint8_t *there = to + i * loop->dst;

		n = ck_min(most, loop->count - i);
		rc = most > 1 ? load_block(l, k, n, turn, there)
			      : load_loop(l, k + 1, turn, there);
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
