/* SPDX-License-Identifier: MIT */
/*
 * source: the data files of one checkpoint. Opened beneath its directory only,
 * by number; at most a fixed number open and mapped at a time; never a byte
 * from a file that is not the one seen when the set was made. Some may be
 * remote: on other hosts.
 * One thread at a time may add files; all else may be done from any thread with
 * files that were added before.
 */
#ifndef CKPTFS_SOURCE_H
#define CKPTFS_SOURCE_H

#include "ckptfs/base.h"
#include "ckptfs/rights.h"
#include "ckptfs/stats.h"
#include <sys/stat.h>

struct ck_fetch;
struct ck_files; /* opaque */

/* What was seen of a file at the first look that could be taken: when it was
 * added, or later. Until then all but the path is 0. */
struct ck_file_info {
	struct ck_str path; /* relative, as the checkpoint spells it */
	int err;	    /* 0, or the positive errno why it cannot be used:
			     * ENODATA missing, no regular file or refused */
	const char *why;    /* err in words: "is missing"; NULL without */
	uint64_t size;
	struct timespec mtime;
	mode_t mode; /* less what its ACL takes from group and others */
	uid_t uid;
	gid_t gid;
	mode_t closed; /* r bits that directories on the way take, or copies of it
			* on other hosts */
};

/* The newer one of two times. */
static inline struct timespec ck_time_newest(struct timespec a,
					     struct timespec b)
{
	if (a.tv_sec != b.tv_sec)
		return a.tv_sec > b.tv_sec ? a : b;
	return a.tv_nsec > b.tv_nsec ? a : b;
}

/* The texts of `why` have numbers, by which they can be sent: 0 of NULL, and NULL of
 * a number that there is not. */
uint8_t ck_file_why_number(const char *why);
const char *ck_file_why(uint8_t number);
/* Of a file that may be on a host which is not there. */
const char *ck_file_why_away(void);
/* Its path leads to nothing. */
bool ck_file_is_missing(const struct ck_file_info *info);
/* It is a link that is not followed. */
bool ck_file_is_link(const struct ck_file_info *info);
/* Of one of which several hosts have copies that are not the same. */
const char *ck_file_why_differs(void);

/* Takes a copy of dirfd. max_open: descriptors and mappings kept, >= 16. */
struct ck_files *ck_files_make(int dirfd, enum ck_beneath how,
			       uint32_t max_open);
void ck_files_free(struct ck_files *f);
/* Links may also lead to regular files beneath this directory, see reach.h; takes a copy.
 * Before the first file is added. Errors of fcntl(2). */
CK_MUST_USE int ck_files_set_linkroot(struct ck_files *f, int linkroot);
/* So many bytes are mapped at most; files beyond that are read. A quarter of
 * the addresses that the process may have, unless something else is said
 * before the first use. */
void ck_files_map_most(struct ck_files *f, uint64_t bytes);

/* Adds a file, looks at it (no open file is kept) and gives its number. The
 * same path gives the same number. -ENOMEM only: everything that is wrong
 * with the file itself is in its info. */
CK_MUST_USE int ck_files_add(struct ck_files *f, struct ck_str path,
			     uint32_t *number);
uint32_t ck_files_count(const struct ck_files *f);
const struct ck_file_info *ck_files_info(const struct ck_files *f,
					 uint32_t number);
/* The time that it is shown with: the newest of all its copies. */
struct timespec ck_files_mtime(const struct ck_files *f, uint32_t number);
/* Other hosts have equal copies of a file that is here. By one thread, also while others
 * use the set. */
void ck_files_set_copied(struct ck_files *f, uint32_t number);
/* The file that is here gave rc when it was read or looked at. True: its copies on other
 * hosts are read from now on, so that what failed is to be done again. Any thread. */
bool ck_files_leave(struct ck_files *f, uint32_t number, int rc);
/* Whether that has come of it. Any thread. */
bool ck_files_is_left(const struct ck_files *f, uint32_t number);
/* Whether the file's info holds. Until then each use below looks again. */
bool ck_files_is_seen(const struct ck_files *f, uint32_t number);
/* Of a file that was just added: 0, or the positive errno of the moment why it
 * could not be looked at, or seen but not opened. */
int ck_files_trouble(const struct ck_files *f, uint32_t number);

/* Errors of the functions below are of two kinds. What was found is true of
 * the file until it changes: -ESTALE, it is another one, or its info's err.
 * What could not be asked is of the moment, `passing`: any errno of a system
 * call, ESTALE too. Nothing of it is kept. */

/* Which file it is, whatever leads to it. */
struct ck_file_id {
	dev_t dev;
	ino_t ino;
};

/* The one that was seen; zeros if none was. */
struct ck_file_id ck_files_id(const struct ck_files *f, uint32_t number);
/* The ctime of the last look, as a number; 0 if the file is on another host, or was not
 * seen. Any thread. */
