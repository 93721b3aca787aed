/* SPDX-License-Identifier: MIT */
/*
 * wire: the bytes of every message, and messages with a fault, each of which is refused before
 * memory is allocated. The file server is tested in owner_test.c.
 */
#include "dist/dist_internal.h"
#include "taken.h"
#include "tap.h"
#include "wire_case.h"
#include "wire_cases.h"
#include "wire_messages.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[REQUESTS] = {
	[LIST] = "LIST",     [LOOK] = "LOOK", [READ] = "READ",
	[DIGEST] = "DIGEST", [PING] = "PING",
};

static struct ck_file_server *owner;

static int ask_make(struct ck_query *a, enum which which)
{
	static const struct ck_str looked[] = { { "a", 1 }, { "sub/b", 5 } };
	static const struct ck_wire_run runs[] = { { 0, 100, 1000 },
						   { 1, 101, 1000 } };
	struct ck_reads r;
	size_t n;
	int rc = 0;

	switch (which % AN_ANSWER) {
	case LIST: rc = ck_query_list(a, CK_STR("sub"), 5); break;
	case LOOK:
		rc = ck_query_stat(a, (struct ck_ids){ 1, 2 }, looked, 2, &n);
		break;
	case READ:
		ck_reads_begin(&r, batch, 2);
		ok(ck_reads_left(&r));
		rc = ck_query_read(&r, a);
		ok(!ck_reads_left(&r));
		break;
	case DIGEST: rc = ck_query_digest(a, runs, 2); break;
	default: rc = ck_query_ping(a); break;
	}
	a->head.id = ID;
	a->head.epoch = EPOCH;
	return rc;
}

static void test_requests_are_these_bytes(void)
{
	for (enum which i = LIST; i < REQUESTS; i++) {
		struct ck_buf want = { 0 }, got = { 0 };
		struct ck_query a;

		put_message(&want, i);
		ok(ask_make(&a, i) == 0);
		wire_add_ask(&got, &a);
		eq_mem(got.data, got.len, want.data, want.len);
		ck_query_fini(&a);
		ck_buf_fini(&want);
		ck_buf_fini(&got);
	}
}

static void test_head_bytes(void)
{
	static const uint8_t want[CK_WIRE_HEAD] =
		"ckpw\1\0\4\0\1\0\0\0\0\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11"
		"\0\0\x80\0\0\0\0\0\5\4\0\0\4\3\2\1";
	const struct ck_wire_head head = { .type = CK_WIRE_READ,
					   .answer = true,
					   .id = UINT64_C(0x1122334455667788),
					   .payload = CK_WIRE_READ_MAX,
					   .body = 0x405,
					   .epoch = 0x01020304 };
	struct ck_wire_head back;
	uint8_t bytes[CK_WIRE_HEAD];

	ck_wire_head_put(&head, bytes);
	eq_mem(bytes, sizeof(bytes), want, sizeof(want));
	ok(ck_wire_head_get(bytes, &back) == 0);
	ok(back.type == head.type && back.answer && back.err == 0);
	ok(back.id == head.id && back.payload == head.payload);
	ok(back.body == head.body && back.epoch == head.epoch);
}

/* --- parsed answers ------------------------------------------------------------------ */

static struct {
	struct ck_page page;
	struct ck_name_stat looked[2];
	uint8_t digest[16];
	uint64_t read;
} got;

static int take(const struct ck_query *a, enum which which,
		const struct ck_message *m)
{
	switch (which % AN_ANSWER) {
	case LIST: return ck_reply_list(a, m, &got.page);
	case LOOK: return ck_reply_stat(a, m, got.looked);
	case READ: return ck_reply_read(a, m, &got.read);
	case DIGEST: return ck_reply_digest(a, m, got.digest);
	default: return take_ping(a, m);
	}
}

static void check_page(void)
{
	struct ck_page_row row;

	ok(got.page.next == 77 && got.page.more && got.page.n == 2);
	ok(ck_page_next(&got.page, &row) && row.kind == CK_WIRE_FILE);
	ok(ck_str_is(row.name, "a"));
	ok(ck_page_next(&got.page, &row) && row.kind == CK_WIRE_LINK);
	ok(ck_str_is(row.name, "bc"));
	ok(!ck_page_next(&got.page, &row));
}

