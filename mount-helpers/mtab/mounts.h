/* SPDX-License-Identifier: MIT */
/*
 * mounts: finds and examines mounts that may be dead or hang. It has three sources,
 * and no source can block a command for ever:
 *
 *	the kernel's mount table	read by the command itself
 *	the mount			queried by a child process with a deadline
 *	the daemon's record		a small file that the daemon writes when it mounts
 *
 * The functions keep no state and are called by the main thread of a command.
 */
#ifndef CKPTFS_MOUNTS_H
#define CKPTFS_MOUNTS_H

#include "ckptfs/base.h"

/* --- the table ------------------------------------------------------------ */

/* A row of /proc/self/mountinfo. */
struct ck_mount {
	int id, parent;
	uint64_t unique; /* mount id that the kernel never reuses; 0: unknown */
	unsigned major, minor; /* device number */
	bool ours;	       /* type fuse.ckptfs */
	bool write;
	bool whole; /* shows the root of the file system, not a subdirectory */
	uid_t user; /* user who mounted; set if `ours` */
	char *point, *source; /* owned */
};

struct ck_mounts {
	struct ck_mount *rows;
	size_t n, cap;
};

/* Reads all rows. Returns 0, or: -ENOMEM; an errno of reading the table. *out is empty
 * after an error. */
CK_MUST_USE int ck_mounts_read(struct ck_mounts *out);
void ck_mounts_fini(struct ck_mounts *m);

/* The topmost mount at a path: the one that an open(2) of the path reaches. */
struct ck_shown {
	int id;
	uint64_t unique; /* 0: the kernel has no unique mount ids */
	unsigned major, minor;
	bool root; /* the path is the root of that mount */
};

/* Identifies the mount of an open file (O_PATH is enough), or of a path whose last
 * component is not followed. Sends no request to the mount. Returns 0, or: -ENOSYS if the
 * kernel reports no mount ids; an errno of open(2) or statx(2). */
CK_MUST_USE int ck_shown_read(int fd, struct ck_shown *out);
CK_MUST_USE int ck_shown_at(const char *path, struct ck_shown *out);
/* Returns m->unique, or reads it at m->point if the row lacks it; 0 if it is unknown. Can
 * block like ck_mount_enter(). */
uint64_t ck_mount_unique(const struct ck_mount *m);
/* Returns true if the table has another mount of the same file system, such as a bind
 * mount. With `whole` only mounts count that show its root. False if the table cannot be
 * read. */
CK_MUST_USE bool ck_mount_elsewhere(const struct ck_mount *m, bool whole);
/* Returns the row of a mount, borrowed; NULL if shown->root is false or no row matches. */
const struct ck_mount *ck_mounts_shown(const struct ck_mounts *all,
				       const struct ck_shown *shown);

/* Returns the path without symbolic links. The last component is read with readlink(2)
 * only, so a mount there receives no request. Caller frees the path. NULL with errno set
 * after an error. */
char *ck_resolve(const char *path);
/* ck_resolve() and ck_shown_at() in a child process, since a directory of the path may not
 * answer. *shown is all 0 if the mount cannot be identified. Caller frees the path. NULL
 * after a message. */
char *ck_path(const char *path, struct ck_shown *shown);
/* Finds the mount of type fuse.ckptfs at a path. Returns the exit status, after a message
 * if it is not 0. Caller calls ck_mount_fini(). */
CK_MUST_USE int ck_mount_find(const char *path, struct ck_mount *out);
void ck_mount_fini(struct ck_mount *m);

/* The next three functions verify first that the mount of ck_mount_find() is still the
 * topmost one at m->point, and return -ESTALE if it is not. They block while a directory of
 * the path does not answer: call them in a child process (ck_probe()).
 *
 * Returns an O_PATH descriptor of the mount's root, or: -ESTALE; an errno of open(2). */
CK_MUST_USE int ck_mount_enter(const struct ck_mount *m);
/* Opens a file beneath the root; symbolic links are not followed. Returns a descriptor, or:
 * -ESTALE; an errno of openat2(2). */
