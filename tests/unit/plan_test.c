/* SPDX-License-Identifier: MIT */
/*
 * plan: a plan copies every byte of a range from its origin exactly once, and touches no
 * other byte. Plans for random tensors are compared with brute force. Handwritten cases
 * check the shapes of plans that speed depends on.
 */
#include "boxes.h"
#include "ckptfs/io.h"

#include <time.h>

enum { BYTES = BOXES_ELEMENTS * 16 };

/* The source of one byte. */
struct origin {
	uint32_t chunk;
	bool known;
	uint64_t src;
};

/* --- brute force --------------------------------------------------------- */

/* Finds the origins of all bytes of the request. Returns the number of known ones. */
static uint64_t define(struct boxes *b, const struct ck_request *r,
		       struct origin *want)
{
	uint64_t known = 0;
	uint64_t index[BOXES_DIMS];
	uint64_t src = 0;
	int64_t chunk = -1;

	for (uint64_t pos = r->begin; pos < r->end; pos++) {
		struct origin *o = &want[pos - r->begin];

		if (pos == r->begin || pos % r->item == 0) {
			boxes_index(r->ndim, r->off, r->size, pos / r->item,
				    index);
			chunk = boxes_find(b, index, &src);
		}
		o->known = chunk >= 0;
		o->chunk = (uint32_t)chunk;
		o->src = src + pos % r->item;
		known += o->known;
	}
	return known;
}

/* Removes one run from the list of expected bytes. False if a byte is not expected. */
static bool take_run(struct origin *want, uint64_t len,
		     const struct ck_plan_op *c, uint64_t dst, uint64_t src)
{
	if (dst > len || c->run > len - dst)
		return false;
	for (uint64_t i = 0; i < c->run; i++) {
		struct origin *o = &want[dst + i];

		if (!o->known || o->chunk != c->chunk || o->src != src + i)
			return false;
		o->known = false; /* only once */
	}
	return true;
}

static bool take_copy(struct origin *want, uint64_t len,
		      const struct ck_plan_op *c, const struct ck_loop *loops)
{
	uint64_t runs = 1;

	for (uint32_t k = 0; k < c->nloops; k++)
		runs *= loops[k].count;
	if (c->run == 0 || runs == 0 || runs > len)
		return false;
	for (uint64_t i = 0; i < runs; i++) {
		uint64_t n = i, dst = c->dst, src = c->src;

		for (uint32_t k = c->nloops; k > 0 && k--;) {
			dst += n % loops[k].count * loops[k].dst;
			src += n % loops[k].count * loops[k].src;
			n /= loops[k].count;
		}
		if (!take_run(want, len, c, dst, src))
			return false;
	}
	return true;
}

/* True if the plan agrees with brute force. */
static bool is_right(struct boxes *b, const struct ck_request *r,
		     const struct ck_plan *plan)
{
	static struct origin want[BYTES];
	uint64_t len = r->end > r->begin ? r->end - r->begin : 0;
	uint64_t known = define(b, r, want);
	uint64_t runs = 0, shortest = UINT64_MAX;

	if (plan->covered != known)
		return false;
	for (size_t i = 0; i < plan->ncopies; i++) {
		const struct ck_plan_op *c = &plan->copies[i];
		const struct ck_loop *loops = plan->loops + c->loop;
		uint64_t n = 1;

		if (c->loop + c->nloops > plan->nloops ||
		    !take_copy(want, len, c, loops))
			return false;
		for (uint32_t k = 0; k < c->nloops; k++)
			n *= loops[k].count;
		runs += n;
		shortest = c->run < shortest ? c->run : shortest;
	}
	for (uint64_t i = 0; i < len; i++)
		if (want[i].known)
			return false;
	return runs == plan->runs && shortest == plan->shortest;
}

/* --- the comparison detects wrong plans ---------------------------------- */

enum { NLIES = 9 };

/* Makes a plan wrong. False if the plan has no part that can be changed this way. */
static bool lie(struct ck_plan *plan, unsigned how, uint64_t *random)
{
	struct ck_plan_op *c;
	struct ck_loop *loop;

	if (!plan->ncopies)
		return false;
	c = &plan->copies[boxes_below(random, plan->ncopies)];
	loop = c->nloops ? plan->loops + c->loop : NULL;
	switch (how) {
	case 0: c->src++; return true;
	case 1: c->dst++; return true;
	case 2: c->run--; return true;
	case 3: c->run++; return true;
	case 4: c->chunk++; return true;
	case 5: plan->ncopies--; return true;
	case 6: plan->covered--; return true;
	case 7: return loop && loop->count++;
	case 8: return loop && ++loop->src;
	default: return false;
	}
}

