/* SPDX-License-Identifier: MIT */
/*
 * tensor_pass: worker threads, one of them the caller's, take rows from a sorted list. A block
 * stays in the cache of the processor between the read and the consumer; blocks of files on other
 * hosts are larger, since each is a request. Under the lock: the next row, and the first error.
 */
#include "tensor_pass.h"
#include "base/system/process.h"
#include "element_reader.h"

enum {
	BLOCK = 512 << 10,
	BLOCK_REMOTE = 8 << 20,
};

/* Bytes of the shortest range of a long tensor; tests have fewer. Ranges begin at multiples of
 * RANGE_UNIT, which is a multiple of the size of each element. */
#ifndef CK_PASS_RANGE
#define CK_PASS_RANGE (128 << 20)
#endif
enum { RANGE_UNIT = 1 << 10 };

/* Where a row lies in the files of the first source. */
struct position {
	uint64_t fpos;
	uint32_t file;
	size_t row;
};

struct pass {
	/* Constant once there are several threads: */
	const struct ck_pass *p;
	struct position *order;
	size_t block;
	pthread_mutex_t lock;
	/* Under lock: */
	size_t next; /* in `order` */
	int rc;	     /* first error that ends the pass */
};

/* --- order ------------------------------------------------------------------------ */

static struct position position_of(const struct ck_catalog *c, uint32_t tensor,
				   size_t row)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	struct position at = { UINT64_MAX, CK_NO_FILE, row };
	const struct ck_item *item;

	if (t->nchunks) {
		item = ck_catalog_item(c, t->chunk);
		at.file = item->file;
		at.fpos = item->fpos;
	}
	return at;
}

static int position_cmp(const void *a, const void *b)
{
	const struct position *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->fpos != y->fpos)
		return x->fpos < y->fpos ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static int order_make(struct pass *s)
{
	const struct ck_pass *p = s->p;

	s->order = calloc(p->n + 1, sizeof(*s->order));
	if (!s->order)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++)
		s->order[i] = position_of(p->from[0].c, p->rows[i].tensor[0],
					  i);
	qsort(s->order, p->n, sizeof(*s->order), position_cmp);
	return 0;
}

uint64_t ck_pass_tensor_bytes(const struct ck_catalog *c, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);

	return t->err ? 0 : t->nbytes;
}

/* --- ranges ------------------------------------------------------------------------- */

static uint64_t range_len(uint64_t bytes)
{
	uint64_t part = bytes / CK_PASS_RANGES + (bytes % CK_PASS_RANGES > 0);

	part = ck_max(part, CK_PASS_RANGE);
	return (part + RANGE_UNIT - 1) / RANGE_UNIT * RANGE_UNIT;
}

size_t ck_pass_ranges(uint64_t bytes)
{
	uint64_t len = range_len(bytes);

	return (size_t)ck_max(1, (bytes + len - 1) / len);
}

size_t ck_pass_rows_make(const struct ck_pass_row *row, uint64_t bytes,
			 struct ck_pass_row *out)
{
	uint64_t len = range_len(bytes);
	size_t n = ck_pass_ranges(bytes);

	for (size_t i = 0; i < n; i++) {
		out[i] = *row;
		out[i].begin = i * len;
		out[i].end = ck_min((i + 1) * len, bytes);
	}
	return n;
}

/* --- one tensor ------------------------------------------------------------------- */

struct worker {
	struct pass *s;
	uint8_t *blocks[CK_PASS_SOURCES]; /* s->block bytes each */
	struct ck_element_reader readers[CK_PASS_SOURCES];
};

/* Reads one block of each source. *from: the source that failed. */
static int block_read(struct worker *w, const struct ck_pass_block *b,
		      unsigned *from)
{
	const struct ck_pass *p = w->s->p;
	int rc = 0;

	for (unsigned i = 0; i < p->nfrom && rc == 0; i++) {
		*from = i;
		rc = ck_elements_read(&w->readers[i], p->from[i].route, b->at,
				      b->len, w->blocks[i]);
	}
	return rc;
}

