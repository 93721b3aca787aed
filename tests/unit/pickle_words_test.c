/* SPDX-License-Identifier: MIT */
/*
 * Opcodes by hand: every way in which the text arguments of protocol 0, the
 * memo, names and calls can be right or wrong. What a row holds is shown as
 * JSON; a row without JSON must be refused with these words.
 */
#include "ckptfs/value.h"
#include "tap.h"

#define P(bytes)                                                               \
	{                                                                      \
		bytes, sizeof(bytes) - 1                                       \
	}

struct row {
	struct ck_str pickle;
	const char *json, *refused;
};

static int print(struct ck_str pickle, struct ck_buf *out, struct ck_diag *d)
{
	struct ck_pickle p = { 0 };
	/* A block of the exact size, so that ASan sees one byte too many. */
	char *copy = malloc(pickle.len + !pickle.len);
	int rc;

	memcpy(copy, pickle.p, pickle.len);
	rc = ck_pickle_read(&p, copy, pickle.len, NULL, d);
	if (rc == 0)
		rc = ck_pickle_json(&p, pickle.len, out, d);
	ck_pickle_fini(&p);
	free(copy);
	return rc;
}

static void test_row(const struct row *r)
{
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };
	int rc = print(r->pickle, &out, &d);

	printf("# ");
	for (size_t i = 0; i < r->pickle.len && i < 60; i++) {
		uint8_t c = (uint8_t)r->pickle.p[i];

		printf(c < ' ' || c > '~' ? "\\x%02x" : "%c", c);
	}
	printf(": %s\n", rc ? d.text : "read");
	eq_err(rc, r->json ? 0 : -EBADMSG);
	if (r->json)
		eq_mem(out.data, out.len ? out.len - 1 : 0, r->json,
		       strlen(r->json));
	else
		ok(strstr(d.text, r->refused) != NULL);
	ck_buf_fini(&out);
}

#define TEST_ROWS(rows)                                                        \
	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++)                       \
	test_row(&(rows)[i])

static void test_numbers(void)
{
	static const struct row rows[] = {
		{ P("I12\n."), "12", NULL },
		{ P("I+7\n."), "7", NULL },
		{ P("I-0\n."), "0", NULL },
		{ P("I007\n."), "7", NULL },
		{ P("I00\n."), "false", NULL },
		{ P("I01\n."), "true", NULL },
		{ P("L5L\n."), "5", NULL },
		{ P("L5\n."), "5", NULL },
		{ P("L-128L\n."), "-128", NULL },
		{ P("L-129\n."), "-129", NULL },
		{ P("L18446744073709551616L\n."), "18446744073709551616",
		  NULL },
		{ P("I\n."), NULL, "malformed number" },
		{ P("I-\n."), NULL, "malformed number" },
		{ P("I+\n."), NULL, "malformed number" },
		{ P("I+-1\n."), NULL, "malformed number" },
		{ P("I1_0\n."), NULL, "malformed number" },
		{ P("I 1\n."), NULL, "malformed number" },
		{ P("I/\n."), NULL, "malformed number" },
		{ P("L\n."), NULL, "malformed number" },
		{ P("LL\n."), NULL, "malformed number" },
		{ P("F1.5\n."), "1.5", NULL },
		{ P("F-0\n."), "-0.0", NULL },
		{ P("F\n."), NULL, "malformed float" },
		{ P("F1x\n."), NULL, "malformed float" },
		{ P("F1000000000000000000000000000000000000000000000000000000"
		    "000000000\n."),
		  NULL, "malformed float" },
	};

	TEST_ROWS(rows);
}