uint64_t ck_files_ctime(const struct ck_files *f, uint32_t number);
/* The one that the path leads to now, also if it cannot be used. -ENOENT: it
 * leads to none; after any other error nobody can say. */
CK_MUST_USE int ck_files_identify(const struct ck_files *f, uint32_t number,
				  struct ck_file_id *out);

/* Who may read a file. */
struct ck_file_access {
	mode_t mode; /* less what its ACL takes from group and others */
	uid_t uid;
	gid_t gid;
	mode_t closed; /* r bits that directories on the way take */
	uint64_t acl;  /* what the ACL left and when; 0: not known */
};

/* Each field by itself, from any thread. st is of the file that dirfd, name and
 * flags say as for ck_acl_read(): its ACL is read if it may be another than the
 * last time. `closed` is left as it is. */
void ck_file_access_note(struct ck_file_access *to, const struct stat *st,
			 int dirfd, const char *name, int flags);
struct ck_file_access ck_file_access_noted(const struct ck_file_access *from);
/* Each field by itself; nobody writes *from meanwhile. */
void ck_file_access_copy(struct ck_file_access *to,
			 const struct ck_file_access *from);
/* As it was when the file was last found to be what it was, by name. Looks at
 * nothing. */
const struct ck_file_access *ck_files_access(const struct ck_files *f,
					     uint32_t number);

/* The owner and group that files are shown with: `closed` holds for these from
 * the next look on. Any thread. */
void ck_files_show_as(struct ck_files *f, struct ck_ids ids);
/* Which r bits the directories between the set's and the file take, for such an
 * owner and group, now: those of whoever may not search each of them, also on the
 * way that links have led. All where nobody can tell. */
mode_t ck_files_closed(const struct ck_files *f, uint32_t number,
		       struct ck_ids shown);

/* The same of a file that is not in the set, by its path in the set's directory and an open
 * descriptor; and of what is in an open directory, which bits it takes alone. */
mode_t ck_files_closed_to(const struct ck_files *f, struct ck_str path, int fd,
			  struct ck_ids shown);
mode_t ck_dir_closed(int dir, struct ck_ids shown);

/* Compares the file with what was seen, by name and, if it is open, by
 * descriptor: device, inode, size, mtime; after a change of its ctime also its
 * head. *passing is set on an error; it may be NULL. */
CK_MUST_USE int ck_files_check(struct ck_files *f, uint32_t number,
			       bool *passing);

/* One use of an open file. Valid until put. */
struct ck_file {
	int fd;		    /* -1: it is remote */
	const uint8_t *map; /* the whole file, read-only; NULL if empty or
			     * if there was no room for a mapping. A
			     * load from it may take a SIGBUS: only under
			     * ck_sigbus_guard() or by the kernel (writev) */
	uint64_t size;
	uint64_t touched; /* see ck_files_touched(), before it is read */
	uint32_t number;
	bool remote;
	bool passing;		   /* of an error, see above */
	struct ck_file_slot *slot; /* private */
	struct ck_file_head *head; /* private: while load() reads it */
};

/* Opens (or reuses) and checks as ck_files_check(). On an error nothing but
 * out->passing is set. */
CK_MUST_USE int ck_files_get(struct ck_files *f, uint32_t number,
			     struct ck_file *out);
void ck_files_put(struct ck_files *f, struct ck_file *file);
/* Once more, by descriptor, after something was read of it: -ESTALE if it is another one
 * by now, what was read may be of both then; or as of ck_files_check(). 0 of a remote one,
 * which its host looks after. */
CK_MUST_USE int ck_files_look_again(struct ck_files *f,
				    const struct ck_file *file, bool *passing);
/* Whether it need not be opened now; soon it may. */
CK_MUST_USE bool ck_files_is_open(struct ck_files *f, uint32_t number);
/* Reads exactly that many bytes, of a remote file too. -ENODATA: the file ends before;
 * -EREMOTE: they have to be brought first, and are noted in this thread's ck_fetch if
 * it has one, perhaps with what follows up to `end`; errors of pread(2), and of whoever
 * brought them. */
CK_MUST_USE int ck_files_read(struct ck_files *f, const struct ck_file *file,
			      void *to, size_t len, uint64_t fpos,
			      uint64_t end);
/* Notes them in this thread's ck_fetch, if it has one, since they will be read. */
void ck_files_want(struct ck_files *f, const struct ck_file *file,
		   uint64_t fpos, size_t len);

/* --- ctime ------------------------------------------------------------------ */

/* Changes of the ctime of local files are counted and logged from now on. Before others
 * use the set. */
void ck_files_watch_ctime(struct ck_files *f);
/* How many changes were seen, of all files: of ctime, while device, inode, size and mtime
 * stayed. Any thread. */