static int row_open(struct worker *w, size_t row, unsigned *from)
{
	const struct ck_pass *p = w->s->p;
	int rc = 0;

	for (unsigned i = 0; i < p->nfrom && rc == 0; i++) {
		uint32_t tensor = p->rows[row].tensor[i];
		const struct ck_tensor *t = ck_catalog_tensor(p->from[i].c,
							      tensor);

		*from = i;
		rc = -t->err;
		if (rc == 0)
			rc = ck_elements_open(&w->readers[i], tensor, NULL,
					      t->nbytes);
	}
	return rc;
}

/* Passes the blocks of an open row. *fatal: an error of the consumer. */
static int row_pass(struct worker *w, size_t row, unsigned *from, int *fatal)
{
	const struct ck_pass *p = w->s->p;
	const struct ck_pass_row *r = &p->rows[row];
	uint64_t bytes =
		r->end ? r->end
		       : ck_catalog_tensor(p->from[0].c, r->tensor[0])->nbytes;
	struct ck_pass_block b = { .row = row, .at = r->begin };
	int rc = 0, taken = 0;

	for (unsigned i = 0; i < p->nfrom; i++)
		b.bytes[i] = w->blocks[i];
	for (; b.at < bytes && rc == 0 && taken == 0; b.at += b.len) {
		b.len = ck_min(w->s->block, bytes - b.at);
		rc = block_read(w, &b, from);
		if (rc == 0)
			taken = p->take(p->arg, &b);
		if (p->progress)
			p->progress(p->progress_arg, b.len);
	}
	*fatal = taken < 0 ? taken : 0;
	return rc;
}

static int row_run(struct worker *w, size_t row)
{
	const struct ck_pass *p = w->s->p;
	unsigned from = 0;
	int fatal = p->begin ? p->begin(p->arg, row) : 0, rc = 0;

	if (fatal)
		return fatal < 0 ? fatal : 0;
	rc = row_open(w, row, &from);
	if (rc == 0)
		rc = row_pass(w, row, &from, &fatal);
	for (unsigned i = 0; i < p->nfrom; i++)
		ck_elements_close(&w->readers[i]);
	p->end(p->arg, row, from, rc);
	return ck_is_shortage(rc) ? rc : fatal;
}

/* --- threads ---------------------------------------------------------------------- */

/* Takes the next row. False if all are taken, or the pass ends. */
static bool row_take(struct pass *s, int rc, size_t *row)
{
	bool found;

	pthread_mutex_lock(&s->lock);
	if (rc && s->rc == 0)
		s->rc = rc;
	found = s->rc == 0 && s->next < s->p->n;
	if (found)
		*row = s->order[s->next++].row;
	pthread_mutex_unlock(&s->lock);
	return found;
}

static void *work(void *arg)
{
	struct worker w = { .s = arg };
	const struct ck_pass *p = w.s->p;
	size_t row;
	int rc = 0;

	for (unsigned i = 0; i < p->nfrom; i++) {
		w.readers[i].cp = p->from[i].cp;
		w.readers[i].c = p->from[i].c;
		w.blocks[i] = aligned_alloc(64, w.s->block);
		if (!w.blocks[i])
			rc = -ENOMEM;
	}
	while (row_take(w.s, rc, &row))
		rc = row_run(&w, row);
	for (unsigned i = 0; i < p->nfrom; i++)
		free(w.blocks[i]);
	return NULL;
}

static unsigned threads_of(const struct ck_pass *p)
{
	unsigned n = p->threads ? p->threads : ck_processors();

	n = (unsigned)ck_min(n, CK_PASS_THREADS);
	return (unsigned)ck_max(1, ck_min(n, p->n));
}

int ck_pass_run(const struct ck_pass *p)
{
	struct pass s = { .p = p, .block = BLOCK };
	int rc = ck_sigbus_install();

	if (rc == 0)
		rc = order_make(&s);
	for (unsigned i = 0; i < p->nfrom; i++)
		if (p->from[i].route && p->from[i].route->remote)
			s.block = BLOCK_REMOTE;
	pthread_mutex_init(&s.lock, NULL);
	if (rc == 0)
		ck_workers_run(threads_of(p), work, &s, 0);
	pthread_mutex_destroy(&s.lock);
	free(s.order);
	return rc ? rc : s.rc;
}
