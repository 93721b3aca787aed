/* SPDX-License-Identifier: MIT */
/* Keys to names, names to stems and back. */
#include "ckptfs/model.h"
#include "name_decode.h"
#include "tap.h"

static const char *unwrapped(const char *key)
{
	static struct ck_buf b;

	ck_buf_fini(&b);
	ck_name_unwrap(ck_str_from(key), &b);
	return b.data ? b.data : "";
}

static void test_unwrap(void)
{
	eq_text(unwrapped("layers.0.weight"), "layers.0.weight");
	eq_text(unwrapped("_fsdp_wrapped_module.a"), "a");
	eq_text(unwrapped("a._checkpoint_wrapped_module.b"), "a.b");
	eq_text(unwrapped("a._orig_mod._fsdp_wrapped_module._fpw_module.b"),
		"a.b");
	eq_text(unwrapped("_orig_mod._orig_mod._orig_mod.b"), "b");
	/* only whole components, only with a dot behind */
	eq_text(unwrapped("a._orig_mod"), "a._orig_mod");
	eq_text(unwrapped("_orig_mod"), "_orig_mod");
	eq_text(unwrapped("x_orig_mod.b"), "x_orig_mod.b");
	eq_text(unwrapped("_orig_modx.b"), "_orig_modx.b");
	eq_text(unwrapped("_orig_mod."), "");
	eq_text(unwrapped("a.._orig_mod.b."), "a..b.");
	eq_text(unwrapped(""), "");
	eq_text(unwrapped("..."), "...");
}

static const char *stem_of(struct ck_str name, unsigned nth)
{
	static struct ck_buf b;

	ck_buf_fini(&b);
	ck_name_stem(name, nth, &b);
	return b.data;
}

static void test_stem_escapes(void)
{
	static const struct {
		struct ck_str name;
		const char *stem;
	} rows[] = {
		{ { "layers.0.weight", 15 }, "layers.0.weight" },
		{ { "", 0 }, "%_" },
		{ { ".hidden.x", 9 }, "%2Ehidden.x" },
		{ { "..", 2 }, "%2E." },
		{ { "a/b", 3 }, "a%2Fb" },
		{ { "100%", 4 }, "100%25" },
		{ { "\0\x1f\x7f ", 4 }, "%00%1F%7F " },
		{ { "\xc3\xa9\xc2\x85", 4 }, "\xc3\xa9\xc2\x85" },
		{ { "\xff\xc3", 2 }, "%FF%C3" },
		{ { "\xed\xa0\x80", 3 }, "%ED%A0%80" },
		{ { "\xc0\xaf", 2 }, "%C0%AF" },
		{ { "%~x", 3 }, "%25~x" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++)
		eq_text(stem_of(rows[i].name, 1), rows[i].stem);
}

/* Hashes printed by `xxhsum -H2`. */
static void test_stem_long(void)
{
	char name[300];
	char want[300];

	memset(name, 'a', sizeof(name));
	snprintf(want, sizeof(want), "%%~%.120s~%s", name,
		 "5e563f2cb28d2005c1d17581d8eb7e21");
	eq_text(stem_of((struct ck_str){ name, 300 }, 1), want);
	strcat(want, "~2");
	eq_text(stem_of((struct ck_str){ name, 300 }, 2), want);
	for (int i = 0; i < 40; i++)
		memcpy(name + 6 * i, "model.", 6);
	snprintf(want, sizeof(want), "%%~%.120s~%s", name,
		 "a57851505cab5a829ed0e0e7e7965603");
	eq_text(stem_of((struct ck_str){ name, 240 }, 1), want);
	ok(strlen(stem_of((struct ck_str){ name, 200 }, 1)) == 200);
	ok(strlen(stem_of((struct ck_str){ name, 201 }, 1)) == 155);
}

/* 119 bytes and then an escape or a character that would end behind 120. */
static void test_stem_long_cuts_nothing(void)
{
	char name[300];
	size_t prefix = 119;

	memset(name, 'a', sizeof(name));
	name[119] = '/';
	eq_u64(strlen(stem_of((struct ck_str){ name, 300 }, 1)),
	       2 + prefix + 33);
	memcpy(name + 119, "\xc3\xa9", 2);
	eq_u64(strlen(stem_of((struct ck_str){ name, 300 }, 1)),
	       2 + prefix + 33);
	memcpy(name + 118, "\xc3\xa9", 2);
	name[120] = 'a';
	eq_u64(strlen(stem_of((struct ck_str){ name, 300 }, 1)), 2 + 120 + 33);
}

static int decode_rc(struct ck_str stem)
{
	struct ck_buf b = { 0 };
	int rc = name_decode(stem, &b);

	ck_buf_fini(&b);
	return rc;
}

static void test_decode_refuses(void)
{
	static const char *const bad[] = {
		"",    "%",   "%2",   "%2f",  "%41",  "%zz",
		".a",  "a/b", "\x7f", "a\n",  "\xff", "%C3%A9",
		"%_x", "x%_", "%%",   "%25%", "%2e",
	};
	char long_stem[202];

	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++)
		eq_err(decode_rc(ck_str_from(bad[i])), -EINVAL);
	eq_err(decode_rc((struct ck_str){ "a\0b", 3 }), -EINVAL);
	memset(long_stem, 'a', sizeof(long_stem));
	eq_err(decode_rc((struct ck_str){ long_stem, 201 }), -EINVAL);
	eq_err(decode_rc((struct ck_str){ long_stem, 200 }), 0);
	eq_err(decode_rc(CK_STR("%~abc~0123")), -ENOENT);
}

