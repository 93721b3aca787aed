/* SPDX-License-Identifier: MIT */
/*
 * hosts_internal: the state of a ck_hosts and what its files share. Three kinds
 * of threads use it: the thread that opens the checkpoint, then the
 * revalidating thread (ck_hosts_revalidate(), ck_hosts_renew()), and at any
 * time threads that read or report. The fields name their owner.
 */
#ifndef CK_HOSTS_INTERNAL_H
#define CK_HOSTS_INTERNAL_H

#include "ckptfs/hosts.h"
#include "dist/client/remote_client.h"
#include "dist/client/replica_select.h"
#include "hosts_names.h"
#include "hosts_task.h"

#include <pthread.h>

/* The measured path to a host, in this job. All atomic. */
struct ck_hosts_path {
	uint64_t rate; /* bytes a second; 0: unknown */
	uint64_t nsec; /* nanoseconds, the latency of a few bytes */
	int err;       /* a negative errno: the last attempt failed; or 0 */
	unsigned tries;
};

struct ck_hosts_host {
	const char *name, *path;
	uint32_t rank; /* see ck_host_rank */
	bool again;    /* the process before it is of the same host */
	/* Of the opening, then of the revalidating thread: */
	bool there; /* it has replied to all requests of this job */
	/* Atomic, see ck_hosts_note_states(): */
	bool was_there; /* it has taken part in some job */
	bool up;
	uint64_t since; /* when it went up or down, milliseconds */
	struct ck_hosts_path path_to;
};

/* The ranks of one host: [first, first + n) of the list. */
struct ck_hosts_group {
	uint32_t first, n;
};

/* The state of one replica of a file that has several in use. */
struct ck_hosts_copy {
	uint32_t file; /* number in the ck_files */
	uint32_t peer; /* the peer that stats it for revalidation */
	bool changed;
	struct ck_file_access access;
};

/* Sorted by file, then in the order of addition; all on other hosts. */
struct ck_hosts_copies {
	struct ck_hosts_copy *list;
	size_t n, cap;
};

/* A location of a file, and the modification time of the file there when it was
 * first looked up, in nanoseconds. Later jobs read the file there only if it is
 * unchanged. */
struct ck_hosts_place {
	uint32_t file, peer;
	int64_t mtime;
};

/* Sorted by file; those of a file in the order in which reads try them. */
struct ck_hosts_places {
	struct ck_hosts_place *list;
	size_t n, cap;
};

/* The replicas after the first one, as the remote client has them. */
struct ck_hosts_others {
	struct ck_other_place *list;
	size_t n, cap;
};

/* Where files are: the routes of this job, by file number, and the locations
 * known for later jobs. */
struct ck_hosts_tables {
	struct ck_location *files;
	struct ck_hosts_others others;
	struct ck_hosts_places known;
};

/* A replica that is not used although another one is. */
struct ck_hosts_unused_copy {
	uint32_t file, host; /* host: an index in the groups */
	int err; /* a positive errno: why it is unreadable; 0: it is readable */
	uint64_t size, needed;
};

struct ck_hosts_unused {
	struct ck_hosts_unused_copy *list;
	size_t n, cap;
};

struct ck_hosts_revalidation;

struct ck_hosts {
	struct ck_remote_source elsewhere; /* first */
	/* Of the opening, then of the revalidating thread. */
	struct ck_calls *calls;
	struct ck_remote_client requester;
	struct ck_remote_reader reader;
	bool let_wait;
	/* Of the opening thread, then constant: */
	struct ck_files *set; /* the checkpoint's files; NULL: not open yet */
	struct ck_ids shown;
	uint32_t nfiles; /* files whose location is known */
	struct ck_hosts_names names;
	struct ck_hosts_unused unused;
	/* `file` and `peer` are constant. The rest is of the connection's
	 * thread while a revalidation is in flight, else of the revalidating
	 * thread: */
	struct ck_hosts_copies copies;
	/* Of the opening, then of the revalidating thread: */
	struct ck_hosts_tables at;
	/* atomic: set when all else is */
	struct ck_hosts_revalidation *revalidation;

	struct {
		struct ck_str name; /* empty: the metadata is a data file */
		char *text;	    /* owns the name */
		uint32_t peer;	    /* 0: it is on this host */
		uint64_t size;
		struct timespec mtime;
		uint8_t digest[CK_COPY_DIGEST]; /* of all its bytes */
		struct ck_file_access access;	/* atomic, like `changed` */
		bool changed;
	} metadata;

	enum ck_replicas replicas;
	/* Sorted by rank, so in the same order at all mounts. */
	struct ck_hosts_group *groups;
	uint32_t ngroups, here; /* `here`: the group of this host */
	uint32_t *prefer;	/* indices of groups */
	uint32_t nprefer;

	uint32_t n;
	struct ck_hosts_host hosts[];
};

/* Removes const: the locks inside are no part of the constant state. */
static inline struct ck_hosts *ck_hosts_of(const struct ck_remote_source *e)
{
	return (struct ck_hosts *)(uintptr_t)e;
}

/* Implement struct ck_remote_source; see there. */
CK_MUST_USE int ck_hosts_opened(struct ck_remote_source *e,
				struct ck_files *files, bool *partly);
CK_MUST_USE int ck_hosts_text(struct ck_remote_source *e, struct ck_str name,
			      uint64_t most, struct ck_file_info *result,
			      void **pages, struct ck_diag *d);
