/* SPDX-License-Identifier: MIT */
/* Shard maps: the rectangles and attributes of boxes, exactly, for tensors of 0 to 5 dimensions;
 * copies, files without a rank, boxes that lie, many boxes; and names that XML does not have. */
#include "catalogs.h"
#include "report/shard_map.h"
#include "report/xml_text.h"
#include "tap.h"

#include <inttypes.h>

/* Appends the lines of a map that begin with `start`, without their tooltips. */
static void lines_of(const char *map, const char *start, struct ck_buf *out)
{
	for (const char *at = map; *at; at = strchr(at, '\n') + 1)
		if (strncmp(at, start, strlen(start)) == 0) {
			const char *end = at + strcspn(at, "\n");
			const char *title = strstr(at, "<title>");

			if (title && title < end)
				end = title;
			ck_buf_add(out, at, (size_t)(end - at));
			ck_buf_text(out, "\n");
		}
}

static char *map_of(const struct ck_catalog *c, uint32_t tensor)
{
	struct ck_buf text = { 0 };

	ck_shard_map_print(c, tensor, &text);
	must(text.err);
	return text.data;
}

/* Compares the lines that begin with `start`. */
static void expect(const struct ck_catalog *c, const char *start,
		   const char *want)
{
	char *map = map_of(c, 0);
	struct ck_buf got = { 0 };

	lines_of(map, start, &got);
	eq_mem(got.data, got.len, want, strlen(want));
	ck_buf_fini(&got);
	free(map);
}

static void expect_part(const struct ck_catalog *c, const char *part, bool has)
{
	char *map = map_of(c, 0);

	if (!ok((strstr(map, part) != NULL) == has))
		printf("# %s in\n# %.400s\n", part, map);
	free(map);
}

/* A catalog with n files of ranks, and a tensor without boxes. */
static struct ck_catalog *begin(uint32_t files, uint32_t ndim,
				const int64_t *shape)
{
	struct ck_catalog *c = catalog_new();
	char path[32];

	for (uint32_t i = 0; i < files; i++) {
		snprintf(path, sizeof(path), "__%" PRIu32 "_0.distcp", i);
		file_add_of(c, path, 100000, 0, i);
	}
	tensor_add(c, "t", "float32", ndim, shape);
	return c;
}

static void end(struct ck_catalog *c)
{
	ck_catalog_put(c);
}

#define RECT "<rect data-rank"

static void test_two_dimensions(void)
{
	struct ck_catalog *c = begin(4, 2, DIMS(4, 6));

	/* In another order than that of the offsets. */
	item_add(c, DIMS(2, 3), DIMS(2, 3), 3, 0, 24);
	item_add(c, DIMS(2, 0), DIMS(2, 3), 2, 0, 24);
	item_add(c, DIMS(0, 0), DIMS(2, 3), 0, 0, 24);
	item_add(c, DIMS(0, 3), DIMS(2, 3), 1, 0, 24);
	finish(c);
	expect(c, RECT,
	       RECT
	       "=\"0\" data-offset=\"0,0\" data-size=\"2,3\" x=\"28\" y=\"24\" width=\"300\" height=\"200\" fill=\"#76b6f7\">\n" RECT
	       "=\"1\" data-offset=\"0,3\" data-size=\"2,3\" x=\"328\" y=\"24\" width=\"300\" height=\"200\" fill=\"#e79f62\">\n" RECT
	       "=\"2\" data-offset=\"2,0\" data-size=\"2,3\" x=\"28\" y=\"224\" width=\"300\" height=\"200\" fill=\"#79c68a\">\n" RECT
	       "=\"3\" data-offset=\"2,3\" data-size=\"2,3\" x=\"328\" y=\"224\" width=\"300\" height=\"200\" fill=\"#f19293\">\n");
	expect(c, "<svg",
	       "<svg xmlns=\"http://www.w3.org/2000/svg\" data-fqn=\"t\" data-dtype=\"float32\" data-shape=\"4,6\" "
	       "viewBox=\"0 0 632 446\" width=\"632\" height=\"446\" style=\"max-width:100%;height:auto\" "
	       "role=\"img\" aria-label=\"Shards of t\">\n");
	expect(c, "<text class=\"axis\"",
	       "<text class=\"axis\" x=\"12\" y=\"224\" transform=\"rotate(-90 12 224)\">dimension 0: 4</text>\n"
	       "<text class=\"axis\" x=\"328\" y=\"16\">dimension 1: 6</text>\n");
	expect(c, "<text class=\"rank\"",
	       "<text class=\"rank\" x=\"178\" y=\"128\">0</text>\n"
	       "<text class=\"rank\" x=\"478\" y=\"128\">1</text>\n"
	       "<text class=\"rank\" x=\"178\" y=\"328\">2</text>\n"
	       "<text class=\"rank\" x=\"478\" y=\"328\">3</text>\n");
	expect(c, "<circle",
	       "<circle r=\"5\" cx=\"33\" cy=\"437\" fill=\"#76b6f7\"/><text x=\"43\" y=\"441\">rank 0</text>\n"
	       "<circle r=\"5\" cx=\"133\" cy=\"437\" fill=\"#e79f62\"/><text x=\"143\" y=\"441\">rank 1</text>\n"
	       "<circle r=\"5\" cx=\"233\" cy=\"437\" fill=\"#79c68a\"/><text x=\"243\" y=\"441\">rank 2</text>\n"
	       "<circle r=\"5\" cx=\"333\" cy=\"437\" fill=\"#f19293\"/><text x=\"343\" y=\"441\">rank 3</text>\n");
	expect_part(c,
		    "<title>rank 3\noffset [2, 3]\nsize [2, 3]</title></rect>",
		    true);
	end(c);
}

