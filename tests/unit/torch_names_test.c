/* SPDX-License-Identifier: MIT */
/*
 * torch_names: names and paths of the entries in files of torch.save, in a zip archive or in the
 * format before 1.6, and limits on time and memory for small files.
 */
#include "torch_dir.h"

#include <sys/resource.h>
#include <time.h>

/* Reduces a dump to kinds, names, and paths that differ from the names. */
static void condense(const char *dump, struct ck_buf *out)
{
	while (*dump) {
		size_t len = strcspn(dump, "\n");
		size_t kind = strcspn(dump, " ");
		size_t name = strcspn(dump + kind + 1, " \n");
		bool entry = ck_str_starts((struct ck_str){ dump, len },
					   CK_STR("tensor")) ||
			     ck_str_starts((struct ck_str){ dump, len },
					   CK_STR("object"));

		if (entry)
			ck_buf_printf(out, "%s%.*s", out->len ? "\n" : "",
				      (int)(kind + 1 + name), dump);
		else if (strncmp(dump, " path", 5) == 0)
			ck_buf_printf(out, "%.*s", (int)len - 5, dump + 5);
		dump += len + 1;
	}
	ck_buf_text(out, "\n");
}

/* Checks the names and paths of a value in both containers. */
static void names(const char *value, const char *want)
{
	const char *storages = strstr(value, "+7:") ? "7:1" : "";

	for (int old = 0; old < 2; old++) {
		struct ck_checkpoint *cp;
		struct ck_buf dump = { 0 }, names = { 0 };
		struct ck_diag d;

		tc_put("model.pt", old ? tc_legacy(value, storages, NULL)
				       : tc_zip(value, storages));
		if (!ok(tc_open_it("model.pt", &cp, &d) == 0)) {
			printf("# %.400s\n", d.text);
			continue;
		}
		ck_catalog_dump(cp->catalog, &dump);
		ck_checkpoint_close(cp);
		condense(dump.data, &names);
		eq_text(names.data, want);
		ck_buf_fini(&dump);
		ck_buf_fini(&names);
	}
	tc_clear();
}

/* --- names and paths ------------------------------------------------------------------------ */

static void test_nested(void)
{
	names("{ ( 'model { ( 'w +7:1 'b +7:1 u 'epoch 3 u",
	      "tensor model.w\ntensor model.b\nobject epoch\n");
	names("{ ( 'a [ ( +7:1 5 [ { a e 'n N u",
	      "tensor a.0 str:a index:0\nobject a.1 str:a index:1\n"
	      "object a.2.0 str:a index:2 index:0\nobject n\n");
}

static void test_keys_typed(void)
{
	names("{ ( 0 1 '0 +7:1 T 2 'True 3 N 4 f1.5 5 f-inf 6 u",
	      "object 0 int:0\ntensor 0~2 str:0\nobject True bool:True\n"
	      "object True~2 str:True\nobject None none:None\n"
	      "object 1.5 float:1.5\nobject -inf float:-inf\n");
	names("{ ( 'a { 'b 1 s 'a.b 2 'a.b~2 3 u",
	      "object a.b\nobject a.b~2 str:a.b\nobject a.b~2~2 str:a.b~2\n");
	/* A number is added to a name that is in use. */
	names("{ ( 'x~2 1 0 2 '0 3 '0~2 4 ( 1 2 t 5 u",
	      "object x~2\n"
	      "object 0 int:0\n"
	      "object 0~2 str:0\n"
	      "object 0~2~2 str:0~2\n"
	      "object {\"$tuple\":[1,2]} other:{\"$tuple\":[1,2]}\n");
	names("{ ( ' +7:1 'e { ' 5 s u", "tensor %_\n"
					 "object e.\n");
}

static void test_mappings(void)
{
	names("{ ( 'd { 'o @collections:OrderedDict ) R "
	      "'c @collections:Counter ( { 'k 1 s t R "
	      "'f @collections:defaultdict ( @builtins:list t R 'k +7:1 s "
	      "'g @collections:defaultdict ( @builtins:list t R u",
	      "object d\n"
	      "object o\n"
	      "object c.k\n"
	      "tensor f.k\n"
	      "object g\n");
	/* An OrderedDict pickled by Python 2. */
	names("{ ( \"o @collections:OrderedDict ( [ ( [ ( \"w +7:1 e "
	      "[ ( \"n { e e t R u",
	      "tensor o.w\n"
	      "object o.n\n");
	/* An OrderedDict with attributes, as a state dict with its _metadata. */
	names("@collections:OrderedDict ) R ( 'w +7:1 u { '_metadata { s b",
	      "tensor w\n");
	/* Objects of other classes are values, even if they resemble a dict. */
	names("{ ( 'o @collections:OrderedDict ( [ ( [ ( 1 e e t R "
	      "'p @collections:OrderedDict ( [ ( ( 1 2 t e t R "
	      "'c @collections:Counter ( 1 t R 'x @mine:dict ) R 'k 1 s u",
	      "object o\n"
	      "object p\n"
	      "object c\n"
	      "object x\n");
}