CK_MUST_USE int ck_hosts_metadata(struct ck_remote_source *e,
				  struct ck_str name, uint64_t most,
				  struct ck_file_info *result, void **pages,
				  struct ck_diag *d);
CK_MUST_USE int ck_hosts_files(struct ck_remote_source *e,
			       struct ck_files *files,
			       const struct ck_ids *shown, struct ck_diag *d);

/* Returns 1 if metadata on another host has changed, as last revalidated; else
 * 0 with its access in *now. */
CK_MUST_USE int ck_hosts_changed(struct ck_remote_source *e,
				 struct ck_file_access *now);
/* Implement struct ck_remote_source, too. Any thread. */
const char *ck_hosts_host(const struct ck_remote_source *e, uint32_t file,
			  uint32_t i);
const char *ck_hosts_down_host(const struct ck_remote_source *e, uint32_t file);
bool ck_hosts_unused(const struct ck_remote_source *e, size_t i,
		     struct ck_unused_copy *out);
/* Formats a UTC time as ck_shown() does. */
const char *ck_hosts_time(time_t when);
void ck_hosts_print(const struct ck_remote_source *e, struct ck_buf *out);
void ck_hosts_paths(const struct ck_remote_source *e, struct ck_buf *out);

/* The files that are read on a host. */
struct ck_hosts_load {
	uint32_t files;
	uint64_t bytes;
	bool up;
};

/* Computes the load of a host by name. Any thread. */
struct ck_hosts_load ck_hosts_load(const struct ck_hosts *h, const char *name);
/* Forgets all measurements, since another job has taken over. Of the
 * revalidating thread. */
void ck_hosts_measure_again(struct ck_hosts *h);
/* Updates which hosts are up. Of the opening, then of the revalidating
 * thread. */
void ck_hosts_note_states(struct ck_hosts *h);

/* A file of a file server, and its digest. */
struct ck_hosts_digest {
	uint32_t number; /* the file's number there */
	uint64_t size;
	uint8_t digest[CK_COPY_DIGEST];
	/* 0, or the error without a digest: of ck_reply_digest() or ck_call;
	 * -EFBIG. */
	int rc;
};

/* Requests the digests of n files from a peer, several in flight at a time, and
 * blocks. how: SAMPLE or FULL. Each rc is set. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_hosts_digest(struct ck_calls *calls, uint32_t peer,
				enum ck_replicas how,
				struct ck_hosts_digest *list, size_t n);

/* Updates one replica of a file with several replicas from a peer's reply, and
 * the file's access and change from all of them. Returns false if the file has
 * no several replicas. */
bool ck_hosts_note_copy(struct ck_hosts *h, uint32_t file, uint32_t peer,
			const struct ck_name_stat *l);
/* Returns the replicas of a file, *n of them; NULL and 0 if it does not have
 * several. */
struct ck_hosts_copy *ck_hosts_copies_of(const struct ck_hosts *h,
					 uint32_t file, size_t *n);
/* Appends a replica; those of a file must follow each other. Returns 0, or:
 * -ENOMEM. */
CK_MUST_USE int ck_hosts_copies_add(struct ck_hosts_copies *copies,
				    uint32_t file, uint32_t peer,
				    struct ck_file_access access);
/* Returns the access of a file, as its host has reported it. */
struct ck_file_access ck_hosts_access(const struct ck_file_info *info);
/* Returns the r bits (0444) that a further replica removes from the file. */
mode_t ck_hosts_closed(const struct ck_file_access *access,
		       struct ck_ids shown);

/* Returns true if a file at a peer is unchanged since it was first looked up
 * there. Of the revalidating, or the connection's thread. */
bool ck_hosts_is_same(const struct ck_hosts *h, uint32_t file, uint32_t peer,
		      const struct ck_file_info *result);
/* Updates change and access of a file from a peer's reply. The same threads. */
void ck_hosts_note(struct ck_hosts *h, uint32_t file, uint32_t peer,
		   const struct ck_name_stat *result);
/* Cancels revalidations in flight and blocks until they have ended. Of the
 * revalidating thread. */
void ck_hosts_revalidation_stop(struct ck_hosts *h);

/* --- where files are; of the opening, then of the revalidating thread ----- */

/* Returns nanoseconds since the epoch. */
int64_t ck_hosts_nsec(struct timespec t);
/* Adds a location that this job uses; number: the file's number at the peer.
 * Files must be added in ascending order, the locations of a file in the order
 * in which reads try them. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_hosts_tables_use(struct ck_hosts_tables *t, uint32_t file,
				    uint32_t peer, uint32_t number,
				    bool is_first);
/* Adds a location that later jobs may use, in the same order. Returns 0, or:
 * -ENOMEM. */
CK_MUST_USE int ck_hosts_tables_know(struct ck_hosts_tables *t,
				     const struct ck_hosts_place *p);
/* Frees the tables. Zeros *t. */
void ck_hosts_tables_fini(struct ck_hosts_tables *t);
/* Uses these tables from now on, with these calls; takes *t. No revalidation
 * may be in flight. */
void ck_hosts_tables_replace(struct ck_hosts *h, struct ck_hosts_tables *t,
			     struct ck_calls *calls);
/* Returns the index of the first known location of a file, or where it would
 * be. */
size_t ck_hosts_places_of(const struct ck_hosts_places *known, uint32_t file);

/* Starts revalidation, once all files are known. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_hosts_revalidation_make(struct ck_hosts *h);

#endif
