/* SPDX-License-Identifier: MIT */
/*
 * given: what of a file was given by those who write it. A program that dies in
 * the middle, or a thread that raises, leaves bytes that nobody wrote; they must
 * not become zeros of a tensor.
 *
 * Some tools leave bytes out on purpose, where all are zeros: `cp --sparse`, `tar
 * -S`, `dd conv=sparse`. Each of them goes from front to back, in one thread, and
 * at the end sets the size if the last bytes are such. Whoever writes in any other
 * way has to write every byte.
 */
#include "given.h"

#include <errno.h>

void ck_given_clear(struct ck_given *g)
{
	g->written.n = g->failed.n = 0;
	g->end = 0;
	g->by = 0;
	g->sized = g->jumped = false;
}

void ck_given_fini(struct ck_given *g)
{
	free(g->written.r);
	free(g->failed.r);
	*g = (struct ck_given){ 0 };
}

int ck_given_write(struct ck_given *g, uint64_t begin, uint64_t end,
		   uint32_t thread)
{
	int rc = ck_ranges_add(&g->written, begin, end);

	if (rc == 0 && g->failed.n)
		rc = ck_ranges_remove(&g->failed, begin, end);
	if (rc)
		return rc;
	if (thread == 0 || (g->by && g->by != thread) || begin < g->end ||
	    g->sized)
		g->jumped = true;
	g->by = thread;
	g->end = ck_max(g->end, end);
	return 0;
}

int ck_given_fail(struct ck_given *g, uint64_t begin, uint64_t end)
{
	return ck_ranges_add(&g->failed, begin, end);
}

void ck_given_size(struct ck_given *g, uint64_t size)
{
	ck_ranges_cut(&g->written, size);
	g->end = size;
	g->sized = true;
}

bool ck_given_nothing(const struct ck_given *g)
{
	return g->written.n == 0 && g->failed.n == 0;
}

bool ck_given_skips(const struct ck_given *g)
{
	return g->written.n && !g->jumped;
}

bool ck_given_all(const struct ck_given *g, uint64_t begin, uint64_t end)
{
	return g->failed.n == 0 && ck_ranges_have(&g->written, begin, end);
}

uint64_t ck_given_bytes(const struct ck_given *g, uint64_t begin)
{
	uint64_t n = 0;

	for (size_t i = 0; i < g->written.n; i++)
		if (g->written.r[i].end > begin)
			n += g->written.r[i].end -
			     ck_max(begin, g->written.r[i].begin);
	return n;
}
