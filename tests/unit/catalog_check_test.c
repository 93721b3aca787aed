/* SPDX-License-Identifier: MIT */
/* Faults that the catalog tells without reading an item; order, modes and
 * times. */
#include "catalogs.h"
#include "model/catalog/fault.h"
#include "tap.h"

#include <sys/stat.h>

/* A catalog of one tensor "t" and files 0 (1000 bytes) and 1 (missing). */
static struct ck_catalog *one(const char *dtype, uint32_t ndim,
			      const int64_t *shape)
{
	struct ck_catalog *c = catalog_new();

	file_add(c, "__0_0.distcp", 1000, 0);
	file_add(c, "__1_0.distcp", 0, ENODATA);
	tensor_add(c, "t", dtype, ndim, shape);
	return c;
}

/* Finishes, compares the first tensor's state, frees. */
static void expect(struct ck_catalog *c, int err, bool holes, uint64_t nbytes,
		   const char *fault)
{
	const struct ck_tensor *t;

	finish(c);
	t = ck_catalog_tensor(c, 0);
	eq_u64(t->err, (uint64_t)err);
	eq_u64(t->holes, holes);
	eq_u64(t->nbytes, nbytes);
	eq_text(text_of(ck_tensor_fault(t)), fault);
	ck_catalog_put(c);
}

static void test_good(void)
{
	struct ck_catalog *c = one("float32", 2, DIMS(4, 3));

	box_add(c, DIMS(2, 0), DIMS(2, 3));
	box_add(c, DIMS(0, 0), DIMS(2, 3));
	expect(c, 0, false, 48, "");
}

static void test_zero_dimensions(void)
{
	struct ck_catalog *c = one("int64", 0, NULL);

	box_add(c, NULL, NULL);
	expect(c, 0, false, 8, "");
	expect(one("int64", 0, NULL), 0, true, 8, "");
	c = one("int64", 0, NULL);
	box_add(c, NULL, NULL);
	box_add(c, NULL, NULL);
	expect(c, EIO, false, 8,
	       "boxes overlap, box 0 offset [] size [], "
	       "box 1 offset [] size []");
}

static void test_empty_tensor(void)
{
	struct ck_catalog *c = one("float32", 2, DIMS(0, 2));

	box_add(c, DIMS(0, 0), DIMS(0, 2));
	expect(c, 0, false, 0, "");
	expect(one("float32", 2, DIMS(0, 2)), 0, false, 0, "");
	c = one("float32", 2, DIMS(0, 2));
	box_add(c, DIMS(0, 0), DIMS(1, 2));
	expect(c, EIO, false, 0,
	       "a box is not inside the tensor, "
	       "box 0 offset [0,0] size [1,2]");
	/* huge and empty */
	expect(one("float32", 3, DIMS(INT64_MAX, INT64_MAX, 0)), 0, false, 0,
	       "");
}

static void test_empty_boxes_are_never_faults(void)
{
	struct ck_catalog *c = one("float32", 1, DIMS(4));

	box_add(c, DIMS(0), DIMS(4));
	box_add(c, DIMS(4), DIMS(0));
	box_add(c, DIMS(4), DIMS(0));
	box_add(c, DIMS(2), DIMS(0));
	box_add(c, DIMS(INT64_MAX), DIMS(0));
	box_add(c, DIMS(-7), DIMS(0));
	item_add(c, DIMS(9), DIMS(0), 1, 5, 5);
	item_add(c, DIMS(9), DIMS(0), CK_NO_FILE, 0, 0);
	finish(c);
	eq_u64(ck_catalog_tensor(c, 0)->err, 0);
	ok(!ck_catalog_tensor(c, 0)->holes);
	for (uint32_t i = 0; i < c->chunks.n; i++)
		eq_u64(ck_catalog_item(c, i)->err, 0);
	ck_catalog_put(c);
}

