/* SPDX-License-Identifier: MIT */
/*
 * gpu_ioctl: exports an open tensor in the memory of a GPU. The export takes
 * long, so a thread of `export_pool` makes it and replies.
 *
 * An open file holds its exports until its last close (ck_handle.exports). The
 * same request again returns the same export while its memory is still valid.
 *
 * States of a request: checked in the FUSE thread; queued in the pool; answered
 * and freed. A signal interrupts it until then.
 */
#include "gpu_ioctl_args.h"
#include "handle.h"
#include "session/pool.h"

#include <errno.h>
#include <unistd.h>

struct request {
	struct ck_pool_job job; /* first */
	struct ck_request_time time;
	fuse_req_t req;
	struct ck_handle *handle;
	struct ckptfs_gpu gpu;
	struct ck_export_request wish;
	bool has_bytes; /* the tensor has elements */
};

/* --- checks --------------------------------------------------------------- */

/* Whether the request is allowed. Fills gpu with the description of the tensor. */
static int check(fuse_req_t req, const struct ck_handle *h,
		 struct ckptfs_gpu *gpu)
{
	uid_t uid = fuse_req_ctx(req)->uid;
	int rc = ck_gpu_ioctl_check(&h->reader.file, gpu);

	if (rc)
		return rc;
	if (h->scratch || (!h->reader.file.opened && !h->reader.file.err))
		return -EINVAL;
	if (uid != 0 && uid != geteuid())
		return -EPERM;
	if (!h->fs->exports)
		return -EOPNOTSUPP;
	if (ck_root_is_gone(ck_node_root(h->fs, &h->reader.file.node)))
		return -ESTALE;
	return ck_gpu_ioctl_describe(&h->reader.file, gpu);
}

/* --- exports of a file ---------------------------------------------------- */

/* The export of an earlier request with the same arguments, if its memory is
 * still valid. */
static struct ck_export *find_had(struct ck_handle *h,
				  const struct ck_export_request *w)
{
	struct ck_gather_engine *g = h->fs->options->gather_engine;
	struct ck_handle_export *had;

	if (w->own)
		return NULL;

	pthread_mutex_lock(&h->fs->handles_lock);
	for (had = h->exports; had; had = had->next)
		if (!had->own && had->export->with_file == w->with_file &&
		    memcmp(had->export->uuid, w->uuid, sizeof(w->uuid)) == 0 &&
		    g->holds(g, had->export->memory))
			break;
	pthread_mutex_unlock(&h->fs->handles_lock);
	return had ? had->export : NULL;
}

static int keep(struct ck_handle *h, const struct ck_export_request *w,
		struct ck_export *export)
{
	struct ck_handle_export *new = calloc(1, sizeof(*new));

	if (!new)
		return -ENOMEM;
	new->export = export;
	new->own = w->own;
	pthread_mutex_lock(&h->fs->handles_lock);
	new->next = h->exports;
	h->exports = new;
	pthread_mutex_unlock(&h->fs->handles_lock);
	return 0;
}

/* --- in a thread of the pool ---------------------------------------------- */

static int get(struct request *r, struct ck_export **out)
{
	struct ck_handle *h = r->handle;
	int rc;

	*out = find_had(h, &r->wish);
	if (*out)
		return 0;
	rc = h->fs->options->gather_engine->exports->get(h->fs->exports,
							 &r->wish, out);
	if (rc)
		return rc;
	rc = keep(h, &r->wish, *out);
	if (rc)
		h->fs->options->gather_engine->exports->put(h->fs->exports,
							    *out);
	return rc;
}

static int export_tensor(struct request *r)
{
	struct ck_export *export;
	int rc;

	if (!r->has_bytes)
		return 0;
	rc = get(r, &export);
	if (rc)
		return rc;
	ck_gpu_ioctl_fill(&r->gpu, export);
	return 0;
}

static void interrupted(fuse_req_t req, void *arg)
{
	struct request *r = arg;
	struct ck_fs *fs = r->handle->fs;

	(void)req;
	fs->options->gather_engine->exports->interrupt(fs->exports, &r->wish);
}

static void request_end(struct request *r, int rc)
{
	struct ck_handle *h = r->handle;

	fuse_req_interrupt_func(r->req, NULL, NULL);
	if (rc == -ESTALE && h->reader.file.opened)
		ck_tree_file_changed(&h->reader.file);
	if (rc)
		fuse_reply_err(r->req, -rc);
	else
		fuse_reply_ioctl(r->req, 0, &r->gpu, sizeof(r->gpu));
	ck_handle_put(h->fs, h);
	ck_request_time_count(&r->time);
	free(r);
}

static void run(struct ck_pool_job *job, bool ended)
{
	struct request *r = (struct request *)job;

	request_end(r, ended ? -ECONNABORTED : export_tensor(r));
}

/* --- requests ------------------------------------------------------------- */

static void gpu_ioctl(fuse_req_t req, const struct fuse_file_info *fi,
		      const void *in, size_t in_len, size_t out_len)
{
	struct ck_handle *h = (struct ck_handle *)fi->fh;
	struct request *r;
	int rc;

	if (in_len < sizeof(r->gpu) || out_len < sizeof(r->gpu)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	r->gpu = ck_gpu_ioctl_take(in);
	rc = check(req, h, &r->gpu);
	if (rc) {
		free(r);
		fuse_reply_err(req, -rc);
		return;
	}
	r->job.run = run;
	r->req = req;
	r->handle = h;
	r->has_bytes = ck_gpu_ioctl_wish(&h->reader.file, &r->gpu, &r->wish);
	atomic_fetch_add(&h->refs, 1);
	r->time = ck_request_time_take();
	fuse_req_interrupt_func(req, interrupted, r);
	if (!ck_pool_offer(h->fs->export_pool, &r->job))
		request_end(r, -EAGAIN);
}

void ck_fs_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,
		 struct fuse_file_info *fi, unsigned flags, const void *in,
		 size_t in_len, size_t out_len)
{
	(void)arg;
	if (cmd == CKPTFS_IOC_GPU && !(flags & FUSE_IOCTL_DIR))
		gpu_ioctl(req, fi, in, in_len, out_len);
	else
		ck_fs_control_ioctl(req, ino, cmd, out_len);
}
