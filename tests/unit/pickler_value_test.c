/* SPDX-License-Identifier: MIT */
/*
 * pickler_value: a value written as protocol 2 is read as the same value. The test compares
 * the JSON of all cases in object_cases.h. Shared values remain shared, and values that
 * protocol 2 cannot express are refused.
 */
#include "ckptfs/value.h"
#include "object_cases.h"
#include "syntax/pickle/pickler.h"
#include "tap.h"

#include <stdio.h>

static const size_t plenty = 1 << 20;

static int write_again(const struct ck_pickle *from, const struct ck_pv *v,
		       const struct ck_storage_names *storages, size_t most,
		       struct ck_buf *out, struct ck_diag *d)
{
	struct ck_pickler p = { .out = out };
	int rc;

	ck_pickler_begin(&p);
	rc = ck_pickler_value(&p, from, v, storages, most, d);
	ck_pickler_end(&p);
	return rc;
}

/* Writes the root of a pickle again. */
static int again(struct ck_str pickle, struct ck_buf *out, struct ck_diag *d)
{
	struct ck_pickle from = { 0 };
	int rc = ck_pickle_read(&from, pickle.p, pickle.len, NULL, d);

	if (rc)
		return rc;
	rc = write_again(&from, &from.root, NULL, plenty, out, d);
	ck_pickle_fini(&from);
	return rc;
}

static int print(struct ck_str pickle, struct ck_buf *out)
{
	struct ck_pickle p = { 0 };
	int rc = ck_pickle_read(&p, pickle.p, pickle.len, NULL, NULL);

	if (rc == 0)
		rc = ck_pickle_json(&p, pickle.len, out, NULL);
	ck_pickle_fini(&p);
	return rc;
}

/* True if protocol 2 gives a name in the pickle another meaning. */
static bool is_renamed(const struct object_case *c)
{
	return strcmp(c->what, "module of that name") == 0;
}

static void test_cases(void)
{
	unsigned seen = 0;

	for (size_t i = 0; i < CK_ARRAY_SIZE(object_cases); i++) {
		const struct object_case *c = &object_cases[i];
		struct ck_buf pickle = { 0 }, json = { 0 };
		struct ck_diag d = { 0 };

		if (!c->json || is_renamed(c))
			continue;
		seen++;
		printf("# %s\n", c->what);
		eq_err(again(c->pickle, &pickle, &d), 0);
		eq_err(print((struct ck_str){ pickle.data, pickle.len }, &json),
		       0);
		eq_mem(json.data, json.len ? json.len - 1 : 0, c->json,
		       strlen(c->json));
		ck_buf_fini(&pickle);
		ck_buf_fini(&json);
	}
	ok(seen > 50);
}

static void take(struct ck_str pickle, struct ck_buf *out)
{
	eq_err(again(pickle, out, NULL), 0);
}

/* A rewritten pickle is stable: writing it again changes no byte. */
static void test_is_settled(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(object_cases); i++) {
		struct ck_buf b[3] = { 0 };

		if (!object_cases[i].json || is_renamed(&object_cases[i]))
			continue;
		take(object_cases[i].pickle, &b[0]);
		take((struct ck_str){ b[0].data, b[0].len }, &b[1]);
		take((struct ck_str){ b[1].data, b[1].len }, &b[2]);
		eq_mem(b[2].data, b[2].len, b[1].data, b[1].len);
		for (unsigned k = 0; k < 3; k++)
			ck_buf_fini(&b[k]);
	}
}

#define WRITES(pickle, want) writes(CK_STR(pickle), CK_STR(want))

static void writes(struct ck_str pickle, struct ck_str want)
{
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };

	eq_err(again(pickle, &out, &d), 0);
	eq_mem(out.data, out.len, want.p, want.len);
	ck_buf_fini(&out);
}

