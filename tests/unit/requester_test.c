/* SPDX-License-Identifier: MIT */
/*
 * requester: moves that need several requests, and invalid answers. Random schedules are in
 * peer_model_test.c.
 */
#include "requester_case.h"

enum { MOST = 50000, RUN = 64 << 10, TURNS = 140 };

/* --- many moves, and large ones ----------------------------------------------------- */

static uint8_t byte_of(const struct ck_copy_desc *m, uint64_t at)
{
	return owners.bytes[files[m->file].peer][files[m->file].number]
			   [m->fpos + at];
}

/* So many moves that each of two peers gets several requests. */
static void test_many(void)
{
	static struct ck_copy_desc list[2 * MOST];
	static uint8_t to[2 * MOST];
	struct ck_copy_batch batch = { .list = list, .n = 2 * MOST };
	unsigned wrong = 0;

	begin();
	for (unsigned i = 0; i < 2 * MOST; i++)
		list[i] = (struct ck_copy_desc){ .file = i % 2,
						 .fpos = i / 2 % OWNED_BYTES,
						 .run = 1,
						 .to = to + i };
	eq_err(start(&batch), -EINPROGRESS);
	eq_u64(line.reads, 4);
	answer_all();
	eq_u64(ended, 1);
	for (unsigned i = 0; i < 2 * MOST; i++)
		wrong += list[i].rc || to[i] != byte_of(&list[i], 0);
	eq_u64(wrong, 0);
	end();
}

/* A move larger than one answer, which reads the same bytes many times. */
static void test_large(void)
{
	const struct ck_loop loops[] = {
		{ TURNS, RUN, 0 }, { RUN / OWNED_BYTES, OWNED_BYTES, 0 }
	};
	uint8_t *to = malloc((size_t)TURNS * RUN);
	struct ck_copy_desc move = { .file = 1,
				     .nloops = 2,
				     .loops = loops,
				     .run = OWNED_BYTES,
				     .to = to };
	struct ck_copy_batch batch = { .list = &move, .n = 1 };
	unsigned wrong = 0;

	if (!to)
		abort();
	begin();
	eq_err(start(&batch), -EINPROGRESS);
	answer_all();
	eq_u64(line.reads, 2);
	eq_u64(ended, 1);
	eq_err(move.rc, 0);
	for (size_t i = 0; i < (size_t)TURNS * RUN; i += OWNED_BYTES)
		wrong += memcmp(to + i, owners.bytes[1][0], OWNED_BYTES) != 0;
	eq_u64(wrong, 0);
	end();
	free(to);
}

/* One of the two parts of a move gets no answer. */
static void test_part(void)
{
	const struct ck_loop loop = { TURNS * RUN / OWNED_BYTES, 0, 0 };
	uint8_t to[OWNED_BYTES];
	struct ck_copy_desc list[2] = { { .file = 1,
					  .nloops = 1,
					  .loops = &loop,
					  .run = OWNED_BYTES,
					  .to = to },
					{ .file = 2, .run = 9, .to = to } };
	struct ck_copy_batch batch = { .list = list, .n = 2 };
	struct packet p;
	struct ck_message m;

	begin();
	eq_err(start(&batch), -EINPROGRESS);
	eq_u64(line.packets.n, 2); /* the window has no room for the rest */
	p = packets_take(&line.packets, 0);
	packet_answer(&p, owners.owner[p.peer]);
	m = packet_open(&p);
	eq_err(ck_calls_take(calls, p.peer, &m, 1), 0);
	ck_buf_fini(&p.bytes);
	ck_calls_lost(calls, 1);
	eq_u64(ended, 0);
	answer_all();
	eq_u64(ended, 1);
	eq_err(list[0].rc, -EIO);
	eq_err(list[1].rc, 0);
	end();
}

/* --- invalid answers ------------------------------------------------------------------- */

/* Sends an answer, and returns the result of ck_calls_take(). */
static int answer_with(uint32_t err, const uint8_t row[4])
{
	uint8_t body[8 + 4] = { 8 };

	struct packet p = packets_take(&line.packets, 0);
	struct ck_wire_head head = p.head;
	struct ck_message m;
	int rc;

	packet_answer(&p, owners.owner[p.peer]);
	m = packet_open(&p);
	if (err) {
		m.head = head;
		m.head.answer = true;
		m.head.err = err;
		m.head.body = 0;
		m.body.len = m.payload.len = 0;
	} else {
		memcpy(body + 8, row, 4);
		m.body.p = (const char *)body;
	}
	rc = ck_calls_take(calls, p.peer, &m, 1);
	ck_buf_fini(&p.bytes);
	return rc;
}

/* Each errno in an answer, and the resulting error of the move. */
static void test_errnos(void)
{
	static const struct {
		uint32_t head;
		uint8_t row[4];
		int want;
		int taken; /* result of ck_calls_take() */
	} cases[] = {
		/* Not an errno, or one that no file server sends. */
		{ 0, { 0xff, 0xff, 0, 0 }, -EIO, -EPROTO },
		{ EPROTO, { 0 }, -EIO, -EPROTO },
		{ 0, { EPROTO }, -EIO, 0 },
		{ EINTR, { 0 }, -EIO, 0 },
		{ 0, { EREMOTE }, -EIO, 0 },
		{ 0, { EINPROGRESS }, -EIO, 0 },
		{ ENOMEM, { 0 }, -ENOMEM, 0 },
		{ 0, { ESTALE }, -ESTALE, 0 },
		{ 0, { 0 }, 0, 0 },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		uint8_t to[8];
		struct ck_copy_desc move = { .file = 3, .run = 8, .to = to };
		struct ck_copy_batch batch = { .list = &move, .n = 1 };

		begin();
		eq_err(start(&batch), -EINPROGRESS);
		eq_err(answer_with(cases[i].head, cases[i].row),
		       cases[i].taken);
		eq_u64(ended, 1);
		eq_err(move.rc, cases[i].want);
		end();
	}
}

static void test_at_once(void)
{
	uint8_t to[8];
	struct ck_copy_desc list[2] = {
		{ .file = NOBODYS, .run = 8, .to = to },
		{ .file = SET_FILES, .run = 8, .to = to }
	};
	struct ck_copy_batch batch = { .list = list, .n = 2 };

	begin();
	eq_err(start(&batch), 0);
	eq_err(list[0].rc, -EIO);
	eq_err(list[1].rc, -ENODATA);
	batch.n = 0;
	eq_err(start(&batch), 0);
	eq_u64(ended, 0);
	end();
}

int main(void)
{
	owners_begin(&owners);
	test_many();
	test_large();
	test_part();
	test_errnos();
	test_at_once();
	return owners_end(&owners) | tap_done();
}
