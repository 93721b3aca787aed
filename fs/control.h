/* SPDX-License-Identifier: MIT */
/*
 * control: the directory .ckptfs and the reports in it.
 */
#ifndef CKPTFS_FS_CONTROL_H
#define CKPTFS_FS_CONTROL_H

#include "ckptfs/slice.h"
#include <stdatomic.h>

struct ck_control;
struct ck_fs;

#define CK_CONTROL_DIR ".ckptfs"
#define CK_LOCAL_DIR   "local"
#define CK_OBJECTS_DIR "objects"

struct ck_report {
	const char *name;
	/* Appends the text. */
	void (*print)(struct ck_fs *fs, struct ck_buf *out);
	bool live; /* its text changes while the mount is served */
};

extern const struct ck_report ck_reports[];
extern const size_t ck_nreports;

/* The text of a report at one moment, shared by those who look at it. */
struct ck_snapshot {
	atomic_uint refs;
	struct ck_buf text;
};

struct ck_control *ck_control_make(void); /* NULL: out of memory */
void ck_control_free(struct ck_control *control);
/* The present snapshot of a report; a new one if there is none, or if it is
 * live and `renew`. -ENOMEM. Put it back. */
CK_MUST_USE int ck_control_get(struct ck_fs *fs, uint32_t report, bool renew,
			       struct ck_snapshot **out);
void ck_snapshot_put(struct ck_snapshot *s);
/* A file that consists of it. Takes the caller's reference in any case.
 * -ENOMEM. */
CK_MUST_USE int ck_snapshot_slice(struct ck_snapshot *text,
				  struct ck_slice **out);
/* Notices what became of the source, and logs it once. */
void ck_control_notice(struct ck_fs *fs);

#endif
