/* SPDX-License-Identifier: MIT */
/*
 * gpucheck_tiles: copies with all pairs of alignments and many lengths, in nests of several forms
 * and with changes of values (enum ck_change), and random copies of up to eight loops. Each byte is
 * compared with the result of the processor.
 */
#include "gpucheck.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum {
	SLOT = 4 << 20,
	ROOM = SLOT / 2, /* of a batch for bytes; the rest for tiles */
	PLACES = 16,
	FORMS = 4,	   /* nests of 0 to 2 loops, and a transposed one */
	COPIES_MOST = 512, /* of a batch */
	LOOPS = CK_NEST_LOOPS,
	SEED = 13,
};

/* One copy of a batch, by its offsets there. */
struct copied {
	uint64_t src, dst, run;
	struct ck_loop loops[LOOPS];
	uint32_t nloops;
	const struct ck_dtype *dtype;
	uint8_t change;
};

struct batch {
	struct ck_gpucheck *check;
	struct ck_pipe pipe;
	struct ck_pipe_batch sent;
	struct ck_tiles tiles;
	struct copied copies[COPIES_MOST];
	uint32_t n;
	uint64_t filled, down;
	uint8_t *want;
	uint64_t cases, wrong;
};

/* --- the expected result ------------------------------------------------------------------ */

static void unit_change(const struct copied *c, const uint8_t *from,
			uint8_t *to, uint64_t i)
{
	unsigned unit = c->dtype->unit;
	bool imaginary = c->dtype->is_complex && i % 2;
	bool negated = !(c->change & CK_CHANGE_NEG) !=
		       !(c->change & CK_CHANGE_CONJ && imaginary);
	unsigned carry = 1;

	for (unsigned k = 0; k < unit; k++)
		to[k] = from[c->change & CK_CHANGE_SWAP ? unit - 1 - k : k];
	if (negated && c->dtype->is_float)
		to[unit - 1] ^= 0x80;
	for (unsigned k = 0; negated && !c->dtype->is_float && k < unit; k++) {
		carry += (uint8_t)~to[k];
		to[k] = (uint8_t)carry;
		carry >>= 8;
	}
}

static void run_define(const struct copied *c, const uint8_t *from, uint8_t *to)
{
	unsigned unit = c->dtype->unit;

	if (!c->change) {
		memcpy(to, from, c->run);
		return;
	}
	for (uint64_t i = 0; i < c->run / unit; i++)
		unit_change(c, from + i * unit, to + i * unit, i);
}

/* The offsets of a run, from the index of each loop. */
struct place {
	uint64_t at[LOOPS];
	uint64_t src, dst;
};

/* Advances to the next run, the innermost loop first. False after the last one. */
static bool place_next(const struct copied *c, struct place *p)
{
	for (uint32_t k = c->nloops; k-- > 0;) {
		const struct ck_loop *l = &c->loops[k];

		p->src += l->src;
		p->dst += l->dst;
		if (++p->at[k] < l->count)
			return true;
		p->src -= l->count * l->src;
		p->dst -= l->count * l->dst;
		p->at[k] = 0;
	}
	return false;
}

static void copy_define(const struct copied *c, const uint8_t *from,
			uint8_t *to)
{
	struct place p = { .src = c->src, .dst = c->dst };

	do
		run_define(c, from + p.src, to + p.dst);
	while (place_next(c, &p));
}

/* --- batches ------------------------------------------------------------------------------- */

static void rest_a_little(void)
{
	const struct timespec t = { .tv_nsec = 10000 };

	nanosleep(&t, NULL);
}

/* Counts wrong bytes of runs; bytes between the runs are ignored. */
static uint64_t count_wrong(const struct batch *b)
{
	uint64_t wrong = 0;

	for (uint32_t n = 0; n < b->n; n++) {
		const struct copied *c = &b->copies[n];
		struct place p = { .dst = c->dst };
		bool same = true;

		do
			same &= memcmp(b->want + p.dst, b->sent.bytes + p.dst,
				       c->run) == 0;
		while (place_next(c, &p));
		wrong += !same;
	}
	return wrong;
}

