/* SPDX-License-Identifier: MIT */
/* tensors.csv, tensors.jsonl and the JSON of one tensor. */
#include "catalogs.h"
#include "ckptfs/json.h"
#include "ckptfs/report.h"
#include "tap.h"

static struct ck_catalog *example(void)
{
	struct ck_catalog *c = catalog_new();
	struct ck_item far_away = { .file = CK_NO_FILE,
				    .fpos = UINT64_MAX,
				    .length = UINT64_MAX };

	file_add(c, "__0_0.distcp", 1000, 0);
	file_add(c, "\xff", 1000, 0);
	tensor_add(c, "l.10.w", "bfloat16", 2, DIMS(4, 3));
	item_add(c, DIMS(0, 0), DIMS(2, 3), 0, 0, 100);
	item_add(c, DIMS(2, 0), DIMS(2, 3), 1, 7, 9);
	tensor_add(c, "_orig_mod.l.2.w", "float32", 1, DIMS(5));
	must(ck_catalog_chunk_add(c, DIMS(0), DIMS(5), &far_away));
	object_add(c, "a");
	tensor_add(c, "a,\"b\"", "int64", 0, NULL);
	tensor_add(c, "z\xed\xa0\x80", "int\xff", 1, DIMS(2));
	finish(c);
	return c;
}

static void test_csv(void)
{
	struct ck_catalog *c = example();
	struct ck_buf out = { 0 };

	ck_report_csv(c, &out);
	eq_text(out.data, "stem,dtype,shape,bytes,chunks,kind\n"
			  "\"a,\"\"b\"\"\",int64,[],8,0,tensor\n"
			  "l.2.w,float32,[5],20,1,tensor\n"
			  "l.10.w,bfloat16,\"[4,3]\",24,2,tensor\n"
			  "z%ED%A0%80,int%FF,[2],0,0,tensor\n");
	ck_buf_fini(&out);
	ck_catalog_put(c);
}

static void test_prefixed(void)
{
	static const char *const keys[] = { "_orig_mod.l.10",	"l.10",
					    "_orig_mod.l.2",	"l.2",
					    "_orig_mod.a,\x1b", "a,\x1b" };
	struct ck_catalog *c = catalog_new();
	struct ck_buf out = { 0 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(keys); i++)
		object_add(c, keys[i]);
	finish(c);
	ck_report_prefixed(c, &out);
	eq_text(out.data, "_orig_mod.a%2C%1B, _orig_mod.l.2, _orig_mod.l.10");
	ck_buf_fini(&out);
	ck_catalog_put(c);
}

static void test_jsonl(void)
{
	struct ck_catalog *c = example();
	struct ck_buf out = { 0 };

	ck_report_jsonl(c, &out);
	eq_text(out.data,
		"{\"fqn\":\"a,\\\"b\\\"\",\"stem\":\"a,\\\"b\\\"\","
		"\"dtype\":\"int64\",\"shape\":[],\"bytes\":8,\"chunks\":0,"
		"\"kind\":\"tensor\"}\n"
		"{\"fqn\":\"l.2.w\",\"stem\":\"l.2.w\",\"dtype\":\"float32\","
		"\"shape\":[5],\"bytes\":20,\"chunks\":1,\"kind\":\"tensor\","
		"\"raw_key\":\"_orig_mod.l.2.w\"}\n"
		"{\"fqn\":\"l.10.w\",\"stem\":\"l.10.w\","
		"\"dtype\":\"bfloat16\",\"shape\":[4,3],\"bytes\":24,"
		"\"chunks\":2,\"kind\":\"tensor\"}\n"
		"{\"fqn\":{\"$str\":\"eu2ggA==\"},\"stem\":\"z%ED%A0%80\","
		"\"dtype\":{\"$str\":\"aW50/w==\"},\"shape\":[2],\"bytes\":0,"
		"\"chunks\":0,\"kind\":\"tensor\"}\n");
	ck_buf_fini(&out);
	ck_catalog_put(c);
}

