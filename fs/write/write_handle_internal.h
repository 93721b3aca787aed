/* SPDX-License-Identifier: MIT */
/*
 * write_handle, inside: interfaces that write_handle.c and writers.c share.
 */
#ifndef CKPTFS_WRITE_HANDLE_INTERNAL_H
#define CKPTFS_WRITE_HANDLE_INTERNAL_H

#include "../internal.h"

struct ck_write_handle {
	/* Under ck_write_handles.lock: */
	struct ck_write_handle *next;
	unsigned refs;

	/* Constant once it is open: */
	struct ck_node node; /* the file, in use */
	uint64_t size;	     /* of the file, as shown */
	bool reads;	     /* opened for reading, too */
	/* with patch: else the user who opened it */
	struct ck_caller by;

	/* Atomic: */
	atomic_bool closing;   /* closed, and not written since */
	atomic_bool recreated; /* created by this open */
	atomic_int thread;     /* thread that opened the file */
	atomic_bool changed;   /* written or truncated */
	/* that its mode cannot be changed is in the log */
	atomic_bool logged_mode;

	pthread_mutex_t lock;
	/* Under lock: */
	bool committing; /* a commit of it runs */
	/* Under lock; during a commit only for the one thread that commits: */
	struct ck_stage *stage;
	bool exceeded; /* a write exceeded the shown size */
	bool written;  /* written since it was opened */
	bool removed;  /* removed in this mount: must not be committed */
	bool logged;   /* a refusal is in the log */
	/* missing bytes are in the log, and no write came since */
	bool logged_missing;
};

/* Opens the stage. Errors of ck_stage_open(), which are logged. */
CK_MUST_USE int ck_write_handle_open_stage(struct ck_fs *fs,
					   struct ck_write_handle *wh);
/* Drops the stage, and logs missing bytes. No reference may be left. */
void ck_write_handle_close_stage(struct ck_fs *fs, struct ck_write_handle *wh);

#endif
