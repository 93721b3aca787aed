/* SPDX-License-Identifier: MIT */
/*
 * mounts: how commands look at mounts that may be dead or hang. What the
 * kernel's table of mounts says is read here; what only the mount itself can
 * say is asked by a child, which may be left behind. A daemon records itself
 * where the commands find it without asking.
 */
#ifndef CKPTFS_MOUNTS_H
#define CKPTFS_MOUNTS_H

#include "ckptfs/base.h"

/* --- the table ------------------------------------------------------------ */

/* A row of /proc/self/mountinfo. */
struct ck_mount {
	int id, parent;
	uint64_t unique;       /* number that never comes again; 0: not known */
	unsigned major, minor; /* the device number */
	bool ours;	       /* type fuse.ckptfs */
	bool write;
	bool whole;	      /* its root is that of the file system */
	uid_t user;	      /* who mounted; of mounts that are ours */
	char *point, *source; /* owned */
};

struct ck_mounts {
	struct ck_mount *rows;
	size_t n, cap;
};

/* All rows. -ENOMEM, or why the table cannot be read. */
CK_MUST_USE int ck_mounts_read(struct ck_mounts *out);
void ck_mounts_fini(struct ck_mounts *m);

/* The mount that shows somewhere. */
struct ck_shown {
	int id;
	uint64_t unique; /* 0: the kernel does not number them so */
	unsigned major, minor;
	bool root; /* what is there is the root of that mount */
};

/* Of an open file, O_PATH or not, or of a path whose last component is not
 * followed. No mount is asked. 0 or -errno. */
CK_MUST_USE int ck_shown_read(int fd, struct ck_shown *out);
CK_MUST_USE int ck_shown_at(const char *path, struct ck_shown *out);
/* The number of a mount that never comes again, which a row of the table lacks;
 * 0: it is not known. Waits like ck_mount_enter(). */
uint64_t ck_mount_unique(const struct ck_mount *m);
/* Whether what it shows is in the table again, bound to another place; whole:
 * all of it. */
CK_MUST_USE bool ck_mount_elsewhere(const struct ck_mount *m, bool whole);
/* Its row; NULL: what shows there is no mount point. */
const struct ck_mount *ck_mounts_shown(const struct ck_mounts *all,
				       const struct ck_shown *shown);

/* The path without symbolic links. The last component is not looked at beyond
 * whether it is a link, so that a mount there is not asked. Owned by the
 * caller; NULL and errno. */
char *ck_resolve(const char *path);
/* The same by a child, since what the path lies in may not answer, and what
 * shows there; all 0 if nothing can be said of that. NULL: it said why. */
char *ck_path(const char *path, struct ck_shown *shown);
/* The mount of ours at a path that a user gave; out->point and out->source are
 * the caller's. The exit status; it said why. */
CK_MUST_USE int ck_mount_find(const char *path, struct ck_mount *out);
void ck_mount_fini(struct ck_mount *m);

/* These look again whether the mount that ck_mount_find() found is what shows
 * at its point, and return -ESTALE if it is not. Where a directory of the path
 * does not answer they wait, so they are for children.
 *
 * An O_PATH descriptor of its root, or -errno. */
CK_MUST_USE int ck_mount_enter(const struct ck_mount *m);
/* A descriptor of a file beneath its root, without symbolic links on the way,
 * or -errno. */
CK_MUST_USE int ck_mount_open(const struct ck_mount *m, const char *name,
			      int flags);
/* umount2(2) for root. 0 or -errno. */
CK_MUST_USE int ck_mount_end(const struct ck_mount *m, int flags);

/* --- asking --------------------------------------------------------------- */

enum { CK_PROBE_MSEC = 2000 }; /* a mount that takes longer does not answer */

/* More than this no mount of ours has to say, in bytes. */
enum { CK_ANSWER_MAX = 8 << 20 };

/* Runs work(arg, answer) in a child and gives its answer and what it returned,
 * 0 or -errno. -ETIMEDOUT if that takes longer than msec; the child is killed
 * then, but not waited for, since nothing may be able to end it. With goes_on()
 * it may take longer as long as that is true of arg, too; it is called from then
 * on, in this process. -EFBIG: there is no end of the answer. */
CK_MUST_USE int ck_probe(int (*work)(void *arg, struct ck_buf *answer),
			 void *arg, unsigned msec, bool (*goes_on)(void *arg),
			 struct ck_buf *answer);

/* Whether a mount answers within msec: 0, -ETIMEDOUT, -EACCES: only who mounted
 * may ask; or what it answers, -ENOTCONN if its daemon is dead. */
CK_MUST_USE int ck_mount_asked(const struct ck_mount *m, unsigned msec);

/* --- records of daemons --------------------------------------------------- */

struct ck_mount_record {
	pid_t pid;	 /* 0: there is no record */
	uint64_t start;	 /* field 22 of /proc/PID/stat: the pid may be another's
			  * by now */
	uint64_t space;	 /* inode of the pid namespace */
	uint64_t mounts; /* inode of the mount namespace; 0: not known */
	int mount;	 /* its number in the table; 0: not known */
	uint64_t unique; /* as of struct ck_mount */
	char kind[16];	 /* of the checkpoint */
};

enum ck_life { CK_LIFE_UNKNOWN, CK_LIFE_LIVES, CK_LIFE_DEAD };

/* The calling process serves the mount with that number, at point. If another one
 * shows there, as whoever owns a directory above can bring about, nothing is
 * recorded; not being able to is no error. name: receives what
 * ck_mount_record_remove() takes. */
enum { CK_MOUNT_RECORD_NAME = 32 };

void ck_mount_record_write(const char *point, uint64_t number, const char *kind,
			   char name[static CK_MOUNT_RECORD_NAME]);
/* Removes the record, if it is still the calling process's. */
void ck_mount_record_remove(const char *name);
/* The record of this very mount; out->pid is 0 if there is none that can be
 * believed: root's, or that of the user who mounted. */
void ck_mount_record_read(const struct ck_mount *m,
			  struct ck_mount_record *out);
enum ck_life ck_mount_record_life(const struct ck_mount_record *r);
/* Removes records of the calling user whose mount and daemon are gone, of those
 * that can be seen from here: the table says nothing of other namespaces. */
void ck_mount_records_clean(const struct ck_mounts *present);

/* --- who holds a mount ---------------------------------------------------- */

/* Appends "used by 12 (bash), 13 (cat), and 2 processes that may not be
 * looked at". The mount is not asked. */
void ck_busy_procs_print(const struct ck_mounts *all, const struct ck_mount *m,
			 struct ck_buf *out);

#endif