static void test_holes(void)
{
	struct ck_catalog *c = one("float32", 1, DIMS(4));

	box_add(c, DIMS(0), DIMS(1));
	box_add(c, DIMS(2), DIMS(2));
	expect(c, 0, true, 16, "");
	expect(one("float32", 1, DIMS(4)), 0, true, 16, "");
}

static void test_overlap(void)
{
	struct ck_catalog *c = one("float32", 2, DIMS(4, 4));

	box_add(c, DIMS(0, 0), DIMS(2, 2));
	box_add(c, DIMS(2, 2), DIMS(2, 2));
	box_add(c, DIMS(1, 1), DIMS(2, 2));
	expect(c, EIO, false, 64,
	       "boxes overlap, box 0 offset [0,0] size [2,2], "
	       "box 2 offset [1,1] size [2,2]");
}

static void test_outside(void)
{
	static const int64_t bad[][2] = {
		{ 3, 2 },
		{ -1, 2 },
		{ 5, 1 },
		{ 0, 5 },
		{ INT64_MAX, 1 },
		{ 1, INT64_MAX },
		{ INT64_MAX, INT64_MAX },
		{ INT64_MIN, 1 },
		{ 4, 1 },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++) {
		struct ck_catalog *c = one("float32", 1, DIMS(4));

		box_add(c, &bad[i][0], &bad[i][1]);
		finish(c);
		eq_u64(ck_catalog_tensor(c, 0)->err, EIO);
		eq_u64(ck_catalog_tensor(c, 0)->nbytes, 16);
		ck_catalog_put(c);
	}
}

static void test_negative_sizes(void)
{
	struct ck_catalog *c = one("float32", 2, DIMS(4, -1));

	expect(c, EIO, false, 0, "a dimension is negative, shape [4,-1]");
	c = one("float32", 2, DIMS(4, 4));
	box_add(c, DIMS(0, 0), DIMS(0, -4));
	expect(c, EIO, false, 64,
	       "a box is not inside the tensor, its size is negative, "
	       "box 0 offset [0,0] size [0,-4]");
	c = one("float32", 1, DIMS(INT64_MIN));
	box_add(c, DIMS(INT64_MIN), DIMS(INT64_MIN));
	expect(c, EIO, false, 0,
	       "a dimension is negative, shape [-9223372036854775808]");
}

static void test_overflowing_sizes(void)
{
	expect(one("float32", 2, DIMS(INT64_MAX, 3)), EIO, false, 0,
	       "too many elements to count, "
	       "shape [9223372036854775807,3]");
	expect(one("float64", 1, DIMS(INT64_MAX)), EIO, false, 0,
	       "too many elements to count, shape [9223372036854775807]");
	expect(one("uint8", 1, DIMS(INT64_MAX)), EIO, false, 0,
	       "too many elements to count, shape [9223372036854775807]");
	expect(one("uint8", 1, DIMS(INT64_MAX - 65536)), 0, true,
	       INT64_MAX - 65536, "");
}

static void test_dtypes_without_bytes(void)
{
	struct ck_catalog *c = one("int4", 1, DIMS(4));

	box_add(c, DIMS(0), DIMS(4));
	expect(c, EBADMSG, false, 0, "unknown dtype int4");
	c = one("evil\n\x1b[2J", 1, DIMS(4));
	expect(c, EBADMSG, false, 0, "unknown dtype evil%0A%1B[2J");
	c = one("quint4x2", 1, DIMS(4));
	expect(c, EBADMSG, false, 0,
	       "dtype quint4x2 has no whole bytes per element");
}

