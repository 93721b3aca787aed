/* SPDX-License-Identifier: MIT */
/* hosts: see hosts.h; what its files share. */
#ifndef CK_HOSTS_INTERNAL_H
#define CK_HOSTS_INTERNAL_H

#include "ckptfs/hosts.h"
#include "ckptfs/requester.h"

struct ck_hosts_host {
	const char *name, *path;
	uint32_t rank;
	bool again; /* the one before it is of the same host */
	bool there; /* it has answered all that it was asked */
	/* Atomic, see ck_hosts_note_states(): */
	bool up;
	uint64_t since; /* when it came up or went down */
};

struct ck_hosts_hearing;

struct ck_hosts {
	struct ck_elsewhere elsewhere; /* first */
	struct ck_calls *calls;
	struct ck_requester requester;
	struct ck_remote_reader reader;
	bool let_wait;
	/* Of the one thread that opens the checkpoint, then constant: */
	struct ck_files *set; /* its; NULL: it was not opened */
	struct ck_ids shown;
	struct ck_whereabouts *files; /* by number in the set */
	uint32_t nfiles;
	struct ck_hosts_hearing *hearing;

	struct {
		struct ck_str name; /* a constant; empty: it is on this host */
		uint32_t rank;
		struct ck_file_access access; /* atomic, as is: */
		bool changed;
	} metadata;

	uint32_t n;
	struct ck_hosts_host hosts[];
};

/* One host's part of something that all do at once. */
struct ck_hosts_task {
	struct ck_hosts *hosts;
	struct ck_hosts_host *host;
	uint32_t index;
	void *arg;
	int rc; /* what it came to; of a host that is not there, -EIO */
};

/* Has every host that is there do it, each in a thread of its own, and waits. Those from
 * `from` on. tasks: n, filled here. Who has gone down meanwhile is not there any more.
 * -ENOMEM; errors of pthread_create(3). */
CK_MUST_USE int ck_hosts_each(struct ck_hosts *h, uint32_t from,
			      int (*run)(struct ck_hosts_task *t), void *arg,
			      struct ck_hosts_task *tasks);

/* Bytes of a file of a requester, for who may wait. Errors as of its moves. */
CK_MUST_USE int ck_hosts_bring(struct ck_requester *r, uint32_t file,
			       uint64_t fpos, uint64_t len, void *to);
/* As of struct ck_elsewhere. */
CK_MUST_USE int ck_hosts_metadata(struct ck_elsewhere *e, struct ck_str name,
				  struct ck_file_info *said, void **pages,
				  struct ck_diag *d);
CK_MUST_USE int ck_hosts_files(struct ck_elsewhere *e, struct ck_files *files,
			       struct ck_ids shown, struct ck_diag *d);

/* Whether metadata on another host has changed, as far as was heard. */
CK_MUST_USE int ck_hosts_changed(struct ck_elsewhere *e,
				 struct ck_file_access *now);
const char *ck_hosts_host(const struct ck_elsewhere *e, uint32_t file);
void ck_hosts_print(const struct ck_elsewhere *e, struct ck_buf *out);
/* Notes which hosts are up now, and since when. One thread. */
void ck_hosts_note_states(struct ck_hosts *h);
/* Once the checkpoint's files are known. -ENOMEM. */
CK_MUST_USE int ck_hosts_hearing_make(struct ck_hosts *h);

#endif