static void test_spellings(void)
{
	/* A value with one reference has no memo entry. */
	WRITES("\200\004\225\13\0\0\0\0\0\0\0]\224(K\1\214\1a\224e.",
	       "\200\2](K\1X\1\0\0\0ae.");
	/* One list twice. */
	WRITES("\200\004]\224(]\224h\1e.", "\200\2](]q\0h\0e.");
	/* A list in itself. */
	WRITES("]q\0h\0a.", "\200\2]q\0(h\0e.");
	/* A tuple in a list that it contains: the outer value is dropped. */
	WRITES("](]q\1h\1\205q\2e0h\1h\2a0h\2.",
	       "\200\2]q\0(h\0\205q\1e\2050h\1.");
	WRITES("\200\4\217\224(K\1K\2\220.",
	       "\200\2cbuiltins\nset\nq\0](K\1K\2e\205R.");
	WRITES("C\3a\200b.", "\200\2c_codecs\nencode\nq\0X\4\0\0\0a\302\200b"
			     "X\6\0\0\0latin1q\1\206Rq\2.");
	WRITES("C\0.", "\200\2cbuiltins\nbytes\nq\0)R.");
	WRITES("J\377\377\377\377.", "\200\2J\377\377\377\377.");
	WRITES("L-2147483649L\n.", "\200\2\212\5\377\377\377\177\377.");
	WRITES("\214\1m\214\3A.B\223.",
	       "\200\2cbuiltins\ngetattr\nq\0cm\nA\nX\1\0\0\0B\206Rq\1.");
	/* the part before the dot is a package of the user */
	WRITES("\214\16commands.train\214\1x\223.",
	       "\200\2ccommands.train\nx\nq\0.");
	/* an object that protocols 0 and 1 make without a call of __new__ */
	WRITES("ccopy_reg\n_reconstructor\n(cm\nC\nc__builtin__\nobject\nNtR.",
	       "\200\2ccopyreg\n_reconstructor\nq\0cm\nC\nq\1cbuiltins\nobject\nq\2"
	       "N\207R.");
	/* one dict in two places: in the object, and in the tuple that made it */
	WRITES("\200\2](ccopyreg\n__newobj_ex__\ncm\nC\n)}X\1\0\0\0a]s\207q\0Rh\0e.",
	       "\200\2](ccopyreg\n__newobj_ex__\nq\0cm\nC\nq\1)}q\2(X\1\0\0\0a]u\207R"
	       "h\1)h\2\207q\3e.");
	WRITES("\200\4cm\nC\n)}\214\1aK\1s\222.",
	       "\200\2ccopyreg\n__newobj_ex__\nq\0cm\nC\nq\1)}(X\1\0\0\0aK\1u\207R.");
}

/* Lists are written in batches of a thousand elements, as in Python. */
static void test_batches(void)
{
	struct ck_buf list = { 0 }, out = { 0 };
	unsigned ends = 0;

	ck_buf_text(&list, "(");
	for (unsigned i = 0; i < 2500; i++)
		ck_buf_text(&list, "N");
	ck_buf_text(&list, "l.");
	eq_err(again((struct ck_str){ list.data, list.len }, &out, NULL), 0);
	for (size_t i = 2; i < out.len; i++)
		ends += out.data[i] == 'e';
	eq_u64(ends, 3);
	eq_u64(out.len, 2 + 1 + 2500 + 3 * 2 + 1);
	ck_buf_fini(&list);
	ck_buf_fini(&out);
}

/* A part of a larger pickle whose memo has values outside the part. */
static void test_part(void)
{
	struct ck_str all = CK_STR("\200\2}q\0(X\1\0\0\0aX\5\0\0\0helloq\1"
				   "X\1\0\0\0b](h\1h\1eu.");
	struct ck_str want = CK_STR("\200\2](X\5\0\0\0helloq\0h\0e.");
	struct ck_pickle from = { 0 };
	struct ck_buf out = { 0 };
	struct ck_pv b;

	eq_err(ck_pickle_read(&from, all.p, all.len, NULL, NULL), 0);
	ok(ck_pv_get(&from.root, "b", &b));
	eq_err(write_again(&from, &b, NULL, plenty, &out, NULL), 0);
	eq_mem(out.data, out.len, want.p, want.len);
	ck_pickle_fini(&from);
	ck_buf_fini(&out);
}

/* A second value continues the numbers of the memo. */
static void test_goes_on(void)
{
	struct ck_str all = CK_STR("](]q\1h\1e.");
	struct ck_pickle from = { 0 };
	struct ck_buf out = { 0 };
	struct ck_pickler p = { .out = &out, .memo = 255 };

	eq_err(ck_pickle_read(&from, all.p, all.len, NULL, NULL), 0);
	for (unsigned i = 0; i < 2; i++)
		eq_err(ck_pickler_value(&p, &from, &from.root, NULL, plenty,
					NULL),
		       0);
	eq_mem(out.data, out.len, "](]q\377h\377e](]r\0\1\0\0j\0\1\0\0e", 22);
	eq_u64(p.memo, 257);
	ck_pickle_fini(&from);
	ck_buf_fini(&out);
}

static int count_up(void *arg, struct ck_str *key, struct ck_diag *d)
{
	static const char *const names[] = { "7", "8" };
	unsigned *n = arg;

	if (*n == CK_ARRAY_SIZE(names))
		return ck_fail(d, EIO, "no more storages");
	*key = ck_str_from(names[(*n)++]);
	return 0;
}

