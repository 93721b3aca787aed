/* SPDX-License-Identifier: MIT */
/*
 * The reader of JSON takes what RFC 8259 allows and nothing else, and gives its values in
 * order. What is read is printed again, as one line with each level in brackets.
 */
#include "syntax/json_reader.h"
#include "tap.h"

#include <errno.h>

#define TEXT(text)                                                             \
	{                                                                      \
		text, sizeof(text) - 1                                         \
	}

static void print(const struct ck_json_value *v, struct ck_buf *out)
{
	static const char *const words[] = {
		[CK_JSON_NULL] = "null",   [CK_JSON_TRUE] = "true",
		[CK_JSON_FALSE] = "false", [CK_JSON_NUMBER] = "#",
		[CK_JSON_STRING] = "'",	   [CK_JSON_OBJECT] = "{",
		[CK_JSON_ARRAY] = "[",	   [CK_JSON_END] = "}",
		[CK_JSON_DONE] = ".",
	};

	if (v->key.p) {
		ck_buf_escaped(out, v->key);
		ck_buf_text(out, "=");
	}
	ck_buf_text(out, words[v->type]);
	ck_buf_escaped(out, v->text);
	ck_buf_text(out, " ");
}

static int read_all(struct ck_str text, struct ck_buf *out, struct ck_diag *d)
{
	struct ck_json_value v = { .type = CK_JSON_NULL };
	struct ck_json_reader r;
	int rc = 0;

	ck_json_reader_init(&r, text, d);
	while (rc == 0 && v.type != CK_JSON_DONE) {
		rc = ck_json_next(&r, &v);
		if (rc == 0)
			print(&v, out);
	}
	ck_json_reader_fini(&r);
	return rc;
}

