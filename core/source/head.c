/* SPDX-License-Identifier: MIT */
/*
 * head: reads bytes of a file that become its head. Stateless.
 */
#include "head.h"

int ck_files_head_read(struct ck_files *f, struct ck_file *file, void *buf,
		       size_t len, uint64_t fpos)
{
	int rc = ck_files_head_begin(f, file), kept;

	if (rc)
		return rc;
	rc = ck_files_read(f, file, buf, len, fpos, fpos + len);
	kept = ck_files_head_end(f, file, rc == 0);
	return rc ? rc : kept;
}