static void test_boxes(void)
{
	struct ck_catalog *c = example();
	struct ck_buf out = { 0 };
	static const char two[] =
		",\"grid\":[2,1],\"boxes\":[{\"offset\":[0,0],\"size\":[2,3],"
		"\"file\":\"__0_0.distcp\",\"pos\":0,\"length\":100},"
		"{\"offset\":[2,0],\"size\":[2,3],"
		"\"file\":{\"$str\":\"/w==\"},\"pos\":7,\"length\":9}]}";
	const struct ck_report_boxes boxes = { 0 };
	static const char none[] =
		",\"grid\":[1],\"boxes\":[{\"offset\":[0],\"size\":[5],\"file\":null,"
		"\"pos\":18446744073709551615,"
		"\"length\":18446744073709551615}]}";

	ck_report_tensor_json(c, 0, &boxes, &out);
	eq_text(out.data + out.len - strlen(two), two);
	ck_buf_fini(&out);
	ck_report_tensor_json(c, 1, &boxes, &out);
	eq_text(out.data + out.len - strlen(none), none);
	ck_buf_fini(&out);
	ck_catalog_put(c);
}

static void test_json_strings(void)
{
	static const struct {
		struct ck_str s;
		const char *json;
	} rows[] = {
		{ { "", 0 }, "\"\"" },
		{ { NULL, 0 }, "\"\"" },
		{ { "a/\\\"\n\0", 6 }, "\"a/\\\\\\\"\\n\\u0000\"" },
		{ { "\xc3\xa9\xf0\x9f\x98\x80", 6 },
		  "\"\xc3\xa9\xf0\x9f\x98\x80\"" },
		{ { "\xc3", 1 }, "{\"$str\":\"ww==\"}" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct ck_buf out = { 0 };

		ck_buf_json_str(&out, rows[i].s);
		eq_text(out.data, rows[i].json);
		ck_buf_fini(&out);
	}
}

static void test_order_has_every_entry(void)
{
	struct ck_catalog *c = example();
	uint32_t *order = ck_report_order(c);
	static const char *const want[] = { "a", "a,\"b\"", "l.2.w", "l.10.w" };

	for (size_t i = 0; i < CK_ARRAY_SIZE(want); i++)
		eq_text(name_of(c, order[i]), want[i]);
	free(order);
	ck_catalog_put(c);
}

static void test_alike(void)
{
	/* U+00E9; e U+0301; the micro sign and mu; sharp s */
	static const char *const names[] = {
		"w.B",	    "\xc3\xa9",	 "a",
		"w.b",	    "e\xcc\x81", "W.b",
		"\xc2\xb5", "\xce\xbc",	 "stra\xc3\x9f\x65",
		"STRASSE",  "z",
	};
	static const char *const want[] = {
		"+stra\xc3\x9f\x65",
		"STRASSE",
		"+w.B",
		"w.b",
		"W.b",
		"+\xc3\xa9",
		"e\xcc\x81",
		"+\xc2\xb5",
		"\xce\xbc",
	};
	struct ck_catalog *c = catalog_new();
	struct ck_alike alike;
	size_t found = 0;

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++)
		object_add(c, names[i]);
	finish(c);
	must(ck_alike_find(c, &alike));
	eq_u64(alike.n, CK_ARRAY_SIZE(want));
	for (size_t i = 0; i < alike.n; i++)
		for (size_t k = 0; k < CK_ARRAY_SIZE(want); k++)
			found += ck_str_is(ck_str_from(name_of(
						   c, alike.rows[i].entry)),
					   want[k] + (*want[k] == '+')) &&
				 alike.rows[i].first == (*want[k] == '+');
	eq_u64(found, CK_ARRAY_SIZE(want));
	ck_alike_fini(&alike);
	ck_catalog_put(c);
}

int main(void)
{
	test_alike();
	test_csv();
	test_prefixed();
	test_jsonl();
	test_boxes();
	test_json_strings();
	test_order_has_every_entry();
	return tap_done();
}