/* As many digits as CPython takes, and one more. */
static void test_many_digits(void)
{
	for (size_t digits = 4300; digits <= 4301; digits++) {
		struct ck_buf in = { 0 }, out = { 0 };
		struct ck_diag d = { 0 };

		ck_buf_text(&in, "L");
		for (size_t i = 0; i < digits; i++)
			ck_buf_text(&in, "9");
		ck_buf_text(&in, "L\n.");
		eq_err(print((struct ck_str){ in.data, in.len }, &out, &d),
		       digits == 4300 ? 0 : -EBADMSG);
		if (digits == 4300)
			eq_mem(out.data, out.len - 1, in.data + 1, digits);
		ck_buf_fini(&in);
		ck_buf_fini(&out);
	}
}

static void test_strings(void)
{
	static const struct row rows[] = {
		{ P("S''\n."), "\"\"", NULL },
		{ P("S\"it's\"\n."), "\"it's\"", NULL },
		{ P("S'a\\x41\\101\\n\\'\\\\'\n."), "\"aAA\\n'\\\\\"", NULL },
		{ P("S'\\x4a\\x4A\\x4F'\n."), "\"JJO\"", NULL },
		{ P("S'\\1012'\n."), "\"A2\"", NULL }, /* three digits */
		{ P("S'\\78'\n."), "\"\\u00078\"", NULL },
		{ P("S'\\7'\n."), "\"\\u0007\"", NULL },
		{ P("S'\\7/'\n."), "\"\\u0007/\"", NULL },
		{ P("S'\\61/'\n."), "\"1/\"", NULL },
		{ P("S'\\61:'\n."), "\"1:\"", NULL },
		{ P("S'\\8'\n."), "\"\\\\8\"", NULL }, /* as it stands */
		{ P("S'\\/'\n."), "\"\\\\/\"", NULL },
		{ P("S'\\\0'\n."), "\"\\\\\\u0000\"", NULL },
		{ P("S\n."), NULL, "without quotes" },
		{ P("S'\n."), NULL, "without quotes" },
		{ P("Sx'\n."), NULL, "without quotes" },
		{ P("S'x\n."), NULL, "without quotes" },
		{ P("S'x\"\n."), NULL, "without quotes" },
		{ P("S'\\'\n."), NULL, "malformed escape" },
		{ P("S'\\x'\n."), NULL, "malformed escape" },
		{ P("S'\\x4'\n."), NULL, "malformed escape" },
		{ P("S'\\x4g'\n."), NULL, "malformed escape" },
		{ P("S'\\x4`'\n."), NULL, "malformed escape" },
		{ P("S'\\x/4'\n."), NULL, "malformed escape" },
		{ P("V\n."), "\"\"", NULL },
		{ P("Vx\\u0041\\U00000042\n."), "\"xAB\"", NULL },
		{ P("V\\U0001f600\xe9\n."), "\"\xf0\x9f\x98\x80\xc3\xa9\"",
		  NULL },
		{ P("V\\u20ac\n."), "\"\xe2\x82\xac\"", NULL },
		{ P("V\\n\n."), "\"\\\\n\"", NULL }, /* no escape there */
		{ P("V\\\n."), "\"\\\\\"", NULL },
		{ P("V\\u\n."), NULL, "malformed escape" },
		{ P("V\\u004\n."), NULL, "malformed escape" },
		{ P("V\\u00g1\n."), NULL, "malformed escape" },
		{ P("V\\U0000004\n."), NULL, "malformed escape" },
		{ P("V\\U00110000\n."), NULL, "malformed escape" },
	};

	TEST_ROWS(rows);
}

