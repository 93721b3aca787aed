/* SPDX-License-Identifier: MIT */
/*
 * source: the data files of one checkpoint, by number. Files are opened only beneath its
 * directory. A fixed number of files at most are open and mapped. A file that is not the one
 * recorded when the set was made gives -ESTALE, and never a byte. Some files may be remote: on
 * other hosts.
 *
 * A file is not recorded until its first successful stat, which ck_files_add() tries. Only one
 * thread at a time may add files; any thread may use files that were added before.
 */
#ifndef CKPTFS_SOURCE_H
#define CKPTFS_SOURCE_H

#include "base/file_id.h"
#include "base/system/rights.h"
#include "ckptfs/base.h"
#include "source/stats.h"
#include <sys/stat.h>

struct ck_fetch;
struct ck_files; /* opaque */

/* State of a file, recorded at its first successful stat: when it was added, or later. Until
 * then all fields but the path are 0. */
struct ck_file_info {
	struct ck_str path; /* relative, as the checkpoint spells it */
	/* 0, or the positive errno of a file that cannot be used. ENODATA: missing, not a
	 * regular file, or refused. */
	int err;
	const char *why; /* `err` as text, "is missing"; NULL if err is 0 */
	uint64_t size;
	struct timespec mtime;
	mode_t mode; /* without the group and other bits that the ACL denies */
	uid_t uid;
	gid_t gid;
	/* r bits that directories on the path deny, or replicas on other hosts */
	mode_t closed;
};

/* The later one of two times. */
static inline struct timespec ck_time_newest(struct timespec a,
					     struct timespec b)
{
	if (a.tv_sec != b.tv_sec)
		return a.tv_sec > b.tv_sec ? a : b;
	return a.tv_nsec > b.tv_nsec ? a : b;
}

/* Number of a text of `why`, to send it to another host: 0 for NULL and other texts.
 * ck_file_why() is the inverse; NULL if there is no such number. */
uint8_t ck_file_why_number(const char *why);
const char *ck_file_why(uint8_t number);
/* The text of a file that may be on a host that is down. */
const char *ck_file_why_down(void);
/* True if the path does not exist. */
bool ck_file_is_missing(const struct ck_file_info *info);
/* True if the path is a link that is not followed. */
bool ck_file_is_link(const struct ck_file_info *info);
/* The text of a file whose replicas on several hosts differ. */
const char *ck_file_why_differs(void);

/* Duplicates dirfd. max_open: most descriptors and mappings kept open, at least 16. NULL if
 * out of memory or descriptors. Caller owns the set. */
struct ck_files *ck_files_make(int dirfd, enum ck_beneath how,
			       uint32_t max_open);
void ck_files_free(struct ck_files *f);
/* Also follows links to regular files beneath this directory, see reach.h. Duplicates the
 * descriptor. Must be called before the first file is added. Returns 0, or an error of
 * fcntl(2). */
CK_MUST_USE int ck_files_set_linkroot(struct ck_files *f, int linkroot);
/* Sets the limit of bytes that are mapped; files beyond it are read with pread(2). The
 * default is a quarter of the address space limit of the process. Must be called before the
 * first use. */
void ck_files_map_most(struct ck_files *f, uint64_t bytes);

/* Adds a file, stats it and sets *number; keeps no open file. The same path gives the same
 * number. Returns 0, or -ENOMEM: errors of the file itself are in its info. */
CK_MUST_USE int ck_files_add(struct ck_files *f, struct ck_str path,
			     uint32_t *number);
uint32_t ck_files_count(const struct ck_files *f);
const struct ck_file_info *ck_files_info(const struct ck_files *f,
					 uint32_t number);
/* The time to show for the file: the latest mtime of all its replicas. */
struct timespec ck_files_mtime(const struct ck_files *f, uint32_t number);
/* Records that other hosts have equal replicas of a local file. One thread at a time, also
 * while others use the set. */
void ck_files_set_copied(struct ck_files *f, uint32_t number);
/* Fails over a local file to its replicas, after a read or stat of it gave rc. Returns true if
 * its bytes are read from other hosts from now on, so that the caller must retry; false if it
 * has no replicas, it had failed over before, or rc is not -EIO, -ENODATA or -ESTALE. Any
 * thread. */
bool ck_files_fail_over(struct ck_files *f, uint32_t number, int rc);
/* True if the file has failed over to its replicas. Any thread. */
bool ck_files_has_failed_over(const struct ck_files *f, uint32_t number);
/* True if the info of the file is recorded. Otherwise each use stats the file again. */
bool ck_files_is_seen(const struct ck_files *f, uint32_t number);
/* For a file that was just added: 0, or the positive transient errno of its stat or open. */
int ck_files_trouble(const struct ck_files *f, uint32_t number);

/* Errors below are of two kinds. A permanent error is a fact about the file
 * until it changes: -ESTALE if it was replaced, or the err of its info. A
 * transient error, for which `transient` is set, is the errno of a failed
 * system call, also ESTALE, and is not recorded. */

