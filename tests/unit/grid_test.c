/* SPDX-License-Identifier: MIT */
/* Which boxes are the cells of a grid, and into how many parts each dimension
 * is cut. */
#include "catalogs.h"
#include "ckptfs/report.h"
#include "tap.h"

/* Of shape [4,6], one box for each four numbers. */
static struct ck_catalog *cut(const int64_t *boxes, size_t n)
{
	struct ck_catalog *c = catalog_new();

	file_add(c, "__0_0.distcp", 1000, 0);
	tensor_add(c, "t", "uint8", 2, DIMS(4, 6));
	for (size_t i = 0; i < n; i++)
		box_add(c, boxes + 4 * i, boxes + 4 * i + 2);
	finish(c);
	return c;
}

/* want: NULL if it is no grid. */
static void expect(struct ck_catalog *c, const int64_t *want)
{
	int64_t grid[CK_MAX_DIMS] = { -1, -1 };
	int rc = ck_report_grid(ck_catalog_tensor(c, 0), grid);

	eq_i64(rc, want ? 0 : -ENOENT);
	for (uint32_t d = 0;
	     want && rc == 0 && d < ck_catalog_tensor(c, 0)->ndim; d++)
		eq_i64(grid[d], want[d]);
	ck_catalog_put(c);
}

#define CUT(...)                                                               \
	cut(DIMS(__VA_ARGS__),                                                 \
	    sizeof(DIMS(__VA_ARGS__)) / (4 * sizeof(int64_t)))

static void test_grids(void)
{
	expect(CUT(0, 0, 4, 6), DIMS(1, 1));
	expect(CUT(3, 0, 1, 6, 0, 0, 3, 6), DIMS(2, 1));
	expect(CUT(0, 0, 4, 1, 0, 1, 4, 4, 0, 5, 4, 1), DIMS(1, 3));
	expect(CUT(0, 0, 2, 3, 2, 3, 2, 3, 2, 0, 2, 3, 0, 3, 2, 3), DIMS(2, 2));
	/* ranks that got nothing */
	expect(CUT(0, 0, 4, 6, 4, 0, 0, 6, 5, 0, 0, 6), DIMS(3, 1));
}

static void test_no_grids(void)
{
	/* As many boxes as a grid of them would have, shifted. */
	expect(CUT(0, 0, 2, 3, 0, 3, 2, 3, 2, 0, 2, 4, 2, 4, 2, 2), NULL);
	/* a pinwheel */
	expect(CUT(0, 0, 1, 4, 0, 4, 3, 2, 1, 0, 3, 2, 3, 2, 1, 4, 1, 2, 2, 2),
	       NULL);
	/* a corner is missing; a box twice */
	expect(CUT(0, 0, 2, 3, 2, 0, 2, 3, 0, 3, 2, 3), NULL);
	expect(CUT(0, 0, 2, 6, 0, 0, 2, 6, 2, 0, 2, 6), NULL);
	/* a box without elements twice */
	expect(CUT(0, 0, 4, 6, 4, 0, 0, 6, 4, 0, 0, 6), NULL);
	expect(cut(NULL, 0), NULL);
}

static void test_zero_dimensions(void)
{
	struct ck_catalog *c = catalog_new();

	file_add(c, "__0_0.distcp", 1000, 0);
	tensor_add(c, "t", "uint8", 0, NULL);
	box_add(c, NULL, NULL);
	finish(c);
	expect(c, DIMS(0));
}

int main(void)
{
	test_grids();
	test_no_grids();
	test_zero_dimensions();
	return tap_done();
}
