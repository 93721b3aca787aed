/* SPDX-License-Identifier: MIT */
/*
 * owner_case: a file server of one directory, and requests to it. Each request
 * must be answered within the memory that ck_file_server_cost() returned for it.
 */
#ifndef CK_OWNER_CASE_H
#define CK_OWNER_CASE_H

#include "dist/server/file_server_internal.h"
#include "taken.h"
#include "tap.h"
#include "wire_case.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREAD_KEEPS = 1 << 20 }; /* see file_server.h */

static int dir = -1; /* temporary, removed at the end */
static char dir_path[] = "/tmp/ckptfs-owner-XXXXXX";
static struct ck_file_server *owner;

static inline void put_file(const char *name, const void *bytes, size_t len)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0600);

	if (fd < 0 || ck_write_full(fd, bytes, len))
		abort();
	close(fd);
}

static inline struct ck_file_server *owner_begin(enum ck_beneath how)
{
	struct ck_file_server *o = ck_file_server_make(dir, how, 16);

	if (!o)
		abort();
	return o;
}

static inline bool case_begin(void)
{
	alarm(tap_is_long() ? 1200 : 300); /* a read that hangs is a failure */
	if (!mkdtemp(dir_path) || ck_sigbus_install())
		return false;
	chmod(dir_path, 0755);
	dir = open(dir_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	owner = owner_begin(CK_BENEATH_NO_SYMLINKS);
	return dir >= 0;
}

static inline int case_end(void)
{
	char command[128];

	ck_file_server_free(owner);
	close(dir);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir_path);
	return system(command) ? 2 : tap_done();
}

static unsigned answered_now; /* requests answered without blocking */

/* A reply that does not block must equal the earlier one. */
static inline bool is_same_now(struct ck_file_server *o,
			       const struct ck_message *request, uint64_t cost,
			       const struct ck_answer *before)
{
	struct ck_answer now;
	bool same;

	if (!ck_file_server_answer_now(o, request, cost, &now))
		return now.payload == NULL && now.body.data == NULL;
	answered_now++;
	same = memcmp(&now.head, &before->head, sizeof(now.head)) == 0 &&
	       memcmp(now.body.data, before->body.data, now.body.len) == 0 &&
	       memcmp(now.payload, before->payload, now.head.payload) == 0;
	ck_answer_fini(&now);
	return same;
}

/* Serves one request as encoded bytes, which the caller owns. False if there is no reply,
 * or if it took more memory than its cost. */
static inline bool serve(struct ck_file_server *o, const struct ck_query *a,
			 struct ck_buf *bytes, struct ck_message *m)
{
	const struct ck_message request = {
		.head = a->head, .body = { a->body.data, a->body.len }
	};
	struct ck_answer out;
	uint64_t cost;
	int rc = ck_file_server_cost(&request, &cost);

	taken_begin();
	if (rc == 0)
		rc = ck_file_server_answer(o, &request, &out);
	taken.on = false;
	*bytes = (struct ck_buf){ 0 };
	if (rc)
		return false;
	if (!is_same_now(o, &request, cost, &out)) {
		printf("# the reply without blocking differs\n");
		rc = -EPROTO;
	}
	wire_add_answer(bytes, &out);
	ck_answer_fini(&out);
	if (taken.most > (int64_t)cost + THREAD_KEEPS) {
		printf("# it took %jd bytes, its cost was %ju\n",
		       (intmax_t)taken.most, (uintmax_t)cost);
		return false;
	}
	return rc == 0 && wire_split(bytes->data, bytes->len, m) == 0;
}

/* Looks up one name. */
static inline int look_at(struct ck_file_server *o, struct ck_str name,
			  struct ck_name_stat *out)
{
	struct ck_buf bytes;
	struct ck_message m;
	struct ck_query a;
	size_t n;
	int rc = ck_query_stat(&a, (struct ck_ids){ 0, 0 }, &name, 1, &n);

	if (rc)
		return rc;
	rc = serve(o, &a, &bytes, &m) ? ck_reply_stat(&a, &m, out) : -EPROTO;
	ck_buf_fini(&bytes);
	ck_query_fini(&a);
	return rc;
}

/* The number of an existing file. */
static inline uint32_t number_of(struct ck_file_server *o, const char *name)
{
	struct ck_name_stat looked;

	if (look_at(o, ck_str_from(name), &looked) || !looked.seen)
		abort();
	return looked.number;
}

/* Executes moves by as many READ requests as needed. */
static inline int move_by(struct ck_file_server *o, struct ck_copy_desc *list,
			  size_t n)
{
	struct ck_reads r;
	int rc = 0;

	ck_reads_begin(&r, list, n);
	while (!rc && ck_reads_left(&r)) {
		struct ck_buf bytes;
		struct ck_message m;
		struct ck_query a;
		uint64_t read;

		rc = ck_query_read(&r, &a);
		if (rc)
			break;
		rc = serve(o, &a, &bytes, &m) ? ck_reply_read(&a, &m, &read)
					      : -EPROTO;
		ck_buf_fini(&bytes);
		ck_query_fini(&a);
	}
	return rc;
}

#endif