static void test_few_dimensions(void)
{
	struct ck_catalog *c = begin(1, 0, NULL);

	item_add(c, NULL, NULL, 0, 0, 4);
	finish(c);
	expect(c, RECT,
	       RECT
	       "=\"0\" data-offset=\"\" data-size=\"\" x=\"28\" y=\"24\" width=\"160\" height=\"80\" fill=\"#76b6f7\">\n");
	expect(c, "<text class=\"axis\"", "");
	end(c);
	/* 7 rows of 240 units: thirds and sevenths are rounded half up. */
	c = begin(3, 1, DIMS(7));
	item_add(c, DIMS(0), DIMS(3), 0, 0, 12);
	item_add(c, DIMS(3), DIMS(3), 1, 0, 12);
	item_add(c, DIMS(6), DIMS(1), 2, 0, 4);
	finish(c);
	expect(c, RECT,
	       RECT
	       "=\"0\" data-offset=\"0\" data-size=\"3\" x=\"28\" y=\"24\" width=\"320\" height=\"102.86\" fill=\"#76b6f7\">\n" RECT
	       "=\"1\" data-offset=\"3\" data-size=\"3\" x=\"28\" y=\"126.86\" width=\"320\" height=\"102.86\" fill=\"#e79f62\">\n" RECT
	       "=\"2\" data-offset=\"6\" data-size=\"1\" x=\"28\" y=\"229.71\" width=\"320\" height=\"34.29\" fill=\"#79c68a\">\n");
	expect(c, "<text class=\"axis\"",
	       "<text class=\"axis\" x=\"12\" y=\"144\" transform=\"rotate(-90 12 144)\">dimension 0: 7</text>\n");
	end(c);
}

/* Rows and columns; each column is divided by dimension 2. */
static void test_further_dimensions(void)
{
	struct ck_catalog *c = begin(2, 3, DIMS(10, 2, 4));

	item_add(c, DIMS(0, 0, 0), DIMS(10, 1, 1), 0, 0, 40);
	item_add(c, DIMS(0, 0, 1), DIMS(10, 1, 3), 1, 0, 120);
	item_add(c, DIMS(0, 1, 0), DIMS(10, 1, 4), 1, 120, 160);
	finish(c);
	/* A fifth is limited to a half: 200 x 400. */
	expect(c, RECT,
	       RECT
	       "=\"0\" data-offset=\"0,0,0\" data-size=\"10,1,1\" x=\"28\" y=\"24\" width=\"25\" height=\"400\" fill=\"#76b6f7\">\n" RECT
	       "=\"1\" data-offset=\"0,0,1\" data-size=\"10,1,3\" x=\"53\" y=\"24\" width=\"75\" height=\"400\" fill=\"#e79f62\">\n" RECT
	       "=\"1\" data-offset=\"0,1,0\" data-size=\"10,1,4\" x=\"128\" y=\"24\" width=\"100\" height=\"400\" fill=\"#e79f62\">\n");
	expect_part(c, ">dimension 1: 2, each divided by dimension 2<", true);
	end(c);
	c = begin(1, 5, DIMS(2, 9, 2, 2, 2));
	item_add(c, DIMS(0, 0, 0, 0, 0), DIMS(2, 9, 2, 1, 2), 0, 0, 288);
	item_add(c, DIMS(0, 0, 0, 1, 0), DIMS(2, 9, 2, 1, 2), 0, 288, 288);
	finish(c);
	expect_part(c, ">dimension 1: 9, each divided by dimensions 2 to 4<",
		    true);
	expect_part(c, "viewBox=\"0 0 632 246\"", true); /* at most 3 to 1 */
	end(c);
	c = begin(1, 3, DIMS(2, 2, 2));
	item_add(c, DIMS(0, 0, 0), DIMS(2, 2, 2), 0, 0, 32);
	finish(c);
	expect_part(c, ">dimension 1: 2<", true);
	end(c);
}

