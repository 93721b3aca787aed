/* SPDX-License-Identifier: MIT */
/*
 * window: which chunks a window of a tensor touches, against every element of it;
 * and windows of tensors of real checkpoints, sharded in every way there is, read
 * through layouts that have those chunks only, against the same bytes of the
 * whole tensor.
 */
#include "boxes.h"
#include "format/current/layout_internal.h"
#include "read_case.h"

#include <stdlib.h>

static const char *fixtures;

/* --- which chunks ------------------------------------------------------------- */

/* The numbers of elements of the window that each box has. */
static uint64_t count(struct boxes *b, const uint64_t *window,
		      uint64_t in_box[static BOXES_MAX])
{
	const uint64_t *size = window + b->ndim;
	uint64_t n = boxes_volume(size, b->ndim), found = 0, unused;

	memset(in_box, 0, BOXES_MAX * sizeof(*in_box));
	for (uint64_t i = 0; i < n; i++) {
		uint64_t index[BOXES_DIMS];
		int64_t box;

		boxes_index(b->ndim, window, size, i, index);
		box = boxes_find(b, index, &unused);
		if (box >= 0) {
			in_box[box]++;
			found++;
		}
	}
	return n - found;
}

/* Each box that has some, once, sorted as all boxes are. */
static bool is_right(struct boxes *b, const uint64_t *window,
		     const uint32_t *chunks, uint32_t n, bool covered)
{
	uint64_t in_box[BOXES_MAX];
	bool right = covered == (count(b, window, in_box) == 0);
	uint32_t next = 0;

	for (uint32_t i = 0; i < b->n; i++)
		if (in_box[b->order[i]])
			right &= next < n && chunks[next++] == b->order[i];
	return right && next == n;
}

static bool check_window(struct boxes *b, const uint64_t *window, bool plant)
{
	const struct ck_tensor_facts facts = { .order = b->order };
	struct ck_tensor t = { .ndim = b->ndim,
			       .nchunks = b->n,
			       .boxes = b->box,
			       .facts = &facts };
	uint32_t *chunks, n;
	bool covered, right;

	if (ck_tensor_window(&t, window, &chunks, &n, &covered))
		abort();
	if (plant && n)
		n--;
	right = is_right(b, window, chunks, n, covered);
	free(chunks);
	return right;
}

static void random_window(const struct boxes *b, uint64_t *window,
			  uint64_t *random)
{
	uint64_t size[BOXES_DIMS];

	boxes_window(b, window, size, random);
	memcpy(window + b->ndim, size, b->ndim * sizeof(*size));
	if (b->ndim && boxes_one_in(random, 20))
		window[b->ndim + boxes_below(random, b->ndim)] = 0;
}

static void test_chunks(void)
{
	uint64_t cases = tap_cases("CKPTFS_CASES", TAP_SLOW ? 10000 : 50000,
				   TAP_SLOW ? 100000 : 2000000);
	uint64_t random = tap_seed(46) | 1;
	uint64_t window[2 * BOXES_DIMS];
	unsigned wrong = 0, caught = 0, planted = 0;
	static struct boxes b;

	for (uint64_t i = 0; i < cases; i++) {
		boxes_make(&b, 1, &random);
		random_window(&b, window, &random);
		wrong += !check_window(&b, window, false);
		if (i % 16)
			continue;
		planted++;
		caught += !check_window(&b, window, true);
	}
	printf("# %" PRIu64 " windows; of %u planted faults %u found\n", cases,
	       planted, caught);
	eq_u64(wrong, 0);
	ok(caught > planted / 2); /* the others have no chunk to lose */
}

/* --- their bytes -------------------------------------------------------------- */

/* A window of a tensor as a file. */
static int read_window(struct ck_checkpoint *cp, uint32_t tensor,
		       const uint64_t *window, uint64_t len, void *to)
{
	struct read_case c = { { .get = read_case_get, .put = read_case_put },
			       cp,
			       NULL };
	struct ck_slice_builder b = { 0 };
	struct ck_slice *slice;
	struct ck_open_slice *o;
	struct ck_read r;
	int rc;

	ck_slice_add_box(&b, tensor,
			 ck_catalog_tensor(cp->catalog, tensor)->ndim, window,
			 len);
	if (ck_slice_make(&b, &slice) ||
	    ck_open_slice_make(slice, &c.locator, &o))
		abort();
	r = (struct ck_read){ .from = o, .len = len, .to = to };
	rc = ck_host_read(cp->files, &r);
	ck_open_slice_free(o);
	return rc;
}

