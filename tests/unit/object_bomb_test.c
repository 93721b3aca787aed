/* SPDX-License-Identifier: MIT */
/*
 * S-P5 for objects: small pickles that describe large values are printed or refused within
 * 64 MiB + 40 bytes of memory and 1 s + 200 ns for each byte. The time includes reading and
 * printing. Its limit is doubled for slow machines and is checked only in the long run. The
 * memory is that of the tree and of the printer.
 */
#include "ckptfs/value.h"
#include "tap.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A number of kB from /proc/self/status; 0 if the field is missing. */
static uint64_t status_kb(const char *name)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	uint64_t kb = 0;

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			kb = strtoull(line + strlen(name) + 1, NULL, 10);
	if (f)
		fclose(f);
	return kb;
}

/* Resets VmHWM, the peak of resident memory. */
static bool peak_reset(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, "5", 1) == 1;

	if (fd >= 0)
		close(fd);
	return good;
}

/* Reads and prints the pickle in b, checks both limits, and frees b. */
static int bounded(const char *what, struct ck_buf *b, struct ck_buf *out)
{
	uint64_t bound = (64ULL << 20) + 40 * b->len, before, most_kb, used;
	double start = seconds(), most = 1 + 200e-9 * (double)b->len, took;
	struct ck_pickle p = { 0 };
	struct ck_diag d = { 0 };
	bool measured;
	int rc;

	if (b->err)
		abort();
	measured = !TAP_SLOW && peak_reset();
	before = status_kb("VmRSS");
	rc = ck_pickle_read(&p, b->data, b->len, NULL, &d);
	if (rc == 0)
		rc = ck_pickle_json(&p, b->len, out, &d);
	took = seconds() - start;
	/* Both values are sums of per-CPU counters, which are not exact. */
	most_kb = status_kb("VmHWM");
	used = (most_kb - ck_min(most_kb, before)) * 1024;
	printf("# %s: %zu bytes: %s; %.2f s, %llu KiB, %zu bytes of text\n",
	       what, b->len, d.text, took, (unsigned long long)used >> 10,
	       out->len);
	ok(took < most * (TAP_SLOW ? 20 : 2) || !tap_is_long());
	ok(!measured || used < bound + (4 << 20));
	ok(rc == 0 || rc == -EBADMSG);
	ck_pickle_fini(&p);
	ck_buf_fini(b);
	return rc;
}

static void repeat(struct ck_buf *b, const char *bytes, size_t len, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ck_buf_add(b, bytes, len);
}

#define REPEAT(b, text, n) repeat(b, text, sizeof(text) - 1, n)

static void add_string(struct ck_buf *b, size_t len, char c)
{
	uint32_t len32 = (uint32_t)len;

	ck_buf_text(b, "X");
	ck_buf_add(b, &len32, sizeof(len32));
	repeat(b, &c, 1, len);
}

/* Each list has the one before twice: 2^190 leaves, two references or short
 * texts in each level. Shown, not refused. */
static void test_doubling_is_shown(void)
{
	struct ck_buf b = { 0 }, out = { 0 };

	ck_buf_text(&b, "]");
	for (unsigned i = 0; i < 190; i++) {
		char op[] = { 'q',     (char)i, '0', ']',     'h',
			      (char)i, 'a',	'h', (char)i, 'a' };

		ck_buf_add(&b, op, sizeof(op));
	}
	ck_buf_text(&b, ".");
	eq_err(bounded("doubling lists", &b, &out), 0);
	ok(out.len < 200000);
	ck_buf_fini(&out);
	ck_buf_text(&b, "N");
	REPEAT(&b, "2\x86", 98);
	ck_buf_text(&b, ".");
	eq_err(bounded("doubling tuples", &b, &out), 0);
	ok(out.len < 200000);
	ck_buf_fini(&out);
}

/* A text just short enough to be copied, repeated by references of two bytes. */
static void test_short_texts_add_up(void)
{
	struct ck_buf b = { 0 }, out = { 0 };

	ck_buf_text(&b, "(");
	add_string(&b, 4000, 'x');
	REPEAT(&b, "q\1", 1);
	REPEAT(&b, "h\1", 10000);
	ck_buf_text(&b, "l.");
	eq_err(bounded("10,000 times a short text", &b, &out), 0);
	ck_buf_fini(&out);
	ck_buf_text(&b, "(");
	add_string(&b, 4000, 'x');
	REPEAT(&b, "q\1", 1);
	REPEAT(&b, "h\1", tap_times(4000000));
	ck_buf_text(&b, "l.");
	eq_err(bounded("4,000,000 times", &b, &out), -EBADMSG);
	ck_buf_fini(&out);
}

