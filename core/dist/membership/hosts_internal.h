/* SPDX-License-Identifier: MIT */
/* hosts: see hosts.h; what its files share. */
#ifndef CK_HOSTS_INTERNAL_H
#define CK_HOSTS_INTERNAL_H

#include "ckptfs/hosts.h"
#include "ckptfs/remote_client.h"
#include "hosts_names.h"
#include "replica_select.h"

#include <pthread.h>

/* How bytes come from a host, as measured in this job. All atomic. */
struct ck_hosts_way {
	uint64_t rate; /* bytes a second; 0: it is not known */
	uint64_t nsec; /* until a few bytes are there */
	int err;       /* negative: why it could not be measured */
	unsigned tries;
};

struct ck_hosts_host {
	const char *name, *path;
	uint32_t rank; /* see ck_host_rank */
	bool again;    /* the one before it is of the same host */
	/* Of the thread that opens the checkpoint, then of the one that hears: */
	bool there; /* it has answered all that it was asked, of this job */
	/* Atomic, see ck_hosts_note_states(): */
	bool was_there; /* in some job */
	bool up;
	uint64_t since; /* when it came up or went down */
	struct ck_hosts_way way;
};

/* The ranks of one host: [first, first + n) of the list. */
struct ck_hosts_group {
	uint32_t first, n;
};

/* What is known of one copy of a file, where there are several in use. */
struct ck_hosts_copy {
	uint32_t file; /* in the ck_files */
	uint32_t peer; /* who is asked of it from time to time */
	bool changed;
	struct ck_file_access access;
};

/* By file, those of a file in the order in which they came, without one that is here. */
struct ck_hosts_copies {
	struct ck_hosts_copy *list;
	size_t n, cap;
};

/* A place of a file, and the time that the file had when it was first heard of there, in
 * nanoseconds: whichever job its host takes part in, it is read if it is that file. */
struct ck_hosts_place {
	uint32_t file, peer;
	int64_t mtime;
};

/* By file, those of one in the order in which they are tried. */
struct ck_hosts_places {
	struct ck_hosts_place *list;
	size_t n, cap;
};

/* Places behind the first, as the requester has them. */
struct ck_hosts_others {
	struct ck_other_place *list;
	size_t n, cap;
};

/* Where files are: what the requester has of this job, by number in the set, and what is
 * known for other jobs. */
struct ck_hosts_tables {
	struct ck_location *files;
	struct ck_hosts_others others;
	struct ck_hosts_places known;
};

/* A replica that is not used although another one is. */
struct ck_hosts_unused_copy {
	uint32_t file, host; /* the latter one of the groups */
	int err;	     /* positive: why it cannot be read; 0: it can be */
	uint64_t size, needed;
};

struct ck_hosts_unused {
	struct ck_hosts_unused_copy *list;
	size_t n, cap;
};

struct ck_hosts_hearing;

struct ck_hosts {
	struct ck_remote_source elsewhere; /* first */
	struct ck_calls
		*calls; /* of the thread that opens the checkpoint, then of the
				 * one that hears */
	struct ck_remote_client requester;
	struct ck_remote_reader reader;
	bool let_wait;
	/* Of the one thread that opens the checkpoint, then constant: */
	struct ck_files *set; /* its; NULL: it was not opened */
	struct ck_ids shown;
	uint32_t nfiles; /* of which it is known where they are */
	struct ck_hosts_names names;
	struct ck_hosts_unused unused;
	/* Files and hosts are constant; the rest belongs to the thread of the link, and to
	 * the one that hears while nothing is on its way: */
	struct ck_hosts_copies copies;
	/* Of the thread that opens the checkpoint, then of the one that hears: */
	struct ck_hosts_tables at;
	struct ck_hosts_hearing *hearing; /* atomic: set when all else is */

	struct {
		struct ck_str name; /* of no bytes: it is a data file */
		char *text;	    /* the name */
		uint32_t peer;	    /* 0: it is on this host */
		uint64_t size;
		struct timespec mtime;
		uint8_t digest[CK_COPY_DIGEST]; /* of all bytes */
		struct ck_file_access access;	/* atomic, as is: */
		bool changed;
	} metadata;

	enum ck_replicas replicas;
	/* In an order that all who ask have, that of their ranks. */
	struct ck_hosts_group *groups;
	uint32_t ngroups, here; /* the one of this host */
	uint32_t *prefer;	/* groups */
	uint32_t nprefer;

	uint32_t n;
	struct ck_hosts_host hosts[];
};

/* Its locks are no part of what is constant of it. */
static inline struct ck_hosts *ck_hosts_of(const struct ck_remote_source *e)
{
	return (struct ck_hosts *)(uintptr_t)e;
}

/* One host's part of something that all do at once. */
struct ck_hosts_task {
	struct ck_hosts *hosts;
	const struct ck_hosts_host *host;
	uint32_t index;
	void *arg;
	bool wanted; /* it has a part */
	int rc;	     /* what it came to; of one that has none, -EIO */
};

/* Has all that are wanted do it, each in a thread of its own, and waits. -ENOMEM; errors
 * of pthread_create(3). */
CK_MUST_USE int ck_hosts_run(struct ck_hosts_task *tasks, uint32_t n,
			     int (*run)(struct ck_hosts_task *t));
/* The same of every host that is there; who has gone down meanwhile is not there any
 * more. tasks: n, filled here. */
CK_MUST_USE int ck_hosts_each(struct ck_hosts *h,
			      int (*run)(struct ck_hosts_task *t), void *arg,
			      struct ck_hosts_task *tasks);
/* How many ranks are there. */
uint32_t ck_hosts_there(const struct ck_hosts *h);

