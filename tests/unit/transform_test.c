/* SPDX-License-Identifier: MIT */
/*
 * transform: the stream transforms of items are undone or refused, and the output stays within
 * its limit.
 */
#include "format/item/item.h"
#include "format/item/stored.h"
#include "tap.h"

#include <zstd.h>

/* Output of zstandard's stream writer: one frame without a content size. */
static const uint8_t hello[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x29,
				 0x00, 0x00, 'h',  'e',	 'l',  'l',  'o' };

static struct ck_str bytes_of(const void *p, size_t len)
{
	return (struct ck_str){ p, len };
}

static int undo(const char *descriptors, struct ck_str in, uint64_t limit,
		struct ck_str want)
{
	ck_auto_free void *out = NULL;
	size_t len = 0;
	int rc = ck_transform_undo(ck_str_from(descriptors), in, limit, &out,
				   &len, NULL);

	if (rc == 0)
		eq_mem(out, len, want.p, want.len);
	else
		ok(!out);
	return rc;
}

/* A frame of len times the byte 'x'. */
static struct ck_buf frame_make(size_t len, int level)
{
	size_t bound = ZSTD_compressBound(len);
	char *text = malloc(len + 1), *packed = malloc(bound);
	struct ck_buf b = { 0 };

	memset(text, 'x', len);
	ck_buf_add(&b, packed, ZSTD_compress(packed, bound, text, len, level));
	free(text);
	free(packed);
	return b;
}

static void test_names(void)
{
	struct ck_str in = bytes_of(hello, sizeof(hello));
	struct ck_str want = CK_STR("hello");
	static const char *const bad[] = {
		"",
		"zstd",
		"stream.zstd",
		"stream.zstd/",
		"stream.zstd/2",
		"stream.zstd/0",
		"stream.zstd/10",
		"stream.zstd@here/1",
		"STREAM.ZSTD/1",
		"stream.aes/1",
		",stream.zstd/1",
		"stream.zstd/1,",
		"stream.zstd/1,stream.aes/1",
	};

	eq_err(undo("stream.zstd/1", in, 100, want), 0);
	eq_err(undo("stream.zstd/1.7", in, 100, want), 0);
	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++)
		tap_eq_i64(undo(bad[i], in, 100, want), -EBADMSG, __FILE__,
			   __LINE__, bad[i]);
}

static void test_unknown_is_named(void)
{
	struct ck_diag d = { 0 };
	void *out;
	size_t len;

	eq_err(ck_transform_undo(CK_STR("stream.a\nes@x/3"), CK_STR(""), 1,
				 &out, &len, &d),
	       -EBADMSG);
	eq_text(d.text, "unknown stream transform stream.a%0Aes@x/3");
}

static void test_frames(void)
{
	struct ck_buf b = { 0 };
	static const char skippable[] = "\x50\x2a\x4d\x18\x02\0\0\0ab";

	ck_buf_add(&b, hello, sizeof(hello));
	ck_buf_add(&b, skippable, sizeof(skippable) - 1);
	ck_buf_add(&b, hello, sizeof(hello));
	eq_err(undo("stream.zstd/1", bytes_of(b.data, b.len), 10,
		    CK_STR("hellohello")),
	       0);
	eq_err(undo("stream.zstd/1", bytes_of(b.data, b.len), 9, CK_STR("")),
	       -EBADMSG);
	ck_buf_text(&b, "junk");
	eq_err(undo("stream.zstd/1", bytes_of(b.data, b.len), 100, CK_STR("")),
	       -EBADMSG);
	ck_buf_fini(&b);
}

static void test_twice(void)
{
	char packed[100];
	size_t len = ZSTD_compress(packed, sizeof(packed), hello, sizeof(hello),
				   3);

	eq_err(undo("stream.zstd/1,stream.zstd/1", bytes_of(packed, len), 100,
		    CK_STR("hello")),
	       0);
	eq_err(undo("stream.zstd/1,stream.zstd/1,stream.zstd/1",
		    bytes_of(packed, len), 100, CK_STR("")),
	       -EBADMSG);
}

static void test_every_truncation_is_refused(void)
{
	struct ck_buf b = frame_make(300000, 3);
	unsigned accepted = 0;

	for (size_t len = 0; len < b.len; len++) {
		ck_auto_free void *out = NULL;
		size_t got;

		if (ck_transform_undo(CK_STR("stream.zstd/1"),
				      bytes_of(b.data, len), 1 << 20, &out,
				      &got, NULL) != -EBADMSG)
			accepted++;
	}
	eq_u64(accepted, 0);
	ck_buf_fini(&b);
}

/* Sizes around the limit and around the steps of the output. */
static void test_limit(void)
{
	static const size_t lens[] = { 0,      1,      65535, 65536,
				       131072, 131073, 500000 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(lens); i++) {
		struct ck_buf b = frame_make(lens[i], 1);
		struct ck_str in = bytes_of(b.data, b.len);
		char *want = malloc(lens[i] + 1);

		memset(want, 'x', lens[i]);
		eq_err(undo("stream.zstd/1", in, lens[i],
			    bytes_of(want, lens[i])),
		       0);
		eq_err(undo("stream.zstd/1", in, UINT64_MAX,
			    bytes_of(want, lens[i])),
		       0);
		if (lens[i])
			eq_err(undo("stream.zstd/1", in, lens[i] - 1,
				    CK_STR("")),
			       -EBADMSG);
		free(want);
		ck_buf_fini(&b);
	}
}

/* An item in a file: no byte is read and no memory allocated beyond the end of the file. */
static void test_stored(void)
{
	static const struct {
		uint64_t fpos, length, limit;
		int rc;
	} rows[] = {
		{ 0, 14, 16, 0 },
		{ 2, 14, 16, -EBADMSG }, /* no frame begins there */
		{ 3, 14, 16, -ENODATA }, /* ends beyond */
		{ 17, 1, 16, -ENODATA }, /* begins beyond */
		{ UINT64_MAX, 14, 16, -ENODATA },
		{ 0, 1 << 20, 16, -EBADMSG }, /* too long for 16 */
		{ 0, UINT64_MAX, UINT64_MAX, -ENODATA },
	};

	FILE *f = tmpfile();

	if (!f || fwrite(hello, sizeof(hello), 1, f) != 1 ||
	    fwrite("xx", 2, 1, f) != 1 || fflush(f))
		abort();
	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct ck_stored item = {
			.file = { .fd = fileno(f), .size = 16 },
			.fpos = rows[i].fpos,
			.length = rows[i].length,
		};
		ck_auto_free void *out = NULL;
		struct ck_diag d = { 0 };
		size_t len = 0;

		eq_err(ck_stored_undo(&item, CK_STR("stream.zstd/1"),
				      rows[i].limit, &out, &len, &d),
		       rows[i].rc);
		printf("# %s\n", d.text);
		eq_mem(out, len, "hello", rows[i].rc ? 0 : 5);
	}
	fclose(f);
}

static void test_stored_limits(void)
{
	eq_u64(ck_undone_box(0), 16 << 20);
	eq_u64(ck_undone_box(UINT64_MAX), UINT64_MAX);
	eq_u64(ck_undone_value(1), (64 << 20) + 40);
	ok(ck_undone_value(UINT64_MAX) > UINT64_MAX - 40);
}

int main(void)
{
	test_stored();
	test_stored_limits();
	test_names();
	test_unknown_is_named();
	test_frames();
	test_twice();
	test_every_truncation_is_refused();
	test_limit();
	return tap_done();
}
