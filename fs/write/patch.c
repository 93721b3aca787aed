/* SPDX-License-Identifier: MIT */
/*
 * patch: bytes of a file that were not written, from its committed version. A
 * commit with -o patch needs them, and a program that reads the file that it
 * writes.
 *
 * Each call opens the committed version, reads, and closes it. No state; the
 * caller holds the lock of the write handle or commits.
 */
#include "../file_reader.h"
#include "../internal.h"
#include "ckptfs/memory.h"
#include <errno.h>

static int gap_fill(struct ck_stage *stage, struct ck_file_reader *old,
		    uint64_t begin, uint64_t end, void *bytes,
		    struct ck_diag *d)
{
	size_t len = (size_t)ck_min(end - begin, CK_READ_MAX);
	int rc = ck_file_reader_read(old, end - len, len, bytes);

	if (rc)
		return ck_fail(d, -rc, "bytes that were not written: %s",
			       strerror(-rc));
	return ck_stage_fill(stage, end - len, bytes, len, d);
}

/* From the end, so that little moves behind a gap in the list of ranges. */
static int gaps_fill(struct ck_stage *stage, struct ck_file_reader *old,
		     struct ck_diag *d)
{
	void *bytes = ck_pages_alloc(CK_READ_MAX);
	uint64_t begin, end;
	int rc = bytes ? 0 : ck_fail(d, ENOMEM, "out of memory");

	while (rc == 0 && ck_stage_gap(stage, &begin, &end))
		rc = gap_fill(stage, old, begin, end, bytes, d);
	ck_pages_free(bytes, CK_READ_MAX);
	return rc;
}

/* Opens the last committed version. */
static int open_present(struct ck_fs *fs, const struct ck_node *n,
			struct ck_file_reader *out)
{
	struct ck_node present;
	int rc = ck_tree_present(fs->tree, n, &present);

	if (rc)
		return rc;
	*out = (struct ck_file_reader){ .fs = fs };
	ck_file_reader_init(out, fs, &present);
	rc = ck_file_reader_pin(out);
	if (rc == 0)
		rc = ck_file_reader_open(out);
	if (rc)
		ck_file_reader_fini(out);
	return rc;
}

int ck_patch_read(struct ck_fs *fs, const struct ck_node *n, uint64_t vpos,
		  size_t len, void *bytes)
{
	struct ck_file_reader file;
	int rc = open_present(fs, n, &file);

	if (rc)
		return rc;
	rc = ck_file_reader_read(&file, vpos, len, bytes);
	ck_file_reader_fini(&file);
	return rc;
}

int ck_patch_fill(struct ck_fs *fs, struct ck_stage *stage,
		  const struct ck_node *n, struct ck_diag *d)
{
	struct ck_file_reader old;
	int rc = open_present(fs, n, &old);

	if (rc)
		return ck_fail(d, -rc, "bytes that were not written: %s",
			       strerror(-rc));
	rc = gaps_fill(stage, &old, d);
	ck_file_reader_fini(&old);
	return rc;
}
