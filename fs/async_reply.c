/* SPDX-License-Identifier: MIT */
/*
 * async_reply: replies to requests that need bytes of remote files. Such a
 * request occupies no thread of the mount while it waits: the backend calls
 * back when it is done.
 *
 * Interruption: a program gets EINTR from open(2) and from a direct read(2).
 * Only a direct read carries `lock_owner`. A page-cache fill lacks it and must
 * not be interrupted: failing it would raise SIGBUS in the program, or EFAULT
 * in a system call. A fatal signal ends a read(2) in the kernel alone. A page
 * fault without read-ahead waits for the reply of the backend.
 *
 * States of a request: in the list of requests in flight; ready, when it cannot
 * be interrupted any more; answered and freed. ck_async_replies_end() waits
 * until the list is empty.
 *
 * Threads: begun by a FUSE thread, completed by the thread of the backend.
 */
#include "async_reply.h"
#include "ckptfs/memory.h"
#include <errno.h>

struct ck_async_replies {
	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	struct ck_async_reply *first;
};

struct ck_async_replies *ck_async_replies_make(void)
{
	struct ck_async_replies *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	pthread_mutex_init(&all->lock, NULL);
	pthread_cond_init(&all->changed, NULL);
	return all;
}

void ck_async_replies_free(struct ck_async_replies *all)
{
	if (!all)
		return;
	pthread_cond_destroy(&all->changed);
	pthread_mutex_destroy(&all->lock);
	free(all);
}

static void reply_interrupt(const struct ck_async_reply *l)
{
	ck_route_interrupt(&l->fs->route, l->waiter);
	if (l->segments)
		ck_stream_interrupt(l->fs->streams, l->segments);
}

/* libfuse holds the lock of the request, so it cannot be answered meanwhile. */
static void interrupted(fuse_req_t req, void *arg)
{
	const struct ck_async_reply *l = arg;

	(void)req;
	reply_interrupt(l);
}

/* Enters a request into the list, before the backend knows it. */
static void reply_begin(struct ck_async_reply *l)
{
	struct ck_async_replies *all = l->fs->async_replies;

	l->time = ck_request_time_take();
	pthread_mutex_lock(&all->lock);
	l->next = all->first;
	if (l->next)
		l->next->prev = l;
	all->first = l;
	pthread_mutex_unlock(&all->lock);
	if (l->may_end)
		fuse_req_interrupt_func(l->req, interrupted, l);
}

/* The request is answered next, and cannot be interrupted any more. */
static void reply_ready(const struct ck_async_reply *l)
{
	if (l->may_end)
		fuse_req_interrupt_func(l->req, NULL, NULL);
}

/* The request was answered: the mount may end. */
static void reply_end(struct ck_async_reply *l)
{
	struct ck_async_replies *all = l->fs->async_replies;

	ck_request_time_count(&l->time);
	pthread_mutex_lock(&all->lock);
	if (l->prev)
		l->prev->next = l->next;
	else
		all->first = l->next;
	if (l->next)
		l->next->prev = l->prev;
	pthread_cond_broadcast(&all->changed);
	pthread_mutex_unlock(&all->lock);
}

void ck_async_replies_end(struct ck_fs *fs)
{
	struct ck_async_replies *all = fs->async_replies;

	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	for (struct ck_async_reply *l = all->first; l; l = l->next)
		reply_interrupt(l);
	while (all->first)
		pthread_cond_wait(&all->changed, &all->lock);
	pthread_mutex_unlock(&all->lock);
}

/* --- read ahead ----------------------------------------------------------- */

static void stream_hold(struct ck_stream *s)
{
	struct ck_handle *h = s->reader;

	atomic_fetch_add(&h->refs, 1);
}

static void stream_drop(struct ck_stream *s)
{
	struct ck_handle *h = s->reader;

	ck_handle_put(h->fs, h);
}

int ck_async_streams_make(struct ck_fs *fs)
{
	const struct ck_hosts_options *hosts = &fs->options->hosts;
	const struct ck_streams_options o = { .route = &fs->route,
					      .segment = hosts->segment,
					      .cache = hosts->cache,
					      .hold = stream_hold,
					      .drop = stream_drop };

	return hosts->cache ? ck_streams_make(&o, &fs->streams) : 0;
}

/* --- reads ---------------------------------------------------------------- */

struct async_read {
	struct ck_async_reply reply; /* first */
	struct ck_read read;
	struct ck_stream_read segments;
	struct ck_handle *handle;
	size_t size; /* as the kernel requested it */
};

/* For smaller reads malloc() is cheaper than new pages. */
enum { PAGES_LEAST = 128 << 10 };

static void *bytes_alloc(size_t len)
{
	return len < PAGES_LEAST ? malloc(len) : ck_pages_alloc(len);
}

static void bytes_free(void *bytes, size_t len)
{
	if (len < PAGES_LEAST)
		free(bytes);
	else
		ck_pages_free(bytes, len);
}

static void answer_end(struct async_read *l)
{
	struct ck_handle *h = l->handle;

	ck_handle_put(h->fs, h);
	reply_end(&l->reply);
	free(l);
}

static void done(struct ck_read *r, int rc)
{
	struct async_read *l = r->arg;
	struct ck_handle *h = l->handle;

	reply_ready(&l->reply);
	/* Other reads were noted when they turned out to be remote. */
	if (h->fs->streams && ck_route_gathers(&h->fs->route))
		ck_stream_note(h->fs->streams, &h->remote, r, r->remote);
	ck_handle_reply(l->reply.req, l->handle, r, l->size, rc);
	bytes_free(r->to, r->len);
	answer_end(l);
}

