/* SPDX-License-Identifier: MIT */
/*
 * patch: what a program did not write of a file is what the tensor has: with -o patch
 * when it is committed, and for a program that reads from the file that it writes.
 */
#include "ckptfs/memory.h"
#include "internal.h"
#include <errno.h>
#include <fcntl.h>

static int gap_fill(struct ck_fs *fs, struct ck_stage *stage,
		    const struct fuse_file_info *old, uint64_t begin,
		    uint64_t end, void *bytes, struct ck_diag *d)
{
	size_t len = (size_t)ck_min(end - begin, CK_READ_MAX);
	int rc = ck_handle_read(fs, old, end - len, len, bytes);

	if (rc)
		return ck_fail(d, -rc, "bytes that were not written: %s",
			       strerror(-rc));
	return ck_stage_fill(stage, end - len, bytes, len, d);
}

/* From the end, so that there is little behind a gap in the list of ranges. */
static int gaps_fill(struct ck_fs *fs, struct ck_stage *stage,
		     const struct fuse_file_info *old, struct ck_diag *d)
{
	void *bytes = ck_pages_alloc(CK_READ_MAX);
	uint64_t begin, end;
	int rc = bytes ? 0 : ck_fail(d, ENOMEM, "out of memory");

	while (rc == 0 && ck_stage_gap(stage, &begin, &end))
		rc = gap_fill(fs, stage, old, begin, end, bytes, d);
	ck_pages_free(bytes, CK_READ_MAX);
	return rc;
}

/* Opens the file as it was committed last. */
static int open_present(struct ck_fs *fs, const struct ck_node *n,
			struct fuse_file_info *out)
{
	struct ck_node present;
	int rc = ck_tree_present(fs->tree, n, &present);

	*out = (struct fuse_file_info){ .flags = O_RDONLY };
	return rc ? rc : ck_handle_open(fs, &present, out);
}

int ck_patch_read(struct ck_fs *fs, const struct ck_node *n, uint64_t vpos,
		  size_t len, void *bytes)
{
	struct fuse_file_info file;
	int rc = open_present(fs, n, &file);

	if (rc)
		return rc;
	rc = ck_handle_read(fs, &file, vpos, len, bytes);
	ck_handle_drop(fs, &file);
	return rc;
}

int ck_patch_fill(struct ck_fs *fs, struct ck_stage *stage,
		  const struct ck_node *n, struct ck_diag *d)
{
	struct fuse_file_info old;
	int rc = open_present(fs, n, &old);

	if (rc)
		return ck_fail(d, -rc, "bytes that were not written: %s",
			       strerror(-rc));
	rc = gaps_fill(fs, stage, &old, d);
	ck_handle_drop(fs, &old);
	return rc;
}