/* Bytes of a file of a requester, for who may wait. until: by the monotonic clock; NULL:
 * as long as it takes. -EINTR: they were not there by then; errors as of its moves. */
CK_MUST_USE int ck_hosts_bring(struct ck_remote_client *r, uint32_t file,
			       uint64_t fpos, uint64_t len, void *to,
			       const struct timespec *until);
/* The same of several moves, each of which has its rc then. */
void ck_hosts_bring_all(struct ck_remote_client *r, struct ck_move *list,
			size_t n);
/* As of struct ck_remote_source. */
CK_MUST_USE int ck_hosts_opened(struct ck_remote_source *e,
				struct ck_files *files, bool *partly);
CK_MUST_USE int ck_hosts_text(struct ck_remote_source *e, struct ck_str name,
			      uint64_t most, struct ck_file_info *said,
			      void **pages, struct ck_diag *d);
CK_MUST_USE int ck_hosts_metadata(struct ck_remote_source *e,
				  struct ck_str name, uint64_t most,
				  struct ck_file_info *said, void **pages,
				  struct ck_diag *d);
CK_MUST_USE int ck_hosts_files(struct ck_remote_source *e,
			       struct ck_files *files,
			       const struct ck_ids *shown, struct ck_diag *d);

/* Whether metadata on another host has changed, as far as was heard. */
CK_MUST_USE int ck_hosts_changed(struct ck_remote_source *e,
				 struct ck_file_access *now);
const char *ck_hosts_host(const struct ck_remote_source *e, uint32_t file,
			  uint32_t i);
const char *ck_hosts_away(const struct ck_remote_source *e, uint32_t file);
bool ck_hosts_unused(const struct ck_remote_source *e, size_t i,
		     struct ck_unused_copy *out);
/* As ck_shown(), UTC. */
const char *ck_hosts_time(time_t when);
void ck_hosts_print(const struct ck_remote_source *e, struct ck_buf *out);
void ck_hosts_paths(const struct ck_remote_source *e, struct ck_buf *out);

/* What is read on a host, by all its processes. */
struct ck_hosts_load {
	uint32_t files;
	uint64_t bytes;
	bool up;
};

struct ck_hosts_load ck_hosts_load(const struct ck_hosts *h, const char *name);
/* Another job has taken over: nothing is measured yet. */
void ck_hosts_measure_again(struct ck_hosts *h);
/* Notes which hosts are up now, and since when. One thread. */
void ck_hosts_note_states(struct ck_hosts *h);

/* A file of an owner, and what its bytes come to. */
struct ck_hosts_digest {
	uint32_t number; /* of the file there */
	uint64_t size;
	uint8_t digest[CK_COPY_DIGEST];
	int rc; /* 0, or why there is none: as of ck_take_digest(), ck_call */
};

/* Has a peer make the digests of n files, several at a time. how: SAMPLE or FULL.
 * -ENOMEM. */
CK_MUST_USE int ck_hosts_digest(struct ck_calls *calls, uint32_t peer,
				enum ck_replicas how,
				struct ck_hosts_digest *list, size_t n);

/* What a peer said of one copy of a file that has several, as far as it is one: what
 * they come to is noted. False: it has no others. */
bool ck_hosts_note_copy(struct ck_hosts *h, uint32_t file, uint32_t peer,
			const struct ck_looked *l);
/* The first one of a file; NULL: there are not several. */
struct ck_hosts_copy *ck_hosts_copies_of(const struct ck_hosts *h,
					 uint32_t file, size_t *n);
/* One more; those of a file lie one behind the other. -ENOMEM. */
CK_MUST_USE int ck_hosts_copies_add(struct ck_hosts_copies *copies,
				    uint32_t file, uint32_t peer,
				    struct ck_file_access access);
/* Who may read a file, as its host says. */
struct ck_file_access ck_hosts_access(const struct ck_file_info *info);
/* Which r bits a copy takes, beside another one that is the first. */
mode_t ck_hosts_closed(const struct ck_file_access *access,
		       struct ck_ids shown);

/* Of the thread that hears. What was said of a file at a peer: whether it is what it was
 * when it was first heard of there. */
bool ck_hosts_is_same(const struct ck_hosts *h, uint32_t file, uint32_t peer,
		      const struct ck_file_info *said);
/* Notes it. */
void ck_hosts_note(struct ck_hosts *h, uint32_t file, uint32_t peer,
		   const struct ck_looked *said);
/* What is on its way is over when it returns. */
void ck_hosts_hearing_stop(struct ck_hosts *h);

/* --- where files are; of the same thread ------------------------------------------------- */

/* Nanoseconds. */
int64_t ck_hosts_nsec(struct timespec t);
/* A place of a file, if that is used in this job: number is what it has there. Files come
 * in their order, the places of one in that in which they are tried. -ENOMEM. */
CK_MUST_USE int ck_hosts_tables_use(struct ck_hosts_tables *t, uint32_t file,
				    uint32_t peer, uint32_t number,
				    bool is_first);
/* And what is known of it for other jobs. The same. */
CK_MUST_USE int ck_hosts_tables_know(struct ck_hosts_tables *t,
				     const struct ck_hosts_place *p);
void ck_hosts_tables_fini(struct ck_hosts_tables *t);
/* They are used from now on, with these calls; takes them. Nobody hears. */
void ck_hosts_tables_replace(struct ck_hosts *h, struct ck_hosts_tables *t,
			     struct ck_calls *calls);
/* The first place of a file among those known, or where it would be. */
size_t ck_hosts_places_of(const struct ck_hosts_places *known, uint32_t file);

/* Once the checkpoint's files are known. -ENOMEM. */
CK_MUST_USE int ck_hosts_hearing_make(struct ck_hosts *h);

#endif
