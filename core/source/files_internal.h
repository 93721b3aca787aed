/* SPDX-License-Identifier: MIT */
/*
 * files_internal: interface between the parts of the file set: files.c (the set),
 * revalidate.c (recording and comparing), open_cache.c (open files), touch.c (ctime),
 * remote_files.c (files on other hosts), path_access.c (search permission). One thread
 * at a time adds files; any thread uses files that were added before. Fields below name
 * their lock, or are atomic or constant.
 */
#ifndef CK_FILES_INTERNAL_H
#define CK_FILES_INTERNAL_H

#include "base/system/reach.h"
#include "ckptfs/source.h"
#include "fetch.h"
#include <pthread.h>

struct ck_file_slot {
	/* neighbours in the idle list, if users is 0 */
	struct ck_file_slot *older, *newer;
	uint32_t number;
	uint32_t users;
	int fd;
	/* NULL if the file is empty or not mapped; set under the lock */
	void *map;
	size_t map_len;
	bool retired; /* no longer found; closed after its last use */
};

struct ck_seen_file {
	struct ck_file_info info;
	dev_t dev;
	ino_t ino;
	struct ck_file_access access; /* of the last stat */
	/* The ctime of the last stat, see ck_ctime_stamp(); 0: unknown. Atomic,
	 * set under the lock, after `touched`. */
	uint64_t ctime;
	uint64_t touched; /* number of the last change of ctime. Atomic */
	/* Bytes that load() read, or NULL. Constant once other threads use the
	 * set. */
	struct ck_file_head *head;
	/* Numbers of changes of ctime: the last one with an unchanged head, and
	 * the one after which the head differed. Atomic. */
	uint64_t verified;
	uint64_t other;
	bool plain;  /* one component and no symlink: fstatat() can check it */
	bool remote; /* Atomic: becomes true, see ck_files_fail_over() */
	bool copied; /* has replicas on other hosts. Atomic: becomes true */
	bool seen; /* the fields above are valid. Atomic, set under the lock */
	bool changed; /* changed since it was recorded. Atomic */
	/* Of a local file: r bits that its replicas on other hosts deny.
	 * Atomic. */
	mode_t others;
	struct timespec newest; /* newest mtime of the replicas, or 0 */
	/* Only for the thread that adds files: */
	uint64_t needed;     /* the catalog uses bytes up to here */
	const char *differs; /* see ck_files_note_differs() */
	bool needs_end;
	int trouble; /* 0, or the transient negative errno of the last record */
	struct ck_file_slot *slot; /* NULL if not open; under the lock */
};

enum {
	CK_FILES_FIRST = 64,
	CK_FILES_BLOCKS = 24, /* almost 1 << 30 files */
};

struct ck_files {
	/* Constant: */
	struct ck_reach reach; /* owns the descriptors */
	uint64_t hash_seed;
	uint32_t max_open;
	uint64_t map_most;    /* bytes */
	bool any_remote;      /* not constant but atomic: becomes true */
	bool watches_ctime;   /* see ck_files_watch_ctime() */
	struct ck_fetch kept; /* bytes of remote files */
	struct ck_remote_reader *reader; /* NULL if reads must not block */
	struct ck_stats *stats;		 /* NULL without statistics */

	/* Only one thread adds files; other threads use only files that were
	 * added before. Block k has CK_FILES_FIRST << k files and never
	 * moves: */
	struct ck_seen_file **blocks[CK_FILES_BLOCKS];
	/* Atomic: */
	uint32_t count;
	uint64_t changes; /* number of detected changes of files */
	uint64_t touches; /* number of detected changes of ctime */
	/* Atomic: the owner and group that files are shown with, in one
	 * word: */
	uint64_t shown;
	/* Only for the one thread that adds files: */
	struct ck_arena arena; /* struct ck_seen_file and paths */
	uint32_t *by_path;     /* hash table: number + 1, or 0 if empty */
	uint32_t nbuckets;     /* power of two, 0 at first */

