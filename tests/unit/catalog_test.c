/* SPDX-License-Identifier: MIT */
/* Building a catalog: names, stems, lookups, limits, memory. */
#include "catalogs.h"
#include "tap.h"

static struct ck_catalog *with_keys(const char *const *keys)
{
	struct ck_catalog *c = catalog_new();

	for (size_t i = 0; keys[i]; i++)
		if (i % 2)
			object_add(c, keys[i]);
		else
			tensor_add(c, keys[i], "float32", 1, DIMS(0));
	finish(c);
	return c;
}

#define KEYS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void names_are(const char *const *keys, const char *const *names)
{
	struct ck_catalog *c = with_keys(keys);

	for (size_t i = 0; names[i]; i++)
		eq_text(name_of(c, i), names[i]);
	ck_catalog_put(c);
}

/* Entries that are shown with the prefixes of wrappers, as "1 3 ". */
static void prefixed_are(const char *const *keys, const char *entries)
{
	struct ck_catalog *c = with_keys(keys);
	struct ck_buf text = { 0 };

	for (size_t i = 0; i < c->listing->nprefixed; i++)
		ck_buf_printf(&text, "%u ", c->listing->prefixed[i]);
	eq_text(text.data ? text.data : "", entries);
	ck_buf_fini(&text);
	ck_catalog_put(c);
}

static void test_names(void)
{
	names_are(KEYS("a", "b.c"), KEYS("a", "b.c"));
	names_are(KEYS("_orig_mod.a", "x._fsdp_wrapped_module.b"),
		  KEYS("a", "x.b"));
	/* module. goes if all have it, other entries too, and only once */
	names_are(KEYS("module.a", "module.module.b"), KEYS("a", "module.b"));
	names_are(KEYS("module.a", "b"), KEYS("module.a", "b"));
	names_are(KEYS("_orig_mod.module.a", "module._orig_mod.b"),
		  KEYS("a", "b"));
	names_are(KEYS("module."), KEYS(""));
}

static void test_clashing_names_keep_their_keys(void)
{
	names_are(KEYS("_orig_mod.a", "a", "b"), KEYS("_orig_mod.a", "a", "b"));
	names_are(KEYS("_orig_mod.a", "_fpw_module.a", "_orig_mod.b"),
		  KEYS("_orig_mod.a", "_fpw_module.a", "b"));
}

/* The first two clash on "a" and keep their keys; "module.a" then is what
 * the third shows, so it keeps its key, which the fourth shows ... */
static void test_kept_keys_clash_again(void)
{
	names_are(KEYS("module.a", "module._orig_mod.a", "module.module.a",
		       "module.module.module.a", "module.b"),
		  KEYS("module.a", "module._orig_mod.a", "module.module.a",
		       "module.module.module.a", "b"));
}

static void test_prefixed(void)
{
	prefixed_are(KEYS("_orig_mod.a", "b"), "");
	prefixed_are(KEYS("a", "_orig_mod.a", "b", "_orig_mod.b"), "1 3 ");
	prefixed_are(KEYS("module.a", "module._orig_mod.a"), "0 1 ");
}

static void test_duplicate_key(void)
{
	struct ck_catalog *c = catalog_new();
	struct ck_diag d = { 0 };

	tensor_add(c, "a\nb", "float32", 1, DIMS(0));
	object_add(c, "x");
	object_add(c, "a\nb");
	eq_err(ck_catalog_finish(c, &d), -EBADMSG);
	eq_text(d.text, "a%0Ab: duplicate key");
	ck_catalog_put(c);
}

static void test_find(void)
{
	struct ck_catalog *c = with_keys(KEYS("a", "b/c", ".d", "", "e%"));
	static const char *const stems[] = { "a", "b%2Fc", "%2Ed", "%_",
					     "e%25" };

	for (size_t i = 0; i < CK_ARRAY_SIZE(stems); i++) {
		eq_i64(ck_catalog_find(c, ck_str_from(stems[i])), (int64_t)i);
		eq_text(text_of(ck_entry_names(c, i).stem), stems[i]);
	}
	eq_i64(ck_catalog_find(c, CK_STR("b/c")), -1);
	eq_i64(ck_catalog_find(c, CK_STR("")), -1);
	eq_i64(ck_catalog_find(c, CK_STR("aa")), -1);
	ck_catalog_put(c);
}

static void test_empty_catalog(void)
{
	struct ck_catalog *c = catalog_new();

	finish(c);
	eq_i64(ck_catalog_find(c, CK_STR("a")), -1);
	eq_u64(c->nbytes, 0);
	ck_catalog_put(c);
	ck_catalog_put(NULL);
}

/* --- long names of one hash -------------------------------------------------- */

/* XXH3 multiplies the halves of each 8 bytes, masked by its secret, and adds
 * the bytes to the next lane. Where the low half is the mask's the product is
 * 0 whatever the high half is, so two such places only need the same sum. */
