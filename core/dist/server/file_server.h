/* SPDX-License-Identifier: MIT */
/*
 * file_server: replies to requests of other hosts for the files of one
 * directory, see wire.h. It opens names beneath that directory only, see
 * ck_files; a STAT gives each file a number, and later requests use the number.
 * Clients are not trusted: counts and lengths are checked before memory is
 * allocated or a file is read, and requests contain names and numbers only.
 *
 * One thread at a time may make and free it and reply to a STAT. Any thread may
 * reply to other requests at the same time, for files that were looked up
 * before.
 */
#ifndef CKPTFS_FILE_SERVER_H
#define CKPTFS_FILE_SERVER_H

#include "dist/proto/wire.h"

struct ck_file_server; /* opaque */

/* Duplicates dirfd. how and max_open: see ck_files_make(). ck_sigbus_install()
 * must have been called. Returns NULL if out of memory or descriptors. */
struct ck_file_server *ck_file_server_make(int dirfd, enum ck_beneath how,
					   uint32_t max_open);
/* No request may be in progress. NULL is allowed. */
void ck_file_server_free(struct ck_file_server *o);

/* Bytes for the names that were looked up, with their state; one more name may
 * exceed it. A STAT after that fails with E2BIG. */
enum { CK_OWNER_NAMES_MAX = 64 << 20 };

/* Computes the cost of a request: the bytes of memory that its reply takes
 * until it is sent, without the read buffers of each thread (less than 1 MiB).
 * Allocates and reads nothing. Any thread. Returns 0, or: -EPROTO if the
 * request does not parse. */
CK_MUST_USE int ck_file_server_cost(const struct ck_message *request,
				    uint64_t *bytes);

/* A reply. Owns body and payload. */
struct ck_answer {
	struct ck_wire_head head;
	struct ck_buf body;
	uint8_t *payload; /* head.payload bytes; NULL if 0 */
};

/* Makes the reply. A failed request has a reply, too: head.err is then its
 * errno, and EIO for an EPROTO of the file system. Returns 0, or: -EPROTO if
 * the request does not parse; nothing was done, and *out is zeros.
 *
 * LIST: names are in the order of the directory, without "." and "..". A name
 * that is present from the first page to the last is listed exactly once on
 * file systems with stable directory positions (those that NFS can export, and
 * tmpfs). A name that is added or removed meanwhile may be listed or not. */
CK_MUST_USE int ck_file_server_answer(struct ck_file_server *o,
				      const struct ck_message *request,
				      struct ck_answer *out);

enum { CK_OWNER_NOW_MOST = 64 << 10 }; /* bytes of the cost */

/* Returns true if a request of that cost is a small READ from a local file
 * system, so that ck_file_server_answer_now() is worth a try. */
CK_MUST_USE bool ck_file_server_is_quick(const struct ck_file_server *o,
					 const struct ck_message *request,
					 uint64_t cost);
/* Makes the reply without blocking. Returns false if the request is not quick
 * or its bytes are not in memory; *out is then zeros, and
 * ck_file_server_answer() must make the reply. */
CK_MUST_USE bool ck_file_server_answer_now(struct ck_file_server *o,
					   const struct ck_message *request,
					   uint64_t cost,
					   struct ck_answer *out);
/* Frees body and payload. Zeros *a. */
void ck_answer_fini(struct ck_answer *a);

#endif