/* Identity of the recorded file; zeros if it is not recorded. */
struct ck_file_id ck_files_id(const struct ck_files *f, uint32_t number);
/* ctime of the last stat as a number; 0 if the file is remote or not recorded. Any thread. */
uint64_t ck_files_ctime(const struct ck_files *f, uint32_t number);
/* Identity of the file at the path now, even if it cannot be used. Returns 0, or: -ENOENT if
 * the path does not exist; -ESTALE if it existed when the file was recorded; after any other
 * error the identity is unknown. */
CK_MUST_USE int ck_files_identify(const struct ck_files *f, uint32_t number,
				  struct ck_file_id *out);

/* Access rights of a file. */
struct ck_file_access {
	mode_t mode; /* without the group and other bits that the ACL denies */
	uid_t uid;
	gid_t gid;
	mode_t closed; /* r bits that directories on the path deny */
	/* bits that the ACL grants, and its ctime; 0: not known */
	uint64_t acl;
};

/* Updates each field atomically, from any thread. `st` must be the stat of the file that
 * dirfd, name and flags give, as for ck_acl_read(). Reads its ACL if that may have changed.
 * Leaves `closed` unchanged. ck_file_access_noted() loads the fields. */
void ck_file_access_note(struct ck_file_access *to, const struct stat *st,
			 int dirfd, const char *name, int flags);
struct ck_file_access ck_file_access_noted(const struct ck_file_access *from);
/* Stores each field atomically. No thread may write *from. */
void ck_file_access_copy(struct ck_file_access *to,
			 const struct ck_file_access *from);
/* Access rights at the last successful check of the file by name. Does no I/O. */
const struct ck_file_access *ck_files_access(const struct ck_files *f,
					     uint32_t number);

/* Sets the owner and group that files are shown with: `closed` is computed for them from the
 * next stat on. Any thread. */
void ck_files_show_as(struct ck_files *f, struct ck_ids ids);
/* Computes the r bits that the directories between the directory of the set and the file deny
 * now, if the file is shown with this owner and group. Users without search permission on one
 * of them are denied, also on directories behind links. Returns 0444 if it cannot be
 * determined. */
mode_t ck_files_closed(const struct ck_files *f, uint32_t number,
		       struct ck_ids shown);

/* ck_files_closed_to(): the same for a file that is not in the set, by its path in the
 * directory of the set and an open descriptor. ck_dir_closed(): the bits that one open
 * directory denies. */
mode_t ck_files_closed_to(const struct ck_files *f, struct ck_str path, int fd,
			  struct ck_ids shown);
mode_t ck_dir_closed(int dir, struct ck_ids shown);

/* Compares the file with its record, by name, and by descriptor if it is open: device, inode,
 * size and mtime, and after a change of its ctime also its head. Returns 0, or an error of
 * either kind; then sets *transient, which may be NULL. */
CK_MUST_USE int ck_files_check(struct ck_files *f, uint32_t number,
			       bool *transient);

/* One use of an open file. Valid until ck_files_put(). */
struct ck_file {
	int fd; /* -1 if it is remote */
	/* Mapping of the whole file, read-only. NULL if the file is empty, or the limit of
	 * mappings is reached. A load may raise SIGBUS: access it only under
	 * ck_sigbus_guard(), or by the kernel (writev). */
	const uint8_t *map;
	uint64_t size;
	uint64_t touched; /* ck_files_touched() before the file is read */
	uint32_t number;
	bool remote;
	bool transient;		   /* the error is transient, see above */
	struct ck_file_slot *slot; /* private */
	/* private: set while load() reads the file */
	struct ck_file_head *head;
};

/* Opens the file, or reuses an open descriptor, and checks it as ck_files_check() does.
 * Returns 0, or an error of ck_files_check() or open(2); then sets only out->passing. Caller
 * must call ck_files_put() if 0. */
CK_MUST_USE int ck_files_get(struct ck_files *f, uint32_t number,
			     struct ck_file *out);
void ck_files_put(struct ck_files *f, struct ck_file *file);
/* Checks an open file again after a read. Returns 0 if it is unchanged or
 * remote, or: -ESTALE if it changed, so that the bytes may be of two versions;
 * else as ck_files_check(). */
CK_MUST_USE int ck_files_revalidate(struct ck_files *f,
				    const struct ck_file *file,
				    bool *transient);
/* True if the file is open now. It may be closed at any time. */
CK_MUST_USE bool ck_files_is_open(struct ck_files *f, uint32_t number);
/* Reads exactly `len` bytes, also of a remote file. Returns 0, or: -ENODATA if the file ends
 * before; -EREMOTE if the bytes must be fetched first; errors of pread(2) and of the fetch. If
 * -EREMOTE, the range is recorded in the ck_fetch of the thread if it has one, perhaps
 * extended up to `end`. */
CK_MUST_USE int ck_files_read(struct ck_files *f, const struct ck_file *file,
			      void *to, size_t len, uint64_t fpos,
			      uint64_t end);
/* Records a range in the ck_fetch of the thread, if it has one, for a later read. */
void ck_files_fetch_add(struct ck_files *f, const struct ck_file *file,
			uint64_t fpos, size_t len);