	pthread_mutex_t lock;
	/* Under lock, as the slots are: */
	uint64_t mapped;	  /* bytes, without retired slots */
	uint32_t nopen;		  /* slots */
	struct ck_file_slot idle; /* list head: newer is the longest unused */
};

/* Returns a time as one word that is never 0. */
static inline uint64_t ck_ctime_stamp(const struct timespec *t)
{
	const uint64_t seconds = UINT64_C(0x3ffffffff); /* the bits that fit */
	uint64_t stamp = ((uint64_t)t->tv_sec & seconds) << 30 |
			 (uint64_t)t->tv_nsec;

	return stamp ? stamp : 1;
}

/* Returns the block of a file, and sets *at to the index in the block. */
static inline unsigned ck_file_block(uint32_t number, uint32_t *at)
{
	unsigned k = 31 - (unsigned)__builtin_clz(number / CK_FILES_FIRST + 1);

	*at = number - CK_FILES_FIRST * ((1U << k) - 1);
	return k;
}

/* Returns a file that was added. Any thread. */
static inline struct ck_seen_file *ck_file_of(const struct ck_files *f,
					      uint32_t number)
{
	uint32_t at;
	unsigned k = ck_file_block(number, &at);

	return f->blocks[k][at];
}

/* Records the present state of a file in all fields except `seen`. Returns 0, also for
 * a file that cannot be used (info.err); or a transient error, which sets only
 * `trouble`. */
CK_MUST_USE int ck_file_record(const struct ck_files *f,
			       struct ck_seen_file *file);
/* Returns the owner and group that files are shown with. Any thread. */
struct ck_ids ck_files_shown_as(const struct ck_files *f);
/* Compare a file, by name or by descriptor, with the recorded state. Return 0;
 * -ESTALE if it differs, with *transient false; or a transient error, with
 * *transient true. Any thread. */
CK_MUST_USE int ck_file_check_name(struct ck_files *f,
				   struct ck_seen_file *file, bool *transient);
CK_MUST_USE int ck_file_check_fd(struct ck_files *f, struct ck_seen_file *file,
				 int fd, bool *transient);
/* Opens the recorded file. Returns a descriptor, which the caller owns, or an error as
 * above. */
CK_MUST_USE int ck_file_open(struct ck_files *f, struct ck_seen_file *file,
			     bool *transient);

/* --- touch.c -------------------------------------------------------------- */

/* Compares the ctime of a file whose device, inode, size and mtime are
 * unchanged; counts and logs a change. Any thread. */
void ck_file_note_ctime(struct ck_files *f, struct ck_seen_file *file,
			const struct timespec *ctime);
/* True if the head was not compared since this change of ctime. Any thread. */
CK_MUST_USE bool ck_file_is_doubtful(const struct ck_seen_file *file,
				     uint64_t touched);
/* True if the head differed in the last comparison. Any thread. */
CK_MUST_USE bool ck_file_has_other_head(const struct ck_seen_file *file);
/* Compares the head of an open file with the bytes that load() read. Returns 0
 * if they are equal; -ESTALE with *transient false if not; -ENOMEM or the error
 * of pread(2) with *transient true. */
CK_MUST_USE int ck_file_head_check(struct ck_seen_file *file, uint64_t touched,
				   int fd, bool *transient);
/* Adds bytes that load() read to a head. */
void ck_file_head_add(struct ck_file_head *head, const void *bytes, size_t len,
		      uint64_t fpos);
void ck_file_head_free(struct ck_file_head *head); /* NULL is allowed */

/* True if reads of the file go to other hosts. Any thread. */
static inline bool ck_file_is_remote(const struct ck_seen_file *file)
{
	return __atomic_load_n(&file->remote, __ATOMIC_ACQUIRE);
}

/* ck_files_check() for a remote file, by the last report of its host. */
CK_MUST_USE int ck_file_check_remote(const struct ck_seen_file *file,
				     bool *transient);
/* Closes the file of a slot that no thread can find any more. */
void ck_file_slot_close(struct ck_file_slot *s);

#endif