static void test_dimensions(void)
{
	int64_t ones[CK_MAX_DIMS + 1], zeros[CK_MAX_DIMS + 1] = { 0 };
	struct ck_catalog *c;

	for (size_t i = 0; i < CK_ARRAY_SIZE(ones); i++)
		ones[i] = 1;
	c = one("float32", CK_MAX_DIMS, ones);
	box_add(c, zeros, ones);
	expect(c, 0, false, 4, "");
	c = one("float32", CK_MAX_DIMS + 1, ones);
	box_add(c, zeros, ones);
	box_add(c, zeros, ones);
	expect(c, EBADMSG, false, 0, "65 dimensions, expected at most 64");
	/* a fault shows the first of many */
	c = one("float32", 12, ones);
	box_add(c, ones, ones);
	expect(c, EIO, false, 4,
	       "a box is not inside the tensor, box 0 offset "
	       "[1,1,1,1,1,1,1,1]... size [1,1,1,1,1,1,1,1]...");
}

static void test_chunks_of_a_faulty_tensor_are_kept(void)
{
	struct ck_catalog *c = one("float32", 1, DIMS(-1));

	box_add(c, DIMS(5), DIMS(2));
	box_add(c, DIMS(0), DIMS(2));
	finish(c);
	eq_u64(ck_catalog_tensor(c, 0)->nchunks, 2);
	eq_u64(ck_catalog_tensor(c, 0)->facts->order[0], 1);
	eq_u64(ck_catalog_tensor(c, 0)->facts->order[1], 0);
	eq_i64(ck_tensor_box(ck_catalog_tensor(c, 0), 0)[0], 5);
	ck_catalog_put(c);
}

static void test_fault_of_the_format(void)
{
	struct ck_catalog *c = one("float32", 1, DIMS(4));

	must(ck_catalog_tensor_fault(c, EIO, "a box of 2 dimensions"));
	box_add(c, DIMS(9), DIMS(9));
	expect(c, EIO, false, 0, "a box of 2 dimensions");
}

/* --- order ------------------------------------------------------------------------ */

static void test_order(void)
{
	struct ck_catalog *c = one("float32", 2, DIMS(2, 2));
	static const uint32_t want[] = { 3, 2, 0, 1, 4 };

	box_add(c, DIMS(1, 0), DIMS(1, 1));
	box_add(c, DIMS(1, 1), DIMS(1, 1));
	box_add(c, DIMS(0, 1), DIMS(1, 1));
	box_add(c, DIMS(0, 0), DIMS(1, 1));
	box_add(c, DIMS(2, 0), DIMS(0, 2));
	finish(c);
	eq_mem(ck_catalog_tensor(c, 0)->facts->order, 5 * sizeof(uint32_t),
	       want, sizeof(want));
	eq_u64(ck_catalog_tensor(c, 0)->err, 0);
	ok(!ck_catalog_tensor(c, 0)->holes);
	ck_catalog_put(c);
}

/* --- random boxes against counting cells ------------------------------------------- */

enum { SIDE = 5 };

/* How often each cell of a SIDE^ndim tensor is covered; false: a box of
 * positive volume is outside. */
static bool cells_count(const struct ck_catalog *c, uint8_t *cells)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, 0);

	for (uint32_t i = 0; i < t->nchunks; i++) {
		const int64_t *b = ck_tensor_box(t, i);

		if (b[2] == 0 || b[3] == 0)
			continue;
		if (b[0] < 0 || b[1] < 0 || b[0] + b[2] > SIDE ||
		    b[1] + b[3] > SIDE)
			return false;
		for (int64_t y = b[0]; y < b[0] + b[2]; y++)
			for (int64_t x = b[1]; x < b[1] + b[3]; x++)
				cells[y * SIDE + x]++;
	}
	return true;
}

static void random_boxes_add(struct ck_catalog *c, uint64_t *seed)
{
	uint64_t n = tap_random(seed) % 5;
	int64_t wide = 1 + (int64_t)(tap_random(seed) % 5);

	for (uint64_t i = 0; i < n; i++) {
		int64_t box[4];

		for (int d = 0; d < 4; d++)
			box[d] = (int64_t)(tap_random(seed) % 6);
		if (i % 2) { /* more often good: a column or a row */
			box[0] = 0;
			box[2] = SIDE;
			box[3] = wide < SIDE - box[1] ? wide : SIDE - box[1];
		}
		box_add(c, box, box + 2);
	}
}

