/* SPDX-License-Identifier: MIT */
/*
 * written_ranges: the bytes of a file that were written. If a program is killed or a
 * thread throws, bytes that were never written must not become zeros of a tensor. No
 * locks; the caller synchronizes.
 *
 * Some tools skip runs of zeros on purpose: `cp --sparse`, `tar -S`, `dd conv=sparse`.
 * Each of them writes front to back and closes the file, all in one thread. It sets the
 * size last if the file ends with zeros, and does not sync a file before it closes it.
 * A program that writes in any other way must write every byte. So must one that writes
 * a single zero behind skipped bytes: it sets the size of a file that it will map
 * (numpy.memmap), which ckptfs refuses.
 */
#include "written_ranges.h"

#include <errno.h>

void ck_written_clear(struct ck_written_ranges *g)
{
	g->ranges.n = g->failed.n = 0;
	g->end = 0;
	g->by = 0;
	g->sized = g->closed = g->jumped = false;
}

void ck_written_fini(struct ck_written_ranges *g)
{
	free(g->ranges.r);
	free(g->failed.r);
	*g = (struct ck_written_ranges){ 0 };
}

int ck_written_write(struct ck_written_ranges *g, uint64_t begin,
		     const void *bytes, uint64_t len, uint32_t thread)
{
	uint64_t end = begin + len;
	bool sizes = len == 1 && begin > g->end && *(const char *)bytes == 0;
	int rc = ck_ranges_add(&g->ranges, begin, end);

	if (rc == 0 && g->failed.n)
		rc = ck_ranges_remove(&g->failed, begin, end);
	if (rc)
		return rc;
	if (thread == 0 || (g->by && g->by != thread) || begin < g->end ||
	    g->sized || sizes)
		g->jumped = true;
	g->by = thread;
	g->closed = false;
	g->end = ck_max(g->end, end);
	return 0;
}

int ck_written_fail(struct ck_written_ranges *g, uint64_t begin, uint64_t end)
{
	return ck_ranges_add(&g->failed, begin, end);
}

int ck_written_lose(struct ck_written_ranges *g, uint64_t begin, uint64_t end)
{
	g->jumped = true;
	return ck_ranges_remove(&g->ranges, begin, end);
}

void ck_written_size(struct ck_written_ranges *g, uint64_t size)
{
	ck_ranges_cut(&g->ranges, size);
	g->end = size;
	g->sized = true;
	g->closed = false;
}

void ck_written_allocate(struct ck_written_ranges *g, uint64_t size)
{
	ck_written_size(g, size);
	g->jumped = true;
}

bool ck_written_nothing(const struct ck_written_ranges *g)
{
	return g->ranges.n == 0 && g->failed.n == 0;
}

void ck_written_sync(struct ck_written_ranges *g)
{
	if (!ck_written_all(g, 0, g->end))
		g->jumped = true;
}

void ck_written_close(struct ck_written_ranges *g, uint32_t thread)
{
	g->closed = thread && thread == g->by;
}

bool ck_written_skips(const struct ck_written_ranges *g)
{
	return g->ranges.n && g->closed && !g->jumped;
}

bool ck_written_all(const struct ck_written_ranges *g, uint64_t begin,
		    uint64_t end)
{
	return g->failed.n == 0 && ck_ranges_have(&g->ranges, begin, end);
}

uint64_t ck_written_bytes(const struct ck_written_ranges *g, uint64_t begin)
{
	uint64_t n = 0;

	for (size_t i = 0; i < g->ranges.n; i++)
		if (g->ranges.r[i].end > begin)
			n += g->ranges.r[i].end -
			     ck_max(begin, g->ranges.r[i].begin);
	return n;
}
