/* SPDX-License-Identifier: MIT */
/*
 * client_boxes: reads boxes, in the calling thread or in several. Each thread takes a piece of a
 * box that is open, or opens the next box. So large boxes are shared by threads, and data
 * files are read in the order of the request.
 */
#include "box_read.h"
#include "ckptfs/memory.h"

#include <errno.h>
#include <unistd.h>

enum { THREADS_MOST = 16 };

/* A box that threads are reading. Under the lock of the batch, but for a `r` that is in
 * use. */
struct open_box {
	struct ck_box_read r;
	uint64_t next; /* piece */
	unsigned users;
	bool used;
};

/* Boxes of one call. */
struct batch {
	/* Constant: */
	struct ckptfs *ck;
	struct ckptfs_box *boxes;
	uint64_t n;

	pthread_mutex_t lock;
	/* Under lock: */
	uint64_t next; /* box */
	struct open_box open[THREADS_MOST];
};

/* An open box with a piece that no thread has taken, or NULL. Holds the lock. */
static struct open_box *find_piece(struct batch *b)
{
	for (size_t i = 0; i < THREADS_MOST; i++)
		if (b->open[i].used && b->open[i].next < b->open[i].r.pieces)
			return &b->open[i];
	return NULL;
}

/* Each thread uses one box, so one is free. Holds the lock. */
static struct open_box *find_free(struct batch *b)
{
	size_t i = 0;

	while (b->open[i].users || b->open[i].used)
		i++;
	return &b->open[i];
}

static void box_close(struct batch *b, struct open_box *o)
{
	ck_box_read_end(&o->r);
	pthread_mutex_lock(&b->lock);
	o->used = false;
	o->users = 0;
	pthread_mutex_unlock(&b->lock);
}

/* Takes a box for the calling thread. Returns NULL if there is nothing left to do. */
static struct open_box *box_take(struct batch *b)
{
	struct ckptfs_box *box = NULL;
	struct open_box *o;
	int rc;

	pthread_mutex_lock(&b->lock);
	o = find_piece(b);
	if (!o && b->next < b->n) {
		box = &b->boxes[b->next++];
		o = find_free(b);
	}
	if (o)
		o->users++;
	pthread_mutex_unlock(&b->lock);
	if (!box)
		return o;
	rc = ck_box_read_begin(b->ck, box, &o->r);
	if (rc) {
		box->err = rc;
		o->r.pieces = 0;
	}
	pthread_mutex_lock(&b->lock);
	o->next = 0;
	o->used = true;
	pthread_mutex_unlock(&b->lock);
	return o;
}

/* Reads pieces of a box until all are taken. The last thread closes it. */
static void box_run(struct batch *b, struct open_box *o, void *stage)
{
	bool last;
	int rc = 0;

	pthread_mutex_lock(&b->lock);
	while (o->next < o->r.pieces) {
		uint64_t piece = o->next++;

		pthread_mutex_unlock(&b->lock);
		rc = ck_box_read_piece(&o->r, piece, stage);
		pthread_mutex_lock(&b->lock);
		if (rc) {
			o->r.box->err = rc;
			o->next = o->r.pieces;
		}
	}
	last = --o->users == 0;
	if (last)
		o->users = 1; /* not free before it is closed */
	pthread_mutex_unlock(&b->lock);
	if (last)
		box_close(b, o);
}

static void *run(void *arg)
{
	struct batch *b = arg;
	struct open_box *o;
	void *stage = ck_pages_alloc(CK_BOX_STAGE);

	while (stage && (o = box_take(b)))
		box_run(b, o, stage);
	ck_pages_free(stage, CK_BOX_STAGE);
	return NULL;
}

/* Runs the batch in this thread and in `more` others, as far as they can be started. */
static void run_all(struct batch *b, unsigned more)
{
	pthread_t threads[THREADS_MOST];
	unsigned n = 0;

	while (n < more && ck_thread_start(&threads[n], run, b) == 0)
		n++;
	(void)run(b);
	while (n > 0)
		pthread_join(threads[--n], NULL);
}

