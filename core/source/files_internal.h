/* SPDX-License-Identifier: MIT */
/*
 * What the parts of files share.
 */
#ifndef CK_FILES_INTERNAL_H
#define CK_FILES_INTERNAL_H

#include "ckptfs/fetch.h"
#include "ckptfs/reach.h"
#include "ckptfs/source.h"
#include <pthread.h>

struct ck_file_slot {
	struct ck_file_slot *older, *newer; /* in the idle list, while users
					     * is 0 */
	uint32_t number;
	uint32_t users;
	int fd;
	void *map; /* NULL if the file is empty or not mapped (yet); set
		    * under the lock */
	size_t map_len;
	bool retired; /* known to nobody but its users */
};

struct ck_seen_file {
	struct ck_file_info info;
	dev_t dev;
	ino_t ino;
	struct ck_file_access access; /* when it was last looked at */
	/* The ctime of the last look, see ck_ctime_stamp(); 0: not known. Atomic, set
	 * under the lock. The number of its last change is stored first. */
	uint64_t ctime;
	uint64_t touched; /* number of its last change of ctime. Atomic */
	struct ck_file_head
		*head; /* what load() read of it; NULL: nothing. Constant
				    * once others use the set */
	uint64_t
		verified; /* the change up to which the head is the same. Atomic */
	uint64_t other; /* the change with which the head is another. Atomic */
	bool plain;   /* one component and no symlink: fstatat() can check it */
	bool remote;  /* Atomic: becomes true, see ck_files_leave() */
	bool copied;  /* it is here, and on other hosts. Atomic: becomes true */
	bool seen;    /* what is above holds. Atomic, set under the lock */
	bool changed; /* it is not what it was, or its host said. Atomic */
	mode_t others; /* of one that is here: r bits that copies on other hosts
			* take. Atomic */
	struct timespec newest; /* of these copies; or 0 */
	uint64_t
		needed; /* bytes of it that are in use; of the thread that adds */
	/* Of the thread that adds: */
	const char *differs; /* see ck_files_note_differs() */
	bool needs_end;
	int trouble; /* of the last look: 0 or a negative errno of the moment */
	struct ck_file_slot *slot; /* NULL: not open. Under the lock */
};

enum {
	CK_FILES_FIRST = 64,
	CK_FILES_BLOCKS = 24, /* 1 << 30 files, nearly */
};

struct ck_files {
	/* Constant: */
	struct ck_reach reach; /* owns the descriptors */
	uint64_t hash_seed;
	uint32_t max_open;
	uint64_t map_most;    /* bytes */
	bool any_remote;      /* but this is atomic, and becomes true */
	bool watches_ctime;   /* see ck_files_watch_ctime() */
	struct ck_fetch kept; /* bytes of remote files */
	struct ck_remote_reader *reader; /* NULL: nobody may wait for them */
	struct ck_stats *stats;		 /* NULL: nobody counts */

	/* Of the one thread that adds files; others look at those only whose
	 * numbers they were given. Block k has CK_FILES_FIRST << k, and stays
	 * where it is: */
	struct ck_seen_file **blocks[CK_FILES_BLOCKS];
	/* Atomic: */
	uint32_t count;
	uint64_t changes; /* of files, that became known */
	uint64_t touches; /* changes of ctime that were seen */
	/* Atomic: the owner and group that files are shown with, in one word: */
	uint64_t shown;
	/* Of the one thread that adds files: */
	struct ck_arena arena; /* struct ck_seen_file and paths */
	uint32_t *by_path;     /* hash table: number + 1, 0 empty */
	uint32_t nbuckets;     /* power of two, 0 at first */

	pthread_mutex_t lock;
	/* Under lock, as the slots are: */
	uint64_t mapped;	  /* bytes, of slots that are known */
	uint32_t nopen;		  /* slots */
	struct ck_file_slot idle; /* list head: newer is the longest unused */
};

/* A time in one word that is never 0. */
static inline uint64_t ck_ctime_stamp(const struct timespec *t)
{
	const uint64_t seconds = UINT64_C(0x3ffffffff); /* as many as fit */
	uint64_t stamp = ((uint64_t)t->tv_sec & seconds) << 30 |
			 (uint64_t)t->tv_nsec;

	return stamp ? stamp : 1;
}

/* Which block a file is in, and where there. */
static inline unsigned ck_file_block(uint32_t number, uint32_t *at)
{
	unsigned k = 31 - (unsigned)__builtin_clz(number / CK_FILES_FIRST + 1);

	*at = number - CK_FILES_FIRST * ((1U << k) - 1);
	return k;
}

static inline struct ck_seen_file *ck_file_of(const struct ck_files *f,
					      uint32_t number)
{
	uint32_t at;
	unsigned k = ck_file_block(number, &at);

	return f->blocks[k][at];
}

/* Looks at a file and fills all that is said about it but `seen`. An error
 * says nothing about the file, and leaves only `trouble`. */
CK_MUST_USE int ck_file_record(const struct ck_files *f,
			       struct ck_seen_file *file);
struct ck_ids ck_files_shown_as(const struct ck_files *f);
/* Is it the file that was seen, by name, by descriptor? 0, -ESTALE, or why
 * that cannot be told: then *passing is true. */
CK_MUST_USE int ck_file_check_name(struct ck_files *f,
				   struct ck_seen_file *file, bool *passing);
CK_MUST_USE int ck_file_check_fd(struct ck_files *f, struct ck_seen_file *file,
				 int fd, bool *passing);
/* A descriptor of the file that was seen, or a negative errno as above. */
CK_MUST_USE int ck_file_open(struct ck_files *f, struct ck_seen_file *file,
			     bool *passing);

/* --- touch.c -------------------------------------------------------------- */

/* The file, which has the device, inode, size and mtime that were seen, has this
 * ctime now: counts and logs a change. Any thread. */
void ck_file_note_ctime(struct ck_files *f, struct ck_seen_file *file,
			const struct timespec *ctime);
/* Whether the head was not compared since this change of ctime. Any thread. */
CK_MUST_USE bool ck_file_is_doubtful(const struct ck_seen_file *file,
				     uint64_t touched);
/* Whether the head was another one when it was last compared. Any thread. */
CK_MUST_USE bool ck_file_has_other_head(const struct ck_seen_file *file);
/* Compares the head of an open file with what load() read. 0: it is the same; -ESTALE,
 * with *passing false; errors of pread(2), -ENOMEM. */
CK_MUST_USE int ck_file_head_check(struct ck_seen_file *file, uint64_t touched,
				   int fd, bool *passing);
/* load() read these bytes of it. */
void ck_file_head_add(struct ck_file_head *head, const void *bytes, size_t len,
		      uint64_t fpos);
void ck_file_head_free(struct ck_file_head *head); /* NULL is allowed */

static inline bool ck_file_is_remote(const struct ck_seen_file *file)
{
	return __atomic_load_n(&file->remote, __ATOMIC_ACQUIRE);
}

/* As ck_files_check(), of a remote file: by what was heard of it. */
CK_MUST_USE int ck_file_check_remote(const struct ck_seen_file *file,
				     bool *passing);
/* Closes the file; nobody knows the slot any more. */
void ck_file_slot_close(struct ck_file_slot *s);

#endif
