/* SPDX-License-Identifier: MIT */
/*
 * state_dict.json: nesting by paths, and one flat object where the paths
 * cannot be those of one state dict.
 */
#include "catalogs.h"
#include "ckptfs/report.h"
#include "model/catalog/catalog_edit.h"
#include "tap.h"

/* A part of a path: a name, or a position after '#'. */
static struct ck_path_part part_make(struct ck_catalog *c, struct ck_str part)
{
	bool is_index = part.len && part.p[0] == '#';
	struct ck_str text;

	if (is_index) {
		part.p++;
		part.len--;
	}
	must(ck_catalog_text_add(c, part, &text));
	return (struct ck_path_part){ text.p, (uint32_t)text.len,
				      is_index ? CK_PATH_INDEX : CK_PATH_STR };
}

/* Parts end at '|'. */
static void path_add(struct ck_catalog *c, const char *path)
{
	struct ck_path_part *parts;
	uint32_t n = *path != 0, k = 0;

	for (const char *p = path; *p; p++)
		n += *p == '|' && p[1];
	parts = ck_catalog_path_add(c, n);
	while (*path) {
		size_t len = strcspn(path, "|");

		parts[k++] = part_make(c, (struct ck_str){ path, len });
		path += len + (path[len] == '|');
	}
}

static void entry_add(struct ck_catalog *c, const char *key, const char *path)
{
	struct ck_item none = { .file = CK_NO_FILE };

	if (ck_catalog_object_add(c, ck_str_from(key), &none))
		abort();
	path_add(c, path);
}

static void check(struct ck_catalog *c, const char *want)
{
	struct ck_buf out = { 0 };

	if (ck_catalog_finish(c, NULL))
		abort();
	ck_report_state_dict(c, &out);
	eq_text(out.data, want);
	ck_buf_fini(&out);
	ck_catalog_put(c);
}

#define MAX_ENTRIES 6

static void test_nesting(void)
{
	static const struct {
		struct {
			const char *key, *path;
		} entries[MAX_ENTRIES];

		const char *want;
	} rows[] = {
		{ { { NULL, NULL } }, "{}\n" },
		{ { { "b", "" }, { "a", "" } }, "{\"b\":\"b\",\"a\":\"a\"}\n" },
		{ { { "m.w", "m|w" }, { "x", "x" }, { "m.b", "m|b" } },
		  "{\"m\":{\"w\":\"m.w\",\"b\":\"m.b\"},\"x\":\"x\"}\n" },
		{ { { "l.w", "l.w" }, { "l.b.c", "l|b.c" } },
		  "{\"l.w\":\"l.w\",\"l\":{\"b.c\":\"l.b.c\"}}\n" },
		{ { { "l.2", "l|#2" }, { "l.0", "l|#0" } },
		  "{\"l\":[\"l.0\",null,\"l.2\"]}\n" },
		{ { { "l.10.a", "l|#10|a" }, { "l.9.a", "l|#9|a" } },
		  "{\"l\":[null,null,null,null,null,null,null,null,null,"
		  "{\"a\":\"l.9.a\"},{\"a\":\"l.10.a\"}]}\n" },
		{ { { "o.0", "o|0" }, { "o.1", "o|1" } },
		  "{\"o\":{\"0\":\"o.0\",\"1\":\"o.1\"}}\n" },
		{ { { "$x.a", "$x|a" }, { "y", "y" } },
		  "{\"$dict\":[[\"$x\",{\"a\":\"$x.a\"}],[\"y\",\"y\"]]}\n" },
		{ { { "a.\xed\xa0\x80", "a|\xed\xa0\x80" } },
		  "{\"a\":{\"$dict\":[[{\"$str\":\"7aCA\"},{\"$str\":\"YS7toIA=\"}]]}}\n" },
		/* only some have paths */
		{ { { "m.w", "m|w" }, { "x.y", "" } },
		  "{\"m\":{\"w\":\"m.w\"},\"x.y\":\"x.y\"}\n" },
		/* shown names are not the keys */
		{ { { "m._orig_mod.w", "m|_orig_mod.w" } },
		  "{\"m\":{\"_orig_mod.w\":\"m.w\"}}\n" },
		/* contradictions: flat */
		{ { { "a", "a" }, { "a.b", "a|b" } },
		  "{\"a\":\"a\",\"a.b\":\"a.b\"}\n" },
		{ { { "a.b", "a|b" }, { "a", "a" } },
		  "{\"a.b\":\"a.b\",\"a\":\"a\"}\n" },
		{ { { "x", "a|b" }, { "y", "a|b" } },
		  "{\"x\":\"x\",\"y\":\"y\"}\n" },
		{ { { "l.0", "l|#0" }, { "l.a", "l|a" } },
		  "{\"l.0\":\"l.0\",\"l.a\":\"l.a\"}\n" },
		{ { { "l.0", "l|#0" }, { "m.0", "l|0" } },
		  "{\"l.0\":\"l.0\",\"m.0\":\"m.0\"}\n" },
		{ { { "l", "l|#9223372036854775807" } }, "{\"l\":\"l\"}\n" },
		{ { { "l", "l|#2000000" } }, "{\"l\":\"l\"}\n" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ck_catalog *c = ck_catalog_make("dcp");

		for (size_t k = 0; k < MAX_ENTRIES && rows[i].entries[k].key;
		     k++)
			entry_add(c, rows[i].entries[k].key,
				  rows[i].entries[k].path);
		check(c, rows[i].want);
	}
}

static void test_deep_paths_are_not_used(void)
{
	struct ck_catalog *c = ck_catalog_make("dcp");
	char path[200] = "";

	for (int i = 0; i < 65; i++)
		strcat(path, "a|");
	entry_add(c, "key", path);
	check(c, "{\"key\":\"key\"}\n");
}

static void test_many(void)
{
	struct ck_catalog *c = ck_catalog_make("dcp");
	struct ck_buf out = { 0 };

	for (unsigned i = 0; i < 200000; i++) {
		char key[64], path[64];

		snprintf(key, sizeof(key), "m.layers.%u.w%u", i / 10, i % 10);
		snprintf(path, sizeof(path), "m|layers|#%u|w%u", i / 10,
			 i % 10);
		entry_add(c, key, path);
	}
	eq_err(ck_catalog_finish(c, NULL), 0);
	ck_report_state_dict(c, &out);
	eq_err(out.err, 0);
	ok(memcmp(out.data, "{\"m\":{\"layers\":[{\"w0\":", 22) == 0);
	ok(strcmp(out.data + out.len - 24, "\"m.layers.19999.w9\"}]}}\n") == 0);
	ck_buf_fini(&out);
	ck_catalog_put(c);
}

int main(void)
{
	test_nesting();
	test_deep_paths_are_not_used();
	test_many();
	return tap_done();
}
