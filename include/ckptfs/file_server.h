/* SPDX-License-Identifier: MIT */
/*
 * file_server: answers what other hosts ask about the files of one directory, see wire.h. It
 * opens names beneath that directory only, as of ck_files, and knows files by number
 * then. It trusts nobody: all counts and lengths are checked before anything is
 * allocated or read, and nothing that comes is more than a name or a number.
 *
 * One thread at a time may have a LOOK answered, and make and free; all other requests
 * may come from any thread, meanwhile too, for files that were looked at before.
 */
#ifndef CKPTFS_FILE_SERVER_H
#define CKPTFS_FILE_SERVER_H

#include "ckptfs/wire.h"

struct ck_file_server; /* opaque */

/* Takes a copy of dirfd; how and max_open are as of ck_files_make(). NULL: out of
 * memory or descriptors. ck_sigbus_install() was called. */
struct ck_file_server *ck_file_server_make(int dirfd, enum ck_beneath how,
					   uint32_t max_open);
void ck_file_server_free(struct ck_file_server *o); /* NULL is allowed */

/* Names that were looked at are kept: with what belongs to them they take at most so
 * many bytes, and one more name. A LOOK after that is E2BIG. */
enum { CK_OWNER_NAMES_MAX = 64 << 20 };

/* How many bytes of memory the answer to a request may take while it is made and until
 * it is sent, beside what each thread keeps for its reads (less than 1 MiB). Allocates
 * and reads nothing: whoever has to wait can do so before. -EPROTO: the request does
 * not parse. Any thread. */
CK_MUST_USE int ck_file_server_cost(const struct ck_message *request,
				    uint64_t *bytes);

/* Owned. */
struct ck_answer {
	struct ck_wire_head head;
	struct ck_buf body;
	uint8_t *payload; /* head.payload bytes; NULL: none */
};

/* 0: there is an answer, which may be that there is none, in head.err; ENOMEM too. An
 * EPROTO of a file system is EIO there. -EPROTO: the request does not parse, nothing
 * was done, and *out is zeros.
 *
 * LIST: the order is that of the directory. A name that is there from the first page to
 * the last comes exactly once on file systems whose positions in a directory stay valid
 * (those that NFS can export, and tmpfs); of one that comes or goes meanwhile nothing
 * is said. "." and ".." are left out. */
CK_MUST_USE int ck_file_server_answer(struct ck_file_server *o,
				      const struct ck_message *request,
				      struct ck_answer *out);

enum { CK_OWNER_NOW_MOST = 64 << 10 }; /* bytes of the cost */

/* Whether a request of that cost is a small READ in filesystems of this host, which is
 * worth a try to answer it at once. */
CK_MUST_USE bool ck_file_server_is_quick(const struct ck_file_server *o,
					 const struct ck_message *request,
					 uint64_t cost);
/* Answers it if it is, and its bytes are in memory, so that nothing is waited for. False:
 * it is to be answered as any other, and *out is zeros. */
CK_MUST_USE bool ck_file_server_answer_now(struct ck_file_server *o,
					   const struct ck_message *request,
					   uint64_t cost,
					   struct ck_answer *out);
void ck_answer_fini(struct ck_answer *a);

#endif