/* Bytes of a box as requested; more than it has if the request is wrong. */
static uint64_t bytes_of(const struct ckptfs *ck, const struct ckptfs_box *box)
{
	uint64_t i = box->fqn ? ck_client_find(ck, ck_str_from(box->fqn))
			      : box->tensor;
	const struct ckptfs_tensor *t = ckptfs_tensor_at(ck, i);
	uint64_t bytes = t ? t->itemsize : 0;

	if (!box->fqn && box->path)
		return CK_BOX_THREAD; /* a guess */
	if (!t || !box->sizes)
		return t ? t->nbytes : 0;
	for (uint32_t d = 0; d < box->ndim; d++)
		if (!ck_mul(&bytes, bytes, box->sizes[d]))
			return UINT64_MAX;
	return bytes;
}

/* Number of threads that have enough to do. */
static unsigned threads_for(const struct batch *b, unsigned wanted)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t bytes = 0, most = wanted;

	if (wanted == 0)
		most = processors > 0 ? (uint64_t)processors : 1;
	most = ck_min(most, THREADS_MOST);
	for (uint64_t i = 0; i < b->n && bytes < most * CK_BOX_THREAD; i++)
		bytes += ck_min(bytes_of(b->ck, &b->boxes[i]),
				THREADS_MOST * CK_BOX_THREAD);
	return (unsigned)ck_max(1, ck_min(most, bytes / CK_BOX_THREAD));
}

/* Sets the error of the thread to that of a box. */
static int describe(struct ckptfs *ck, struct ckptfs_box *box)
{
	struct ck_box_read r;
	int rc = box->err;
	int again = ck_box_read_begin(ck, box, &r);

	rc = ck_box_read_failed(&r, again ? again : rc);
	box->err = rc;
	ck_box_read_end(&r);
	return rc;
}

static int read_many(struct ckptfs *ck, struct ckptfs_box *boxes, uint64_t n,
		     unsigned threads)
{
	struct batch *b = calloc(1, sizeof(*b));
	bool all = false;

	for (uint64_t i = 0; i < n; i++)
		boxes[i].err = 0;
	if (b) {
		b->ck = ck;
		b->boxes = boxes;
		b->n = n;
		pthread_mutex_init(&b->lock, NULL);
		run_all(b, threads == 1 ? 0 : threads_for(b, threads) - 1);
		pthread_mutex_destroy(&b->lock);
		all = b->next == n;
		free(b);
	}
	if (!all)
		return ck_client_fail(-ENOMEM, "out of memory");
	for (uint64_t i = 0; i < n; i++)
		if (boxes[i].err)
			return describe(ck, &boxes[i]);
	return 0;
}

int ckptfs_read_box(struct ckptfs *ck, struct ckptfs_box *box)
{
	CK_CLIENT_CALL();

	return read_many(ck, box, 1, 1);
}

int ckptfs_read_many(struct ckptfs *ck, struct ckptfs_box *boxes, uint64_t n,
		     unsigned threads)
{
	CK_CLIENT_CALL();

	return read_many(ck, boxes, n, threads);
}

int ckptfs_check_tensor(struct ckptfs *ck, uint64_t i)
{
	CK_CLIENT_CALL();
	struct ckptfs_box box = { .tensor = i };
	struct ck_box_read r;
	int rc = ck_box_read_begin(ck, &box, &r);

	rc = rc ? ck_box_read_failed(&r, rc) : ck_box_read_check(&r);
	ck_box_read_end(&r);
	return rc;
}

void *ckptfs_alloc(size_t size)
{
	void *memory = ck_pages_alloc(size);

	if (!memory)
		(void)ck_client_fail(-ENOMEM, "out of memory: %zu bytes", size);
	return memory;
}

void ckptfs_free(void *memory, size_t size)
{
	ck_pages_free(memory, size);
}