static void test_random_boxes(void)
{
	uint64_t seed = tap_seed(424242);
	unsigned failed = 0, seen[3] = { 0 };

	for (int round = 0; round < 100000; round++) {
		struct ck_catalog *c = one("uint8", 2, DIMS(SIDE, SIDE));
		uint8_t cells[SIDE * SIDE] = { 0 };
		bool twice = false, never = false;
		int want;

		random_boxes_add(c, &seed);
		want = cells_count(c, cells) ? 0 : EIO;
		for (size_t i = 0; i < sizeof(cells); i++) {
			twice |= cells[i] > 1;
			never |= cells[i] == 0;
		}
		if (twice)
			want = EIO;
		finish(c);
		failed += ck_catalog_tensor(c, 0)->err != want ||
			  ck_catalog_tensor(c, 0)->holes != (!want && never);
		seen[want ? 2 : never]++;
		ck_catalog_put(c);
	}
	eq_u64(failed, 0);
	ok(seen[0] > 100 && seen[1] > 1000 && seen[2] > 1000);
}

/* --- items ------------------------------------------------------------------------- */

static const char *box_fault(const struct ck_catalog *c, uint32_t i)
{
	static struct ck_buf b;
	struct ck_fault f;

	ck_buf_fini(&b);
	if (ck_catalog_box_has_fault(c, ck_catalog_tensor(c, 0), i, &f))
		ck_fault_print(&f, true, &b);
	return b.data ? b.data : "";
}

