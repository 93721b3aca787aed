/* SPDX-License-Identifier: MIT */
/*
 * file_server: dispatches requests by type, and builds the heads of replies.
 * State: the directory, the table of its files, and the size of the names
 * looked up. No thread of its own.
 */
#include "file_server_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

/* True if the directory is on a filesystem that never waits for another host,
 * by its magic number: those of linux/magic.h, and of out-of-tree filesystems.
 * False for unknown ones. */
static bool is_of_this_host(int dirfd)
{
	static const long known[] = {
		0xef53,	    /* ext4 */
		0x58465342, /* xfs */
		0x9123683e, /* btrfs */
		0x01021994, /* tmpfs */
		0xf2f52010, /* f2fs */
		0x2fc12fc1, /* zfs */
	};
	struct statfs st;

	if (fstatfs(dirfd, &st))
		return false;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if ((long)st.f_type == known[i])
			return true;
	return false;
}

struct ck_file_server *ck_file_server_make(int dirfd, enum ck_beneath how,
					   uint32_t max_open)
{
	struct ck_file_server *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->how = how;
	o->quick = is_of_this_host(dirfd);
	o->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
	if (o->dirfd >= 0)
		o->files = ck_files_make(dirfd, how, max_open);
	if (!o->files) {
		ck_file_server_free(o);
		return NULL;
	}
	ck_local_backend_init(&o->host, o->files);
	return o;
}

void ck_file_server_free(struct ck_file_server *o)
{
	if (!o)
		return;
	ck_files_free(o->files);
	ck_fd_cleanup(&o->dirfd);
	free(o);
}

/* --- PING ----------------------------------------------------------------- */

static bool ping_cost(struct ck_cur body, uint64_t *bytes)
{
	(void)bytes;
	return ck_cur_left(&body) == 0;
}

static int ping(struct ck_file_server *o, struct ck_cur body,
		struct ck_answer *out)
{
	(void)o, (void)body, (void)out;
	return 0;
}

/* --- all requests --------------------------------------------------------- */

struct kind {
	bool (*cost)(struct ck_cur body, uint64_t *bytes);
	int (*answer)(struct ck_file_server *o, struct ck_cur body,
		      struct ck_answer *out);
};

static const struct kind kinds[CK_WIRE_REQUESTS] = {
	[CK_WIRE_LIST] = { ck_file_server_list_cost, ck_file_server_list },
	[CK_WIRE_STAT] = { ck_file_server_stat_cost, ck_file_server_stat },
	[CK_WIRE_READ] = { ck_file_server_read_cost, ck_file_server_read },
	[CK_WIRE_DIGEST] = { ck_file_server_digest_cost,
			     ck_file_server_digest },
	[CK_WIRE_PING] = { ping_cost, ping },
};

/* NULL if m is not a request. */
static const struct kind *kind_of(const struct ck_message *m)
{
	const struct ck_wire_head *h = &m->head;

	if (h->answer || h->err || h->payload || m->payload.len ||
	    h->body != m->body.len || h->body > CK_WIRE_BODY_MAX ||
	    h->type < CK_WIRE_LIST || h->type >= CK_WIRE_REQUESTS)
		return NULL;
	return &kinds[h->type];
}

int ck_file_server_cost(const struct ck_message *request, uint64_t *bytes)
{
	const struct kind *kind = kind_of(request);
	uint64_t cost = 0;

	if (!kind || !kind->cost(ck_wire_body(request), &cost))
		return -EPROTO;
	*bytes = cost;
	return 0;
}

void ck_answer_fini(struct ck_answer *a)
{
	ck_buf_fini(&a->body);
	free(a->payload);
	*a = (struct ck_answer){ 0 };
}

/* Writes the head of a reply. If rc is an errno, the reply has no body and no
 * payload. */
static void finish(const struct ck_message *request, int rc,
		   struct ck_answer *out)
{
	struct ck_wire_head head = { .type = request->head.type,
				     .answer = true,
				     .id = request->head.id,
				     .epoch = request->head.epoch };

	if (rc == 0)
		rc = out->body.err;
	if (rc) {
		ck_answer_fini(out);
		head.err = rc == -EPROTO ? EIO : (uint32_t)-rc;
	}
	head.body = (uint32_t)out->body.len;
	head.payload = out->head.payload;
	out->head = head;
}

int ck_file_server_answer(struct ck_file_server *o,
			  const struct ck_message *request,
			  struct ck_answer *out)
{
	uint64_t cost;
	int rc = ck_file_server_cost(request, &cost);

	*out = (struct ck_answer){ 0 };
	if (rc)
		return rc;
	rc = kind_of(request)->answer(o, ck_wire_body(request), out);
	finish(request, rc, out);
	return 0;
}

bool ck_file_server_is_quick(const struct ck_file_server *o,
			     const struct ck_message *request, uint64_t cost)
{
	return o->quick && request->head.type == CK_WIRE_READ &&
	       cost <= CK_OWNER_NOW_MOST;
}

bool ck_file_server_answer_now(struct ck_file_server *o,
			       const struct ck_message *request, uint64_t cost,
			       struct ck_answer *out)
{
	*out = (struct ck_answer){ 0 };
	if (!ck_file_server_is_quick(o, request, cost))
		return false;
	if (ck_file_server_read_now(o, ck_wire_body(request), out)) {
		ck_answer_fini(out);
		return false;
	}
	finish(request, 0, out);
	return true;
}
