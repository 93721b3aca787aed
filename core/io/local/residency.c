/* SPDX-License-Identifier: MIT */
/*
 * residency: page-cache residency of data files. Mappings of data files are
 * MADV_RANDOM: a page fault reads one page only, so that a small read of a cold
 * tensor reads little. Callers that load more announce the range first.
 *
 * Measured: pages that readahead(2) and MADV_WILLNEED bring are single pages of
 * the page cache. Later reads of them are five times slower than of pages that
 * read(2) brings. So ck_residency_load() reads, and discards the bytes. No
 * state. Any thread.
 */
#include "residency.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum {
	PAGE = 4096,
	BLOCK = 128 << 10,   /* read at once: stays in the processor's cache */
	SPAN_MAX = 64 << 20, /* longer ranges are not announced */
};

bool ck_residency_test(const struct ck_file *file, uint64_t fpos)
{
	char byte;
	struct iovec iov = { &byte, 1 };

	return preadv2(file->fd, &iov, 1, (off_t)fpos, RWF_NOWAIT) == 1;
}

void ck_residency_prefetch(const struct ck_file *file, uint64_t fpos,
			   uint64_t len)
{
	uint64_t begin = fpos - fpos % PAGE;

	if (len == 0 || len > SPAN_MAX ||
	    ck_residency_test(file, fpos + len - 1))
		return;
	(void)madvise((void *)(uintptr_t)(file->map + begin),
		      (size_t)(fpos + len - begin), MADV_WILLNEED);
}

void ck_residency_load(const struct ck_file *file, uint64_t fpos, uint64_t len,
		       char block[static CK_RESIDENCY_BLOCK])
{
	uint64_t end = ck_min(fpos + len, file->size);

	while (fpos < end) {
		size_t n = (size_t)ck_min(CK_RESIDENCY_BLOCK, end - fpos);

		if (ck_pread_full(file->fd, block, n, fpos))
			return; /* the read itself will report the error */
		fpos += n;
	}
}