static void collide(char *name, uint32_t i)
{
	static const char low1[] = "\x3c\x28\x52\xbb", low2[] = "\x88\xd0\x65"
								"\x8b";
	uint32_t high1 = i, high2 = UINT32_MAX - i;

	memset(name, 'a', 256);
	memcpy(name + 120, low1, 4);
	memcpy(name + 124, &high1, 4);
	memcpy(name + 184, low2, 4);
	memcpy(name + 188, &high2, 4);
}

static void test_equal_long_stems_are_numbered(void)
{
	struct ck_catalog *c = catalog_new();
	char name[256], first[33], hash[33], want[300];
	struct ck_item item = { 0 };

	for (uint32_t i = 0; i < 20000; i++) {
		collide(name, i);
		must(ck_catalog_object_add(c, (struct ck_str){ name, 256 },
					   &item));
	}
	ck_hash128_hex((struct ck_str){ name, 256 }, hash);
	collide(name, 0);
	ck_hash128_hex((struct ck_str){ name, 256 }, first);
	eq_text(hash, first);
	finish(c);
	snprintf(want, sizeof(want), "%%~%.120s~%s", name, hash);
	eq_text(text_of(ck_object_names(c, 0).stem), want);
	strcat(want, "~2");
	eq_text(text_of(ck_object_names(c, 1).stem), want);
	eq_i64(ck_catalog_find(c, ck_str_from(want)), 1);
	snprintf(want, sizeof(want), "%%~%.120s~%s~20000", name, hash);
	eq_i64(ck_catalog_find(c, ck_str_from(want)), 19999);
	ck_catalog_put(c);
}

/* The stem of an entry that is no tensor finds it. */
static bool finds(const struct ck_catalog *c, uint32_t i)
{
	struct ck_str stem = ck_object_names(c, i).stem;

	return ck_catalog_find(c, stem) == (int64_t)i;
}

/* Names, wrappers and clashes at random: all names and stems differ, and
 * each stem finds its entry. */
static void test_random_names_differ(void)
{
	static const char *const parts[] = {
		"module.", "_orig_mod.", "a.", "_fpw_module.", "b", "a"
	};
	uint64_t seed = tap_seed(31);
	unsigned failed = 0;

	for (int round = 0; round < 3000; round++) {
		struct ck_catalog *c = catalog_new();
		unsigned n = 1 + (unsigned)(tap_random(&seed) % 12);
		bool module = tap_random(&seed) % 2;
		struct ck_diag d = { 0 };

		for (unsigned i = 0; i < n; i++) {
			char key[200] = "";

			strcat(key, module ? "module." : "");
			for (unsigned k = 0; k < tap_random(&seed) % 6; k++)
				strcat(key, parts[tap_random(&seed) % 6]);
			object_add(c, key);
		}
		if (ck_catalog_finish(c, &d) == 0)
			for (uint32_t i = 0; i < c->listing->n; i++)
				failed += !finds(c, i);
		else
			failed += d.err != EBADMSG;
		ck_catalog_put(c);
	}
	eq_u64(failed, 0);
}

/* --- the rest ------------------------------------------------------------------ */

static void test_transforms(void)
{
	struct ck_catalog *c = catalog_new();
	uint8_t n;
	int rc = 0;

	eq_err(ck_catalog_transform_add(c, CK_STR(""), &n), 0);
	eq_u64(n, 0);
	eq_err(ck_catalog_transform_add(c, CK_STR("stream.zstd/1"), &n), 0);
	eq_u64(n, 1);
	eq_err(ck_catalog_transform_add(c, CK_STR("other"), &n), 0);
	eq_u64(n, 2);
	eq_err(ck_catalog_transform_add(c, CK_STR("stream.zstd/1"), &n), 0);
	eq_u64(n, 1);
	eq_text(text_of(c->transforms[2]), "other");
	for (int i = 0; rc == 0 && i < 1000; i++) {
		char text[16];

		snprintf(text, sizeof(text), "t%d", i);
		rc = ck_catalog_transform_add(c, ck_str_from(text), &n);
	}
	eq_err(rc, -EOVERFLOW);
	ck_catalog_put(c);
}

static void test_globals_are_sorted_once_each(void)
{
	struct ck_catalog *c = catalog_new();

	must(ck_catalog_global_add(c, CK_STR("m.b")));
	must(ck_catalog_global_add(c, CK_STR("m.a")));
	must(ck_catalog_global_add(c, CK_STR("")));
	must(ck_catalog_global_add(c, CK_STR("m.b")));
	finish(c);
	eq_u64(c->nglobals, 3);
	eq_text(text_of(c->globals[0]), "");
	eq_text(text_of(c->globals[1]), "m.a");
	eq_text(text_of(c->globals[2]), "m.b");
	ck_catalog_put(c);
}

static void test_dtype_prefix(void)
{
	struct ck_catalog *c = catalog_new();

	tensor_add(c, "a", "torch.bfloat16", 1, DIMS(3));
	finish(c);
	eq_text(text_of(ck_catalog_tensor(c, 0)->facts->dtype_name),
		"bfloat16");
	eq_u64(ck_catalog_tensor(c, 0)->nbytes, 6);
	ck_catalog_put(c);
}