/* The same of the bytes of the whole tensor. */
static void cut_window(const struct ck_tensor *t, const uint64_t *shape,
		       const uint64_t *window, const uint8_t *whole,
		       uint8_t *to)
{
	const uint64_t *size = window + t->ndim;
	uint64_t item = ck_dtype_at(t->dtype)->size;
	uint64_t n = boxes_volume(size, t->ndim);

	for (uint64_t i = 0; i < n; i++) {
		uint64_t index[CK_MAX_DIMS], at = 0;

		boxes_index(t->ndim, window, size, i, index);
		for (uint32_t d = 0; d < t->ndim; d++)
			at = at * shape[d] + index[d];
		memcpy(to + i * item, whole + at * item, item);
	}
}

static bool check_bytes(struct ck_checkpoint *cp, uint32_t tensor,
			const uint8_t *whole, uint64_t *random)
{
	const struct ck_tensor *t = ck_catalog_tensor(cp->catalog, tensor);
	const uint64_t *shape = (const uint64_t *)t->shape;
	uint64_t window[2 * CK_MAX_DIMS];
	static struct boxes b;
	uint64_t len;
	uint8_t *got, *want;
	bool right;

	b.ndim = t->ndim;
	memcpy(b.shape, shape, t->ndim * sizeof(*shape));
	random_window(&b, window, random);
	len = boxes_volume(window + t->ndim, t->ndim) *
	      ck_dtype_at(t->dtype)->size;
	got = malloc(len + 1);
	want = malloc(len + 1);
	if (!got || !want)
		abort();
	cut_window(t, shape, window, whole, want);
	right = read_window(cp, tensor, window, len, got) == 0 &&
		memcmp(got, want, len) == 0;
	free(got);
	free(want);
	return right;
}

static unsigned checkpoint_wrong(const char *name, uint64_t *random,
				 unsigned *windows)
{
	static const struct ck_format_options options = {
		.shardlinks = CK_BENEATH_NO_SYMLINKS,
	};
	struct ck_checkpoint *cp;
	char path[512];
	unsigned wrong = 0;

	snprintf(path, sizeof(path), "%s/%s", fixtures, name);
	if (ck_checkpoint_open(path, &options, &cp, NULL))
		abort();
	for (uint32_t i = 0; i < cp->catalog->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(cp->catalog, i);
		uint8_t *whole;

		if (t->err || t->ndim > BOXES_DIMS || t->nbytes > 1 << 20)
			continue;
		whole = malloc(t->nbytes + 1);
		if (!whole)
			abort();
		for (unsigned k = 0;
		     read_case(cp, i, NULL, whole) == 0 && k < 20; k++) {
			wrong += !check_bytes(cp, i, whole, random);
			++*windows;
		}
		free(whole);
	}
	ck_checkpoint_close(cp);
	return wrong;
}

/* Rows, columns, both, strided, uneven, empty, changed on the way. */
static void test_bytes(void)
{
	static const char *const names[] = {
		"sample",	 "dtensor",	   "dtensor_columns",
		"dtypes",	 "dtypes_sharded", "fsdp1_sharded",
		"mesh3d",	 "sharded_many",   "tp_fsdp2_even",
		"tp_fsdp2_tiny", "zstd",	   "empty",
	};
	uint64_t random = tap_seed(47) | 1;
	unsigned windows = 0;

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++)
		eq_u64(checkpoint_wrong(names[i], &random, &windows), 0);
	printf("# %u windows of real tensors\n", windows);
	ok(windows > 1000);
}

/* The items of other chunks are not looked at. */
static void test_looks_at_its_own(void)
{
	char path[512];
	static const struct ck_format_options options = {
		.shardlinks = CK_BENEATH_NO_SYMLINKS,
	};
	const struct ck_layout *layout;
	struct ck_checkpoint *cp;
	uint64_t seen, items;
	uint32_t box;

	snprintf(path, sizeof(path), "%s/sample", fixtures);
	if (ck_checkpoint_open(path, &options, &cp, NULL))
		abort();
	for (uint32_t i = 0; i < 3; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(cp->catalog, 0);
		const uint64_t *window = (const uint64_t *)ck_tensor_box(t, i);

		eq_err(ck_layout_get(cp, cp->catalog, 0, window, &layout), 0);
		eq_u64(layout->n, 1);
		ok(ck_layout_find(layout, i, &box) && box == 0);
		ok(!ck_layout_find(layout, i + 1, &box));
		ck_layout_put(cp, layout);
		ck_layouts_count(cp, &seen, &items);
		eq_u64(seen, i + 1);
	}
	ck_checkpoint_close(cp);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	fixtures = argv[1];
	test_chunks();
	test_bytes();
	test_looks_at_its_own();
	return tap_done();
}