static void test_no_elements(void)
{
	struct ck_catalog *c = begin(2, 2, DIMS(0, 6));

	item_add(c, DIMS(0, 0), DIMS(0, 3), 0, 0, 0);
	item_add(c, DIMS(0, 3), DIMS(0, 3), 1, 0, 0);
	finish(c);
	expect(c, RECT,
	       RECT
	       "=\"0\" data-offset=\"0,0\" data-size=\"0,3\" x=\"28\" y=\"24\" width=\"200\" height=\"400\" fill=\"#76b6f7\">\n" RECT
	       "=\"1\" data-offset=\"0,3\" data-size=\"0,3\" x=\"228\" y=\"24\" width=\"200\" height=\"400\" fill=\"#e79f62\">\n");
	end(c);
	c = begin(0, 1, DIMS(4)); /* no box at all */
	finish(c);
	expect(c, RECT, "");
	expect(c, "<circle", "");
	end(c);
}

/* The lowest rank is that of the rectangle, whichever file is read. */
static void test_copies(void)
{
	static const uint32_t ranks[] = { 9, 27, 3, 27 };
	struct ck_catalog *c = catalog_new();

	for (uint32_t i = 0; i < CK_ARRAY_SIZE(ranks); i++) {
		char path[32];

		snprintf(path, sizeof(path), "%" PRIu32 ".bin", i);
		file_add_of(c, path, 1000, 0, ranks[i]);
	}
	file_add(c, "a<b.bin", 1000, 0);
	file_add(c, "c.bin", 1000, 0);
	tensor_add(c, "t", "float32", 1, DIMS(4));
	item_add(c, DIMS(0), DIMS(2), 0, 0, 8);
	for (uint32_t i = 1; i < 6; i++) {
		struct ck_item item = { .file = i, .length = 8 };

		must(ck_catalog_replica_add(c, &item));
	}
	item_add(c, DIMS(2), DIMS(2), 5, 0, 8);
	must(ck_catalog_replica_add(
		c, &(struct ck_item){ .file = 4, .length = 8 }));
	finish(c);
	expect(c, RECT,
	       RECT
	       "=\"3\" data-copies=\"9,27,a&lt;b.bin,c.bin\" data-offset=\"0\" data-size=\"2\" x=\"28\" y=\"24\" width=\"320\" height=\"120\" fill=\"#f19293\">\n" RECT
	       "=\"a&lt;b.bin\" data-copies=\"c.bin\" data-offset=\"2\" data-size=\"2\" x=\"28\" y=\"144\" width=\"320\" height=\"120\" fill=\"#76b6f7\">\n");
	expect_part(
		c,
		"<title>rank 3, copies on ranks 9, 27 and in files a&lt;b.bin, c.bin\n",
		true);
	expect_part(c, "<title>file a&lt;b.bin, copies in files c.bin\n", true);
	expect(c, "<text class=\"rank\"",
	       "<text class=\"rank\" x=\"188\" y=\"88\">3</text>\n"
	       "<text class=\"rank\" x=\"188\" y=\"208\">#1</text>\n");
	expect(c, "<circle",
	       "<circle r=\"5\" cx=\"33\" cy=\"277\" fill=\"#f19293\"/><text x=\"43\" y=\"281\">rank 3</text>\n"
	       "<circle r=\"5\" cx=\"33\" cy=\"295\" fill=\"#76b6f7\"/><text x=\"43\" y=\"299\">#1 a&lt;b.bin</text>\n");
	end(c);
}

