/* SPDX-License-Identifier: MIT */
/*
 * buffer: the memory in which a thread assembles the bytes of a reply. Each
 * FUSE thread keeps one buffer, apart from the workspace of the I/O engine. No
 * locks.
 */
#include "ckptfs/memory.h"
#include "internal.h"

static void buffer_fini(void *p)
{
	ck_pages_fini(p);
}

void *ck_reply_buffer(size_t len)
{
	static _Thread_local struct ck_pages *mine;

	if (!mine)
		mine = ck_thread_keep(sizeof(*mine), buffer_fini);
	return mine ? ck_pages_reserve(mine, len) : NULL;
}
