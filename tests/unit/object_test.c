/* SPDX-License-Identifier: MIT */
/*
 * Values as JSON: each spelling of the interface by hand, references, levels,
 * and whatever is cut short.
 */
#include "ckptfs/value.h"
#include "object_cases.h"
#include "tap.h"

static int print(struct ck_str pickle, struct ck_buf *out, struct ck_diag *d)
{
	struct ck_pickle p = { 0 };
	int rc = ck_pickle_read(&p, pickle.p, pickle.len, NULL, d);

	if (rc == 0)
		rc = ck_pickle_json(&p, pickle.len, out, d);
	ck_pickle_fini(&p);
	return rc;
}

static void test_cases(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(object_cases); i++) {
		const struct object_case *c = &object_cases[i];
		struct ck_buf out = { 0 };
		struct ck_diag d = { 0 };
		int rc = print(c->pickle, &out, &d);

		printf("# %s %s\n", c->what, d.text);
		eq_err(rc, c->json ? 0 : -EBADMSG);
		if (c->json)
			eq_mem(out.data, out.len ? out.len - 1 : 0, c->json,
			       strlen(c->json));
		if (rc == 0)
			ok(out.data[out.len - 1] == '\n');
		else
			ok(d.err == EBADMSG && *d.text);
		ck_buf_fini(&out);
	}
}

/* A block of the exact size, so that ASan sees one byte too many. */
static void test_cut_short_and_flipped(void)
{
	unsigned others = 0; /* errors that are not EBADMSG */

	for (size_t i = 0; i < CK_ARRAY_SIZE(object_cases); i++) {
		struct ck_str s = object_cases[i].pickle;

		for (size_t k = 0; k < 9 * s.len; k++) {
			size_t len = k < s.len ? k : s.len;
			char *copy = malloc(len + !len);
			struct ck_buf out = { 0 };
			int rc;

			memcpy(copy, s.p, len);
			if (k >= s.len)
				copy[k % s.len] ^= (char)(1 << (k / s.len - 1));
			rc = print((struct ck_str){ copy, len }, &out, NULL);
			others += rc && rc != -EBADMSG;
			ck_buf_fini(&out);
			free(copy);
		}
	}
	eq_u64(others, 0);
}

static void add_times(struct ck_buf *b, const char *text, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ck_buf_text(b, text);
}

/* n times `open`, an inner value, n times `close`. */
static int nested_in(const char *open, struct ck_str inner, const char *close,
		     unsigned n)
{
	struct ck_buf b = { 0 }, out = { 0 };
	int rc;

	add_times(&b, open, n);
	ck_buf_str(&b, inner);
	add_times(&b, close, n);
	ck_buf_text(&b, ".");
	rc = print((struct ck_str){ b.data, b.len }, &out, NULL);
	ck_buf_fini(&b);
	ck_buf_fini(&out);
	return rc;
}

#define nested(open, inner, close, n) nested_in(open, CK_STR(inner), close, n)

static void test_levels(void)
{
	eq_err(nested("]", "N", "a", 200), 0);
	eq_err(nested("]", "N", "a", 201), -EBADMSG);
	eq_err(nested("]", "]", "a", 199), 0);
	eq_err(nested("]", "]", "a", 200), -EBADMSG);
	eq_err(nested("", "N", "\x85", 100), 0);
	eq_err(nested("", "N", "\x85", 101), -EBADMSG);
	eq_err(nested("]", "K\1\x85", "a", 198), 0);
	eq_err(nested("]", "K\1\x85", "a", 199), -EBADMSG);
	eq_err(nested("]", "Fnan\n", "a", 199), 0);
	eq_err(nested("]", "Fnan\n", "a", 200), -EBADMSG);
	eq_err(nested("]", "C\1a", "a", 200), -EBADMSG);
	eq_err(nested("]", "cm\nC\n", "a", 200), -EBADMSG);
	eq_err(nested("]", "c__builtin__\ncomplex\nF1\nF1\n\x86R", "a", 198),
	       0);
	eq_err(nested("]", "c__builtin__\ncomplex\nF1\nFnan\n\x86R", "a", 198),
	       -EBADMSG);
	eq_err(nested("]", DENSE, "a", 197), 0);
	eq_err(nested("]", DENSE, "a", 198), -EBADMSG);
	eq_err(nested("}K\1", "N", "s", 66), 0);
	eq_err(nested("}K\1", "N", "s", 67), -EBADMSG);
	eq_err(nested("cm\nC\n)R", "N", "b", 199), 0);
	eq_err(nested("cm\nC\n)R", "N", "b", 200), -EBADMSG);
}

/* A value that fits where it is met first and not where it is met again. */
static void test_levels_of_what_comes_again(void)
{
	for (unsigned n = 0; n < 2; n++) {
		struct ck_buf b = { 0 }, out = { 0 };

		ck_buf_text(&b, "]");
		add_times(&b, "]", 10);
		add_times(&b, "a", 9);
		ck_buf_text(&b, "q\1a"); /* ten levels */
		add_times(&b, "]", 189 + n);
		ck_buf_text(&b, "h\1");
		add_times(&b, "a", 190 + n);
		ck_buf_text(&b, ".");
		eq_err(print((struct ck_str){ b.data, b.len }, &out, NULL),
		       n ? -EBADMSG : 0);
		ck_buf_fini(&b);
		ck_buf_fini(&out);
	}
}

/* A string of that many bytes twice in a list. */
static void twice(size_t len, struct ck_buf *out)
{
	struct ck_buf b = { 0 };
	uint32_t len32 = (uint32_t)len;

	ck_buf_text(&b, "(X");
	ck_buf_add(&b, &len32, sizeof(len32));
	for (size_t i = 0; i < len; i++)
		ck_buf_text(&b, "x");
	ck_buf_text(&b, "q\1h\1l.");
	eq_err(print((struct ck_str){ b.data, b.len }, out, NULL), 0);
	ck_buf_fini(&b);
}

static void test_4096_bytes_come_again_4097_do_not(void)
{
	static const char ref[] = ",{\"$ref\":\"/0\"}]\n";
	struct ck_buf out = { 0 };

	twice(4094, &out);
	eq_u64(out.len, 1 + 4096 + 1 + 4096 + 2);
	out.len = 0;
	twice(4095, &out);
	eq_u64(out.len, 1 + 4097 + sizeof(ref) - 1);
	eq_text(out.data + 4098, ref);
	ck_buf_fini(&out);
}

static void test_appends(void)
{
	struct ck_buf out = { 0 };

	ck_buf_text(&out, "before ");
	eq_err(print(CK_STR("]q\0h\0a."), &out, NULL), 0);
	eq_text(out.data, "before [{\"$ref\":\"\"}]\n");
	ck_buf_fini(&out);
}

int main(void)
{
	test_cases();
	test_cut_short_and_flipped();
	test_levels();
	test_levels_of_what_comes_again();
	test_4096_bytes_come_again_4097_do_not();
	test_appends();
	return tap_done();
}