static const struct {
	struct ck_str text;
	const char *want; /* NULL: refused */
} cases[] = {
	{ TEXT("null"), "null ." },
	{ TEXT(" \t\r\n true \n"), "true ." },
	{ TEXT("false"), "false ." },
	{ TEXT("\"\""), "' ." },
	{ TEXT("{}"), "{ } ." },
	{ TEXT("[ ]"), "[ } ." },
	{ TEXT("[1,[2],{\"a\":[]}]"), "[ #1 [ #2 } { a=[ } } } ." },
	{ TEXT("{\"a\":{\"a\":1},\"b\" : \"x\"}"), "{ a={ a=#1 } b='x } ." },
	{ TEXT("[0,-0,10,1.5,-1.5e+9,1E9,0e-1,0.0]"),
	  "[ #0 #-0 #10 #1.5 #-1.5e+9 #1E9 #0e-1 #0.0 } ." },
	{ TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "'\"\\/%08%0C%0A%0D%09 ." },
	{ TEXT("\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\""),
	  "'A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 ." },
	{ TEXT("\"a\\u0000b\""), "'a%00b ." },
	{ TEXT("\"\xc3\xa9\""), "'\xc3\xa9 ." },
	{ TEXT("{\"\":1}"), "{ =#1 } ." },
	{ TEXT("{\"a\\u0062\":1,\"b\":2}"), "{ ab=#1 b=#2 } ." },
	{ TEXT("\"x\x7fy\""), "'x%7Fy ." },
	{ TEXT(""), NULL },
	{ TEXT(" "), NULL },
	{ TEXT("nul"), NULL },
	{ TEXT("nulll"), NULL },
	{ TEXT("True"), NULL },
	{ TEXT("1 2"), NULL },
	{ TEXT("{} {}"), NULL },
	{ TEXT("null\0"), NULL },
	{ TEXT("\xef\xbb\xbf{}"), NULL },
	{ TEXT("01"), NULL },
	{ TEXT("-"), NULL },
	{ TEXT("-a"), NULL },
	{ TEXT("+1"), NULL },
	{ TEXT(".5"), NULL },
	{ TEXT("1."), NULL },
	{ TEXT("1.e5"), NULL },
	{ TEXT("1e"), NULL },
	{ TEXT("1e+"), NULL },
	{ TEXT("0x1"), NULL },
	{ TEXT("1e308"), "#1e308 ." },
	{ TEXT("1e309"), NULL },
	{ TEXT("-1e999999999999999999999"), NULL },
	{ TEXT("1e-999"), "#1e-999 ." },
	{ TEXT("0e999"), "#0e999 ." },
	{ TEXT("NaN"), NULL },
	{ TEXT("["), NULL },
	{ TEXT("[1"), NULL },
	{ TEXT("[1,]"), NULL },
	{ TEXT("[,1]"), NULL },
	{ TEXT("[1 2]"), NULL },
	{ TEXT("[1}"), NULL },
	{ TEXT("]"), NULL },
	{ TEXT("{"), NULL },
	{ TEXT("{\"a\""), NULL },
	{ TEXT("{\"a\"}"), NULL },
	{ TEXT("{\"a\":}"), NULL },
	{ TEXT("{\"a\":1,}"), NULL },
	{ TEXT("{a:1}"), NULL },
	{ TEXT("{1:1}"), NULL },
	{ TEXT("{\"a\":1]"), NULL },
	{ TEXT("{\"a\" 1}"), NULL },
	{ TEXT("\"a"), NULL },
	{ TEXT("\"a\\\""), NULL },
	{ TEXT("\"\\"), NULL },
	{ TEXT("\"\\x\""), NULL },
	{ TEXT("\"\\u12\""), NULL },
	{ TEXT("\"\\u12g4\""), NULL },
	{ TEXT("\"\\ud800\""), NULL },
	{ TEXT("\"\\udc00\""), NULL },
	{ TEXT("\"\\ud800\\u0041\""), NULL },
	{ TEXT("\"\\ud800\\ud800\""), NULL },
	{ TEXT("\"\\ud800x\""), NULL },
	{ TEXT("\"\\ud83d\\ude0\""), NULL },
	{ TEXT("\"\n\""), NULL },
	{ TEXT("\"\x1f\""), NULL },
	{ TEXT("\"\xff\""), NULL },
	{ TEXT("\"\xc3\""), NULL },
	{ TEXT("\"\xc0\x80\""), NULL },
	{ TEXT("\"\xed\xa0\x80\""), NULL },
	{ TEXT("\"\xf4\x90\x80\x80\""), NULL },
	{ TEXT("{\"a\":1,\"a\":1}"), NULL },
	{ TEXT("{\"ab\":1,\"a\\u0062\":1}"), NULL },
	{ TEXT("[{\"x\":{\"a\":1,\"b\":2,\"a\":3}}]"), NULL },
	{ TEXT("{\"\":1,\"\":2}"), NULL },
};

static void test_cases(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct ck_buf out = { 0 };
		struct ck_diag d = { 0 };
		int rc = read_all(cases[i].text, &out, &d);

		printf("# %s: %s\n", ck_show(cases[i].text), d.text);
		eq_err(rc, cases[i].want ? 0 : -EBADMSG);
		if (cases[i].want)
			eq_mem(out.data, out.len ? out.len - 1 : 0,
			       cases[i].want, strlen(cases[i].want));
		else
			ok(d.err == EBADMSG && strstr(d.text, "JSON: byte "));
		ck_buf_fini(&out);
	}
}

/* A block of the exact size, so that ASan sees one byte too many. */
static void test_cut_short_and_flipped(void)
{
	unsigned others = 0; /* errors that are not EBADMSG */

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct ck_str s = cases[i].text;

		for (size_t k = 0; k < 9 * s.len; k++) {
			size_t len = k < s.len ? k : s.len;
			char *copy = malloc(len + !len);
			struct ck_buf out = { 0 };
			int rc;

			memcpy(copy, s.p, len);
			if (k >= s.len)
				copy[k % s.len] ^= (char)(1 << (k / s.len - 1));
			rc = read_all((struct ck_str){ copy, len }, &out, NULL);
			others += rc && rc != -EBADMSG;
			ck_buf_fini(&out);
			free(copy);
		}
	}
	eq_u64(others, 0);
}