/* Runs the batch and compares its result. */
static int flush(struct batch *b)
{
	int rc;

	if (b->n == 0)
		return 0;
	rc = ck_pipe_send(&b->pipe, &b->sent, b->filled, b->down);
	while (rc == 0) {
		rc = ck_pipe_is_done(&b->pipe, &b->sent);
		if (rc == 0)
			rest_a_little();
	}
	if (rc == 1)
		b->wrong += count_wrong(b);
	ck_pipe_put(&b->sent);
	b->cases += b->n;
	b->sent = (struct ck_pipe_batch){ .tiles = &b->tiles };
	b->n = 0;
	b->filled = b->down = 0;
	ck_tiles_clear(&b->tiles);
	return rc == 1 ? 0 : rc;
}

static int begin(struct batch *b)
{
	int rc = ck_pipe_take(&b->pipe, 0, &b->sent);

	for (uint64_t i = 0; rc == 0 && i < ROOM; i++)
		b->sent.fill[i] = (uint8_t)(i * 2654435761u >> 13);
	return rc;
}

/* The size of the range from the first to the last byte of a copy. */
static uint64_t size_of(const struct copied *c, bool dst)
{
	uint64_t size = c->run;

	for (uint32_t k = 0; k < c->nloops; k++)
		size += (c->loops[k].count - 1) *
			(dst ? c->loops[k].dst : c->loops[k].src);
	return size;
}

static int add(struct batch *b, struct copied c)
{
	struct ck_tile_copy copy;
	uint64_t src = (b->filled + 15) / 16 * 16 + c.src;
	uint64_t dst = (b->down + 15) / 16 * 16 + c.dst;
	int rc = 0;

	if (b->n == COPIES_MOST || src + size_of(&c, false) > ROOM ||
	    dst + size_of(&c, true) > ROOM) {
		rc = flush(b);
		src = c.src;
		dst = c.dst;
	}
	if (rc == 0 && b->n == 0)
		rc = begin(b);
	if (rc)
		return rc;
	c.src = src;
	c.dst = dst;
	b->copies[b->n++] = c;
	b->filled = src + size_of(&c, false);
	b->down = dst + size_of(&c, true);
	copy_define(&c, b->sent.fill, b->want);
	copy = (struct ck_tile_copy){ .src = b->sent.staged + src,
				      .dst = b->sent.result + dst,
				      .run = c.run,
				      .nloops = c.nloops,
				      .loops = c.loops,
				      .dtype = c.dtype,
				      .change = c.change };
	return ck_tiles_add(&b->tiles, &copy);
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Rows of a matrix, of two matrices, and a transposed matrix. */
static void set_form(struct copied *c, unsigned form)
{
	uint64_t wide = c->run + c->src + 3, tall = c->run;
	const struct ck_loop rows = { 5, tall, wide };

	c->nloops = form < 2 ? form : 2;
	if (form == 1 || form == 3)
		c->loops[0] = rows;
	if (form == 2) {
		c->loops[0] = (struct ck_loop){ 3, 5 * tall + 16, 5 * wide };
		c->loops[1] = rows;
	}
	if (form == 3)
		c->loops[1] = (struct ck_loop){ 4, 5 * tall, 5 * wide + 1 };
}

/* Copies without changes of values: all alignments and lengths. */
static int add_plain(struct batch *b)
{
	static const uint64_t runs[] = { 1,   2,   3,	 4,    6,    8,
					 12,  16,  24,	 48,   64,   80,
					 100, 256, 1000, 4096, 70000 };
	int rc = 0;

	for (unsigned i = 0; i < CK_ARRAY_SIZE(runs) && rc == 0; i++)
		for (unsigned at = 0; at < PLACES * PLACES * FORMS && rc == 0;
		     at++) {
			struct copied c = { .src = at % PLACES,
					    .dst = at / PLACES % PLACES,
					    .run = runs[i],
					    .dtype = ck_dtype_at(0) };

			if (b->check->quick && at % 7 != i % 7)
				continue;
			set_form(&c, at / PLACES / PLACES);
			rc = add(b, c);
		}
	return rc;
}

static int add_changed(struct batch *b)
{
	static const char *const names[] = { "bfloat16",  "float32",
					     "float64",	  "int8",
					     "int32",	  "complex64",
					     "complex128" };
	int rc = 0;

	for (unsigned i = 0; i < CK_ARRAY_SIZE(names) && rc == 0; i++)
		for (unsigned at = 0; at < 7 * PLACES * FORMS && rc == 0;
		     at++) {
			uint8_t id = ck_dtype_by_name(ck_str_from(names[i]));
			struct copied c = { .src = at / 7 % PLACES,
					    .dst = at / 7 * 5 % PLACES,
					    .dtype = ck_dtype_at(id),
					    .change = (uint8_t)(at % 7 + 1) };

			c.run = (uint64_t)c.dtype->size * (1 + at % 9);
			set_form(&c, at / 7 / PLACES);
			rc = add(b, c);
		}
	return rc;
}

/* A random number below n; n is not 0. */
static uint64_t below(uint64_t *state, uint64_t n)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (*state >> 11) % n;
}