static void test_decode_appends(void)
{
	struct ck_buf b = { 0 };

	ck_buf_text(&b, "x:");
	eq_err(name_decode(CK_STR("%2Ea%2F"), &b), 0);
	eq_text(b.data, "x:.a/");
	eq_err(name_decode(CK_STR("%2"), &b), -EINVAL);
	eq_text(b.data, "x:.a/");
	eq_err(name_decode(CK_STR("%_"), &b), 0);
	eq_text(b.data, "x:.a/");
	ck_buf_fini(&b);
}

/* --- property: 10^6 random names ------------------------------------------ */

static bool is_legal(struct ck_str stem)
{
	return stem.len > 0 && stem.len + strlen(".npy") <= 255 &&
	       stem.p[0] != '.' && !memchr(stem.p, '/', stem.len) &&
	       !memchr(stem.p, '\0', stem.len) && ck_utf8_valid(stem);
}

/* Bytes from a pool of troublesome ones, pieces of UTF-8 and any. */
static size_t random_name(uint64_t *seed, char *out)
{
	static const char pool[] = "a.%/_~\x01\x7f\xc3\xa9\xe2\x82\xac\xed\xa0"
				   "\x80\xf0\x9f\x98\x80.0";
	uint64_t r = tap_random(seed);
	size_t len = r % 16 ? r / 16 % 24 : r / 16 % 260;

	for (size_t i = 0; i < len; i++) {
		r = tap_random(seed);
		out[i] = r % 8 ? pool[r / 8 % (sizeof(pool) - 1)]
			       : (char)(r >> 8);
	}
	return len;
}

static bool round_trips(struct ck_str name, struct ck_buf *stem,
			struct ck_buf *back, unsigned *cut)
{
	struct ck_str s;
	int rc;

	stem->len = back->len = 0;
	ck_name_stem(name, 1, stem);
	s = (struct ck_str){ stem->data, stem->len };
	if (!is_legal(s))
		return false;
	rc = name_decode(s, back);
	if (ck_str_starts(s, CK_STR("%~"))) {
		++*cut;
		return rc == -ENOENT && s.len <= 155;
	}
	return rc == 0 &&
	       ck_str_eq((struct ck_str){ back->data, back->len }, name);
}

static void test_random_round_trips(void)
{
	uint64_t seed = tap_seed(20240607);
	uint64_t n = tap_cases("CKPTFS_CASES", TAP_SLOW ? 100000 : 300000,
			       1000000);
	struct ck_buf stem = { 0 }, back = { 0 };
	unsigned failed = 0, cut = 0;
	char name[300];

	for (uint64_t i = 0; i < n; i++) {
		struct ck_str s = { name, random_name(&seed, name) };

		failed += !round_trips(s, &stem, &back, &cut);
	}
	eq_u64(failed, 0);
	ok(cut > n / 100 && cut < n / 2);
	ck_buf_fini(&stem);
	ck_buf_fini(&back);
}

int main(void)
{
	test_unwrap();
	test_stem_escapes();
	test_stem_long();
	test_stem_long_cuts_nothing();
	test_decode_refuses();
	test_decode_appends();
	test_random_round_trips();
	return tap_done();
}