static void test_items(void)
{
	static const struct {
		uint32_t file;
		uint64_t fpos, length;
		int err;
		const char *fault;
	} rows[] = {
		{ 0, 0, 1000, 0, "" },
		{ 0, 1000, 0, 0, "" },
		{ 0, 1, 1000, ENODATA,
		  "t: ENODATA: box [0] [1]: its item ends beyond its file; "
		  "__0_0.distcp at 1; expected at least 1001 bytes, found "
		  "1000" },
		{ 0, UINT64_MAX, 2, ENODATA,
		  "t: ENODATA: box [0] [1]: its item ends beyond its file; "
		  "__0_0.distcp at 18446744073709551615; expected at least "
		  "18446744073709551615 bytes, found 1000" },
		{ 0, 2, UINT64_MAX, ENODATA,
		  "t: ENODATA: box [0] [1]: its item ends beyond its file; "
		  "__0_0.distcp at 2; expected at least "
		  "18446744073709551615 bytes, found 1000" },
		{ 1, 0, 0, ENODATA,
		  "t: ENODATA: box [0] [1]: its file cannot be used; "
		  "__1_0.distcp at 0" },
		{ 2, 0, 0, EACCES,
		  "t: EACCES: box [0] [1]: its file cannot be used; %0A at 0" },
		{ CK_NO_FILE, 0, 0, ENODATA,
		  "t: ENODATA: box [0] [1]: no file has its bytes" },
		{ 77, 0, 0, ENODATA,
		  "t: ENODATA: box [0] [1]: no file has its bytes" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct ck_catalog *c = one("uint8", 1, DIMS(1));

		file_add(c, "\n", 5, EACCES);
		item_add(c, DIMS(0), DIMS(1), rows[i].file, rows[i].fpos,
			 rows[i].length);
		finish(c);
		eq_u64(ck_catalog_item(c, 0)->err, (uint64_t)rows[i].err);
		eq_text(box_fault(c, 0), rows[i].fault);
		eq_u64(ck_catalog_tensor(c, 0)->err, 0);
		ck_catalog_put(c);
	}
}

static void test_object_item(void)
{
	struct ck_catalog *c = catalog_new();
	struct ck_item item = { .fpos = 5, .length = 6 };

	file_add(c, "f", 10, 0);
	must(ck_catalog_object_add(c, CK_STR("o"), &item));
	item.length = 5;
	must(ck_catalog_object_add(c, CK_STR("p"), &item));
	finish(c);
	eq_u64(ck_catalog_object(c, 0)->item.err, ENODATA);
	eq_u64(ck_catalog_object(c, 1)->item.err, 0);
	ck_catalog_put(c);
}

static void test_items_sharing_bytes(void)
{
	struct ck_catalog *c = one("uint8", 1, DIMS(8));
	static const int want[] = { EIO, EIO, 0, EIO, EIO, 0, 0, EIO };

	item_add(c, DIMS(0), DIMS(1), 0, 0, 10);
	item_add(c, DIMS(1), DIMS(1), 0, 9, 1); /* last byte of the first */
	item_add(c, DIMS(2), DIMS(1), 0, 10, 5);
	item_add(c, DIMS(3), DIMS(1), 0, 100, 200);
	item_add(c, DIMS(4), DIMS(1), 0, 120, 5); /* inside the one before */
	item_add(c, DIMS(5), DIMS(1), 0, 300, 5);
	item_add(c, DIMS(6), DIMS(0), 0, 100, 200); /* empty box */
	item_add(c, DIMS(6), DIMS(2), 0, 150, 5);   /* inside too */
	finish(c);
	for (uint32_t i = 0; i < CK_ARRAY_SIZE(want); i++)
		eq_u64(ck_catalog_item(c, i)->err, (uint64_t)want[i]);
	eq_text(box_fault(c, 1),
		"t: EIO: box [1] [1]: its item shares bytes with another one "
		"of the tensor; __0_0.distcp at 9");
	eq_u64(ck_catalog_tensor(c, 0)->err, 0);
	ck_catalog_put(c);
}

/* Tied weights: two tensors may name one item. */
static void test_tensors_may_share_items(void)
{
	struct ck_catalog *c = one("uint8", 1, DIMS(1));

	item_add(c, DIMS(0), DIMS(1), 0, 0, 10);
	tensor_add(c, "u", "uint8", 1, DIMS(1));
	item_add(c, DIMS(0), DIMS(1), 0, 0, 10);
	finish(c);
	eq_u64(ck_catalog_item(c, 0)->err, 0);
	eq_u64(ck_catalog_item(c, 1)->err, 0);
	ck_catalog_put(c);
}

static void random_items_check(uint64_t *seed, unsigned *failed,
			       unsigned *sharing)
{
	struct ck_catalog *c = one("uint8", 1, DIMS(6));
	bool want[6] = { false };

	file_add(c, "__2_0.distcp", 1000, 0);
	for (int64_t i = 0; i < 6; i++)
		item_add(c, DIMS(i), DIMS(1), tap_random(seed) % 2 ? 0 : 2,
			 tap_random(seed) % 20, tap_random(seed) % 6);
	for (uint32_t i = 0; i < 6; i++)
		for (uint32_t j = 0; j < 6; j++) {
			struct ck_item a = *ck_catalog_item(c, i),
				       b = *ck_catalog_item(c, j);

			want[i] |= i != j && a.file == b.file && a.length &&
				   b.length && a.fpos < b.fpos + b.length &&
				   b.fpos < a.fpos + a.length;
		}
	finish(c);
	for (uint32_t i = 0; i < 6; i++) {
		*failed += ck_catalog_item(c, i)->err != (want[i] ? EIO : 0);
		*sharing += want[i];
	}
	ck_catalog_put(c);
}

static void test_random_items(void)
{
	uint64_t seed = tap_seed(8);
	uint64_t n = tap_cases("CKPTFS_CASES", TAP_SLOW ? 5000 : 20000, 50000);
	unsigned failed = 0, sharing = 0;

	for (uint64_t i = 0; i < n; i++)
		random_items_check(&seed, &failed, &sharing);
	eq_u64(failed, 0);
	ok(sharing > n / 5 && sharing < 6 * n - n / 5);
}

/* --- modes and times ------------------------------------------------------------------ */

static void attr_add(struct ck_catalog *c, mode_t mode, uid_t uid, gid_t gid,
		     time_t mtime)
{
	struct ck_data_file file = {
		.size = 1000,
		.attr = { .mode = S_IFREG | mode,
			  .uid = uid,
			  .gid = gid,
			  .mtime = { mtime, 5 } },
	};

	must(ck_catalog_file_add(c, &file));
}

static void test_modes(void)
{
	static const struct {
		mode_t meta, dir, file;
		uid_t uid;
		gid_t gid;
		mode_t want;
	} rows[] = {
		{ 0777, 0777, 0777, 1, 2, 0444 },
		{ 0640, 0755, 0644, 1, 2, 0440 },
		{ 0644, 0700, 0644, 1, 2, 0400 },
		{ 0644, 0755, 0600, 1, 2, 0400 },
		{ 0644, 0755, 0640, 9, 2, 0040 }, /* owner by others' bits */
		{ 0644, 0755, 0640, 1, 9, 0400 }, /* group by others' bits */
		{ 0644, 0755, 0004, 9, 9, 0444 },
		{ 0644, 0755, 0604, 1, 9, 0444 },
		{ 0644, 0755, 0604, 9, 2, 0404 },
		{ 0600, 0700, 0044, 9, 2, 0400 },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct ck_catalog *c = catalog_new();

		c->meta.mode = S_IFREG | rows[i].meta;
		c->dir_mode = S_IFDIR | rows[i].dir;
		attr_add(c, rows[i].file, rows[i].uid, rows[i].gid, 50);
		tensor_add(c, "t", "uint8", 1, DIMS(1));
		box_add(c, DIMS(0), DIMS(1));
		object_add(c, "o");
		finish(c);
		eq_u64(ck_catalog_tensor(c, 0)->facts->mode, rows[i].want);
		eq_u64(ck_catalog_object(c, 0)->mode, rows[i].want);
		ck_catalog_put(c);
	}
}

static void test_times(void)
{
	struct ck_catalog *c = catalog_new();

	attr_add(c, 0644, 1, 2, 50);
	attr_add(c, 0644, 1, 2, 70);
	file_add(c, "missing", 0, ENODATA);
	tensor_add(c, "both", "uint8", 1, DIMS(2));
	item_add(c, DIMS(0), DIMS(1), 1, 0, 1);
	item_add(c, DIMS(1), DIMS(1), 0, 0, 1);
	tensor_add(c, "none", "uint8", 1, DIMS(0));
	tensor_add(c, "missing", "uint8", 1, DIMS(1));
	item_add(c, DIMS(0), DIMS(1), 2, 0, 1);
	finish(c);
	eq_i64(ck_catalog_tensor(c, 0)->facts->mtime.tv_sec,
	       70); /* older than .metadata */
	eq_i64(ck_catalog_tensor(c, 0)->facts->mtime.tv_nsec, 5);
	eq_i64(ck_catalog_tensor(c, 1)->facts->mtime.tv_sec, 100);
	eq_u64(ck_catalog_tensor(c, 1)->facts->mode, 0444);
	eq_i64(ck_catalog_tensor(c, 2)->facts->mtime.tv_sec, 100);
	eq_u64(ck_catalog_tensor(c, 2)->facts->mode, 0444);
	ck_catalog_put(c);
}

int main(void)
{
	test_good();
	test_zero_dimensions();
	test_empty_tensor();
	test_empty_boxes_are_never_faults();
	test_holes();
	test_overlap();
	test_outside();
	test_negative_sizes();
	test_overflowing_sizes();
	test_dtypes_without_bytes();
	test_dimensions();
	test_chunks_of_a_faulty_tensor_are_kept();
	test_fault_of_the_format();
	test_order();
	test_random_boxes();
	test_items();
	test_object_item();
	test_items_sharing_bytes();
	test_tensors_may_share_items();
	test_random_items();
	test_modes();
	test_times();
	return tap_done();
}