static void test_lists(void)
{
	names("{ ( 'empty [ 'nested [ ( [ [ ( 1 2 e e "
	      "'map [ ( 1 [ ( { e e 'tensor [ ( 1 [ ( +7:1 e e "
	      "'tuple ( +7:1 { t 'set @builtins:set ( [ t R u",
	      "object empty\n"
	      "object nested\n"
	      "object map.0 str:map index:0\n"
	      "object map.1.0 str:map index:1 index:0\n"
	      "object tensor.0 str:tensor index:0\n"
	      "tensor tensor.1.0 str:tensor index:1 index:0\n"
	      "object tuple\n"
	      "object set\n");
	names("[ ( +7:1 { 'a 1 s e", "tensor 0 index:0\n"
				     "object 1.a index:1 str:a\n");
}

static void test_bare(void)
{
	names("+7:1", "tensor model\n");
	names("5", "object model\n");
	names("[ ( 1 2 e", "object model\n");
	names("[", "object model\n");
	names("( { { t", "object model\n");
	names("{", "\n");
	names("@torch.nn.modules.linear:Linear ) \x81 { ( '_parameters { "
	      "'_modules { u b",
	      "object model\n");
}

/* --- bounds ------------------------------------------------------------------------------------ */

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Opening or refusing the file stays within the limits of S-P5 for time and memory. */
static void is_bounded(const char *value)
{
	struct ck_buf file = tc_legacy(value, "", NULL);
	uint64_t most = (64ULL << 20) + 40 * file.len;
	struct ck_checkpoint *cp;
	struct rusage before, after;
	double begin = seconds();
	struct ck_diag d;
	int rc;

	tc_put("model.pt", file);
	getrusage(RUSAGE_SELF, &before);
	rc = tc_open_it("model.pt", &cp, &d);
	getrusage(RUSAGE_SELF, &after);
	printf("# %d %.200s: %.2f s, %ld KiB\n", rc, d.text, seconds() - begin,
	       after.ru_maxrss - before.ru_maxrss);
	ok(rc == 0 || rc == -EBADMSG);
	ok(TAP_SLOW || !tap_is_long() || seconds() - begin < 3);
	ok(TAP_SLOW || after.ru_maxrss - before.ru_maxrss < (long)(most >> 10));
	ck_checkpoint_close(cp);
	tc_clear();
}

static void test_cycles(void)
{
	tc_put("model.pt", tc_zip("{ =0 'a ?0 s", ""));
	tc_refused("model.pt", "deep");
	tc_put("model.pt", tc_zip("{ 'a [ =0 ?0 a s", ""));
	tc_refused("model.pt", "deep");
	tc_put("model.pt", tc_zip("{ 'a [ =0 ( ?0 { e s", ""));
	tc_refused("model.pt", "deep");
	/* A cycle in a value that is not flattened. */
	names("{ ( 'a ( [ =0 ?0 a t 'w +7:1 u", "object a\n"
						"tensor w\n");
	tc_put("model.pt",
	       tc_zip("@collections:OrderedDict ) R =0 ( 'a ?0 u", ""));
	tc_refused("model.pt", "deep");
}

/* Each value contains the one before, `?#`, twice, so that there are 2^40 paths. */
static void doubling(struct ck_buf *out, const char *way)
{
	ck_buf_text(out, "[ =0 pop");
	for (unsigned i = 1; i <= 40; i++) {
		for (const char *p = way; *p; p++) {
			if (*p == '#')
				ck_buf_printf(out, "%u", i - 1);
			else
				ck_buf_add(out, p, 1);
		}
		ck_buf_printf(out, " =%u pop", i);
	}
	ck_buf_text(out, " { 'a ?40 s");
}

static void test_doubling(void)
{
	static const char *const ways[] = {
		" [ ( ?# ?# e",
		" { ( 'a ?# 'b ?# u",
		" [ ( ?# { 'c ?# s e",
		" ( ?# ?# t",
		" @collections:OrderedDict ( [ ( [ ( 'a ?# e [ ( 'b ?# e e t R",
		" @collections:Counter ( { ( 'a ?# 'b ?# u t R",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(ways); i++) {
		struct ck_buf text = { 0 };

		doubling(&text, ways[i]);
		is_bounded(text.data);
		ck_buf_fini(&text);
	}
}

