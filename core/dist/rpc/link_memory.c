/* SPDX-License-Identifier: MIT */
/*
 * link_memory: checks and maps the shared memory of a link. No state, any
 * thread.
 */
#include "link_internal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The memory must be long enough, and sealed so that it stays so. */
static int check(int memory, uint64_t size)
{
	struct stat st;
	int seals;

	if (fstat(memory, &st))
		return -errno;
	seals = fcntl(memory, F_GET_SEALS);
	if (seals < 0)
		return -errno;
	return seals & F_SEAL_SHRINK && size > CK_WIRE_READ_MAX &&
			       st.st_size >= 0 && (uint64_t)st.st_size >= size
		       ? 0
		       : -EINVAL;
}

int ck_link_map(int memory, uint64_t size, uint8_t **out)
{
	int rc = check(memory, size);
	void *p;

	if (rc)
		return rc;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (p == MAP_FAILED)
		return -errno;
	*out = p;
	return 0;
}