static void test_long_references_add_up(void)
{
	struct ck_buf b = { 0 }, out = { 0 };

	ck_buf_text(&b, "}");
	add_string(&b, 1 << 20, '/');
	ck_buf_text(&b, "(]q\1h\1a");
	REPEAT(&b, "h\1", 1000);
	ck_buf_text(&b, "ls.");
	(void)bounded("references of a megabyte", &b, &out);
	ck_buf_fini(&out);
}

static void test_long_keys_add_up(void)
{
	struct ck_buf b = { 0 }, out = { 0 };

	ck_buf_text(&b, "(");
	add_string(&b, 1 << 20, 'k');
	ck_buf_text(&b, "q\1");
	REPEAT(&b, "}h\1Ns", tap_times(100000));
	ck_buf_text(&b, "l.");
	eq_err(bounded("one key in 100,000 dicts", &b, &out), -EBADMSG);
	ck_buf_fini(&out);
}

static void add_int(struct ck_buf *b, uint32_t len)
{
	ck_buf_text(b, "\x8b");
	ck_buf_add(b, &len, sizeof(len));
	repeat(b, "\x5a", 1, len);
}

static void test_integers(void)
{
	struct ck_buf b = { 0 }, out = { 0 };

	add_int(&b, 40000);
	ck_buf_text(&b, ".");
	eq_err(bounded("an integer of 96,000 digits", &b, &out), 0);
	ok(out.len > 96000);
	ck_buf_fini(&out);
	add_int(&b, 8 << 20);
	ck_buf_text(&b, ".");
	eq_err(bounded("an integer of 20 million digits", &b, &out), -EBADMSG);
	ck_buf_fini(&out);
	ck_buf_text(&b, "(");
	for (unsigned i = 0; i < 2000; i++)
		add_int(&b, 1700);
	ck_buf_text(&b, "l.");
	eq_err(bounded("2,000 integers of 4,000 digits", &b, &out), 0);
	ck_buf_fini(&out);
	ck_buf_text(&b, "(");
	add_int(&b, 1700);
	ck_buf_text(&b, "q\1");
	REPEAT(&b, "h\1", 10000);
	ck_buf_text(&b, "l.");
	eq_err(bounded("one of them 10,000 times", &b, &out), 0);
	ck_buf_fini(&out);
}

static void test_many_small(void)
{
	static const struct {
		const char *what, *text;
		size_t len, n;
		bool shown;
	} rows[] = {
		{ "None", "N", 1, 4000000, true },
		{ "empty tuples", ")", 1, 4000000, true },
		{ "empty dicts", "}", 1, 2000000, true },
		{ "empty sets", "\x8f", 1, 1000000, true },
		{ "subnormal floats", "G\0\3\1\4\1\5\x09\2\6", 9, 1000000,
		  true },
		{ "floats of 17 digits", "G\x3f\xd3\x33\x33\x33\x33\x33\x37\x1",
		  9, 1000000, true },
		{ "strings of control characters", "X\4\0\0\0\1\2\3\4", 9,
		  1000000, true },
		{ "lists known again", "]q\1h\1", 5, 1000000, true },
		{ "objects", "cm\nC\n)\x81", 7, 400000, true },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct ck_buf b = { 0 }, out = { 0 };

		ck_buf_text(&b, "(");
		repeat(&b, rows[i].text, rows[i].len, tap_times(rows[i].n));
		ck_buf_text(&b, "l.");
		eq_err(bounded(rows[i].what, &b, &out),
		       rows[i].shown ? 0 : -EBADMSG);
		ck_buf_fini(&out);
	}
}

static void test_large_dict(void)
{
	struct ck_buf b = { 0 }, out = { 0 };

	ck_buf_text(&b, "(");
	for (uint32_t i = 0; i < tap_times(500000); i++) {
		ck_buf_text(&b, "\x8c\4");
		for (unsigned k = 0; k < 4; k++) {
			char c = (char)('0' + (i >> 6 * k & 63));

			ck_buf_add(&b, &c, 1);
		}
		ck_buf_text(&b, "N");
	}
	ck_buf_text(&b, "d.");
	eq_err(bounded("a dict of 500,000 keys", &b, &out), 0);
	ck_buf_fini(&out);
}

int main(void)
{
	test_doubling_is_shown();
	test_short_texts_add_up();
	test_long_references_add_up();
	test_long_keys_add_up();
	test_integers();
	test_many_small();
	test_large_dict();
	return tap_done();
}