/* A list of many references to one OrderedDict of many items, the last of which is invalid. The
 * items must not be checked again for each reference. */
static void test_pairs_again(void)
{
	is_bounded("{ 'x [ ( @collections:OrderedDict ( [ ( [ =5 ( 1 2 e "
		   "?5*100000 N e t R =1 ?1*100000 e s");
}

/* One key can be split in 2^n ways, and each of these paths has it. */
static void key_cut(struct ck_buf *text)
{
	ck_buf_text(text, "{ 'a N s =0 pop { ( 'a ?0 'a.a N u =1 pop");
	for (unsigned i = 2; i < 23; i++)
		ck_buf_printf(text, " { ( 'a ?%u 'a.a ?%u u =%u pop", i - 1,
			      i - 2, i);
	ck_buf_text(text, " ?22");
}

static void test_key_cut(void)
{
	struct ck_buf text = { 0 };

	key_cut(&text);
	is_bounded(text.data);
	ck_buf_fini(&text);
}

/* For most of the files no memory is left, which is detected early. */
static void test_many_files(void)
{
	const unsigned n = TAP_SLOW ? 40 : 200;
	struct ck_buf text = { 0 };
	struct ck_checkpoint *cp;
	char name[] = "many-aa.pt";
	struct ck_diag d;
	double begin;

	key_cut(&text);
	for (unsigned i = 0; i < n; i++) {
		name[5] = (char)('a' + i / 26);
		name[6] = (char)('a' + i % 26);
		tc_put(name, tc_legacy(text.data, "", NULL));
	}
	begin = seconds();
	eq_err(tc_open_it("", &cp, &d), 0);
	printf("# %.2f s\n", seconds() - begin);
	ok(TAP_SLOW || !tap_is_long() || seconds() - begin < 8);
	ck_checkpoint_close(cp);
	for (unsigned i = 0; i < n; i++) {
		name[5] = (char)('a' + i / 26);
		name[6] = (char)('a' + i % 26);
		unlinkat(tc_dirfd, name, 0);
	}
	ck_buf_fini(&text);
}

/* One long text is the key on each level, or a part of each key. */
static void test_key_long(void)
{
	struct ck_buf text = { 0 };

	ck_buf_text(&text, "'k*2000000 =0 pop");
	for (int i = 0; i < 150; i++)
		ck_buf_text(&text, " { ?0");
	ck_buf_text(&text, " N s*150");
	is_bounded(text.data);
	ck_buf_fini(&text);
	ck_buf_text(&text,
		    "'k*100000 =0 (  ?0*20000 t =1 pop pop { ( ?1 1 ?0 2 u");
	is_bounded(text.data);
	ck_buf_fini(&text);
}

/* A large value that many entries share is printed in each of them. */
static void test_values_again(void)
{
	struct ck_buf text = { 0 };

	ck_buf_text(&text, "[ ( 5*100000 e =0 pop { (");
	for (int i = 0; i < 3000; i++)
		ck_buf_printf(&text, " %d ?0", i);
	ck_buf_text(&text, " u");
	is_bounded(text.data);
	ck_buf_fini(&text);
}

/* --- equal keys ------------------------------------------------------------------------------ */

static void test_equal(void)
{
	tc_put("model.pt", tc_zip("{ ( 'a 1 'a 2 u", ""));
	tc_refused("model.pt", "two entries are called a");
	tc_put("model.pt", tc_zip("{ 'm { ( 7 1 7 2 u s", ""));
	tc_refused("model.pt", "two entries are called m.7");
	/* Objects with the same text are different keys. */
	names("{ ( @mine:Key ) R 1 @mine:Key ) R 2 u",
	      "object {\"$class\":\"mine.Key\",\"args\":[]} other:{\"$class\":\"mine.Key\",\"args\":[]}\n"
	      "object {\"$class\":\"mine.Key\",\"args\":[]}~2 other:{\"$class\":\"mine.Key\",\"args\":[]}\n");
}

int main(void)
{
	tc_begin();
	test_nested();
	test_keys_typed();
	test_mappings();
	test_lists();
	test_bare();
	test_cycles();
	test_doubling();
	test_pairs_again();
	test_key_cut();
	if (!TAP_SLOW || tap_is_long())
		test_many_files();
	test_key_long();
	test_values_again();
	test_equal();
	return tc_end();
}
