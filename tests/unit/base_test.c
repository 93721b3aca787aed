/* SPDX-License-Identifier: MIT */
/* Bytes, escapes, UTF-8, natural order, arena, cursor, log, hashes, threads. */
#include "base/system/fd_message.h"
#include "ckptfs/base.h"
#include "ckptfs/memory.h"
#include "tap.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_escapes(void)
{
	struct ck_buf b = { 0 };

	ck_buf_escaped(&b, CK_STR("a%\n\x1b[31m\x7f\xc2\x85\xc3\xa9\xff"));
	eq_text(b.data, "a%25%0A%1B[31m%7F%C2%85\xc3\xa9%FF");
	ck_buf_fini(&b);
	ck_buf_base64(&b, CK_STR("f"));
	ck_buf_base64(&b, CK_STR("fo"));
	ck_buf_base64(&b, CK_STR("foobar"));
	eq_text(b.data, "Zg==Zm8=Zm9vYmFy");
	ck_buf_fini(&b);
}

static void test_plain_lines(void)
{
	struct ck_buf b = { 0 };

	ok(ck_str_plain(CK_STR("100%25 \xc3\xa9")));
	ok(ck_str_plain(CK_STR("")));
	ok(!ck_str_plain(CK_STR("a\tb")));
	ok(!ck_str_plain(CK_STR("\xc2\x9b")));
	ok(!ck_str_plain(CK_STR("cut \xc3")));
	ck_buf_plain_lines(&b, CK_STR("100%25\n\n1% \x1b[m\n\r\nend\x7f"));
	eq_text(b.data, "100%25\n\n1%25 %1B[m\n%0D\nend%7F");
	ck_buf_fini(&b);
	ck_buf_plain_lines(&b, (struct ck_str){ NULL, 0 });
	eq_u64(b.len, 0);
	ck_buf_plain_lines(&b, CK_STR("no end"));
	eq_text(b.data, "no end");
	ck_buf_fini(&b);
}

static void test_utf8(void)
{
	ok(ck_utf8_valid(CK_STR("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")));
	ok(!ck_utf8_valid(CK_STR("\xc0\xaf")));		/* overlong */
	ok(!ck_utf8_valid(CK_STR("\xe0\x9f\xbf")));	/* overlong */
	ok(!ck_utf8_valid(CK_STR("\xed\xa0\x80")));	/* surrogate */
	ok(!ck_utf8_valid(CK_STR("\xf4\x90\x80\x80"))); /* > U+10FFFF */
	ok(!ck_utf8_valid(CK_STR("\xe2\x82")));		/* cut */
}

static void test_natural_order(void)
{
	ok(ck_str_natural_cmp(CK_STR("l.2.w"), CK_STR("l.10.w")) < 0);
	ok(ck_str_natural_cmp(CK_STR("l.10"), CK_STR("l.10.w")) < 0);
	ok(ck_str_natural_cmp(CK_STR("a02"), CK_STR("a2")) < 0);
	ok(ck_str_natural_cmp(CK_STR("a2"), CK_STR("a02")) > 0);
	ok(ck_str_natural_cmp(CK_STR("x"), CK_STR("x")) == 0);
	ok(ck_str_natural_cmp(CK_STR("a\xff"), CK_STR("ab")) > 0);
}

static size_t apart(const char *a, const char *b, size_t most)
{
	size_t there = ck_str_distance(ck_str_from(a), ck_str_from(b), most);

	eq_u64(ck_str_distance(ck_str_from(b), ck_str_from(a), most), there);
	return there;
}

static void test_distance(void)
{
	char x[301], y[301];

	eq_u64(apart("", "", 5), 0);
	eq_u64(apart("norm", "norm", 0), 0);
	eq_u64(apart("norm", "form", 5), 1);
	eq_u64(apart("norm", "nor", 5), 1);
	eq_u64(apart("wieght", "weight", 5), 2);
	eq_u64(apart("kitten", "sitting", 5), 3);
	eq_u64(apart("abcdef", "uvwxyz", 6), 6);
	eq_u64(apart("abcdef", "uvwxyz", 5), 6);
	eq_u64(apart("abcdef", "uvwxyz", 2), 3);
	eq_u64(apart("", "abc", 2), 3);
	eq_u64(apart("aab", "ab", 1), 1);
	memset(x, 'x', sizeof(x));
	memset(y, 'y', sizeof(y));
	x[300] = y[300] = '\0';
	eq_u64(apart(x, y, 300), 301);
	y[200] = '\0';
	eq_u64(apart(x + 100, y, 300), 200);
	memset(y, 'x', 299); /* all but the last are equal */
	y[299] = 'y';
	eq_u64(apart(x, y, 300), 1);
}

