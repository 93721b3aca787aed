/* SPDX-License-Identifier: MIT */
/*
 * handle: an open file, as those who answer reads of it know it.
 */
#ifndef CKPTFS_FS_HANDLE_H
#define CKPTFS_FS_HANDLE_H

#include "ckptfs/export.h"
#include "file_reader.h"
#include "internal.h"

/* A reply wakes the reader before our call returns, so the file may be closed
 * while a read of it still ends here: each read holds a reference. */
struct ck_handle {
	/* Not open in the handle of a scratch file, and in one for writing only: */
	struct ck_file_reader reader;
	struct ck_handle *next, *prev; /* under ck_fs.handles_lock */
	atomic_uint refs;
	/* Set before it is open: */
	struct ck_fs *fs;
	bool direct;		    /* not through the page cache */
	struct ck_write_handle *wh; /* what is written; or NULL */
	struct ck_scratch *scratch; /* or NULL */
	/* It locks itself, or is atomic: */
	atomic_bool logged;	 /* a failure was put into the log */
	struct ck_stream remote; /* fs->streams protects it */
	/* Under ck_fs.handles_lock: */
	struct ck_handle_export *exports; /* memory of GPUs that it holds */
};

/* What one ioctl(2) has given to whoever has the file open. */
struct ck_handle_export {
	struct ck_handle_export *next;
	struct ck_export *export;
	uint8_t uuid[16];
	bool own;
};

/* Those of its own checkpoint, which in a run directory is a step. */
struct ck_files *ck_handle_files(const struct ck_handle *h);
/* A read of it, for what is read ahead; of files of a step nothing is. */
void ck_handle_note(struct ck_handle *h, const struct ck_read *r);
/* Gives a reference back. */
void ck_handle_put(struct ck_fs *fs, struct ck_handle *h);
/* Answers a read, of `size` bytes as it was asked for, that has come to rc; logs
 * the first failure. */
void ck_handle_reply(fuse_req_t req, struct ck_handle *h,
		     const struct ck_read *r, size_t size, int rc);

#endif