static void test_stack_and_memo(void)
{
	static const struct row rows[] = {
		{ P("Np7\n0g7\n."), "null", NULL },
		{ P("K\1q\0000h\0."), "1", NULL },
		{ P("(K\1K\0020l."), "[1]", NULL },
		/* a slot that is set twice counts once for MEMOIZE */
		{ P("(K\1q\0q\0K\2\x94h\1h\0l."), "[1,2,2,1]", NULL },
		{ P("(K\1q\0q\0K\2\x94h\1l."), "[1,2,2]", NULL },
		{ P("(K\1q\5K\2q\6h\5l."), "[1,2,1]", NULL },
		{ P("(K\1q\5K\2\x94h\1l."), NULL, "out of order" },
		{ P("K\1(0."), "1", NULL }, /* POP takes a MARK */
		{ P("K\1(K\0021."), "1", NULL },
		{ P("K\0012\x86."), "{\"$tuple\":[1,1]}", NULL },
		{ P("."), NULL, "exactly one object" },
		{ P("NN."), NULL, "exactly one object" },
		{ P("N(."), NULL, "open MARK" },
		{ P("0."), NULL, "underflow" },
		{ P("1."), NULL, "underflow" },
		{ P("2."), NULL, "underflow" },
		{ P("N(2."), NULL, "underflow" },
		{ P("q\0h\0."), NULL, "underflow" },
		{ P("p0\n."), NULL, "underflow" },
		{ P("\x94."), NULL, "underflow" },
		{ P("Npx\n."), NULL, "memo index" },
		{ P("Np\n."), NULL, "memo index" },
		{ P("Np1234567890123456789\n."), NULL, "memo index" },
		{ P("Ngx\n."), NULL, "argument" },
		{ P("Ng-1\n."), NULL, "argument" },
		{ P("h\5."), NULL, "never set" },
		{ P("Nq\1h\2."), NULL, "never set" },
		{ P("g5\n."), NULL, "never set" },
		{ P("j\5\0\0\0."), NULL, "never set" },
		{ P("j\xff\xff\xff\xff."), NULL, "argument" },
	};

	TEST_ROWS(rows);
}

static void test_containers(void)
{
	static const struct row rows[] = {
		{ P("](e."), "[]", NULL },
		{ P("}(u."), "{}", NULL },
		{ P("(t."), "{\"$tuple\":[]}", NULL },
		{ P("\x8f(\x90."), "{\"$set\":[]}", NULL },
		{ P("(\x91."), "{\"$frozenset\":[]}", NULL },
		{ P("t."), NULL, "underflow" },
		{ P("l."), NULL, "underflow" },
		{ P("d."), NULL, "underflow" },
		{ P("e."), NULL, "underflow" },
		{ P("u."), NULL, "underflow" },
		{ P("\x90."), NULL, "underflow" },
		{ P("\x91."), NULL, "underflow" },
		{ P("(e."), NULL, "underflow" },
		{ P("a."), NULL, "underflow" },
		{ P("s."), NULL, "underflow" },
		{ P("N\x86."), NULL, "underflow" },
		{ P("NN\x87."), NULL, "underflow" },
		{ P("\x85."), NULL, "underflow" },
		{ P("(Nd."), NULL, "key without a value" },
		{ P("}(Nu."), NULL, "key without a value" },
	};

	TEST_ROWS(rows);
}

static void test_names(void)
{
	static const struct row rows[] = {
		{ P("cm\nC\n."), "{\"$global\":\"m.C\"}", NULL },
		{ P("Vm\nVa.C\n\x93."), "{\"$global\":\"m.a.C\"}", NULL },
		{ P("c\nC\n."), "{\"$global\":\".C\"}", NULL },
		{ P("cm\n\n."), "{\"$global\":\"m.\"}", NULL },
		{ P("\x80\4\x8c\0\x8c\1C\x93."), "{\"$global\":\".C\"}", NULL },
		{ P("\x80\4\x8c\1m\x8c\0\x93."), "{\"$global\":\"m.\"}", NULL },
		/* Python 2 names: whole ones, modules, and what only begins as
		 * they do */
		{ P("cUserDict\nIterableUserDict\n."),
		  "{\"$global\":\"collections.UserDict\"}", NULL },
		{ P("cUserDict\nUserDict\n."),
		  "{\"$global\":\"collections.UserDict\"}", NULL },
		{ P("cUserDictionary\nX\n."),
		  "{\"$global\":\"UserDictionary.X\"}", NULL },
		{ P("c__builtin__\nlonger\n."),
		  "{\"$global\":\"builtins.longer\"}", NULL },
		{ P("\x80\3cUserDict\nUserDict\n."),
		  "{\"$global\":\"UserDict.UserDict\"}", NULL },
		{ P("ccommands\ngetoutput\n."), NULL, "dangerous" },
		{ P("K\1\x93."), NULL, "underflow" },
		{ P("K\1Vm\n\x93."), NULL, "no string" },
		{ P("Vm\nK\1\x93."), NULL, "no string" },
	};

	TEST_ROWS(rows);
}