static void test_arena(void)
{
	struct ck_arena a = { 0 };
	uint64_t *first = ck_arena_alloc(&a, 8);
	char *large = ck_arena_alloc(&a, 3 << 20);
	struct ck_str copy = ck_arena_copy(&a, CK_STR("text"));

	ok(first && large && copy.p);
	*first = 7;
	memset(large, 1, 3 << 20);
	for (int i = 0; i < 100000; i++) {
		char *p = ck_arena_alloc(&a, 24);

		memset(p, 2, 24);
	}
	eq_u64(*first, 7);
	eq_text(copy.p, "text");
	ok(ck_arena_alloc(&a, SIZE_MAX - 3) == NULL);
	ck_arena_fini(&a);
}

static void test_cursor(void)
{
	struct ck_cur c = ck_cur_make("\x01\x02\x03line\nrest", 12);
	struct ck_str line;
	uint16_t two;
	uint64_t eight;

	ok(ck_cur_u16(&c, &two));
	eq_u64(two, 0x0201);
	ok(ck_cur_skip(&c, 1));
	ok(ck_cur_line(&c, &line));
	eq_mem(line.p, line.len, "line", 4);
	ok(!ck_cur_line(&c, &line));
	ok(!ck_cur_u64(&c, &eight));
	ok(!ck_cur_skip(&c, UINT64_MAX));
	eq_u64(ck_cur_left(&c), 4);
}

static void test_differs(void)
{
	struct ck_diag d;
	struct ck_str what;
	char big[2000];

	eq_err(ck_differs(&d, EIO, "[2]", "[3]", "shape of %s", "w"), -EIO);
	eq_text(d.text, "shape of w; expected [2], found [3]");
	eq_text(d.expected, "[2]");
	eq_text(d.found, "[3]");
	ck_diag_prefix(&d, "item");
	what = ck_diag_what(&d);
	eq_mem(what.p, what.len, "item: shape of w", 16);
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	(void)ck_differs(&d, EIO, big, big, "%s", big);
	eq_u64(strlen(d.found), sizeof(d.found) - 1);
	what = ck_diag_what(&d);
	ok(what.len < strlen(d.text));
	(void)ck_fail(&d, EIO, "plain");
	what = ck_diag_what(&d);
	eq_mem(what.p, what.len, "plain", 5);
	eq_err(ck_differs(NULL, EIO, "", "", "x"), -EIO);
}

static void test_diag(void)
{
	struct ck_diag d;

	eq_err(ck_fail(&d, EBADMSG, "zip: entry %u", 3U), -EBADMSG);
	ck_diag_prefix(&d, "file %s", ck_show(CK_STR("a\nb")));
	eq_text(d.text, "file a%0Ab: zip: entry 3");
	eq_i64(d.err, EBADMSG);
}

#define LINE "ckptfs: line number 000000 of a log that wraps\n"

static void test_log_keeps_whole_lines(void)
{
	struct ck_buf b = { 0 };
	size_t gone = 0, kept;
	const char *lines;

	ck_log_detach();
	for (int i = 0; i < 40000; i++)
		ck_log("line number %06d of a log that wraps", i);
	ck_log_snapshot(&b);
	ok(sscanf(b.data, CK_LOG_GONE, &gone) == 1);
	lines = strchr(b.data, '\n') + 1;
	kept = strlen(lines);
	ok(kept <= 1 << 20 && kept > (1 << 20) - 100);
	eq_u64(gone + kept, 40000 * strlen(LINE));
	ok(strncmp(lines, "ckptfs: line number ", 20) == 0);
	ok(strstr(b.data, "number 039999 of") != NULL);
	ck_buf_fini(&b);
}

static void check_sum128(const struct ck_hasher *h, struct ck_str all)
{
	char want[33], got[33] = "";
	uint8_t sum[16];

	ck_hash128_hex(all, want);
	ck_hasher_sum128(h, sum);
	for (size_t i = 0; i < sizeof(sum); i++)
		snprintf(got + 2 * i, 3, "%02x", sum[i]);
	eq_text(got, want);
}

/* Every length class of the hash, and inputs of several blocks. */
static void test_hasher128(void)
{
	static char bytes[9000];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 11 + i / 256);
	for (size_t len = 0; len <= sizeof(bytes); len += len < 300 ? 1 : 977) {
		struct ck_hasher *h = ck_hasher_make(0);

		ck_hasher_add(h, (struct ck_str){ bytes, len / 3 });
		ck_hasher_add(
			h, (struct ck_str){ bytes + len / 3, len - len / 3 });
		check_sum128(h, (struct ck_str){ bytes, len });
		ck_hasher_free(h);
	}
}

