/* SPDX-License-Identifier: MIT */
/*
 * draft, inside: what write_handle.c and writers.c share.
 */
#ifndef CKPTFS_FS_WRITE_HANDLE_INTERNAL_H
#define CKPTFS_FS_WRITE_HANDLE_INTERNAL_H

#include "../internal.h"

struct ck_write_handle {
	/* Under ck_write_handles.lock: */
	struct ck_write_handle *next;
	unsigned refs;

	/* Constant once it is open: */
	struct ck_node node; /* the file, in use */
	uint64_t size;	     /* of it, as shown */
	bool reads;	     /* it was opened for reading, too */
	struct ck_caller by; /* else who opened it, with patch */

	/* Atomic: */
	atomic_bool leaving;	 /* closed, and not written since */
	atomic_bool anew;	 /* its name was made by this open */
	atomic_int thread;	 /* that opened it */
	atomic_bool changed;	 /* something was written or cut */
	atomic_bool logged_mode; /* in the log: its mode cannot be changed */

	pthread_mutex_t lock;
	/* Under lock: */
	bool committing; /* a thread commits it */
	/* Under lock; of the one thread that commits, while one does: */
	struct ck_stage *stage;
	bool longer;	     /* more was written than the file shows */
	bool written;	     /* something was written since it was opened */
	bool removed;	     /* its name was: nothing is committed */
	bool told;	     /* what was refused is in the log */
	bool logged_missing; /* in the log; nothing was written since */
};

/* Opens its stage. Errors of ck_stage_open(), which are in the log. */
CK_MUST_USE int ck_write_handle_open_stage(struct ck_fs *fs,
					   struct ck_write_handle *wh);
/* What it has is given up; the log says what is missing. No reference is left. */
void ck_write_handle_close_stage(struct ck_fs *fs, struct ck_write_handle *wh);

#endif