static void check_looked(void)
{
	const struct ck_file_info *info = &got.looked[0].info;

	ok(got.looked[0].number == 17 && got.looked[0].seen);
	ok(got.looked[0].trouble == ESTALE);
	ok(info->err == 0 && !info->why && !info->path.p);
	ok(info->size == 12345 && info->mtime.tv_sec == -2);
	ok(info->mtime.tv_nsec == 999999999);
	ok(info->mode == (S_IFREG | 0640) && info->uid == 1000);
	ok(info->gid == 100 && info->closed == 0044);
	ok(got.looked[1].number == 18 && !got.looked[1].seen);
	ok(got.looked[1].trouble == EACCES && got.looked[1].info.size == 0);
}

static void check_moved(void)
{
	static const char want[] = "aaaa.bbbb.......cccc.dddd......."
				   "eeee.ffff.......................";

	eq_mem(to, sizeof(to), want, sizeof(to));
	eq_u64(got.read, 0x1122334455);
	eq_err(batch[0].rc, 0);
	eq_err(batch[1].rc, -EIO);
}

static void check_answer(struct ck_buf *bytes, enum which which)
{
	struct ck_message m;
	struct ck_query a;

	memset(to, '.', sizeof(to));
	ok(ask_make(&a, which) == 0);
	ok(wire_split(bytes->data, bytes->len, &m) == 0);
	ok(ck_query_check(&a, &m.head) == 0);
	eq_err(take(&a, which, &m), 0);
	if (which == A_LIST)
		check_page();
	if (which == A_LOOK)
		check_looked();
	if (which == A_READ)
		check_moved();
	if (which == A_DIGEST)
		eq_mem(got.digest, 16, "0123456789abcdef", 16);
	ck_query_fini(&a);
}

static void test_answers_are_taken(void)
{
	for (enum which i = A_LIST; i <= A_PING; i++) {
		struct ck_buf b = { 0 };

		put_message(&b, i);
		check_answer(&b, i);
		ck_buf_fini(&b);
	}
}

/* An errno in place of an answer. */
static void test_errors_are_taken(void)
{
	static const int errs[][2] = { { ENOENT, -ENOENT },
				       { 4095, -4095 },
				       { EINTR, -EIO },
				       { EREMOTE, -EIO },
				       { EINPROGRESS, -EIO } };

	for (size_t i = 0; i < CK_ARRAY_SIZE(errs); i++) {
		for (enum which k = A_LIST; k < A_PING; k++) {
			struct ck_message m = { 0 };
			struct ck_query a;

			ok(ask_make(&a, k) == 0);
			m.head = a.head;
			m.head.answer = true;
			m.head.body = 0;
			m.head.err = (uint32_t)errs[i][0];
			eq_err(take(&a, k, &m), errs[i][1]);
			if (k == A_READ)
				ok(batch[0].rc == errs[i][1] &&
				   batch[1].rc == errs[i][1]);
			ck_query_fini(&a);
		}
	}
}

/* --- faults ------------------------------------------------------------------------------- */

static bool is_refused_request(const void *bytes, size_t len)
{
	struct ck_answer out = { .payload = (uint8_t *)1 };
	struct ck_message m;
	uint64_t cost = 1;

	if (wire_split(bytes, len, &m))
		return true;
	if (ck_file_server_cost(&m, &cost) != -EPROTO || cost != 1)
		return false;
	return ck_file_server_answer(owner, &m, &out) == -EPROTO &&
	       !out.payload && !out.body.data && out.head.type == 0;
}

static bool is_refused_answer(enum which which, const void *bytes, size_t len)
{
	struct ck_message m;
	struct ck_query a;
	bool refused = true;
	size_t before;

	taken.on = false;
	if (ask_make(&a, which))
		return false;
	memset(to, '.', sizeof(to));
	before = taken.total;
	taken.on = true;
	if (wire_split(bytes, len, &m) == 0) {
		refused = take(&a, which, &m) == -EPROTO;
		if (which == A_READ && refused)
			refused = batch[0].rc == -EPROTO &&
				  batch[1].rc == -EPROTO;
	}
	for (size_t i = 0; i < sizeof(to); i++)
		refused &= to[i] == '.';
	refused &= before == taken.total;
	ck_query_fini(&a);
	return refused;
}

/* Parses a copy of the exact size, so that ASan detects a read beyond it. */
static bool is_refused(enum which which, const char *bytes, size_t len)
{
	char *copy = malloc(len ? len : 1);
	bool refused;

	if (!copy)
		abort();
	memcpy(copy, bytes, len);
	taken_begin();
	refused = which < REQUESTS ? is_refused_request(copy, len)
				   : is_refused_answer(which, copy, len);
	taken.on = false;
	free(copy);
	return refused && taken.total == 0;
}