/* A cursor reads back the numbers appended to a buffer. */
static void test_numbers(void)
{
	struct ck_buf b = { 0 };
	struct ck_cur c;
	uint64_t u64;
	uint32_t u32;
	uint16_t u16;
	uint8_t u8;

	ck_buf_u8(&b, 0xfe);
	ck_buf_u16(&b, 0x0102);
	ck_buf_u32(&b, 0xf1020304);
	ck_buf_u64(&b, UINT64_C(0xf102030405060708));
	eq_mem(b.data, b.len, "\xfe\2\1\4\3\2\xf1\10\7\6\5\4\3\2\xf1", 15);
	c = ck_cur_make(b.data, b.len);
	ok(ck_cur_u8(&c, &u8) && u8 == 0xfe);
	ok(ck_cur_u16(&c, &u16) && u16 == 0x0102);
	ok(ck_cur_u32(&c, &u32) && u32 == 0xf1020304);
	ok(ck_cur_u64(&c, &u64) && u64 == UINT64_C(0xf102030405060708));
	eq_u64(ck_cur_left(&c), 0);
	ck_buf_fini(&b);
}

/* The hasher is fed pieces of any length; its memory comes from earlier hashers. */
static void test_hasher(void)
{
	static char bytes[5000];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7 + i / 256);
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct ck_str all = { bytes, 100 * seed };
		struct ck_hasher *h = ck_hasher_make(seed);
		size_t part = 0;

		for (size_t i = 0; i < all.len; i += part) {
			part = ck_min(all.len - i, 1 + i % 700);
			ck_hasher_add(h, (struct ck_str){ bytes + i, part });
		}
		eq_u64(ck_hasher_sum(h), ck_hash64_seeded(all, seed));
		memset(h, (int)seed, 64);
		ck_hasher_free(h);
	}
}

static void test_hashes(void)
{
	char hex[33];

	eq_u64(ck_hash64_seeded(CK_STR("abc"), 0), ck_hash64(CK_STR("abc")));
	ok(ck_hash64_seeded(CK_STR("abc"), 1) != ck_hash64(CK_STR("abc")));
	ok(ck_hash_seed() != ck_hash_seed());
	/* `printf '' | xxhsum -H2` and `printf abc | xxhsum -H2` */
	ck_hash128_hex(CK_STR(""), hex);
	eq_text(hex, "99aa06d3014798d86001c324468d497f");
	ck_hash128_hex(CK_STR("abc"), hex);
	eq_text(hex, "06b05ab6733a618578af5f94892f3950");
}

static void test_beneath(void)
{
	char dir[] = "/tmp/ckptfs-base-XXXXXX";
	int dirfd, fd;
	char out[4];

	if (!ok(mkdtemp(dir) != NULL))
		return;
	dirfd = open(dir, O_DIRECTORY | O_CLOEXEC);
	fd = openat(dirfd, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	eq_err(ck_write_full(fd, "data", 4), 0);
	close(fd);
	ok(symlinkat("f", dirfd, "link") == 0);

	fd = ck_open_beneath(dirfd, CK_STR("f"), O_RDONLY,
			     CK_BENEATH_NO_SYMLINKS);
	ok(fd >= 0);
	eq_err(ck_pread_full(fd, out, 4, 0), 0);
	eq_mem(out, 4, "data", 4);
	eq_err(ck_pread_full(fd, out, 4, 1), -ENODATA);
	eq_err(ck_pread_full(fd, out, 1, UINT64_MAX), -ENODATA);
	close(fd);
	eq_err(ck_open_beneath(dirfd, CK_STR("link"), O_RDONLY,
			       CK_BENEATH_NO_SYMLINKS),
	       -ELOOP);
	fd = ck_open_beneath(dirfd, CK_STR("link"), O_RDONLY,
			     CK_BENEATH_SYMLINKS);
	ok(fd >= 0);
	close(fd);
	eq_err(ck_open_beneath(dirfd, CK_STR("x/../f"), O_RDONLY,
			       CK_BENEATH_SYMLINKS),
	       -EPERM);
	eq_err(ck_open_beneath(dirfd, CK_STR("/etc/passwd"), O_RDONLY,
			       CK_BENEATH_SYMLINKS),
	       -EPERM);
	eq_err(ck_open_beneath(dirfd, CK_STR("f\0g"), O_RDONLY,
			       CK_BENEATH_SYMLINKS),
	       -EPERM);
	eq_err(ck_open_beneath(dirfd, CK_STR(""), O_RDONLY,
			       CK_BENEATH_SYMLINKS),
	       -EPERM);
	unlinkat(dirfd, "link", 0);
	unlinkat(dirfd, "f", 0);
	close(dirfd);
	rmdir(dir);
}

static void load_one(void *arg)
{
	(void)*(volatile char *)arg;
}

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

static void test_messages(void)
{
	int ends[2], fds[CK_MESSAGE_FDS], got[CK_MESSAGE_FDS];
	char text[8] = "";

	socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends);
	fds[0] = open("/dev/null", O_RDONLY);
	fds[1] = open("/dev/zero", O_RDONLY);
	eq_err(ck_message_send(ends[0], "one", 4, NULL, 0), 0);
	eq_err(ck_message_send(ends[0], "two", 4, fds, 2), 0);
	eq_err(ck_message_send(ends[0], "cut", 4, fds, 2), 0);
	eq_err(ck_message_send(ends[0], "long", 5, fds, 1), 0);
	eq_err(ck_message_receive(ends[1], text, 4, got, 2), 0);
	eq_text(text, "one");
	ok(got[0] == -1 && got[1] == -1);
	eq_err(ck_message_receive(ends[1], text, 4, got, 2), 0);
	eq_text(text, "two");
	ok(is_same_file(got[0], fds[0]) && is_same_file(got[1], fds[1]));
	close(got[0]);
	close(got[1]);
	eq_err(ck_message_receive(ends[1], text, 4, got, 1), 0);
	ok(is_same_file(got[0], fds[0]));
	ok(fcntl(got[0] + 1, F_GETFD) == -1);
	close(got[0]);
	eq_err(ck_message_receive(ends[1], text, 4, got, 1), -EBADMSG);
	ok(is_same_file(got[0], fds[0]));
	close(got[0]);
	close(ends[0]);
	eq_err(ck_message_receive(ends[1], text, 4, got, 1), -EPIPE);
	eq_err(ck_message_send(ends[1], text, 4, NULL, 0), -EPIPE);
	close(ends[1]);
	close(fds[0]);
	close(fds[1]);
}

