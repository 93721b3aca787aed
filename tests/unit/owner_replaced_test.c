/* SPDX-License-Identifier: MIT */
/*
 * A file that is written over between an owner's look at it and what is read of it, or
 * after that: bytes of it are given as those of the file that was looked at only if they
 * are.
 */
#include "owner_case.h"

#include "io/local/gather.h"

#include <errno.h>

enum { BYTES = 1000 };

static uint8_t content[BYTES], other[BYTES];
static bool armed, is_late;

static void write_over(void)
{
	int fd = openat(dir, "f0", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || ck_write_full(fd, other, BYTES))
		abort();
	close(fd);
	armed = false;
}

int __real_ck_sigbus_guard(void (*copy)(void *arg), void *arg);
int __wrap_ck_sigbus_guard(void (*copy)(void *arg), void *arg);

int __wrap_ck_sigbus_guard(void (*copy)(void *arg), void *arg)
{
	int rc;

	if (armed && !is_late)
		write_over();
	rc = __real_ck_sigbus_guard(copy, arg);
	if (armed)
		write_over();
	return rc;
}

ssize_t __real_preadv64v2(int fd, const struct iovec *to, int n, off_t at,
			  int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *to, int n, off_t at,
			  int flags);

ssize_t __wrap_preadv64v2(int fd, const struct iovec *to, int n, off_t at,
			  int flags)
{
	if (armed)
		write_over();
	return __real_preadv64v2(fd, to, n, at, flags);
}

/* As it was, of a time that no other one has. */
static void restore(void)
{
	const struct timespec times[2] = { { 1000, 5 }, { 1000, 5 } };

	put_file("f0", content, BYTES);
	put_file("f1", content, BYTES);
	for (unsigned i = 0; i < 2; i++)
		if (utimensat(dir, i ? "f1" : "f0", times, 0))
			abort();
}

/* The answer to a READ of both files, twice of the first; at_once: once of that alone,
 * which can be answered so. */
static bool ask(struct ck_file_server *o, const uint32_t numbers[2],
		bool at_once, struct ck_answer *out)
{
	uint8_t to[3][BYTES];
	struct ck_copy_desc list[3];
	struct ck_reads r;
	struct ck_query a;
	struct ck_message m = { 0 };
	bool answered;
	uint64_t cost;

	for (unsigned i = 0; i < 3; i++)
		list[i] = (struct ck_copy_desc){ .file = numbers[i / 2],
						 .run = BYTES,
						 .to = to[i] };
	ck_reads_begin(&r, list, at_once ? 1 : 3);
	if (!ck_reads_left(&r) || ck_query_read(&r, &a))
		abort();
	m.head = a.head;
	m.body = (struct ck_str){ a.body.data, a.body.len };
	if (ck_file_server_cost(&m, &cost))
		abort();
	answered = at_once ? ck_file_server_answer_now(o, &m, cost, out)
			   : ck_file_server_answer(o, &m, out) == 0;
	ck_query_fini(&a);
	return answered;
}

static int rc_of(const struct ck_answer *a, unsigned move)
{
	uint32_t err;

	memcpy(&err, a->body.data + sizeof(uint64_t) + move * sizeof(err),
	       sizeof(err));
	return -(int)err;
}

static bool has(const struct ck_answer *a, unsigned move, const uint8_t *bytes)
{
	return memcmp((uint8_t *)a->payload + move * BYTES, bytes, BYTES) == 0;
}

/* when: before its bytes are read, or just after that. */
static void test_written_over(bool at_once, bool late)
{
	static const uint8_t zeros[BYTES];
	struct ck_file_server *o;
	struct ck_answer a;
	uint32_t numbers[2];

	restore();
	o = owner_begin(CK_BENEATH_NO_SYMLINKS);
	numbers[0] = number_of(o, "f0");
	numbers[1] = number_of(o, "f1");
	if (!ask(o, numbers, false, &a)) /* they are open */
		abort();
	eq_err(rc_of(&a, 0), 0);
	ck_answer_fini(&a);
	armed = true;
	is_late = late;
	if (!ask(o, numbers, at_once, &a))
		abort();
	ok(!armed);
	eq_err(rc_of(&a, 0), -ESTALE);
	ok(has(&a, 0, zeros));
	if (!at_once) {
		eq_err(rc_of(&a, 1), -ESTALE);
		eq_err(rc_of(&a, 2), 0);
		ok(has(&a, 1, zeros) && has(&a, 2, content));
	}
	ck_answer_fini(&a);
	ck_file_server_free(o);
}

int main(void)
{
	memset(content, 0x5a, BYTES);
	memset(other, 0xa5, BYTES);
	if (!case_begin())
		return 2;
	test_written_over(false, false);
	test_written_over(false, true);
	test_written_over(true, false);
	return case_end();
}