static void test_faults(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(faults); i++) {
		const struct fault *f = &faults[i];
		struct ck_buf b = { 0 };
		char what[200];

		put_message(&b, f->which);
		for (unsigned k = 0; k < f->len; k++)
			b.data[f->at + k] = (char)(f->value >> 8 * k & 0xff);
		snprintf(what, sizeof(what), "%s %s: %s",
			 f->which < REQUESTS ? "request" : "answer",
			 names[f->which % AN_ANSWER], f->name);
		tap_result(is_refused(f->which, b.data, b.len), __FILE__,
			   __LINE__, what);
		ck_buf_fini(&b);
	}
}

/* Sets the length of the body in the head. */
static void set_length(char *bytes, size_t body)
{
	for (int i = 0; i < 4; i++)
		bytes[32 + i] = (char)(body >> 8 * i & 0xff);
}

/* Each message cut at every byte, and longer by one to nine bytes, with the old and the new
 * length in its head. */
static void test_lengths(enum which which)
{
	struct ck_buf b = { 0 };
	char zeros[9] = { 0 };
	size_t len, wrong = 0;

	put_message(&b, which);
	len = b.len;
	for (size_t n = 0; n < len; n++)
		wrong += !is_refused(which, b.data, n);
	for (size_t n = CK_WIRE_HEAD; n < len && which != A_READ; n++) {
		set_length(b.data, n - CK_WIRE_HEAD);
		wrong += !is_refused(which, b.data, n);
	}
	for (size_t n = 1; n <= sizeof(zeros); n++) {
		set_length(b.data,
			   len - CK_WIRE_HEAD - (which == A_READ ? 32 : 0));
		b.len = len;
		ck_buf_add(&b, zeros, n);
		wrong += !is_refused(which, b.data, b.len);
		set_length(b.data,
			   len + n - CK_WIRE_HEAD - (which == A_READ ? 32 : 0));
		wrong += !is_refused(which, b.data, b.len);
	}
	eq_u64(wrong, 0);
	ck_buf_fini(&b);
}

/* True if a byte of a head may have another value: the id and epoch of a request, a type with
 * the same body, or the errno of an answer without a body. */
static bool is_free(enum which which, size_t at)
{
	if (which == A_PING)
		return at == 12 || at == 13;
	return which < REQUESTS &&
	       ((at >= 16 && at < 24) || at == 6 || (at >= 36 && at < 40));
}

/* Each bit of a head is flipped. */
static void test_bits(enum which which)
{
	struct ck_buf b = { 0 };
	unsigned refused = 0, wrong = 0;

	put_message(&b, which);
	for (size_t i = 0; i < 8 * (size_t)CK_WIRE_HEAD; i++) {
		char bit = (char)(1 << i % 8);
		size_t at = i / 8;

		b.data[at] = (char)(b.data[at] ^ bit);
		if (is_refused(which, b.data, b.len))
			refused++;
		else
			wrong += !is_free(which, at);
		b.data[at] = (char)(b.data[at] ^ bit);
	}
	eq_u64(wrong, 0);
	ok(refused >= 400);
	ck_buf_fini(&b);
}

/* Canary: a message without a fault is accepted. */
static void test_canary(void)
{
	for (enum which i = LIST; i <= A_PING; i++) {
		struct ck_buf b = { 0 };

		if (i == REQUESTS)
			i = A_LIST;
		put_message(&b, i);
		ok(!is_refused(i, b.data, b.len));
		ck_buf_fini(&b);
	}
	/* Canary: an allocation is detected. */
	taken_begin();
	free(ck_hasher_make(0));
	taken.on = false;
	ok(taken.total > 0);
}

/* --- limits of bodies ----------------------------------------------------------------- */

/* True if a message with this body is refused. */
static bool is_refused_body(enum which which, struct ck_buf *body,
			    size_t payload)
{
	static char bytes[64];
	struct ck_wire_head head = { .type = (uint16_t)(which % AN_ANSWER),
				     .answer = which >= AN_ANSWER,
				     .id = ID,
				     .payload = payload,
				     .body = (uint32_t)body->len,
				     .epoch = EPOCH };
	struct ck_buf b = { 0 };
	bool refused;

	wire_add(&b, &head, body, bytes);
	refused = is_refused(which, b.data, b.len);
	ck_buf_fini(&b);
	ck_buf_fini(body);
	return refused;
}

