/* SPDX-License-Identifier: MIT */
/*
 * xattr_ops: extended attributes, which the tree computes. They cannot be
 * changed. Tools that copy a file back with its attributes set them: that is
 * accepted without effect.
 *
 * Attributes that read the source are computed by threads of a pool, and may
 * wait for remote bytes (async_reply.c). No state, no locks.
 */
#include "async_reply.h"
#include "internal.h"
#include "session/pool.h"
#include "tree/reports/replicas.h"
#include <errno.h>

/* Attributes that read the source. The last one reads all of a file and of its
 * replicas. */
static const char *const slow_names[] = { CK_XATTR_PREFIX "error",
					  CK_XATTR_PREFIX "replicas_differ" };

/* NULL if the attribute does not read the source. */
static const char *slow_name(const char *name)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(slow_names); i++)
		if (strcmp(name, slow_names[i]) == 0)
			return slow_names[i];
	return NULL;
}

static bool compares(const char *slow)
{
	return slow == slow_names[CK_ARRAY_SIZE(slow_names) - 1];
}

static int do_getxattr(struct ck_fs *fs, fuse_ino_t ino, const char *name,
		       const struct ck_stop *stop, struct ck_buf *out)
{
	struct ck_node n;

	if (fs->options->noxattr)
		/* the kernel sends no further requests then */
		return -ENOSYS;
	/* ls -l requests both of each file, until they are not supported. */
	if (ck_str_starts(ck_str_from(name), CK_STR("system.posix_acl_")) ||
	    strcmp(name, "security.selinux") == 0)
		return -EOPNOTSUPP;
	if (ck_node_find(fs, ino, &n))
		return -ENODATA;
	return ck_tree_xattr(&n, name, stop, out);
}

static int do_listxattr(struct ck_fs *fs, fuse_ino_t ino, struct ck_buf *out)
{
	struct ck_node n;

	if (fs->options->noxattr)
		return -ENOSYS;
	if (ck_node_find(fs, ino, &n) == 0)
		ck_tree_xattrs(&n, out);
	return 0;
}

void ck_fs_reply_value(fuse_req_t req, int rc, const struct ck_buf *value,
		       size_t size)
{
	if (rc == 0)
		rc = value->err;
	if (rc == 0 && size > 0 && size < value->len)
		rc = -ERANGE;
	if (rc)
		fuse_reply_err(req, -rc);
	else if (size == 0)
		fuse_reply_xattr(req, value->len);
	else
		fuse_reply_buf(req, value->data, value->len);
}

/* A request for such an attribute. */
struct question {
	struct ck_pool_job job; /* first: the job is the question */
	struct ck_request_time time;
	struct ck_async_fetch fetch;
	fuse_req_t req;
	fuse_ino_t ino;
	const char *name;
	size_t size;
	struct ck_buf value;
};

static void answer(fuse_req_t req, fuse_ino_t ino, const char *name,
		   size_t size)
{
	struct ck_buf value = { 0 };
	int rc = do_getxattr(fuse_req_userdata(req), ino, name, NULL, &value);

	ck_fs_reply_value(req, rc, &value, size);
	ck_buf_fini(&value);
}

/* The program was killed, or the mount ends. */
static bool is_cancelled(void *arg)
{
	const struct question *q = arg;
	const struct ck_fs *fs = fuse_req_userdata(q->req);

	return atomic_load(&fs->ends) || fuse_req_interrupted(q->req);
}

static int question_run(void *arg)
{
	struct question *q = arg;
	const struct ck_stop stop = { is_cancelled, q };

	q->value.len = 0;
	return do_getxattr(fuse_req_userdata(q->req), q->ino, q->name, &stop,
			   &q->value);
}

static void question_answer(struct question *q)
{
	int rc = ck_async_fetch_run(&q->fetch, question_run, q);

	if (rc > 0)
		return;
	ck_fs_reply_value(q->req, rc, &q->value, q->size);
	ck_async_fetch_end(&q->fetch);
	ck_buf_fini(&q->value);
	free(q);
}

static void question_retry(struct ck_async_fetch *fetch)
{
	char *at = (char *)fetch - offsetof(struct question, fetch);

	question_answer((struct question *)(void *)at);
}

static void run_question(struct ck_pool_job *job, bool ended)
{
	struct question *q = (struct question *)job;

	ck_request_time_resume(&q->time);
	if (ended) {
		fuse_reply_err(q->req, ECONNABORTED);
		free(q);
	} else {
		question_answer(q);
	}
	ck_request_time_end();
}

void ck_fs_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		    size_t size)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	const char *slow = slow_name(name);
	struct question *q = NULL;

	if (!slow) {
		answer(req, ino, name, size);
		return;
	}
	q = malloc(sizeof(*q));
	if (!q) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	*q = (struct question){
		.job.run = run_question,
		.req = req,
		.ino = ino,
		.name = slow,
		.size = size,
	};
	ck_async_fetch_init(&q->fetch, fs, req, question_retry);
	q->time = ck_request_time_take();
	ck_pool_run(compares(slow) ? fs->compare_pool : fs->pool, &q->job);
}

void ck_fs_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct ck_buf names = { 0 };
	int rc = do_listxattr(fuse_req_userdata(req), ino, &names);

	ck_fs_reply_value(req, rc, &names, size);
	ck_buf_fini(&names);
}

/* --- on a mount for writing ----------------------------------------------- */

static int do_change(const struct ck_fs *fs, fuse_ino_t ino, const char *name)
{
	struct ck_node n;

	if (fs->options->noxattr)
		return -ENOSYS;
	if (ck_node_find(fs, ino, &n) ||
	    !(ck_node_accepts(&n) || ck_node_is_scratch(&n)))
		return -EOPNOTSUPP;
	return ck_str_starts(ck_str_from(name), CK_STR(CK_XATTR_PREFIX))
		       ? 0
		       : -EOPNOTSUPP;
}

void ck_fs_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		    const char *value, size_t size, int flags)
{
	(void)value, (void)size, (void)flags;
	fuse_reply_err(req, -do_change(fuse_req_userdata(req), ino, name));
}

void ck_fs_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	fuse_reply_err(req, -do_change(fuse_req_userdata(req), ino, name));
}