#define TWO_TENSORS "](" DENSE DENSE "e."

static void test_storages(void)
{
	struct ck_str all = CK_STR(TWO_TENSORS);
	struct ck_pickle from = { 0 };
	unsigned n = 0;
	struct ck_storage_names names = { &n, count_up };
	struct ck_buf out = { 0 }, json = { 0 };

	eq_err(ck_pickle_read(&from, all.p, all.len, NULL, NULL), 0);
	eq_err(write_again(&from, &from.root, &names, plenty, &out, NULL), 0);
	ok(memmem(out.data, out.len, "X\1\0\0\0007", 6));
	ok(memmem(out.data, out.len, "X\1\0\0\0008", 6));
	ok(!memmem(out.data, out.len, "X\1\0\0\0000", 6));
	eq_err(print((struct ck_str){ out.data, out.len }, &json), 0);
	eq_text(json.data, "[" DENSE_JSON "," DENSE_JSON "]\n");
	eq_err(write_again(&from, &from.root, &names, plenty, &out, NULL),
	       -EIO);
	ck_pickle_fini(&from);
	ck_buf_fini(&out);
	ck_buf_fini(&json);
}

static void test_refused(void)
{
	static const struct {
		struct ck_str pickle;
		const char *why;
	} cases[] = {
		{ PICKLE("\214\3a\nb\214\1c\223."), "protocol 2" },
		{ PICKLE("\200\4\214\10commands\214\1x\223."), "protocol 2" },
		{ PICKLE("\214\10builtins\214\6eval.x\223."), "protocol 2" },
		{ PICKLE("\214\1m\214\6A.b..c\223."), "protocol 2" },
		{ PICKLE("\214\1m\214\5A.__b\223."), "protocol 2" },
		{ PICKLE("\200\4\214\4repr\214\1R\223."), "protocol 2" },
		{ PICKLE("NQ."), "storage" },
		/* obj; setter; obj; state; POP, as of a reduce of six parts */
		{ PICKLE("](cm\nC\n)Rq\1cm\nset\nh\1N\206R0e."), "a call" },
		/* a set in a tuple in it, which Python cannot make */
		{ PICKLE("\200\4\217q\0(h\0\205\220."), "deep" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct ck_buf out = { 0 };
		struct ck_diag d = { 0 };

		eq_err(again(cases[i].pickle, &out, &d), -EBADMSG);
		printf("# %s\n", d.text);
		ok(strstr(d.text, cases[i].why));
		ck_buf_fini(&out);
	}
}

static void test_too_long(void)
{
	struct ck_str all = CK_STR("](X\4\0\0\0abcdX\4\0\0\0efghe.");
	struct ck_pickle from = { 0 };
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };

	eq_err(ck_pickle_read(&from, all.p, all.len, NULL, NULL), 0);
	eq_err(write_again(&from, &from.root, NULL, 22, &out, &d), -EBADMSG);
	ok(strstr(d.text, "longer"));
	out.len = 0;
	eq_err(write_again(&from, &from.root, NULL, 23, &out, &d), 0);
	ck_pickle_fini(&from);
	ck_buf_fini(&out);
}

/* A pickle that is accepted and can be written is read again as the same value. */
static void same_again(struct ck_str s, unsigned *others)
{
	struct ck_buf pickle = { 0 }, json = { 0 }, want = { 0 };
	struct ck_str written;

	if (print(s, &want) == 0 && again(s, &pickle, NULL) == 0) {
		written = (struct ck_str){ pickle.data, pickle.len };
		*others += print(written, &json) != 0 || json.len != want.len ||
			   memcmp(json.data, want.data, json.len) != 0;
	}
	ck_buf_fini(&pickle);
	ck_buf_fini(&json);
	ck_buf_fini(&want);
}

static void test_flipped(void)
{
	unsigned others = 0;

	for (size_t i = 0; i < CK_ARRAY_SIZE(object_cases); i++) {
		struct ck_str s = object_cases[i].pickle;

		for (size_t k = 0; k < 8 * s.len; k++) {
			char *copy = malloc(s.len);

			memcpy(copy, s.p, s.len);
			copy[k / 8] ^= (char)(1 << k % 8);
			same_again((struct ck_str){ copy, s.len }, &others);
			free(copy);
		}
	}
	eq_u64(others, 0);
}

int main(void)
{
	test_cases();
	test_is_settled();
	test_spellings();
	test_batches();
	test_part();
	test_goes_on();
	test_storages();
	test_refused();
	test_too_long();
	test_flipped();
	return tap_done();
}
