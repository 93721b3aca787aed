/* SPDX-License-Identifier: MIT */
/*
 * owner_short: each allocation fails once, of who asks and of who answers. An owner
 * answers all the same, and who asks can ask again.
 */
#include "owner_case.h"

#include <errno.h>

static int ask_make(struct ck_query *a, unsigned type, struct ck_reads *r)
{
	static const struct ck_str looked[] = { { "b", 1 }, { "sub/c", 5 } };
	static const struct ck_wire_run run = { 0, 0, 1 };
	size_t n;

	switch (type) {
	case CK_WIRE_LIST: return ck_query_list(a, CK_STR("sub"), 0);
	case CK_WIRE_STAT:
		return ck_query_stat(a, (struct ck_ids){ 0, 0 }, looked, 2, &n);
	case CK_WIRE_READ: return ck_reads_left(r) ? ck_query_read(r, a) : 0;
	case CK_WIRE_DIGEST: return ck_query_digest(a, &run, 1);
	default: return ck_query_ping(a);
	}
}

/* The n-th allocation fails: false once there are fewer. */
static bool ask_short(unsigned type, unsigned n, struct ck_reads *r)
{
	const struct ck_reads before = *r;
	struct ck_query a;
	bool fired;
	int rc;

	taken_begin();
	taken.fails = n;
	rc = ask_make(&a, type, r);
	taken.on = false;
	fired = taken.fails == 0;
	eq_err(rc, fired ? -ENOMEM : 0);
	ok(!fired || (r->next == before.next && r->done == before.done));
	if (rc == 0)
		ck_query_fini(&a);
	return fired;
}

/* There is an answer all the same. */
static bool answer_short(const struct ck_query *a, unsigned n)
{
	const struct ck_message m = { .head = a->head,
				      .body = { a->body.data, a->body.len } };
	struct ck_file_server *o = owner_begin(CK_BENEATH_NO_SYMLINKS);
	struct ck_answer out;
	bool fired;

	number_of(o, "a");
	taken_begin();
	taken.fails = n;
	eq_err(ck_file_server_answer(o, &m, &out), 0);
	taken.on = false;
	fired = taken.fails == 0;
	ok(out.head.err == 0 || (fired && out.head.err == ENOMEM));
	ok(out.head.err == 0 || (!out.body.data && !out.payload));
	ck_answer_fini(&out);
	ck_file_server_free(o);
	return fired;
}

static void test_shortage(void)
{
	const struct ck_loop loop = { 2, 2, 2 };
	uint8_t bytes[4];
	struct ck_copy_desc move = { 0, 1, &loop, 0, 2, bytes, 0 };
	unsigned failed = 0;

	for (unsigned type = CK_WIRE_LIST; type < CK_WIRE_REQUESTS; type++) {
		struct ck_reads r;
		struct ck_query a;
		unsigned n = 1;

		ck_reads_begin(&r, &move, 1);
		for (; ask_short(type, n, &r); n++)
			failed++;
		ck_reads_begin(&r, &move, 1);
		if (ask_make(&a, type, &r))
			abort();
		for (n = 1; answer_short(&a, n); n++)
			failed++;
		ck_query_fini(&a);
	}
	printf("# %u allocations failed\n", failed);
	ok(failed > 20);
}

int main(void)
{
	if (!case_begin())
		return 2;
	put_file("a", "first", 5);
	put_file("b", "second", 6);
	ok(mkdirat(dir, "sub", 0700) == 0);
	put_file("sub/c", "third", 5);
	test_shortage();
	return case_end();
}