static void times(struct ck_buf *b, const char *text, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ck_buf_text(b, text);
}

static void test_levels(void)
{
	for (unsigned n = 127; n < 129; n++) {
		struct ck_buf b = { 0 }, out = { 0 };

		times(&b, "[", n);
		times(&b, "]", n);
		eq_err(read_all((struct ck_str){ b.data, b.len }, &out, NULL),
		       n == 127 ? 0 : -EBADMSG);
		ck_buf_fini(&b);
		ck_buf_fini(&out);
	}
}

/* Of many keys the last is that of one in the middle, or not. */
static void test_many_keys(void)
{
	for (unsigned twice = 0; twice < 2; twice++) {
		struct ck_buf b = { 0 }, out = { 0 };
		struct ck_diag d = { 0 };

		ck_buf_text(&b, "{");
		for (unsigned i = 0; i < 5000; i++)
			ck_buf_printf(&b, "\"k%u\":{\"a\":1,\"b\":2},", i);
		ck_buf_printf(&b, "\"k%u\":0}", twice ? 2500U : 5000U);
		eq_err(read_all((struct ck_str){ b.data, b.len }, &out, &d),
		       twice ? -EBADMSG : 0);
		ok(!twice || strstr(d.text, "k2500"));
		ck_buf_fini(&b);
		ck_buf_fini(&out);
	}
}

static void test_skip(void)
{
	struct ck_str text = CK_STR("[[1,[2,{\"a\":[]}],3],\"x\"]");
	struct ck_json_reader r;
	struct ck_json_value v;

	ck_json_reader_init(&r, text, NULL);
	eq_err(ck_json_next(&r, &v), 0);
	eq_err(ck_json_next(&r, &v), 0);
	eq_err(ck_json_skip(&r, &v), 0);
	eq_err(ck_json_next(&r, &v), 0);
	ok(v.type == CK_JSON_STRING && ck_str_is(v.text, "x"));
	eq_err(ck_json_skip(&r, &v), 0); /* nothing is in it */
	eq_err(ck_json_next(&r, &v), 0);
	ok(v.type == CK_JSON_END);
	eq_err(ck_json_next(&r, &v), 0);
	ok(v.type == CK_JSON_DONE);
	ck_json_reader_fini(&r);
}

static void test_u63(void)
{
	static const struct {
		struct ck_str text;
		uint64_t value;
		bool good;
	} numbers[] = {
		{ TEXT("0"), 0, true },
		{ TEXT("18"), 18, true },
		{ TEXT("9223372036854775807"), INT64_MAX, true },
		{ TEXT("9223372036854775808"), 0, false },
		{ TEXT("99999999999999999999999"), 0, false },
		{ TEXT("-1"), 0, false },
		{ TEXT("-0"), 0, false },
		{ TEXT("1.0"), 0, false },
		{ TEXT("1e3"), 0, false },
		{ TEXT("\"1\""), 0, false },
		{ TEXT("null"), 0, false },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(numbers); i++) {
		struct ck_json_reader r;
		struct ck_json_value v;
		uint64_t got = 0;

		ck_json_reader_init(&r, numbers[i].text, NULL);
		eq_err(ck_json_next(&r, &v), 0);
		ok(ck_json_u63(&v, &got) == numbers[i].good);
		ok(!numbers[i].good || got == numbers[i].value);
		ck_json_reader_fini(&r);
	}
}

int main(void)
{
	test_cases();
	test_cut_short_and_flipped();
	test_levels();
	test_many_keys();
	test_skip();
	test_u63();
	return tap_done();
}
