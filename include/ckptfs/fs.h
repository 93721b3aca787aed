/* SPDX-License-Identifier: MIT */
/*
 * fs: FUSE requests in and out, nothing else. Mounts a checkpoint that is
 * open and serves it until it is unmounted.
 */
#ifndef CKPTFS_FS_H
#define CKPTFS_FS_H

#include "ckptfs/format.h"

/* Mount options (the contract's section 8), parsed. */
struct ck_mount_options {
	bool allow_other;
	bool auto_unmount;
	bool direct;  /* FOPEN_DIRECT_IO for every tensor */
	bool noxattr; /* ENOSYS to all attribute requests */
	bool ro;      /* whatever `write` says */
	bool write;
	bool keep_unknown;
	bool debug; /* libfuse's trace */
	bool have_uid, have_gid;
	uid_t uid;
	gid_t gid;
	mode_t umask; /* bits removed */
	char *log;    /* file or "syslog"; owned */
	char *fsname; /* owned; NULL: the checkpoint's path */
	struct ck_format_options format;
	struct ck_buf given; /* the text of all options, for the report */
};

/* Adds "a,b=c,..." (`\` escapes a comma). -EINVAL names an unknown option and
 * the nearest known one. */
CK_MUST_USE int ck_options_parse(struct ck_mount_options *o, const char *text,
				 struct ck_diag *d);
void ck_options_fini(struct ck_mount_options *o);

/* Mounts cp on mountpoint and serves requests until the mount ends or
 * SIGTERM, SIGINT or SIGHUP arrives; then unmounts. ready(arg) is called once
 * when the tree can be used, from another thread. 0 after a clean end. */
CK_MUST_USE int ck_fs_serve(struct ck_checkpoint *cp, const char *mountpoint,
			    const struct ck_mount_options *options,
			    void (*ready)(void *arg), void *arg,
			    struct ck_diag *d);

#endif
