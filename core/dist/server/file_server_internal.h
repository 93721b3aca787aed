/* SPDX-License-Identifier: MIT */
/*
 * file_server_internal: the parts of a file server. Each type of request has
 * two functions: one computes the memory that its reply takes, the other one
 * answers it.
 */
#ifndef CK_FILE_SERVER_INTERNAL_H
#define CK_FILE_SERVER_INTERNAL_H

#include "dist/dist_internal.h"
#include "file_server.h"

struct ck_file_server {
	/* Constant: */
	int dirfd;
	/* limits of ck_open_beneath() */
	enum ck_beneath how;
	struct ck_files *files;
	struct ck_local_backend host;
	bool quick; /* the directory is on a filesystem of this host */

	/* Used by the one thread that answers STATs: */
	uint64_t names; /* memory taken by the names looked up, bytes */
};

/* Each parses the whole body, and adds to *bytes the memory that the reply
 * takes. False if the body does not parse; otherwise the functions below parse
 * it, too. */
bool ck_file_server_list_cost(struct ck_cur body, uint64_t *bytes);
bool ck_file_server_stat_cost(struct ck_cur body, uint64_t *bytes);
bool ck_file_server_read_cost(struct ck_cur body, uint64_t *bytes);
bool ck_file_server_digest_cost(struct ck_cur body, uint64_t *bytes);

/* Each writes body and payload of the reply to *out; its head is the caller's
 * to write. The body must have been parsed by the function above. Returns 0; or
 * -EPROTO if the body does not parse; or another negative errno, which becomes
 * `err` of the reply: the caller then discards *out. */
CK_MUST_USE int ck_file_server_list(struct ck_file_server *o,
				    struct ck_cur body, struct ck_answer *out);
CK_MUST_USE int ck_file_server_stat(struct ck_file_server *o,
				    struct ck_cur body, struct ck_answer *out);
CK_MUST_USE int ck_file_server_read(struct ck_file_server *o,
				    struct ck_cur body, struct ck_answer *out);
/* Like ck_file_server_read(), but returns -EAGAIN if it would block on I/O. */
CK_MUST_USE int ck_file_server_read_now(struct ck_file_server *o,
					struct ck_cur body,
					struct ck_answer *out);
CK_MUST_USE int ck_file_server_digest(struct ck_file_server *o,
				      struct ck_cur body,
				      struct ck_answer *out);

/* The most memory that a ck_buf of so many bytes takes while it grows: during a
 * reallocation both the old and the new block exist. */
static inline uint64_t ck_file_server_room(uint64_t bytes)
{
	return 3 * bytes + 256;
}

#endif