CK_MUST_USE int ck_mount_open(const struct ck_mount *m, const char *name,
			      int flags);
/* Unmounts as root; flags are those of umount2(2). Returns 0, or: -ESTALE; -EBUSY if the
 * mount is in use and flags lack MNT_DETACH; -EINVAL if the mount point is "/"; -ENOMEM;
 * an errno of umount2(2). */
CK_MUST_USE int ck_mount_end(const struct ck_mount *m, int flags);

/* --- queries --------------------------------------------------------------- */

enum { CK_PROBE_MSEC = 2000 }; /* deadline of one query */

enum { CK_ANSWER_MAX = 8 << 20 }; /* bytes; longer answers are refused */

/* Runs work(arg, answer) in a child process and appends its answer to `answer`. If msec
 * milliseconds have passed and goes_on is not NULL, goes_on(arg) is called in this process
 * every 500 ms; true extends the deadline. After an error the child is killed, but not
 * waited for, since a hung mount can keep it in the kernel. Returns what work() returned (0 or a
 * negative errno), or: -ETIMEDOUT at the deadline; -EFBIG if the answer exceeds
 * CK_ANSWER_MAX; -EIO if the child died; -ENOMEM; an errno of pipe2(2) or fork(2). */
CK_MUST_USE int ck_probe(int (*work)(void *arg, struct ck_buf *answer),
			 void *arg, unsigned msec, bool (*goes_on)(void *arg),
			 struct ck_buf *answer);

/* Sends one statfs(2) to a mount. Returns 0 if it answers, or: -ETIMEDOUT if it takes
 * longer than msec; -EACCES if the mount does not admit the caller; -ESTALE if another
 * mount covers it; -ENOTCONN if its daemon is dead; other errors of ck_probe(). */
CK_MUST_USE int ck_mount_ping(const struct ck_mount *m, unsigned msec);

/* --- records of daemons --------------------------------------------------- */

struct ck_mount_record {
	pid_t pid; /* 0: no record */
	/* Start time, field 22 of /proc/PID/stat: detects a reused pid. */
	uint64_t start;
	uint64_t space;	 /* inode of the pid namespace */
	uint64_t mounts; /* inode of the mount namespace; 0: unknown */
	int mount;	 /* mount id in the table; 0: unknown */
	uint64_t unique; /* as in struct ck_mount */
	char kind[32];	 /* format of the checkpoint */
};

enum ck_life { CK_LIFE_UNKNOWN, CK_LIFE_LIVES, CK_LIFE_DEAD };

enum { CK_MOUNT_RECORD_NAME = 32 }; /* bytes of a record's file name */

/* Writes the record of the calling process, which serves the mount at `point`. number: its
 * unique mount id, or its mount id if the kernel has no unique ones. name: receives the
 * argument of ck_mount_record_remove(); "" if no record was written, because another mount
 * is at `point` or the file cannot be written. */
void ck_mount_record_write(const char *point, uint64_t number, const char *kind,
			   char name[static CK_MOUNT_RECORD_NAME]);
/* Removes the record if it still belongs to the calling process. "" is allowed. */
void ck_mount_record_remove(const char *name);
/* Reads the record of a mount in a child process. Only a record of root or of the user who
 * mounted is trusted; out->pid is 0 without one. */
void ck_mount_record_read(const struct ck_mount *m,
			  struct ck_mount_record *out);
/* Returns CK_LIFE_UNKNOWN without a record, or if the daemon is in another pid namespace. */
enum ck_life ck_mount_record_life(const struct ck_mount_record *r);
/* Removes records of the calling user whose daemon is dead and whose mount is not in
 * `present`. Records of other mount namespaces stay: `present` does not list their
 * mounts. */
void ck_mount_records_clean(const struct ck_mounts *present);

/* --- users of a mount ------------------------------------------------------- */

/* Appends the reasons why a mount is busy: "; mounted in it: PATH", "; used by 12 (bash),
 * 13 (cat)", "; 2 processes could not be examined". Sends no request to the mount. */
void ck_busy_procs_print(const struct ck_mounts *all, const struct ck_mount *m,
			 struct ck_buf *out);

#endif
