/* SPDX-License-Identifier: MIT */
/*
 * What the parts of an owner share: for each type of request what it costs, and how it
 * is answered.
 */
#ifndef CK_OWNER_INTERNAL_H
#define CK_OWNER_INTERNAL_H

#include "ckptfs/file_server.h"
#include "dist_internal.h"

struct ck_file_server {
	/* Constant: */
	int dirfd;
	enum ck_beneath how;
	struct ck_files *files;
	struct ck_host_mover host;
	bool quick; /* the directory is on a filesystem of this host */

	/* Of the one thread that looks: */
	uint64_t names; /* bytes that names take, with what belongs to them */
};

/* Each reads the whole body and adds to *bytes what answering it takes; false: it does
 * not parse. One that was read so parses again. */
bool ck_file_server_list_cost(struct ck_cur body, uint64_t *bytes);
bool ck_file_server_look_cost(struct ck_cur body, uint64_t *bytes);
bool ck_file_server_read_cost(struct ck_cur body, uint64_t *bytes);
bool ck_file_server_digest_cost(struct ck_cur body, uint64_t *bytes);

/* Each puts body and payload into *out: 0, or a negative errno why there is none, and
 * what is in *out then is dropped. The body has parsed. */
CK_MUST_USE int ck_file_server_list(struct ck_file_server *o,
				    struct ck_cur body, struct ck_answer *out);
CK_MUST_USE int ck_file_server_look(struct ck_file_server *o,
				    struct ck_cur body, struct ck_answer *out);
CK_MUST_USE int ck_file_server_read(struct ck_file_server *o,
				    struct ck_cur body, struct ck_answer *out);
/* As ck_file_server_read(), but -EAGAIN if it would wait. */
CK_MUST_USE int ck_file_server_read_now(struct ck_file_server *o,
					struct ck_cur body,
					struct ck_answer *out);
CK_MUST_USE int ck_file_server_digest(struct ck_file_server *o,
				      struct ck_cur body,
				      struct ck_answer *out);

/* Room that a ck_buf takes at most for so many bytes while it grows: the one it leaves
 * is there until the next is filled. */
static inline uint64_t ck_file_server_room(uint64_t bytes)
{
	return 3 * bytes + 256;
}

#endif