/* 1000 x 1024 chunks of 2-D tensors: 60 bytes each and little more. */
static void test_memory(void)
{
	struct ck_catalog *c = catalog_new();

	file_add(c, "f", UINT64_MAX, 0);
	for (int t = 0; t < 1000; t++) {
		char key[32];

		snprintf(key, sizeof(key), "layers.%d.weight", t);
		tensor_add(c, key, "float32", 2, DIMS(1024, 8));
		must(ck_catalog_chunks_expect(c, 1024));
		for (int64_t i = 0; i < 1024; i++)
			box_add(c, DIMS(i, 0), DIMS(1, 8));
	}
	finish(c);
	eq_u64(c->chunks.n, 1024000);
	/* Items, and 36 bytes for the box and its place in the order. */
	eq_u64(sizeof(struct ck_item), 24);
	ok(c->text.total < UINT64_C(1024000) * 38);
	eq_u64(c->nbytes, (uint64_t)1000 * 1024 * 8 * 4);
	ok(ck_catalog_tensor(c, 999)->err == 0 &&
	   !ck_catalog_tensor(c, 999)->holes);
	eq_u64(ck_catalog_tensor(c, 999)->facts->order[1023], 1023);
	ck_catalog_put(c);
}

/* What the listing keeps of names beside keys: nothing of those that follow from them. */
static void kept_are(const char *const *keys, size_t n)
{
	struct ck_catalog *c = with_keys(keys);

	ok(!c->listing->names);
	eq_u64(c->listing->nnamed, n);
	ck_catalog_put(c);
}

static void test_kept_names(void)
{
	kept_are(KEYS("a", "b.c"), 0);
	kept_are(KEYS("module.a", "module.b"), 0);
	kept_are(KEYS("a", "b/c", "_orig_mod.d"), 2);
	kept_are(KEYS(""), 1);
}

/* regression: of neighbours that have several by turns each had a copy of its own. */
static void test_turns(void)
{
	static char dtypes[3][301];
	struct ck_catalog *c = catalog_new();
	struct ck_mesh_dim dim = { .name = CK_STR("tp") };
	const struct ck_sharding sharding = { 1, &dim };

	for (unsigned i = 0; i < 3; i++)
		memset(dtypes[i], 'a' + (int)i, 300);
	for (unsigned i = 0; i < 12; i++) {
		char key[8];

		snprintf(key, sizeof(key), "t%u", i);
		tensor_add(c, key, dtypes[i % 3], 1, DIMS(4));
		dim.size = 2 + i % 3;
		must(ck_catalog_tensor_sharding(c, &sharding));
	}
	finish(c);
	for (uint32_t i = 3; i < 12; i++)
		ok(ck_catalog_tensor(c, i)->facts ==
		   ck_catalog_tensor(c, i - 3)->facts);
	ok(ck_catalog_tensor(c, 0)->facts != ck_catalog_tensor(c, 1)->facts);
	eq_u64(ck_catalog_tensor(c, 0)->facts->dtype_name.len, 255);
	ck_catalog_put(c);
}

/* 100,000 tensors of four shapes and two dtypes: rows, keys, and hardly more. */
static void test_memory_of_many_tensors(void)
{
	enum { MANY = 100000 };
	struct ck_catalog *c = catalog_new();
	const struct ck_tensor *a, *b;

	file_add(c, "f", UINT64_MAX, 0);
	for (int64_t t = 0; t < MANY; t++) {
		char key[32];

		snprintf(key, sizeof(key), "layers.%06d.weight", (int)t);
		tensor_add(c, key, t % 2 ? "int8" : "float32", 2,
			   DIMS(1 + t % 4, 8));
		must(ck_catalog_chunks_expect(c, 1));
		box_add(c, DIMS(0, 0), DIMS(1 + t % 4, 8));
		ck_catalog_path_is_key(c);
	}
	finish(c);
	a = ck_catalog_tensor(c, 3);
	b = ck_catalog_tensor(c, 99999);
	ok(a->facts == b->facts);
	ok(a->shape == b->shape && a->boxes == b->boxes);
	eq_i64(b->shape[0], 4);
	ok(b->boxes[0] == 0 && b->boxes[2] == 4 && b->facts->order[0] == 0);
	eq_u64(b->nbytes, 32);
	eq_u64(b->entry.nparts, 1);
	eq_text(text_of((struct ck_str){ ck_entry_part(&b->entry, 0).p, 20 }),
		"layers.099999.weight");
	ok(sizeof(struct ck_tensor) <= 120);
	ok(c->text.total < (uint64_t)32 * MANY + (1U << 20));
	ck_catalog_put(c);
}

int main(void)
{
	test_names();
	test_kept_names();
	test_clashing_names_keep_their_keys();
	test_kept_keys_clash_again();
	test_prefixed();
	test_duplicate_key();
	test_find();
	test_empty_catalog();
	test_equal_long_stems_are_numbered();
	test_random_names_differ();
	test_transforms();
	test_globals_are_sorted_once_each();
	test_dtype_prefix();
	test_memory();
	test_turns();
	test_memory_of_many_tensors();
	return tap_done();
}