static unsigned lies_told, lies_believed;

static void tell_lie(struct boxes *b, const struct ck_request *r,
		     uint64_t *random)
{
	struct ck_plan plan = { 0 };

	if (!ck_plan_make(r, &plan) &&
	    lie(&plan, (unsigned)boxes_below(random, NLIES), random)) {
		lies_told++;
		lies_believed += is_right(b, r, &plan);
	}
	ck_plan_fini(&plan);
}

/* --- random tensors ------------------------------------------------------ */

static void show_case(struct boxes *b, const struct ck_request *r)
{
	printf("# item %u, bytes [%" PRIu64 ", %" PRIu64 ") of\n", r->item,
	       r->begin, r->end);
	for (uint32_t d = 0; d < r->ndim; d++)
		printf("#   %" PRIu64 "+%" PRIu64 " in %" PRIu64 "\n",
		       r->off[d], r->size[d], b->shape[d]);
	for (uint32_t i = 0; i < b->n; i++) {
		printf("# chunk %u:", i);
		for (uint32_t d = 0; d < b->ndim; d++)
			printf(" %" PRId64 "+%" PRId64 "*%" PRIu64,
			       boxes_at(b, i)[d], boxes_at(b, i)[b->ndim + d],
			       b->strides[i * b->ndim + d]);
		printf("\n");
	}
}

static bool check_case(struct boxes *b, const struct ck_request *r,
		       struct ck_plan *plan)
{
	if (ck_plan_make(r, plan) == 0 && is_right(b, r, plan))
		return true;
	show_case(b, r);
	return false;
}

/* Checks every range of a small window. */
static unsigned check_all_ranges(struct boxes *b, struct ck_request *r,
				 uint64_t total, struct ck_plan *plan)
{
	unsigned wrong = 0;

	for (r->begin = 0; r->begin <= total; r->begin++)
		for (r->end = r->begin; r->end <= total; r->end++)
			wrong += !check_case(b, r, plan);
	return wrong;
}

static void test_random(void)
{
	static const uint32_t items[] = { 1, 2, 4, 8, 16, 3 };
	uint64_t random = tap_seed(20240607) | 1;
	uint64_t cases = tap_cases("CKPTFS_CASES", TAP_SLOW ? 40000 : 200000,
				   TAP_SLOW ? 500000 : 10000000);
	struct ck_plan plan = { 0 };
	static struct boxes b;
	unsigned wrong = 0;

	for (uint64_t i = 0; i < cases && wrong < 3; i++) {
		uint64_t off[BOXES_DIMS], size[BOXES_DIMS];
		uint64_t total, x, y;
		struct ck_request r;

		boxes_make(&b, items[boxes_below(&random, 6)], &random);
		boxes_window(&b, off, size, &random);
		total = boxes_volume(size, b.ndim) * b.item;
		x = boxes_below(&random, total + 1);
		y = boxes_one_in(&random, 4) ? total
					     : boxes_below(&random, total + 1);
		r = (struct ck_request){ .ndim = b.ndim,
					 .item = b.item,
					 .off = off,
					 .size = size,
					 .begin = x < y ? x : y,
					 .end = x < y ? y : x,
					 .nchunks = b.n,
					 .boxes = b.box,
					 .strides = boxes_strides_given(&b),
					 .order = b.order };
		wrong += !check_case(&b, &r, &plan);
		if (i % 16 == 0)
			tell_lie(&b, &r, &random);
		if (i % 1024 == 0 && total <= 64)
			wrong += check_all_ranges(&b, &r, total, &plan);
	}
	printf("# %" PRIu64 " cases, %u lies\n", cases, lies_told);
	eq_u64(wrong, 0);
	ok(lies_told > cases / 32);
	eq_u64(lies_believed, 0);
	ck_plan_fini(&plan);
}

/* --- handwritten plans --------------------------------------------------- */

/* A tensor whose dimension d is divided into n equal parts, each an item in C order. */
static void shard(struct boxes *b, uint32_t d, uint32_t n)
{
	b->n = n;
	for (uint32_t i = 0; i < n; i++) {
		int64_t *off = boxes_at(b, i);
		int64_t *size = off + b->ndim;
		uint64_t *stride = b->strides + (size_t)i * b->ndim;
		uint64_t next = b->item;

		for (uint32_t k = b->ndim; k > 0 && k--;) {
			off[k] = 0;
			size[k] = (int64_t)(b->shape[k] / (k == d ? n : 1));
			stride[k] = next;
			next *= (uint64_t)size[k];
		}
		off[d] = (int64_t)i * size[d];
		b->order[i] = i;
	}
}

