/* SPDX-License-Identifier: MIT */
/* full/ and raw/: names, sizes, slices. */
#include "catalogs.h"
#include "syntax/npy.h"
#include "tap.h"
#include "view/view_internal.h"

#define FULL ck_tensor_views[0]
#define RAW  ck_tensor_views[1]

static struct ck_catalog *example(void)
{
	struct ck_catalog *c = catalog_new();

	file_add(c, "f", 1000, 0);
	tensor_add(c, "a/b", "bfloat16", 2, DIMS(3, 5));
	box_add(c, DIMS(0, 0), DIMS(3, 5));
	object_add(c, "o");
	tensor_add(c, "scalar", "int64", 0, NULL);
	box_add(c, NULL, NULL);
	tensor_add(c, "empty", "float32", 2, DIMS(0, 7));
	tensor_add(c, "packed", "quint4x2", 1, DIMS(4));
	tensor_add(c, "overlap", "uint8", 1, DIMS(4));
	box_add(c, DIMS(0), DIMS(4));
	box_add(c, DIMS(0), DIMS(4));
	tensor_add(c, "", "uint8", 1, DIMS(-4));
	finish(c);
	return c;
}

static void test_table(void)
{
	eq_text(FULL->view.top, "full");
	eq_text(FULL->suffix, ".npy");
	eq_text(RAW->view.top, "raw");
	eq_text(RAW->suffix, "");
}

static int lookup(const struct ck_tensor_view *v, const struct ck_catalog *c,
		  const char *name)
{
	uint32_t tensor;
	int rc = ck_tensor_view_lookup(v, c, ck_str_from(name), &tensor);

	return rc ? rc : (int)tensor;
}

static void test_lookup(void)
{
	struct ck_catalog *c = example();
	struct ck_buf name = { 0 };

	eq_i64(lookup(FULL, c, "a%2Fb.npy"), 0);
	eq_i64(lookup(RAW, c, "a%2Fb"), 0);
	eq_i64(lookup(FULL, c, "scalar.npy"), 1);
	eq_i64(lookup(FULL, c, "%_.npy"), 5);
	eq_err(lookup(FULL, c, "a%2Fb"), -ENOENT);
	eq_err(lookup(RAW, c, "a%2Fb.npy"), -ENOENT);
	eq_err(lookup(FULL, c, "o.npy"), -ENOENT);
	eq_err(lookup(RAW, c, "o"), -ENOENT);
	eq_err(lookup(FULL, c, ""), -ENOENT);
	eq_err(lookup(RAW, c, ""), -ENOENT);
	eq_err(lookup(FULL, c, ".npy"), -ENOENT);
	eq_err(lookup(FULL, c, "npy"), -ENOENT);
	ck_tensor_view_name(FULL, c, 0, &name);
	eq_text(name.data, "a%2Fb.npy");
	ck_buf_fini(&name);
	ck_catalog_put(c);
}

/* Every view's slice has its size and no gaps. */
static void test_slices_fit_sizes(void)
{
	struct ck_catalog *c = example();

	for (size_t v = 0; v < CK_ARRAY_SIZE(ck_tensor_views); v++)
		for (uint32_t i = 0; i < c->tensors.n; i++) {
			struct ck_slice *s = NULL;
			uint64_t vpos = 0;

			eq_err(ck_tensor_views[v]->slice(c, i, &s), 0);
			for (uint32_t p = 0; p < s->nparts; p++) {
				eq_u64(s->begins[p], vpos);
				vpos += ck_slice_part_len(s, p);
			}
			eq_u64(s->size, vpos);
			eq_u64(s->size, ck_tensor_views[v]->size(c, i));
			ck_slice_free(s);
		}
	ck_catalog_put(c);
}

static void test_full(void)
{
	struct ck_catalog *c = example();
	struct ck_slice *s = NULL;
	struct ck_npy npy;

	eq_u64(FULL->size(c, 0), 128 + 30);
	eq_u64(FULL->size(c, 1), 128 + 8);
	eq_u64(FULL->size(c, 2), 128);
	eq_err(FULL->slice(c, 0, &s), 0);
	eq_u64(s->nparts, 2);
	ok(s->parts[0].kind == CK_PART_BYTES);
	ok(s->parts[1].kind == CK_PART_BOX && !s->parts[1].at.box &&
	   s->parts[1].number == 0);
	eq_u64(s->begins[1], 128);
	ok(s->at_open);
	eq_err(ck_npy_parse((struct ck_str){ s->parts[0].at.bytes, 128 }, &npy,
			    NULL),
	       0);
	eq_mem(npy.descr.p, npy.descr.len, "|V2", 3);
	ok(npy.ndim == 2 && npy.shape[0] == 3 && npy.shape[1] == 5);
	ck_slice_free(s);
	ck_catalog_put(c);
}

static void test_raw(void)
{
	struct ck_catalog *c = example();
	struct ck_slice *s = NULL;

	eq_u64(RAW->size(c, 0), 30);
	eq_u64(RAW->size(c, 1), 8);
	eq_u64(RAW->size(c, 2), 0);
	eq_err(RAW->slice(c, 1, &s), 0);
	eq_u64(s->nparts, 1);
	ok(s->parts[0].kind == CK_PART_BOX && s->parts[0].number == 1);
	ck_slice_free(s);
	ck_catalog_put(c);
}

static void test_tensors_without_bytes(void)
{
	static const uint32_t without[] = { 3, 5 };
	struct ck_catalog *c = example();

	for (size_t i = 0; i < CK_ARRAY_SIZE(without); i++)
		for (size_t v = 0; v < CK_ARRAY_SIZE(ck_tensor_views); v++) {
			struct ck_slice *s = NULL;

			ok(ck_catalog_tensor(c, without[i])->err != 0);
			eq_u64(ck_tensor_views[v]->size(c, without[i]), 0);
			eq_err(ck_tensor_views[v]->slice(c, without[i], &s), 0);
			eq_u64(s->nparts, 0);
			ck_slice_free(s);
		}
	/* whose boxes lie: the size is known */
	eq_u64(ck_catalog_tensor(c, 4)->err, EIO);
	eq_u64(FULL->size(c, 4), 128 + 4);
	ck_catalog_put(c);
}

int main(void)
{
	test_table();
	test_lookup();
	test_slices_fit_sizes();
	test_full();
	test_raw();
	test_tensors_without_bytes();
	return tap_done();
}
