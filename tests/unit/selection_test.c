/* SPDX-License-Identifier: MIT */
/*
 * selection: patterns of names; lists of ranks; the listing and rows of a catalog of which
 * some names are hidden; manifests that are refused, and differences to a catalog.
 */
#include "catalogs.h"
#include "model/catalog/items.h"
#include "model/rank_list.h"
#include "report/manifest.h"
#include "tap.h"

#include <errno.h>

/* --- patterns ------------------------------------------------------------------------ */

static const struct {
	const char *only, *exclude, *name;
	bool selected;
} judged[] = {
	{ NULL, NULL, "a.b", true },	    { "a.*", NULL, "a.b", true },
	{ "a.*", NULL, "a.b.c/d", true },   { "a.*", NULL, "ab", false },
	{ "a.?", NULL, "a.bc", false },	    { "x+a.b", NULL, "a.b", true },
	{ "x+y", NULL, "x+y", false },	    { "*", "*.b", "a.b", false },
	{ "*", "*.b", "a.c", true },	    { NULL, "q+a.[a-c]", "a.b", false },
	{ NULL, "q+a.[a-c]", "a.d", true }, { "*", NULL, "", true },
	{ "*b", NULL, ".b", true },
};

static void test_patterns(void)
{
	static const char *const empty[] = { "", "+", "a+", "+a", "a++b" };
	char longest[2001];

	for (size_t i = 0; i < CK_ARRAY_SIZE(judged); i++) {
		const struct ck_selection *s;

		must(ck_selection_make(judged[i].only, judged[i].exclude, &s,
				       NULL));
		ok(ck_selection_has(s, ck_str_from(judged[i].name)) ==
		   judged[i].selected);
		ck_selection_put(s);
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(empty); i++) {
		const struct ck_selection *s;

		eq_err(ck_selection_make(empty[i], NULL, &s, NULL), -EINVAL);
		eq_err(ck_selection_make("a", empty[i], &s, NULL), -EINVAL);
	}
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	for (int i = 0; i < 2; i++) {
		const struct ck_selection *s;

		must(ck_selection_make(i ? "*y" : "x*x", NULL, &s, NULL));
		ok(ck_selection_has(s, ck_str_from(longest)) == !i);
		ck_selection_put(s);
	}
}

/* --- ranks ------------------------------------------------------------------------------ */

static void test_ranks(void)
{
	static const char *const bad[] = {
		"",	"+",   "1+",	"+1",
		"1++2", "a",   "-1",	"1-",
		"2-1",	"01",  "1-2-3", "1 ",
		"1;2",	"1.5", "0x1",	"99999999999999999999"
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++)
		ok(!ck_rank_list_is_valid(bad[i]));
	ok(ck_rank_list_is_valid("0") && ck_rank_list_is_valid("0,3-5") &&
	   ck_rank_list_is_valid("3-5+0+18446744073709551615"));
	for (uint64_t rank = 0; rank < 8; rank++) {
		ok(ck_rank_list_has("0+3-5", rank) ==
		   (rank == 0 || (rank >= 3 && rank <= 5)));
		ok(ck_rank_list_has(NULL, rank));
	}
	ok(ck_rank_list_has("18446744073709551615", UINT64_MAX));
}

/* --- a catalog -------------------------------------------------------------------------- */

static const char *const keys[] = { "module.b", "module.a", "module.c",
				    "module.d", "other" };

/* Tensors by all keys; d is an alias of b. */
static struct ck_catalog *made(const char *only)
{
	const struct ck_data_file file = { .path = CK_STR("f"), .size = 16 };
	struct ck_catalog *c = ck_catalog_make("dcp");
	const struct ck_selection *s;

	must(ck_selection_make(only, NULL, &s, NULL));
	ck_catalog_select(c, s);
	ck_selection_put(s);
	for (size_t i = 0; i < CK_ARRAY_SIZE(keys); i++) {
		tensor_add(c, keys[i], "float32", 1, (const int64_t[]){ 4 });
		item_add(c, (const int64_t[]){ 0 }, (const int64_t[]){ 4 }, 0,
			 0, 16);
		if (i == 3)
			must(ck_catalog_tensor_alias(c, 0));
	}
	must(ck_catalog_file_add(c, &file));
	finish(c);
	return c;
}

/* Names depend on all keys: `other` keeps the prefix of the others, also if it is hidden and
 * the names are made again. */
