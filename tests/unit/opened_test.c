/* SPDX-License-Identifier: MIT */
/*
 * opened: parts are located when they are touched, once, and again where an error
 * of the moment was in the way; a file of 100,000 parts opens at once.
 */
#include "world.h"

#include <pthread.h>
#include <time.h>

/* --- many parts ----------------------------------------------------------------- */

enum { MANY = 100000, HEADER = 8, ROW = 4 };

/* As a file of many tensors would be: nothing is stored for each but where it
 * begins. Each is a row of the tensor of a world. */
static struct ck_part computed(const struct ck_slice *s, uint32_t i)
{
	static const uint64_t rows[2][4] = { { 0, 0, 1, 4 }, { 1, 0, 1, 4 } };

	(void)s;
	if (i == 0)
		return (struct ck_part){ .kind = CK_PART_MADE };
	return (struct ck_part){ .kind = CK_PART_BOX, .at.box = rows[i % 2] };
}

static int header(const struct ck_slice *s, uint32_t number, struct ck_buf *out)
{
	(void)s;
	eq_u64(number, 0);
	ck_buf_text(out, "headers.");
	return 0;
}

/* Two rows of four bytes, row 0 in f0, row 1 in f1. */
static struct world *two_rows(void)
{
	static const int64_t box[] = { 0, 0, 1, 4, 1, 0, 1, 4 };
	struct world *w = world_make();
	struct boxes *b = &w->b;

	b->ndim = 2;
	b->item = 1;
	b->n = 2;
	b->dense = true;
	b->shape[0] = 2;
	b->shape[1] = 4;
	memcpy(b->box, box, sizeof(box));
	b->order[1] = 1;
	make_world(w, dtype_of("uint8"));
	w->extents[1].file = 1;
	return w;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void test_many_parts(void)
{
	struct world *w = two_rows();
	uint64_t *begins = calloc(MANY + 2, sizeof(*begins));
	uint8_t bytes[16];
	struct ck_open_slice *o;
	double begin;

	for (uint32_t i = 0; i <= MANY; i++)
		begins[i + 1] = HEADER + (uint64_t)i * ROW;
	w->slice = (struct ck_slice){ .size = begins[MANY + 1],
				      .nparts = MANY + 1,
				      .begins = begins,
				      .part = computed,
				      .make = header,
				      .free = world_keep };
	begin = seconds();
	o = world_open(w);
	eq_err(world_read_into(w, o, HEADER + 70001 * ROW + 1, 1, bytes), 0);
	printf("# open and first byte of %d parts: %.1f us\n", MANY,
	       (seconds() - begin) * 1e6);
	eq_u64(w->located, 1);
	ok(bytes[0] == content[0][1]);
	eq_err(world_read_into(w, o, HEADER + 70001 * ROW, 4, bytes), 0);
	eq_u64(w->located, 1);
	eq_err(world_read_into(w, o, HEADER + 5 * ROW - 2, 8, bytes), 0);
	eq_u64(w->located, 4);
	ok(memcmp(bytes, content[1] + 2, 2) == 0 &&
	   memcmp(bytes + 2, content[0], 4) == 0 &&
	   memcmp(bytes + 6, content[1], 2) == 0);
	eq_err(world_read_into(w, o, 2, 10, bytes), 0);
	ok(memcmp(bytes, "aders.", 6) == 0 &&
	   memcmp(bytes + 6, content[1], 4) == 0);
	eq_err(world_read_into(w, o, w->slice.size - 1, 1, bytes), 0);
	ok(bytes[0] == content[0][3] || bytes[0] == content[1][3]);
	eq_err(world_read_into(w, o, w->slice.size - 1, 2, bytes), -EINVAL);
	ck_open_slice_free(o);
	free(begins);
	world_free(w);
}

/* --- errors of the moment ------------------------------------------------------- */

struct transient {
	struct ck_locator locator;
	struct world *w;
	struct ck_layout bad;
	struct ck_extent extents[2];
	unsigned asked, put,
		answers; /* answers: bad ones before the good one */
};

static int passing_get(struct ck_locator *l, uint32_t tensor,
		       const uint64_t *window, const struct ck_layout **out)
{
	struct transient *p = (struct transient *)l;
	unsigned asked = __atomic_fetch_add(&p->asked, 1, __ATOMIC_RELAXED);

	(void)tensor, (void)window;
	*out = asked < p->answers ? &p->bad : &p->w->layout;
	return 0;
}

static void passing_put(struct ck_locator *l, const struct ck_layout *layout)
{
	struct transient *p = (struct transient *)l;

	(void)layout;
	__atomic_fetch_add(&p->put, 1, __ATOMIC_RELAXED);
}

static struct ck_open_slice *passing_open(struct transient *p, struct world *w)
{
	struct ck_open_slice *o;