static void test_sigbus_of_a_truncated_file_is_an_error(void)
{
	char path[] = "/tmp/ckptfs-bus-XXXXXX";
	int fd = mkstemp(path);
	char *map;

	eq_err(ck_sigbus_install(), 0);
	ok(fd >= 0 && ftruncate(fd, 8192) == 0);
	map = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	eq_err(ck_sigbus_guard(load_one, map + 5000), 0);
	ok(ftruncate(fd, 4096) == 0);
	eq_err(ck_sigbus_guard(load_one, map + 5000), -EIO);
	eq_err(ck_sigbus_guard(load_one, map + 5000), -EIO);
	eq_err(ck_sigbus_guard(load_one, map), 0);
	munmap(map, 8192);
	close(fd);
	unlink(path);
}

/* --- memory kept by a thread ------------------------------------------------- */

struct counted {
	int *ended;
	struct ck_pages pages;
};

static void counted_fini(void *p)
{
	struct counted *c = p;

	++*c->ended;
	ck_pages_fini(&c->pages);
}

/* Keeps two areas. Returns NULL, or a description of the fault. */
static const char *keep_two(int *ended)
{
	struct counted *a = ck_thread_keep(sizeof(*a), counted_fini);
	struct counted *b = ck_thread_keep(sizeof(*b), counted_fini);
	char *bytes;

	if (!a || !b || a == b || a->ended || b->pages.bytes)
		return "not two zeroed areas";
	a->ended = b->ended = ended;
	bytes = ck_pages_reserve(&a->pages, 100000);
	if (!bytes || ck_pages_reserve(&a->pages, 5) != bytes)
		return "a large enough area was not reused";
	bytes = ck_pages_reserve(&a->pages, 1000000);
	if (!bytes)
		return "the area could not grow";
	bytes[999999] = 1;
	return *ended ? "freed before the thread ended" : NULL;
}

static void *keep_run(void *ended)
{
	return (void *)(uintptr_t)keep_two(ended);
}

static void test_a_thread_keeps_memory_until_it_ends(void)
{
	int ended = 0;
	void *wrong = &ended;
	pthread_t thread;

	ok(pthread_create(&thread, NULL, keep_run, &ended) == 0);
	ok(pthread_join(thread, &wrong) == 0);
	ok(wrong == NULL);
	ok(ended == 2);
}

int main(void)
{
	test_escapes();
	test_plain_lines();
	test_utf8();
	test_natural_order();
	test_distance();
	test_arena();
	test_cursor();
	test_diag();
	test_differs();
	test_log_keeps_whole_lines();
	test_hashes();
	test_hasher();
	test_hasher128();
	test_numbers();
	test_beneath();
	test_messages();
	test_sigbus_of_a_truncated_file_is_an_error();
	test_a_thread_keeps_memory_until_it_ends();
	return tap_done();
}