uint64_t ck_files_touches(const struct ck_files *f);
/* The number of the last change of a file, from 1 on; 0 if it has not changed. Bytes read
 * before that change may be of another file. Any thread. */
uint64_t ck_files_touched(const struct ck_files *f, uint32_t number);
/* The next ctime of a file that is seen counts as its first. Any thread. */
void ck_files_forget_ctime(struct ck_files *f, uint32_t number);
/* Bytes that are read of a file from here to ck_files_head_end() become its head if `keep`
 * is true; else the file has no head. After a change of its ctime they are compared before
 * the file is used. By the one thread that adds files. -ENOMEM. */
CK_MUST_USE int ck_files_head_begin(struct ck_files *f, struct ck_file *file);
CK_MUST_USE int ck_files_head_end(struct ck_files *f, struct ck_file *file,
				  bool keep);

/* Adds bytes [fpos, fpos + len) of a file to a hash. Returns 0, or: -ENOMEM; errors of
 * ck_pread_full(). Any thread. */
CK_MUST_USE int ck_hash_range(struct ck_hasher *h, int fd, uint64_t fpos,
			      uint64_t len);

/* --- remote files --------------------------------------------------------- */

/* A file that was added is remote, and this is what its host says of it, but for the
 * path. Not while others use the set. */
void ck_files_set_remote(struct ck_files *f, uint32_t number,
			 const struct ck_file_info *said);
/* A file that was added is remote, and cannot be used: hosts have copies of it that are
 * not the same, EIO. The text, which says how they differ, is copied. Not while others
 * use the set. */
void ck_files_set_differs(struct ck_files *f, uint32_t number,
			  const char *text);
/* The same is to be said of it when it was read: what is in it says what cannot be used. The
 * text; NULL: nothing is. */
void ck_files_note_differs(struct ck_files *f, uint32_t number,
			   const char *text);
const char *ck_files_differs(const struct ck_files *f, uint32_t number);
/* A file that was added may be on a host that is not there: it is remote, and nobody could
 * look at it. Not while others use the set. */
void ck_files_set_away(struct ck_files *f, uint32_t number);
/* One of which that was said is there by now, and this is what its host says of it. By one
 * thread, while others use the set. */
void ck_files_set_back(struct ck_files *f, uint32_t number,
		       const struct ck_file_info *said);
bool ck_files_is_remote(const struct ck_files *f, uint32_t number);
bool ck_files_any_remote(const struct ck_files *f);
/* It is another file by now, or it is what it was: ck_files_changes() counts, and
 * ck_files_check() knows of a remote one what its host says. Any thread. */
void ck_files_note_changed(struct ck_files *f, uint32_t number, bool changed);
/* How often that was said of a file which was not known to have changed. Any thread. */
uint64_t ck_files_changes(const struct ck_files *f);
/* What its host says of it by now: who may read it counts from here on. Any thread. */
void ck_files_note_access(struct ck_files *f, uint32_t number,
			  const struct ck_file_info *said);
/* Of a file that is here and on other hosts: the newest time of the copies, and which r
 * bits those others take. The first is not to be noted while others use the set. */
void ck_files_set_newest(struct ck_files *f, uint32_t number,
			 struct timespec newest);
void ck_files_note_others(struct ck_files *f, uint32_t number, mode_t closed);
/* Of its bytes [0, end) some are in use. By the one thread that adds files. */
void ck_files_need(struct ck_files *f, uint32_t number, uint64_t end);
uint64_t ck_files_needed(const struct ck_files *f, uint32_t number);
/* What is in use of it is not known before it is read, but that is up to its end: one that
 * was cut short is as if it were not there. By the same thread. */
void ck_files_need_end(struct ck_files *f, uint32_t number);
bool ck_files_needs_end(const struct ck_files *f, uint32_t number);
/* What was fetched, and came, is kept for all, in place of what was kept before; takes
 * it. Not
 * while others use the set. */
void ck_files_keep(struct ck_files *f, struct ck_fetch *fetched);

/* Where every thread may wait: brings bytes of a remote file at once, exactly that many.
 * 0 or an error. Any thread. */
struct ck_remote_reader {
	int (*read)(struct ck_remote_reader *r, uint32_t file, void *to,
		    size_t len, uint64_t fpos);
};

/* The caller's, as long as the set. From now on ck_files_read() never is -EREMOTE. Not
 * while others use the set. */
void ck_files_set_reader(struct ck_files *f, struct ck_remote_reader *reader);

/* What is read of its files here counts from now on; the caller's, as long as anything is
 * read. Not while others use the set. */
void ck_files_set_stats(struct ck_files *f, struct ck_stats *stats);
/* NULL: nobody counts. f: NULL is allowed. */
struct ck_stats *ck_files_stats(const struct ck_files *f);

#endif