#define GETATTR "c__builtin__\ngetattr\n"

static void test_getattr(void)
{
	static const struct row rows[] = {
		{ P(GETATTR "(cm\nC\nVname\ntR."), "{\"$global\":\"m.C.name\"}",
		  NULL },
		{ P(GETATTR "(cm\nC\nV_a1Z\ntR."), "{\"$global\":\"m.C._a1Z\"}",
		  NULL },
		{ P(GETATTR "(cm\nC\nV\ntR."), NULL, "getattr" },
		{ P(GETATTR "(cm\nC\nV1a\ntR."), NULL, "getattr" },
		{ P(GETATTR "(cm\nC\nVa.b\ntR."), NULL, "getattr" },
		{ P(GETATTR "(cm\nC\nVa/\ntR."), NULL, "getattr" },
		{ P(GETATTR "(cm\nC\nVa:\ntR."), NULL, "getattr" },
		{ P(GETATTR "(cm\nC\nVa@\ntR."), NULL, "getattr" },
		{ P(GETATTR "(cm\nC\nVa[\ntR."), NULL, "getattr" },
		{ P(GETATTR "(cm\nC\nVa{\ntR."), NULL, "getattr" },
		{ P(GETATTR "(cm\nC\nK\1tR."), NULL, "getattr" },
		{ P(GETATTR "(cm\nC\ntR."), NULL, "getattr" },
		{ P(GETATTR "(cm\nC\nVa\nNtR."), NULL, "getattr" },
		{ P(GETATTR "(" GETATTR "Va\ntR."), NULL, "getattr" },
		{ P("(" GETATTR "2(cm\nC\nVa\ntRl."), NULL, "getattr" },
	};

	TEST_ROWS(rows);
}

#define PLAIN  "ccopy_reg\n_reconstructor\n("
#define OBJECT "c__builtin__\nobject\n"