	*p = (struct transient){ .locator = { .get = passing_get,
					      .put = passing_put },
				 .w = w,
				 .bad = w->layout,
				 .answers = 2 };
	memcpy(p->extents, w->extents, sizeof(p->extents));
	p->extents[1].err = EIO;
	p->extents[1].transient = true;
	p->bad.extents = p->extents;
	p->bad.transient = true;
	add_part(w, (struct world_part){ .is_box = true, .len = 8 });
	if (ck_open_slice_make(&w->slice, &p->locator, &o))
		abort();
	return o;
}

/* Only a read that needs the box asks again; what served no better is let go, the
 * rest is kept until the end. */
static void test_asked_again(void)
{
	struct world *w = two_rows();
	uint8_t bytes[8];
	struct transient p;
	struct ck_open_slice *o = passing_open(&p, w);

	eq_err(world_read_into(w, o, 0, 4, bytes), 0);
	eq_u64(p.asked, 1);
	eq_err(world_read_into(w, o, 0, 8, bytes), -EIO);
	eq_u64(p.asked, 2);
	eq_u64(p.put, 1);
	eq_err(world_read_into(w, o, 0, 8, bytes), 0);
	eq_u64(p.asked, 3);
	ok(memcmp(bytes + 4, content[1], 4) == 0);
	eq_err(world_read_into(w, o, 4, 4, bytes), 0);
	eq_u64(p.asked, 3);
	eq_u64(p.put, 1);
	ck_open_slice_free(o);
	eq_u64(p.put, 3);
	world_free(w);
}

/* An outage of 1,000 reads leaves one layout. */
static void test_outage_costs_nothing(void)
{
	struct world *w = two_rows();
	uint8_t bytes[8];
	struct transient p;
	struct ck_open_slice *o = passing_open(&p, w);
	unsigned wrong = 0;

	p.answers = 2000;
	for (unsigned i = 0; i < 1000; i++)
		wrong += world_read_into(w, o, 0, 8, bytes) != -EIO;
	eq_u64(wrong, 0);
	eq_u64(p.asked, 1001);
	eq_u64(p.put, 1000);
	ck_open_slice_free(o);
	world_free(w);
}

struct crowd {
	struct world *w;
	struct ck_open_slice *o;
	unsigned wrong;
};

static void *crowd_read(void *arg)
{
	struct crowd *c = arg;
	const unsigned reads = tap_is_long() ? 2000 : 200;
	uint8_t bytes[8];

	for (unsigned i = 0; i < reads; i++) {
		int rc = world_read_into(c->w, c->o, 0, 8, bytes);

		if (rc != -EIO && (rc || memcmp(bytes + 4, content[1], 4) != 0))
			__atomic_fetch_add(&c->wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Whatever many threads get, each layout is put back once. */
static void test_asked_by_many(void)
{
	unsigned wrong = 0;

	for (unsigned round = 0; round < 50; round++) {
		struct world *w = two_rows();
		struct transient p;
		struct crowd c = { w, passing_open(&p, w), 0 };
		pthread_t threads[4];

		p.answers = 6;
		for (unsigned i = 0; i < 4; i++)
			if (pthread_create(&threads[i], NULL, crowd_read, &c))
				abort();
		for (unsigned i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		ck_open_slice_free(c.o);
		wrong += c.wrong || p.put != p.asked;
		world_free(w);
	}
	eq_u64(wrong, 0);
}

int main(void)
{
	if (!world_begin())
		return 2;
	test_many_parts();
	test_asked_again();
	test_outage_costs_nothing();
	test_asked_by_many();
	return world_end();
}