/* Loops that write no byte twice: each step exceeds the range of the inner loops. */
static void random_loops(struct copied *c, uint64_t *state)
{
	uint64_t src = c->run, dst = c->run,
		 unit = c->change ? c->dtype->unit : 1;

	c->nloops = (uint32_t)below(state, LOOPS + 1);
	for (uint32_t k = c->nloops; k-- > 0;) {
		struct ck_loop *l = &c->loops[k];

		l->count = 1 + below(state, c->nloops > 4 ? 2 : 4);
		l->src = src + below(state, 20) * unit;
		l->dst = dst + below(state, 20) * unit;
		src += (l->count - 1) * l->src;
		dst += (l->count - 1) * l->dst;
	}
}

/* Adds random copies up to the number of cases. */
static int add_random(struct batch *b)
{
	uint64_t state = SEED;
	int rc = 0;

	while (rc == 0 && b->cases + b->n < b->check->cases) {
		struct copied c = { .src = below(&state, PLACES),
				    .dst = below(&state, PLACES),
				    .run = 1 + below(&state,
						     1 + below(&state, 300)),
				    .dtype = ck_dtype_at(0) };

		if (below(&state, 4) == 0) {
			c.dtype = ck_dtype_at(ck_dtype_by_name(ck_str_from(
				below(&state, 2) ? "complex64" : "int16")));
			c.change = (uint8_t)(1 + below(&state, 7));
			c.run = c.dtype->size * (1 + c.run / c.dtype->size);
		}
		random_loops(&c, &state);
		rc = add(b, c);
	}
	return rc;
}

static int check(struct batch *b, struct ck_diag *d)
{
	const struct ck_pipe_sizes sizes = { SLOT, 1, 1, 0 };
	int rc = ck_pipe_make(b->check->device, &sizes, &b->pipe, d);

	if (rc == 0)
		rc = add_plain(b);
	if (rc == 0)
		rc = add_changed(b);
	if (rc == 0)
		rc = add_random(b);
	if (rc == 0)
		rc = flush(b);
	ck_pipe_fini(&b->pipe);
	return rc;
}

void ck_gpucheck_tiles(struct ck_gpucheck *c)
{
	ck_auto_free struct batch *b = calloc(1, sizeof(*b));
	ck_auto_free uint8_t *want = calloc(1, ROOM);
	struct ck_diag d = { 0 };
	char more[96];
	int rc = -ENOMEM;

	if (b && want) {
		b->check = c;
		b->want = want;
		b->sent.tiles = &b->tiles;
		rc = check(b, &d);
		ck_tiles_fini(&b->tiles);
	}
	if (rc) {
		ck_gpucheck_fail(c, "tiles",
				 d.text[0] ? d.text : strerror(-rc));
		return;
	}
	(void)snprintf(more, sizeof(more),
		       ",\"cases\":%" PRIu64 ",\"wrong\":%" PRIu64, b->cases,
		       b->wrong);
	ck_gpucheck_say(c, "tiles", b->wrong == 0, more);
}
