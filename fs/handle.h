/* SPDX-License-Identifier: MIT */
/*
 * handle: an open file, as the functions that read from it know it.
 */
#ifndef CKPTFS_HANDLE_H
#define CKPTFS_HANDLE_H

#include "ckptfs/device.h"
#include "file_reader.h"
#include "internal.h"

/* A reply wakes the reader before our call returns. So the file may be closed
 * while a read of it still ends here: each read holds a reference. */
struct ck_handle {
	/* Not open in the handle of a scratch file, nor in one for writing
	 * only: */
	struct ck_file_reader reader;
	struct ck_handle *next, *prev; /* under ck_fs.handles_lock */
	atomic_uint refs;
	/* Set before it is open: */
	struct ck_fs *fs;
	bool direct;		    /* reads bypass the page cache */
	struct ck_write_handle *wh; /* state of writing; or NULL */
	struct ck_scratch *scratch; /* or NULL */
	/* Atomic; or locks itself: */
	atomic_bool logged;	 /* a failure is in the log */
	struct ck_stream remote; /* fs->streams protects it */
	/* Under ck_fs.handles_lock: */
	struct ck_handle_export *exports; /* owned; exports to GPUs */
};

/* The export of one CKPTFS_IOC_GPU. */
struct ck_handle_export {
	struct ck_handle_export *next;
	struct ck_export *export;
	bool own;
};

/* The data files of the checkpoint of the file, which in a run directory is one
 * of several. */
struct ck_files *ck_handle_files(const struct ck_handle *h);
/* ck_host_read(). is_direct: the bytes are for read(2), not for the page cache. Such a read of damaged
 * data ends before the first byte that cannot be read: sets r->len. A page would be filled with
 * zeros, and the file would end there. */
CK_MUST_USE int ck_handle_read(struct ck_handle *h, struct ck_read *r,
			       bool is_direct);
/* Notes a read for local read-ahead. Files of a run directory have no read-ahead. */
void ck_handle_note(struct ck_handle *h, const struct ck_read *r);
/* Drops a reference. The last one closes the file. */
void ck_handle_put(struct ck_fs *fs, struct ck_handle *h);
/* Replies to a read of `size` bytes with its result: rc, and the bytes of *r if
 * it is 0. Logs the first failure of a handle. */
void ck_handle_reply(fuse_req_t req, struct ck_handle *h,
		     const struct ck_read *r, size_t size, int rc);

#endif