/* --- ctime ------------------------------------------------------------------ */

/* Counts and logs changes of the ctime of local files from now on. Must be called before other
 * threads use the set. */
void ck_files_watch_ctime(struct ck_files *f);
/* Number of ctime changes seen, over all files, while device, inode, size and mtime were
 * unchanged. Any thread. */
uint64_t ck_files_touches(const struct ck_files *f);
/* Number of the last ctime change of a file, from 1 on; 0 if it has not changed. Bytes that
 * were read before that change may be of another file. Any thread. */
uint64_t ck_files_touched(const struct ck_files *f, uint32_t number);
/* The next ctime that is seen of the file counts as its first. Any thread. */
void ck_files_forget_ctime(struct ck_files *f, uint32_t number);
/* Adds bytes [fpos, fpos + len) of a file to a hash. Returns 0, or: -ENOMEM; errors of
 * ck_pread_full(). Any thread. */
CK_MUST_USE int ck_hash_range(struct ck_hasher *h, int fd, uint64_t fpos,
			      uint64_t len);

/* --- remote files --------------------------------------------------------- */

/* Makes an added file remote, with the state that its host reported; the path is kept. Not
 * while other threads use the set. */
void ck_files_set_remote(struct ck_files *f, uint32_t number,
			 const struct ck_file_info *reported);
/* Makes an added file remote and unusable, with EIO, since its replicas differ. `text`
 * describes the difference; copied. Not while other threads use the set. */
void ck_files_set_differs(struct ck_files *f, uint32_t number,
			  const char *text);
/* Records the same text for a file that was already read: its contents determine which parts
 * cannot be used. ck_files_differs() returns the text, or NULL if no text was recorded. */
void ck_files_note_differs(struct ck_files *f, uint32_t number,
			   const char *text);
const char *ck_files_differs(const struct ck_files *f, uint32_t number);
/* Makes an added file remote and not recorded, since it may be on a host that is down. Not
 * while other threads use the set. */
void ck_files_set_down(struct ck_files *f, uint32_t number);
/* Records the state that a host reported for a file of ck_files_set_down(). One
 * thread at a time, also while others use the set. */
void ck_files_set_up(struct ck_files *f, uint32_t number,
		     const struct ck_file_info *reported);
bool ck_files_is_remote(const struct ck_files *f, uint32_t number);
bool ck_files_any_remote(const struct ck_files *f);
/* Records that a file was replaced or is unchanged. ck_files_changes() counts, and
 * ck_files_check() of a remote file returns -ESTALE while it is replaced. Any thread. */
void ck_files_note_changed(struct ck_files *f, uint32_t number, bool changed);
/* Number of times that an unchanged file was found replaced. Any thread. */
uint64_t ck_files_changes(const struct ck_files *f);
/* Updates the access rights of a file from the report of its host. Any thread. */
void ck_files_note_access(struct ck_files *f, uint32_t number,
			  const struct ck_file_info *reported);
/* For a local file with replicas: the latest mtime of the replicas, and the r bits that the
 * replicas deny. ck_files_set_newest() not while other threads use the set. */
void ck_files_set_newest(struct ck_files *f, uint32_t number,
			 struct timespec newest);
void ck_files_note_others(struct ck_files *f, uint32_t number, mode_t closed);
/* Records that some bytes of [0, end) are in use. Must be called by the one thread that adds
 * files. ck_files_needed() returns the largest end. */
void ck_files_need(struct ck_files *f, uint32_t number, uint64_t end);
uint64_t ck_files_needed(const struct ck_files *f, uint32_t number);
/* Records that the bytes in use are known only after the file is read, but reach up to its
 * end: a truncated replica counts as missing. Same thread. */
void ck_files_need_end(struct ck_files *f, uint32_t number);
bool ck_files_needs_end(const struct ck_files *f, uint32_t number);
/* Keeps the ranges of `fetched` that were fetched successfully for all readers, and drops
 * those kept before. Takes ownership. Not while other threads use the set. */
void ck_files_keep(struct ck_files *f, struct ck_fetch *fetched);

/* Fetches bytes of a remote file and blocks, for threads that may block. Reads exactly `len`
 * bytes. Returns 0 or an error. Any thread. */
struct ck_remote_reader {
	int (*read)(struct ck_remote_reader *r, uint32_t file, void *to,
		    size_t len, uint64_t fpos);
};

/* Sets the reader, so that ck_files_read() never returns -EREMOTE to a thread without a
 * ck_fetch. Caller owns it; it must outlive the set. Not while other threads use the set. */
void ck_files_set_reader(struct ck_files *f, struct ck_remote_reader *reader);

/* Sets the counters of bytes read from local files. Caller owns them; they must outlive all
 * reads. Not while other threads use the set. */
void ck_files_set_stats(struct ck_files *f, struct ck_stats *stats);
/* The counters, or NULL. f: NULL is allowed. */
struct ck_stats *ck_files_stats(const struct ck_files *f);

#endif