static void test_calls(void)
{
	static const struct row rows[] = {
		{ P("cm\nC\n(K\1K\2tR."), "{\"$class\":\"m.C\",\"args\":[1,2]}",
		  NULL },
		{ P("(K\1im\nC\n."), "{\"$class\":\"m.C\",\"args\":[1]}",
		  NULL },
		{ P("(im\nC\n."), "{\"$class\":\"m.C\",\"args\":[]}", NULL },
		{ P("(cm\nC\nVx\no."), "{\"$class\":\"m.C\",\"args\":[\"x\"]}",
		  NULL },
		{ P("(cm\nC\no."), "{\"$class\":\"m.C\",\"args\":[]}", NULL },
		{ P("cm\nC\n)R(e."), "{\"$class\":\"m.C\",\"args\":[]}", NULL },
		{ P(PLAIN "cm\nC\n" OBJECT "NtR."),
		  "{\"$class\":\"m.C\",\"args\":[]}", NULL },
		/* What is alike, but is no plain object */
		{ P(PLAIN "cm\nC\ncm\nB\nNtR."),
		  "{\"$class\":\"copyreg._reconstructor\",\"args\":[{\"$global"
		  "\":\"m.C\"},{\"$global\":\"m.B\"},null]}",
		  NULL },
		{ P(PLAIN "cm\nC\n" OBJECT "K\1tR."),
		  "{\"$class\":\"copyreg._reconstructor\",\"args\":[{\"$global"
		  "\":\"m.C\"},{\"$global\":\"builtins.object\"},1]}",
		  NULL },
		{ P(PLAIN "cm\nC\n" OBJECT "tR."),
		  "{\"$class\":\"copyreg._reconstructor\",\"args\":[{\"$global"
		  "\":\"m.C\"},{\"$global\":\"builtins.object\"}]}",
		  NULL },
		/* One tuple in two places: neither may be used again */
		{ P("(ctorch\nSize\nK\1K\2\x86\x85q\0Rh\0l."),
		  "[{\"$class\":\"torch.Size\",\"args\":[{\"$tuple\":[1,2]}]},{\"$tuple\":[{\"$tuple\":[1,2]}]}]",
		  NULL },
		{ P("N)R."), "{\"$class\":null,\"args\":[]}", NULL },
		{ P("o."), NULL, "underflow" },
		{ P("(o."), NULL, "underflow" },
		{ P("im\nC\n."), NULL, "underflow" },
		{ P("(Nios\nsystem\n."), NULL, "dangerous" },
		{ P("cm\nC\nR."), NULL, "underflow" },
		{ P("cm\nC\nNR."), NULL, "no tuple" },
		{ P("cm\nC\n\x81."), NULL, "underflow" },
		{ P("cm\nC\nN\x81."), NULL, "no tuple" },
		{ P("cm\nC\n)\x92."), NULL, "underflow" },
		{ P("cm\nC\n)N\x92."), NULL, "no tuple and dict" },
		{ P("cm\nC\nN}\x92."), NULL, "no tuple and dict" },
		{ P("Nb."), NULL, "underflow" },
		{ P("NNb."), NULL, "no object" },
		{ P("cm\nC\n)RNbNb."), NULL, "second state" },
		{ P("Q."), NULL, "underflow" },
		{ P("(Q."), NULL, "underflow" },
	};

	TEST_ROWS(rows);
}

/* 4,096 different names, and one more. */
static void test_many_names(void)
{
	for (int names = 4096; names <= 4097; names++) {
		struct ck_buf in = { 0 }, out = { 0 };
		struct ck_diag d = { 0 };

		for (int i = 0; i < names; i++)
			ck_buf_printf(&in, "cm\nC%d\n0", i);
		ck_buf_text(&in, "N.");
		eq_err(print((struct ck_str){ in.data, in.len }, &out, &d),
		       names == 4096 ? 0 : -EBADMSG);
		ck_buf_fini(&in);
		ck_buf_fini(&out);
	}
}

/* Callables, arguments and states count as levels like lists. */
static void test_depth(void)
{
	static const struct {
		const char *open, *close;
	} rows[] = {
		{ "", ")R" },		/* callable */
		{ "cm\nC\n", "\x85R" }, /* arguments */
		{ "cm\nC\n)R", "b" },	/* state */
		{ "cm\nC\n)", "\x92" }, /* keywords: only one deep */
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct ck_buf in = { 0 }, out = { 0 };
		struct ck_diag d = { 0 };

		for (int k = 0; k < 300; k++)
			ck_buf_text(&in, rows[i].open);
		ck_buf_text(&in, i == 3 ? "}" : "N");
		for (int k = 0; k < 300; k++)
			ck_buf_text(&in, rows[i].close);
		ck_buf_text(&in, ".");
		eq_err(print((struct ck_str){ in.data, in.len }, &out, &d),
		       -EBADMSG);
		printf("# %s\n", d.text);
		ok(strstr(d.text, i == 3 ? "dict" : "nested") != NULL);
		ck_buf_fini(&in);
		ck_buf_fini(&out);
	}
}

int main(void)
{
	test_numbers();
	test_many_digits();
	test_strings();
	test_stack_and_memo();
	test_containers();
	test_names();
	test_getattr();
	test_calls();
	test_many_names();
	test_depth();
	return tap_done();
}