static struct ck_request whole(const struct boxes *b, uint64_t begin,
			       uint64_t end)
{
	static const uint64_t zeros[BOXES_DIMS];

	return (struct ck_request){ .ndim = b->ndim,
				    .item = b->item,
				    .off = zeros,
				    .size = b->shape,
				    .begin = begin,
				    .end = end,
				    .nchunks = b->n,
				    .boxes = b->box,
				    .strides = boxes_strides_given(b),
				    .order = b->order };
}

/* The usual case: a range of a tensor that is sharded on its first dimension is one run for
 * each shard. */
static void test_shard0(void)
{
	static struct boxes b = { .ndim = 3, .item = 2, .shape = { 64, 8, 4 } };
	struct ck_plan plan = { 0 };
	struct ck_request r;

	shard(&b, 0, 8);
	r = whole(&b, 0, 4096);
	ok(ck_plan_make(&r, &plan) == 0);
	eq_u64(plan.runs, 8);
	eq_u64(plan.shortest, 512);
	r = whole(&b, 333, 3777);
	ok(ck_plan_make(&r, &plan) == 0);
	eq_u64(plan.ncopies, 8);
	eq_u64(plan.nloops, 0);
	eq_u64(plan.runs, 8);
	eq_u64(plan.covered, 3777 - 333);
	eq_u64(plan.copies[0].src, 333);
	eq_u64(plan.copies[0].run, 512 - 333);
	eq_u64(plan.copies[7].dst, 7 * 512 - 333);
	eq_u64(plan.copies[7].src, 0);
	r = whole(&b, 515, 519);
	ok(ck_plan_make(&r, &plan) == 0);
	eq_u64(plan.runs, 1);
	eq_u64(plan.copies[0].chunk, 1);
	eq_u64(plan.copies[0].src, 3);
	ck_plan_fini(&plan);
}

/* A tensor sharded on its last dimension is copied row by row. */
static void test_shard_last(void)
{
	static struct boxes b = { .ndim = 2, .item = 4, .shape = { 16, 32 } };
	struct ck_plan plan = { 0 };
	struct ck_request r;

	shard(&b, 1, 4);
	r = whole(&b, 0, 2048);
	ok(ck_plan_make(&r, &plan) == 0);
	eq_u64(plan.ncopies, 4);
	eq_u64(plan.runs, 64);
	eq_u64(plan.shortest, 32);
	eq_u64(plan.copies[1].nloops, 1);
	eq_u64(plan.copies[1].dst, 32);
	eq_u64(plan.loops[plan.copies[1].loop].count, 16);
	eq_u64(plan.loops[plan.copies[1].loop].dst, 128);
	eq_u64(plan.loops[plan.copies[1].loop].src, 32);
	ck_plan_fini(&plan);
}

/* Dimensions that are contiguous in source and destination become one loop. */
static void test_merge(void)
{
	static struct boxes b = { .ndim = 4,
				  .item = 4,
				  .shape = { 3, 1, 5, 8 } };
	struct ck_plan plan = { 0 };
	struct ck_request r;

	shard(&b, 3, 2);
	r = whole(&b, 0, 480);
	ok(ck_plan_make(&r, &plan) == 0);
	eq_u64(plan.ncopies, 2);
	eq_u64(plan.copies[0].nloops, 1);
	eq_u64(plan.loops[plan.copies[0].loop].count, 15);
	eq_u64(plan.copies[0].run, 16);
	ck_plan_fini(&plan);
}

static void test_scalar(void)
{
	static struct boxes b = { .item = 8, .n = 1 };
	struct ck_plan plan = { 0 };
	struct ck_request r = whole(&b, 3, 8);

	ok(ck_plan_make(&r, &plan) == 0);
	eq_u64(plan.ncopies, 1);
	eq_u64(plan.copies[0].src, 3);
	eq_u64(plan.copies[0].run, 5);
	b.n = 0;
	r = whole(&b, 0, 8);
	ok(ck_plan_make(&r, &plan) == 0);
	eq_u64(plan.covered, 0);
	ck_plan_fini(&plan);
}

