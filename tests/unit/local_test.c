/* SPDX-License-Identifier: MIT */
/* Owners of boxes, the names of their files, and what those consist of. */
#include "catalogs.h"
#include "tap.h"
#include "view/local.h"

static const struct ck_catalog *cat;

static const char *owner_name(const struct ck_local *l, uint32_t owner)
{
	static char text[300];
	struct ck_buf b = { 0 };

	ck_local_name(l, cat, owner, &b);
	snprintf(text, sizeof(text), "%s", b.data);
	ck_buf_fini(&b);
	return text;
}

static const char *box_name(const struct ck_local *l, uint32_t box)
{
	static char text[300];
	struct ck_buf b = { 0 };

	ck_local_box_name(l, cat, box, &b);
	snprintf(text, sizeof(text), "%s", b.data);
	ck_buf_fini(&b);
	return text;
}

static struct ck_catalog *make(void)
{
	struct ck_catalog *c = catalog_new();

	file_add_of(c, "__0_0.distcp", 1000, 0, 0);
	file_add_of(c, "__10_0.distcp", 1000, 0, 10);
	file_add_of(c, "__0_1.distcp", 1000, 0, 0);
	file_add(c, "sub/__1_0.distcp", 1000, 0);
	file_add(c, "__007_0.distcp", 1000, 0);
	tensor_add(c, "one", "float32", 2, DIMS(4, 3));
	item_add(c, DIMS(0, 0), DIMS(2, 3), 0, 0, 10);
	item_add(c, DIMS(2, 0), DIMS(2, 3), 1, 0, 10);
	tensor_add(c, "none", "float32", 1, DIMS(0));
	tensor_add(c, "two", "int8", 2, DIMS(2, 4));
	item_add(c, DIMS(0, 0), DIMS(2, 2), 0, 10, 10);
	item_add(c, DIMS(0, 2), DIMS(2, 2), 2, 0, 10);
	tensor_add(c, "scalar", "float64", 0, NULL);
	item_add(c, NULL, NULL, 3, 0, 10);
	tensor_add(c, "other", "int8", 1, DIMS(1));
	item_add(c, DIMS(0), DIMS(1), 4, 0, 10);
	finish(c);
	return c;
}

static void test_owners(const struct ck_local *l)
{
	uint32_t owner;

	eq_text(owner_name(l, 0), "rank-0");
	eq_text(owner_name(l, 1), "rank-10");
	eq_text(owner_name(l, 2), "file-sub%2F__1_0.distcp");
	eq_text(owner_name(l, 3), "file-__007_0.distcp");
	eq_err(ck_local_find(l, cat, CK_STR("rank-10"), &owner), 0);
	eq_u64(owner, 1);
	eq_err(ck_local_find(l, cat, CK_STR("rank-1"), &owner), -ENOENT);
	eq_err(ck_local_find(l, cat, CK_STR("rank-010"), &owner), -ENOENT);
	eq_err(ck_local_find(l, cat, CK_STR("rank-"), &owner), -ENOENT);
	eq_err(ck_local_find(l, cat, CK_STR("rank-0x"), &owner), -ENOENT);
	eq_err(ck_local_find(l, cat, CK_STR("rank-18446744073709551626"),
			     &owner),
	       -ENOENT); /* 10 and 2 to the 64th */
	eq_err(ck_local_find(l, cat, CK_STR("file-__007_0.distcp"), &owner), 0);
	eq_u64(owner, 3);
	eq_err(ck_local_find(l, cat, CK_STR("file-"), &owner), -ENOENT);
	eq_err(ck_local_find(l, cat, CK_STR(""), &owner), -ENOENT);
	eq_u64(ck_local_boxes(l, 0), 3); /* of two files of the rank */
	eq_u64(ck_local_box(l, 0, 0), 0);
	eq_u64(ck_local_box(l, 0, 2), 3);
	eq_u64(ck_local_boxes(l, 3), 1);
}

static void test_names(const struct ck_catalog *c, const struct ck_local *l)
{
	uint32_t box;

	eq_text(box_name(l, 0), "one.npy");
	eq_text(box_name(l, 1), "one.npy");
	eq_text(box_name(l, 2), "two%@0,0.npy");
	eq_text(box_name(l, 3), "two%@0,2.npy");
	eq_text(box_name(l, 4), "scalar.npy");
	eq_err(ck_local_box_find(l, cat, 1, CK_STR("one.npy"), &box), 0);
	eq_u64(box, 1);
	eq_err(ck_local_box_find(l, cat, 0, CK_STR("two%@0,2.npy"), &box), 0);
	eq_u64(box, 3);
	eq_err(ck_local_box_find(l, cat, 0, CK_STR("two.npy"), &box), -ENOENT);
	eq_err(ck_local_box_find(l, cat, 1, CK_STR("two%@0,2.npy"), &box),
	       -ENOENT);
	eq_err(ck_local_box_find(l, cat, 0, CK_STR("one%@0,0.npy"), &box),
	       -ENOENT);
	eq_err(ck_local_box_find(l, cat, 0, CK_STR("one"), &box), -ENOENT);
	eq_u64(ck_catalog_tensor_of(c, 2),
	       2); /* behind a tensor without boxes */
}

static void test_slices(void)
{
	struct ck_slice *s;

	eq_u64(ck_local_size(cat, 3), 128 + 4);
	eq_err(ck_local_slice(cat, 3, &s), 0);
	eq_u64(s->size, 128 + 4);
	eq_u64(s->nparts, 2);
	ok(memmem(s->parts[0].at.bytes, 128, "(2, 2)", 6) != NULL);
	eq_u64(s->parts[1].number, 2);
	eq_u64(s->parts[1].at.box[1], 2);
	eq_u64(s->parts[1].at.box[2], 2);
	ck_slice_free(s);
	eq_err(ck_local_slice(cat, 4, &s), 0);
	eq_u64(s->size, 128 + 8);
	ck_slice_free(s);
}

static void test_long_lists_of_offsets_are_hashed(void)
{
	static const int64_t shape[] = { 2, 1000000000000, 1000000000000 };
	static const int64_t size[] = { 1, 1, 1 };
	static const int64_t near[] = { 1, 1, 1 };
	static const int64_t far[] = { 1, 999999999999, 999999999999 };
	static const int64_t farther[] = { 1, 1234567890123456789,
					   1234567890123456789 };
	struct ck_catalog *c = catalog_new();
	struct ck_local *l;
	char hex[33];

	file_add_of(c, "__0_0.distcp", 1000, 0, 0);
	tensor_add(c, "t", "int8", 3, shape);
	item_add(c, near, size, 0, 0, 10);
	item_add(c, far, size, 0, 10, 10);
	item_add(c, farther, size, 0, 20, 10);
	finish(c);
	cat = c;
	eq_err(ck_local_make(c, &l), 0);
	eq_text(box_name(l, 1), "t%@1,999999999999,999999999999.npy");
	ck_hash128_hex(CK_STR("1,1234567890123456789,1234567890123456789"),
		       hex);
	ok(strlen(box_name(l, 2)) == strlen("t%@~.npy") + 32);
	ok(strstr(box_name(l, 2), hex) != NULL);
	ck_local_free(l);
	ck_catalog_put(c);
}

int main(void)
{
	struct ck_catalog *c = make();
	struct ck_local *l;

	cat = c;
	eq_err(ck_local_make(c, &l), 0);
	test_owners(l);
	test_names(c, l);
	test_slices();
	ck_local_free(l);
	ck_catalog_put(c);
	test_long_lists_of_offsets_are_hashed();
	return tap_done();
}