static void test_catalog(void)
{
	struct ck_catalog *c = made("module.[ac]+none");
	struct ck_catalog *next;
	struct ck_edit remove = { .kind = CK_EDIT_REMOVE, .number = 2 };

	eq_u64(c->listing->n, 2);
	eq_u64(c->listing->nhidden, 3);
	eq_u64(c->nbytes, 32);
	eq_u64(ck_shown_tensors(c), 2);
	eq_u64(ck_shown_chunks(c), 2);
	ok(ck_str_is(ck_entry_names(c, 0).name, "module.a"));
	ok(ck_catalog_find(c, CK_STR("module.c")) == 1);
	ok(ck_catalog_find(c, CK_STR("other")) < 0);
	ok(ck_catalog_find_hidden(c, CK_STR("other")) >= 2);
	ok(ck_catalog_find_hidden(c, CK_STR("module.a")) < 0);
	ok(!ck_tensor_is_there(c, 0) && ck_tensor_is_whole(c, 1));
	eq_u64(c->nnotes, 1); /* a pattern matches no name */
	eq_u64(ck_catalog_item(c, 0)->length, 16);
	next = ck_catalog_next(c);
	must(ck_catalog_edit(next, &remove, 1, NULL));
	eq_u64(next->listing->n, 1);
	eq_u64(next->listing->nhidden, 3);
	ok(ck_str_is(ck_entry_names(next, 0).name, "module.a"));
	ok(!ck_tensor_is_there(next, 0));
	eq_u64(next->nbytes, 16);
	ck_catalog_put(next);
	ck_catalog_put(c);
}

/* --- manifests ---------------------------------------------------------------------------- */

static const struct {
	const char *text, *why;
} refused[] = {
	{ "", "" },
	{ "[]", "expected an object" },
	{ "{}", "no member \"tensors\"" },
	{ "{\"tensors\":1}", "expected an object or list" },
	{ "{\"tensors\":{\"a\":1}}", "expected an object with shape" },
	{ "{\"tensors\":{\"a\":{\"shape\":4}}}", "expected a list of sizes" },
	{ "{\"tensors\":{\"a\":{\"shape\":[-1]}}}", "expected a size" },
	{ "{\"tensors\":{\"a\":{\"shape\":[\"4\"]}}}", "expected a size" },
	{ "{\"tensors\":{\"a\":{\"dtype\":4}}}", "expected a string" },
	{ "{\"tensors\":[{\"fqn\":\"a\"},{\"fqn\":\"a\"}]}",
	  "a name occurs twice" },
	{ "{\"tensors\":{}} x", "" },
};

static int parsed(const char *text, struct ck_manifest **out, struct ck_diag *d)
{
	struct ck_buf copy = { 0 };

	ck_buf_text(&copy, text);
	return ck_manifest_parse(&copy, out, d);
}

static void test_manifests(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(refused); i++) {
		struct ck_manifest *m = NULL;
		struct ck_diag d = { 0 };

		eq_err(parsed(refused[i].text, &m, &d), -EBADMSG);
		ok(strstr(d.text, refused[i].why));
	}
}

static void strict_is(const char *only, const char *manifest, const char *want)
{
	struct ck_catalog *c = made(only);
	struct ck_manifest *m;
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };
	bool none = !strcmp(want, "{\"missing_keys\":[],\n\"unexpected_keys\":"
				  "[],\n\"mismatched\":[]}\n");

	must(parsed(manifest, &m, &d));
	ck_strict_report(c, m, &out);
	eq_text(out.data, want);
	eq_err(ck_strict_require(c, m, &d), none ? 0 : -EBADMSG);
	ck_buf_fini(&out);
	ck_manifest_free(m);
	ck_catalog_put(c);
}

static void test_strict(void)
{
	strict_is("module.a",
		  "{\"tensors\":{\"module.a\":{\"shape\":[4],\"dtype\":"
		  "\"torch.float32\",\"x\":[{}]},\"other\":{}}}",
		  "{\"missing_keys\":[],\n\"unexpected_keys\":[],\n"
		  "\"mismatched\":[]}\n");
	strict_is("module.*",
		  "{\"x\":1,\"tensors\":[{\"fqn\":\"module.a\",\"shape\":[4]},"
		  "{\"fqn\":\"module.b\",\"shape\":[4,1]},"
		  "{\"fqn\":\"module.d\",\"dtype\":\"int8\"},"
		  "{\"fqn\":{\"$str\":\"/w==\"}},"
		  "{\"fqn\":\"module.10\"},{\"fqn\":\"module.9\"}]}",
		  "{\"missing_keys\":[\n\"module.9\",\n\"module.10\"],\n"
		  "\"unexpected_keys\":[\n\"module.c\"],\n\"mismatched\":[\n"
		  "{\"fqn\":\"module.b\",\"expected\":{\"shape\":[4,1]},"
		  "\"found\":{\"dtype\":\"float32\",\"shape\":[4]}},\n"
		  "{\"fqn\":\"module.d\",\"expected\":{\"dtype\":\"int8\"},"
		  "\"found\":{\"dtype\":\"float32\",\"shape\":[4]}}]}\n");
}

int main(void)
{
	test_patterns();
	test_ranks();
	test_catalog();
	test_manifests();
	test_strict();
	return tap_done();
}
