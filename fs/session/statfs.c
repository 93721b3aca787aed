/* SPDX-License-Identifier: MIT */
/*
 * statfs: the size of the mount. Used are the bytes of the tensors. Free is the free
 * space of the file system of the checkpoint on a mount for writing, else nothing.
 * No state, no locks.
 */
#include "../internal.h"
#include <sys/statvfs.h>

#define BLOCK 4096

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return ck_mul(&product, a, b) ? product : UINT64_MAX;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return ck_add(&sum, a, b) ? sum : UINT64_MAX;
}

/* statfs(2) of the source on a writable mount; else zeros. */
static struct statvfs source_statvfs(const struct ck_fs *fs)
{
	struct statvfs st;

	if (!fs->writer || fstatvfs(fs->cp->dirfd, &st))
		return (struct statvfs){ 0 };
	return st;
}

uint64_t ck_fs_free_bytes(const struct ck_fs *fs)
{
	struct statvfs source = source_statvfs(fs);

	return times(source.f_bavail, source.f_frsize);
}

/* Used is the size of the tensors, free is the free space of the source, and
 * the size is their sum. If the source counts no inodes, neither does the
 * mount. */
void ck_fs_statfs(fuse_req_t req, fuse_ino_t ino)
{
	const struct ck_fs *fs = fuse_req_userdata(req);
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	uint64_t nbytes = c->nbytes;
	struct statvfs source = source_statvfs(fs);
	uint64_t bfree = times(source.f_bfree, source.f_frsize) / BLOCK;
	struct statvfs st = {
		.f_bsize = BLOCK,
		.f_frsize = BLOCK,
		.f_blocks =
			plus(ck_max(1, nbytes / BLOCK + (nbytes % BLOCK != 0)),
			     bfree),
		.f_bfree = bfree,
		.f_bavail = times(source.f_bavail, source.f_frsize) / BLOCK,
		.f_ffree = source.f_ffree,
		.f_favail = source.f_favail,
		.f_namemax = 255,
	};

	(void)ino;
	if (!fs->writer || source.f_files)
		st.f_files = plus(ck_root_count(fs->root), source.f_ffree);
	fuse_reply_statfs(req, &st);
}