static void test_empty(void)
{
	static struct boxes b = { .ndim = 2, .item = 4, .shape = { 0, 7 } };
	struct ck_plan plan = { 0 };
	struct ck_request r;

	shard(&b, 0, 1);
	r = whole(&b, 0, 0);
	ok(ck_plan_make(&r, &plan) == 0);
	eq_u64(plan.ncopies, 0);
	eq_u64(plan.shortest, UINT64_MAX);
	r = whole(&b, 0, 4); /* no item covers it */
	ok(ck_plan_make(&r, &plan) == 0);
	eq_u64(plan.covered, 0);
	ck_plan_fini(&plan);
}

static void test_most_dimensions(void)
{
	static uint64_t ones[CK_MAX_DIMS], zeros[CK_MAX_DIMS];
	static uint64_t strides[2 * CK_MAX_DIMS];
	static int64_t boxes[4 * CK_MAX_DIMS];
	static const uint32_t order[] = { 0, 1 };
	struct ck_plan plan = { 0 };
	struct ck_request r = { .ndim = CK_MAX_DIMS,
				.item = 4,
				.off = zeros,
				.size = ones,
				.begin = 6,
				.end = 22,
				.nchunks = 2,
				.boxes = boxes,
				.strides = strides,
				.order = order };

	for (uint32_t d = 0; d < CK_MAX_DIMS; d++) {
		ones[d] = 1;
		boxes[CK_MAX_DIMS + d] = boxes[3 * CK_MAX_DIMS + d] = 1;
		strides[d] = strides[CK_MAX_DIMS + d] = 4;
	}
	ones[0] = 2;
	boxes[2 * CK_MAX_DIMS] = 1;
	ones[CK_MAX_DIMS - 1] = 3;
	boxes[CK_MAX_DIMS + CK_MAX_DIMS - 1] = 3;
	boxes[3 * CK_MAX_DIMS + CK_MAX_DIMS - 1] = 3;
	ok(ck_plan_make(&r, &plan) == 0);
	eq_u64(plan.covered, 16);
	eq_u64(plan.runs, 2);
	eq_u64(plan.copies[0].src, 6);
	eq_u64(plan.copies[1].chunk, 1);
	eq_u64(plan.copies[1].run, 10);
	ck_plan_fini(&plan);
}

/* --- speed: printed, not checked ----------------------------------------- */

static void report_speed(const char *what, const struct ck_request *r)
{
	enum { ROUNDS = 2000 };
	struct ck_plan plan = { 0 };
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (unsigned i = 0; i < ROUNDS; i++)
		if (ck_plan_make(r, &plan))
			break;
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("# %s: %.2f us, %zu copies\n", what,
	       ((double)(b.tv_sec - a.tv_sec) * 1e6 +
		(double)(b.tv_nsec - a.tv_nsec) / 1e3) /
		       ROUNDS,
	       plan.ncopies);
	ck_plan_fini(&plan);
}

static void test_speed(void)
{
	enum { N = 1024, MIB = 1 << 20 };

	static int64_t boxes[N * 4];
	static uint64_t strides[N * 2];
	static uint32_t order[N];
	static const uint64_t zeros[2], size[2] = { 8192, 8192 };
	struct ck_request r = { .ndim = 2,
				.item = 2,
				.off = zeros,
				.size = size,
				.begin = 70 * MIB + 123456,
				.end = 71 * MIB + 123456,
				.nchunks = N,
				.boxes = boxes,
				.strides = strides,
				.order = order };

	for (uint32_t i = 0; i < N; i++) {
		int64_t rows[4] = { i * 8, 0, 8, 8192 };

		memcpy(boxes + (size_t)i * 4, rows, sizeof(rows));
		strides[i * 2] = 8192 * 2;
		strides[i * 2 + 1] = 2;
		order[i] = i;
	}
	report_speed("1 MiB of 1024 chunks of rows", &r);
	for (uint32_t i = 0; i < N; i++) {
		int64_t columns[4] = { 0, i * 8, 8192, 8 };

		memcpy(boxes + (size_t)i * 4, columns, sizeof(columns));
		strides[i * 2] = 8 * 2;
	}
	report_speed("1 MiB of 1024 chunks of columns", &r);
	r.end = r.begin + 4096;
	report_speed("4 KiB of 1024 chunks of columns", &r);
}

int main(void)
{
	test_shard0();
	test_shard_last();
	test_merge();
	test_scalar();
	test_empty();
	test_most_dimensions();
	test_random();
	test_speed();
	return tap_done();
}