/* Replies from prefetched segments without a copy. */
static void reply_segments(fuse_req_t req, const struct ck_handle *h,
			   const struct ck_read *r, struct ck_stream_read *s)
{
	struct ck_fs *fs = h->fs;

	ck_stats_answered(ck_files_stats(fs->cp->files), r->len, 0);
	fuse_reply_iov(req, s->bytes, (int)s->n);
	ck_stream_put(fs->streams, s);
}

/* Fetches the bytes directly, without read-ahead. */
static void fetch_directly(struct async_read *l)
{
	struct ck_read *r = &l->read;
	int rc = -ENOMEM;

	r->to = bytes_alloc(r->len);
	if (r->to)
		rc = ck_route_read(&l->reply.fs->route, r);
	if (rc != -EINPROGRESS)
		done(r, rc);
}

/* Prefetched segments have arrived. A failure may concern bytes outside this
 * read, so the read is then fetched directly, with a short deadline. */
static void segments_arrived(struct ck_stream_read *s, int rc)
{
	struct async_read *l = s->arg;

	if (rc) {
		l->read.short_deadline = true;
		fetch_directly(l);
		return;
	}
	reply_ready(&l->reply);
	reply_segments(l->reply.req, l->handle, &l->read, s);
	answer_end(l);
}

static struct async_read *async_read_make(fuse_req_t req, struct ck_handle *h,
					  const struct ck_read *r, size_t size,
					  bool may_end)
{
	struct async_read *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->reply = (struct ck_async_reply){ .fs = h->fs,
					    .req = req,
					    .waiter = &l->read.waiter,
					    .may_end = may_end };
	l->segments.done = segments_arrived;
	l->segments.arg = l;
	if (h->fs->streams)
		l->reply.segments = &l->segments;
	l->handle = h;
	l->size = size;
	l->read = (struct ck_read){ .from = r->from,
				    .files = ck_handle_files(h),
				    .vpos = r->vpos,
				    .len = r->len,
				    .done = done,
				    .arg = l };
	atomic_fetch_add(&h->refs, 1);
	reply_begin(&l->reply);
	return l;
}

/* segments: wait for prefetched segments in flight. */
static void read_async(fuse_req_t req, struct ck_handle *h,
		       const struct ck_read *r, size_t size, bool may_end,
		       bool segments)
{
	struct async_read *l = async_read_make(req, h, r, size, may_end);
	int rc = -ENOENT;

	if (!l) {
		ck_handle_reply(req, h, r, size, -ENOMEM);
		return;
	}
	if (segments)
		rc = ck_stream_read(h->fs->streams, &h->remote, &l->read,
				    &l->segments);
	if (rc == 0)
		segments_arrived(&l->segments, 0);
	else if (rc != -EINPROGRESS)
		fetch_directly(l);
}

/* If all data is local, replies synchronously, unless reads are gathered on a
 * GPU. */
static void read_here(fuse_req_t req, struct ck_handle *h, struct ck_read *r,
		      size_t size, bool may_end)
{
	struct ck_fs *fs = h->fs;
	int rc;

	ck_handle_note(h, r);
	if (ck_route_gathers(&fs->route)) {
		read_async(req, h, r, size, may_end, false);
		return;
	}
	r->to = ck_reply_buffer(r->len);
	rc = r->to ? ck_handle_read(h, r, may_end) : -ENOMEM;
	if (fs->streams)
		ck_stream_note(fs->streams, &h->remote, r, rc == -EREMOTE);
	if (rc == -EREMOTE)
		read_async(req, h, r, size, may_end, false);
	else
		ck_handle_reply(req, h, r, size, rc);
}

void ck_async_read(fuse_req_t req, struct ck_handle *h, struct ck_read *r,
		   size_t size, bool may_end)
{
	struct ck_streams *streams = h->fs->streams;
	struct ck_stream_read now = { .done = NULL };
	int rc = -ENOENT;

	if (streams)
		rc = ck_stream_read(streams, &h->remote, r, &now);
	if (rc == 0)
		reply_segments(req, h, r, &now);
	else if (rc == -EAGAIN)
		read_async(req, h, r, size, may_end, true);
	else
		read_here(req, h, r, size, may_end);
}

/* --- other requests ------------------------------------------------------- */

static void fetched(struct ck_header_fetch *e, int rc)
{
	struct ck_async_fetch *l = e->arg;

	l->rc = rc;
	l->again(l);
}

void ck_async_fetch_init(struct ck_async_fetch *l, struct ck_fs *fs,
			 fuse_req_t req,
			 void (*again)(struct ck_async_fetch *l))
{
	*l = (struct ck_async_fetch){
		.reply = { .fs = fs,
			   .req = req,
			   .waiter = &l->headers.waiter,
			   .may_end = true },
		.headers = { .done = fetched, .arg = l },
		.again = again,
	};
}

int ck_async_fetch_run(struct ck_async_fetch *l, int (*run)(void *arg),
		       void *arg)
{
	int rc = l->rc;

	while (rc == 0) {
		ck_fetch_begin(&l->headers.fetch);
		rc = run(arg);
		ck_fetch_end(&l->headers.fetch);
		if (rc != -EREMOTE)
			break;
		if (!l->waits)
			reply_begin(&l->reply);
		l->waits = true;
		rc = ck_route_fetch(&l->reply.fs->route, &l->headers);
		if (rc == -EINPROGRESS)
			return 1;
	}
	if (l->waits)
		reply_ready(&l->reply);
	return rc;
}

void ck_async_fetch_end(struct ck_async_fetch *l)
{
	if (l->waits)
		reply_end(&l->reply);
	ck_header_fetch_fini(&l->headers);
}