static void test_damage(void)
{
	struct ck_catalog *c = begin(1, 1, DIMS(4));

	item_add(c, DIMS(-2), DIMS(4), 0, 0, 16);
	item_add(c, DIMS(3), DIMS(9), 0, 0, 16);
	item_add(c, DIMS(9), DIMS(INT64_MIN), CK_NO_FILE, 0, 16);
	finish(c);
	ok(ck_catalog_tensor(c, 0)->err != 0);
	expect(c, RECT,
	       RECT
	       "=\"0\" data-offset=\"-2\" data-size=\"4\" x=\"28\" y=\"24\" width=\"320\" height=\"120\" fill=\"#76b6f7\">\n" RECT
	       "=\"0\" data-offset=\"3\" data-size=\"9\" x=\"28\" y=\"204\" width=\"320\" height=\"60\" fill=\"#76b6f7\">\n" RECT
	       "=\"\" data-offset=\"9\" data-size=\"-9223372036854775808\" x=\"28\" y=\"264\" width=\"320\" height=\"0\" fill=\"#8884\">\n");
	expect_part(c, "<title>no file\noffset [9]", true);
	expect_part(c, "rank 0</text>", true);
	expect(c, "<circle",
	       "<circle r=\"5\" cx=\"33\" cy=\"277\" fill=\"#76b6f7\"/><text x=\"43\" y=\"281\">rank 0</text>\n");
	end(c);
}

/* 256 boxes are the most that have rectangles; a legend has 32 ranks. */
static void test_many(void)
{
	for (uint32_t n = CK_SHARD_MAP_BOXES; n <= CK_SHARD_MAP_BOXES + 1;
	     n++) {
		struct ck_catalog *c = begin(n, 1, DIMS(n));
		struct ck_buf rects = { 0 };
		char *map;
		size_t lines = 0;

		for (uint32_t i = 0; i < n; i++)
			item_add(c, DIMS(i), DIMS(1), i, 0, 4);
		finish(c);
		map = map_of(c, 0);
		lines_of(map, RECT, &rects);
		for (size_t i = 0; i < rects.len; i++)
			lines += rects.data[i] == '\n';
		eq_u64(lines, n > CK_SHARD_MAP_BOXES ? 0 : n);
		ck_buf_fini(&rects);
		free(map);
		expect_part(c, ">and 224 more</text>", n == 256);
		expect_part(c, "data-shape=\"257\" data-boxes=\"257\"",
			    n == 257);
		expect(c, "<rect class=\"omitted\"",
		       n == 257
			       ? "<rect class=\"omitted\" x=\"28\" y=\"24\" width=\"320\" height=\"240\" fill=\"#8884\"/>\n"
			       : "");
		expect(c, "<text class=\"omitted\"",
		       n == 257
			       ? "<text class=\"omitted\" x=\"188\" y=\"148\">257 boxes</text>\n"
			       : "");
		end(c);
	}
}

static void expect_xml(struct ck_str name, const char *want)
{
	struct ck_buf text = { 0 };

	ck_buf_xml(&text, name);
	eq_mem(text.data, text.len, want, strlen(want));
	ck_buf_fini(&text);
}

#define U_FFFD "\xef\xbf\xbd"

static void test_names(void)
{
	struct ck_catalog *c = catalog_new();

	expect_xml(CK_STR(""), "");
	expect_xml(CK_STR("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;'");
	expect_xml(CK_STR("\t\n\r"), "&#9;&#10;&#13;");
	expect_xml(CK_STR("a\0b\x01\x1f\x7f"),
		   "a" U_FFFD "b" U_FFFD U_FFFD "\x7f");
	/* U+D800 twice, U+FFFE, U+FFFF, U+FFFD itself, U+1F600 */
	expect_xml(CK_STR("\xed\xa0\x80\xed\xa0\x80"), U_FFFD U_FFFD);
	expect_xml(CK_STR("\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd"),
		   U_FFFD U_FFFD U_FFFD);
	expect_xml(CK_STR("\xf0\x9f\x98\x80\xc3\xa4"),
		   "\xf0\x9f\x98\x80\xc3\xa4");
	/* Cut and overlong sequences. */
	expect_xml(CK_STR("\xed\xa0"), U_FFFD U_FFFD);
	expect_xml(CK_STR("\xc0\xbcx\xff"), U_FFFD U_FFFD "x" U_FFFD);
	must(ck_catalog_tensor_add(c, CK_STR("a\"><script>\x02\xed\xb2\x80"),
				   CK_STR("<&>"), 0, NULL));
	finish(c);
	expect_part(c,
		    "data-fqn=\"a&quot;&gt;&lt;script&gt;" U_FFFD U_FFFD
		    "\" data-dtype=\"&lt;&amp;&gt;\"",
		    true);
	expect_part(c,
		    "<title>a&quot;&gt;&lt;script&gt;" U_FFFD U_FFFD "</title>",
		    true);
	end(c);
}

int main(void)
{
	test_two_dimensions();
	test_few_dimensions();
	test_further_dimensions();
	test_no_elements();
	test_copies();
	test_damage();
	test_many();
	test_names();
	return tap_done();
}