static bool refuses_loops(uint32_t n)
{
	const struct ck_loop once = { 1, 0, 7 };
	struct ck_buf body = { 0 };

	put_counted(&body, 1);
	put_move(&body, &(struct ck_copy_desc){ .run = 1 });
	for (int i = 0; i < 4; i++)
		body.data[12 + i] = (char)(n >> 8 * i & 0xff);
	for (uint32_t k = 0; k < n; k++) {
		ck_buf_u64(&body, once.count);
		ck_buf_u64(&body, once.src);
	}
	return is_refused_body(READ, &body, 0);
}

static bool refuses_text(enum which which, size_t len)
{
	static char text[CK_WIRE_NAME_MAX + 1];
	struct ck_buf body = { 0 };

	memset(text, 'x', sizeof(text));
	if (which == LIST)
		ck_buf_u64(&body, 0);
	if (which == LOOK) {
		put_counted(&body, 0);
		ck_buf_u32(&body, 1);
	}
	if (which == A_LIST) {
		ck_buf_u64(&body, 0);
		put_counted(&body, 1);
		ck_buf_u8(&body, CK_WIRE_FILE);
	}
	ck_wire_text_put(&body, (struct ck_str){ text, len });
	return is_refused_body(which, &body, 0);
}

static bool refuses_payload(size_t len)
{
	struct ck_buf body = { 0 };

	ck_buf_u64(&body, 32);
	put_counted(&body, 0);
	return is_refused_body(A_READ, &body, len);
}

/* True if an empty page is refused. */
static bool refuses_page(uint32_t more)
{
	struct ck_buf body = { 0 };

	ck_buf_u64(&body, 5);
	ck_buf_u32(&body, 0);
	ck_buf_u32(&body, more);
	return is_refused_body(A_LIST, &body, 0);
}

static void test_edges(void)
{
	ok(!refuses_loops(CK_MAX_DIMS) && refuses_loops(CK_MAX_DIMS + 1));
	ok(!refuses_text(LIST, 4096) && refuses_text(LIST, 4097));
	ok(!refuses_text(LOOK, 4096) && refuses_text(LOOK, 4097));
	ok(!refuses_text(A_LIST, 4096) && refuses_text(A_LIST, 4097));
	ok(refuses_payload(31) && !refuses_payload(32) && refuses_payload(33));
	ok(!refuses_page(0) && refuses_page(1));
}

/* --- requests that are not sent ----------------------------------------------------------- */

static void test_limits(void)
{
	static char name[CK_WIRE_NAME_MAX + 1];
	static struct ck_str long_names[300];
	const struct ck_str too_long = { name, sizeof(name) };
	struct ck_wire_run run = { 0, 0, CK_WIRE_DIGEST_MAX };
	struct ck_query a;
	size_t n;

	memset(name, 'x', sizeof(name));
	for (size_t i = 0; i < CK_ARRAY_SIZE(long_names); i++)
		long_names[i] = (struct ck_str){ name, CK_WIRE_NAME_MAX };
	long_names[299].len++;
	ok(ck_query_stat(&a, (struct ck_ids){ 0, 0 }, long_names, 300, &n) ==
	   0);
	eq_u64(n, ((1 << 20) - 12) / 4098);
	ok(a.body.len <= CK_WIRE_BODY_MAX);
	ck_query_fini(&a);
	ok(ck_query_stat(&a, (struct ck_ids){ 0, 0 }, long_names + 298, 2,
			 &n) == 0);
	eq_u64(n, 1);
	ck_query_fini(&a);
	eq_err(ck_query_stat(&a, (struct ck_ids){ 0, 0 }, &too_long, 1, &n),
	       -ENAMETOOLONG);
	eq_err(ck_query_list(&a, too_long, 0), -ENAMETOOLONG);
	eq_err(ck_query_digest(&a, &run, 1), 0);
	ck_query_fini(&a);
	run.len++;
	eq_err(ck_query_digest(&a, &run, 1), -E2BIG);
	eq_err(ck_query_digest(&a, &run, 0), -E2BIG);
}

int main(void)
{
	int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	owner = ck_file_server_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	if (!owner)
		abort();
	close(dir);
	batch[0].to = to;
	batch[1].to = to + 48;
	test_head_bytes();
	test_requests_are_these_bytes();
	test_answers_are_taken();
	test_errors_are_taken();
	test_canary();
	test_faults();
	for (enum which i = LIST; i <= A_PING; i++) {
		if (i == REQUESTS)
			i = A_LIST;
		test_lengths(i);
		test_bits(i);
	}
	test_edges();
	test_limits();
	ck_file_server_free(owner);
	return tap_done();
}
