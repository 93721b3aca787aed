/* SPDX-License-Identifier: MIT */
/*
 * owner_reads: answers of the file server to READ, compared with a model of single bytes;
 * moves sent to a file server, compared with the local backend; and moves split into
 * several requests.
 */
#include "owner_case.h"

#include <errno.h>
#include <sys/mman.h>

enum {
	NFILES = 3,
	GONE = NFILES,
	UNKNOWN,
	FILE_BYTES = 24000,
	LOOPS = 6,
	MOVES = 8,
	ROOM = 1 << 18
};

static const size_t sizes[NFILES] = { FILE_BYTES, 5000, 0 };
static uint8_t content[NFILES][FILE_BYTES];
static struct ck_files *files; /* the same, with the same numbers */
static uint64_t seed;

static uint64_t below(uint64_t n)
{
	return tap_random(&seed) % n;
}

static void make_files(void)
{
	uint32_t number;

	files = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	for (unsigned i = 0; i <= GONE; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		for (size_t k = 0; i < NFILES && k < sizes[i]; k++)
			content[i][k] = (uint8_t)tap_random(&seed);
		if (i < NFILES)
			put_file(name, content[i], sizes[i]);
		if (ck_files_add(files, ck_str_from(name), &number))
			abort();
		eq_u64(number_of(owner, name), i);
	}
}

/* --- the model ------------------------------------------------------------------------- */

struct model {
	const struct ck_copy_desc *m;
	struct ck_buf bytes; /* packed */
	int rc;
};

static void model_run(void *arg, uint64_t fpos, uint64_t dst)
{
	struct model *model = arg;
	const struct ck_copy_desc *m = model->m;
	static const char zeros[FILE_BYTES];

	(void)dst;
	if (m->file >= NFILES)
		model->rc = -ENODATA;
	else if (fpos > sizes[m->file] || m->run > sizes[m->file] - fpos)
		model->rc = -EIO;
	ck_buf_add(&model->bytes,
		   model->rc ? zeros : (char *)content[m->file] + fpos, m->run);
}

static bool maps = true; /* the file server under test maps its files */

/* Checks the number of read bytes in an answer. It is the sum of the runs. For files that are
 * not mapped it may differ, but is 0 only if the sum is. */
static bool is_sum(const struct ck_answer *a, uint64_t sum)
{
	struct ck_cur c = ck_cur_make(a->body.data, a->body.len);
	uint64_t sent;

	return ck_cur_u64(&c, &sent) &&
	       (maps ? sent == sum : (sent > 0) == (sum > 0));
}

/* True if an answer agrees with the model. */
static bool is_right(const struct ck_copy_desc *list, size_t n,
		     const struct ck_answer *a)
{
	struct ck_buf body = { 0 }, payload = { 0 };
	uint64_t sum = 0;
	bool right;

	for (size_t i = 0; i < n; i++) {
		struct model model = { .m = &list[i] };

		each_run(&list[i], model_run, &model);
		ck_buf_u32(&body, (uint32_t)-model.rc);
		if (model.rc)
			memset(model.bytes.data, 0, model.bytes.len);
		else
			sum += model.bytes.len;
		ck_buf_add(&payload, model.bytes.data, model.bytes.len);
		ck_buf_fini(&model.bytes);
	}
	right = a->head.answer && a->head.type == CK_WIRE_READ &&
		a->head.err == 0 && a->head.body == 8 + body.len &&
		a->head.payload == payload.len && a->body.len == a->head.body &&
		is_sum(a, sum) &&
		memcmp(a->body.data + 8, body.data, body.len) == 0 &&
		memcmp(a->payload, payload.data, payload.len) == 0;
	ck_buf_fini(&body);
	ck_buf_fini(&payload);
	return right;
}

/* --- random moves -------------------------------------------------------------------- */

struct nest {
	struct ck_loop loops[LOOPS];
	uint64_t reach; /* bytes of the destination */
};

/* Runs that do not overlap, with the loops in any order. */
static void place(struct ck_copy_desc *m, struct nest *nest)
{
	uint64_t stride = m->run + below(3);
	bool placed[LOOPS] = { false };

	for (uint32_t left = m->nloops; left; left--) {
		uint32_t k = (uint32_t)below(m->nloops);

		while (placed[k])
			k = (k + 1) % m->nloops;
		placed[k] = true;
		nest->loops[k].dst = stride;
		stride = stride * nest->loops[k].count + below(5);
	}
	nest->reach = stride;
}

static void random_move(struct ck_copy_desc *m, struct nest *nest)
{
	static const uint64_t strides[] = { 0, 1, 4, 40, 400, 4000 };
	uint64_t bytes;

	*m = (struct ck_copy_desc){ .loops = nest->loops,
				    .file = (uint32_t)below(10) };
	m->file = m->file > UNKNOWN ? m->file % 2 : m->file;
	m->nloops = (uint32_t)below(LOOPS + 1);
	m->run = below(4) ? 1 + below(20) : 1 + below(3000);
	m->fpos = below(sizes[m->file % 2]) / (1 + below(4));
	m->fpos += below(50) ? 0 : UINT64_C(1) << (20 + below(40));
	bytes = m->run;
	for (uint32_t k = 0; k < m->nloops; k++) {
		struct ck_loop *loop = &nest->loops[k];

		*loop = (struct ck_loop){ .count = 1 + below(7) };
		if (bytes * loop->count > ROOM / MOVES / 2)
			loop->count = 1;
		bytes *= loop->count;
		loop->src = strides[below(6)] * (1 + below(3));
		if (loop->count == 1 && below(2))
			loop->src = tap_random(&seed);
	}
	place(m, nest);
}

static void put_moves(struct ck_buf *b, const struct ck_copy_desc *list,
		      size_t n)
{
	ck_buf_u64(b, n);
	for (size_t i = 0; i < n; i++) {
		ck_buf_u32(b, list[i].file);
		ck_buf_u32(b, list[i].nloops);
		ck_buf_u64(b, list[i].fpos);
		ck_buf_u64(b, list[i].run);
		for (uint32_t k = 0; k < list[i].nloops; k++) {
			ck_buf_u64(b, list[i].loops[k].count);
			ck_buf_u64(b, list[i].loops[k].src);
		}
	}
}

static bool answer_moves(struct ck_file_server *o,
			 const struct ck_copy_desc *list, size_t n,
			 struct ck_answer *out)
{
	struct ck_message m = { .head.type = CK_WIRE_READ };
	struct ck_buf body = { 0 };
	uint64_t cost = 0;
	int rc;

	put_moves(&body, list, n);
	m.head.body = (uint32_t)body.len;
	m.body = (struct ck_str){ body.data, body.len };
	rc = ck_file_server_cost(&m, &cost);
	taken_begin();
	if (rc == 0)
		rc = ck_file_server_answer(o, &m, out);
	taken.on = false;
	ck_buf_fini(&body);
	return rc == 0 && taken.most <= (int64_t)cost + THREAD_KEEPS;
}

/* Moves in requests that the test encodes itself. */
static void test_model(struct ck_file_server *o, unsigned rounds)
{
	struct nest nests[MOVES];
	struct ck_copy_desc list[MOVES];
	unsigned wrong = 0, good = 0, failed = 0;

	for (unsigned i = 0; i < rounds; i++) {
		size_t n = 1 + below(MOVES);
		struct ck_answer a;

		for (size_t k = 0; k < n; k++)
			random_move(&list[k], &nests[k]);
		if (!answer_moves(o, list, n, &a) || !is_right(list, n, &a))
			wrong++;
		for (size_t k = 0; k < n; k++)
			*(a.body.data[8 + 4 * k] ? &failed : &good) += 1;
		ck_answer_fini(&a);
	}
	printf("# %u moves that went, %u that did not\n", good, failed);
	eq_u64(wrong, 0);
	ok(good > rounds / 2 && failed > rounds / 2);
}

/* The oracle sees one bit of bytes, one errno, and bytes that are missing. */
static void test_canary(void)
{
	const struct ck_loop loop = { .count = 3, .src = 100 };
	const struct ck_copy_desc list[2] = {
		{ .file = 0, .nloops = 1, .loops = &loop, .run = 10 },
		{ .file = 1, .fpos = 4999, .run = 2 },
	};
	struct ck_answer a;

	ok(answer_moves(owner, list, 2, &a) && is_right(list, 2, &a));
	for (unsigned i = 0; i < 32; i++) {
		a.payload[i] ^= 1;
		ok(!is_right(list, 2, &a));
		a.payload[i] ^= 1;
	}
	a.body.data[12] = ENODATA;
	ok(!is_right(list, 2, &a));
	a.body.data[12] = EIO;
	ok(is_right(list, 2, &a));
	a.body.data[0]++;
	ok(!is_right(list, 2, &a));
	a.body.data[0]--;
	a.head.payload--;
	ok(!is_right(list, 2, &a));
	ck_answer_fini(&a);
	ok(taken.most > 0); /* and memory is counted */
}

/* --- through a file server ------------------------------------------------------------ */

static uint8_t near[ROOM], far[ROOM];

/* True if the file server and the local backend deliver the same. If `spoil`, one received
 * byte is changed before the comparison. */
static bool is_same_way(struct ck_file_server *o, struct ck_copy_desc *list,
			struct nest *nests, size_t n, bool spoil)
{
	struct ck_copy_desc direct[MOVES];
	struct ck_copy_batch batch = { .list = direct, .n = n };
	struct ck_local_backend host;
	uint64_t at = 0;
	bool same = true;

	memset(near, '.', sizeof(near));
	memset(far, '.', sizeof(far));
	for (size_t i = 0; i < n; at += nests[i++].reach) {
		if (at + nests[i].reach > ROOM)
			abort();
		direct[i] = list[i];
		direct[i].to = near + at;
		list[i].to = far + at;
	}
	ck_local_backend_init(&host, files);
	if (host.backend.start(&host.backend, &batch) || move_by(o, list, n))
		return false;
	far[0] ^= spoil;
	for (size_t i = 0; i < n; i++) {
		same &= list[i].rc == direct[i].rc;
		if (list[i].rc == 0)
			same &= memcmp(list[i].to, direct[i].to,
				       nests[i].reach) == 0;
	}
	return same;
}

/* A random move as the planner makes it: every stride has an effect. */
static void near_move(struct ck_copy_desc *m, struct nest *nest)
{
	do
		random_move(m, nest);
	while (nest->reach > ROOM / MOVES);
	for (uint32_t k = 0; k < m->nloops; k++)
		if (nest->loops[k].count == 1)
			nest->loops[k].src = 0;
}

static void test_round_trip(unsigned rounds)
{
	struct nest nests[MOVES];
	struct ck_copy_desc list[MOVES];
	unsigned wrong = 0;

	for (unsigned i = 0; i < rounds; i++) {
		size_t n = 1 + below(MOVES);

		for (size_t k = 0; k < n; k++)
			near_move(&list[k], &nests[k]);
		wrong += !is_same_way(owner, list, nests, n, false);
	}
	eq_u64(wrong, 0);
	list[0] = (struct ck_copy_desc){ .run = 5 };
	nests[0].reach = 5;
	ok(is_same_way(owner, list, nests, 1, false));
	ok(!is_same_way(owner, list, nests, 1, true));
}

/* A file larger than one request: read as one run, and every second page of it. */
static void test_large(void)
{
	enum { LEN = 10 << 20, PAGE = 4096 };
	const struct ck_loop loop = { .count = LEN / PAGE / 2,
				      .dst = PAGE,
				      .src = 2 * PAGE };
	uint8_t *want = calloc(LEN, 1), *got = malloc(LEN);
	struct ck_copy_desc list[2] = { { .run = LEN },
					{ .run = PAGE, .nloops = 1 } };
	unsigned wrong = 0;

	for (size_t i = 0; want && i < LEN; i += 997)
		want[i] = (uint8_t)(1 + i / 997);
	put_file("large", want, LEN);
	list[0].file = list[1].file = number_of(owner, "large");
	list[0].to = list[1].to = got;
	list[1].loops = &loop;
	eq_err(move_by(owner, &list[0], 1), 0);
	ok(list[0].rc == 0 && memcmp(got, want, LEN) == 0);
	eq_err(move_by(owner, &list[1], 1), 0);
	for (size_t i = 0; i < loop.count; i++)
		wrong += memcmp(got + i * PAGE, want + i * 2 * PAGE, PAGE) != 0;
	ok(list[1].rc == 0 && wrong == 0);
	free(want);
	free(got);
}

/* --- moves split into requests ------------------------------------------------------------ */

/* Walks over the runs of a move. Each part of a request delivers the next bytes. */
struct walk {
	const struct ck_copy_desc *m;
	uint64_t index[CK_MAX_DIMS], off;
	unsigned wrong;
	uint64_t bytes;
	const struct ck_copy_desc *part;
};

static CK_WRAPS void walk_run(void *arg, uint64_t fpos, uint64_t dst)
{
	struct walk *w = arg;
	uint64_t want_fpos = w->m->fpos + w->off, want_dst = w->off;
	uint64_t len = w->part->run;

	for (uint32_t k = 0; k < w->m->nloops; k++) {
		want_fpos += w->index[k] * w->m->loops[k].src;
		want_dst += w->index[k] * w->m->loops[k].dst;
	}
	dst += (uint64_t)(w->part->to - w->m->to);
	w->wrong += fpos != want_fpos || dst != want_dst ||
		    len > w->m->run - w->off || len == 0;
	w->bytes += len;
	w->off += len;
	if (w->off < w->m->run)
		return;
	w->off = 0;
	for (uint32_t k = w->m->nloops; k > 0; k--) {
		if (++w->index[k - 1] < w->m->loops[k - 1].count)
			break;
		w->index[k - 1] = 0;
	}
}

/* The number of bytes that the moves request. */
static uint64_t bytes_of(const struct ck_copy_desc *list, size_t n)
{
	uint64_t sum = 0, bytes, end;

	for (size_t i = 0; i < n; i++)
		if (list[i].rc == 0 &&
		    ck_copy_desc_measure(&list[i], &bytes, &end))
			sum += bytes;
	return sum;
}

/* True if the parts of all requests for `list`, in order, are the runs of the moves in
 * `want`. Counts the requests in *asks. */
static bool are_cut(struct ck_copy_desc *list, const struct ck_copy_desc *want,
		    size_t n, unsigned *asks)
{
	struct walk w = { .m = want };
	struct ck_reads r;

	ck_reads_begin(&r, list, n);
	for (*asks = 0; ck_reads_left(&r); ++*asks) {
		struct ck_query a;

		if (ck_query_read(&r, &a))
			abort();
		w.wrong += a.nparts == 0 || a.bytes > CK_WIRE_READ_MAX ||
			   a.bytes == 0 || a.body.len > CK_WIRE_BODY_MAX;
		for (size_t i = 0; i < a.nparts; i++) {
			const struct ck_copy_desc *m =
				want + (a.parts[i].whole - list);

			if (m != w.m)
				w = (struct walk){ .m = m,
						   .wrong = w.wrong +
							    (w.off != 0),
						   .bytes = w.bytes };
			w.part = &a.parts[i].desc;
			each_run(w.part, walk_run, &w);
		}
		ck_query_fini(&a);
	}
	return w.wrong == 0 && w.off == 0 && w.bytes == bytes_of(list, n);
}

/* Returns the number of requests. */
static unsigned check_cuts(struct ck_copy_desc *list, size_t n)
{
	unsigned asks;

	ok(are_cut(list, list, n, &asks));
	return asks;
}

/* are_cut() detects a difference in each field of a move. */
static void test_cuts_canary(uint8_t *space)
{
	const struct ck_loop loops[2] = { { 3, 50 << 20, 100 << 20 },
					  { 2, 25 << 20, 30 << 20 } };
	const struct ck_loop others[2] = { { 3, 50 << 20, 100 << 20 },
					   { 2, 25 << 20, (30 << 20) + 1 } };
	struct ck_copy_desc m = { 0, 2, loops, 9, 25 << 20, space, 0 };
	struct ck_copy_desc want = m;
	unsigned asks;

	ok(are_cut(&m, &want, 1, &asks));
	want.fpos++;
	ok(!are_cut(&m, &want, 1, &asks));
	want = m;
	want.to++;
	ok(!are_cut(&m, &want, 1, &asks));
	want = m;
	want.run--;
	ok(!are_cut(&m, &want, 1, &asks));
	want = m;
	want.loops = others;
	ok(!are_cut(&m, &want, 1, &asks));
}

static void test_cuts(uint8_t *space)
{
	enum { U = CK_WIRE_READ_MAX / 64 };
	static struct ck_copy_desc many[100000];
	const struct ck_loop bytes = { 70 * U, 1, 3 };
	const struct ck_loop rows[3] = { { 2, 200 * U, 1 << 30 },
					 { 5, 40 * U, 400 * U },
					 { 7, 5 * U, 9 * U } };
	struct ck_copy_desc m = { .run = 200 * U, .fpos = 7, .to = space };
	const struct ck_loop once = { 1, 1, 1 };

	eq_u64(check_cuts(&m, 1), 4);
	m.run = 64 * U;
	eq_u64(check_cuts(&m, 1), 1);
	m.run++;
	eq_u64(check_cuts(&m, 1), 2);
	m = (struct ck_copy_desc){ 0, 1, &bytes, 9, 1, space, 0 };
	eq_u64(check_cuts(&m, 1), 2);
	m = (struct ck_copy_desc){ 0, 3, rows, 9, 5 * U, space, 0 };
	eq_u64(check_cuts(&m, 1), 6);
	m.run -= 333;
	ok(check_cuts(&m, 1) == 6);
	for (size_t i = 0; i < CK_ARRAY_SIZE(many); i++)
		many[i] = (struct ck_copy_desc){
			0, 1, &once, i, 3, space + i, 0
		};
	eq_u64(check_cuts(many, CK_ARRAY_SIZE(many)),
	       100000 / ((CK_WIRE_BODY_MAX - 8) / 40) + 1);
}

static void test_cuts_by_lot(uint8_t *space)
{
	for (unsigned i = 0; i < 200; i++) {
		struct ck_loop nests[3][4];
		struct ck_copy_desc list[3];

		for (unsigned k = 0; k < 3; k++) {
			list[k] = (struct ck_copy_desc){
				.nloops = (uint32_t)below(5),
				.loops = nests[k],
				.fpos = below(1000),
				.run = 1 + below(25 << 20),
				.to = space
			};
			for (uint32_t j = 0; j < 4; j++)
				nests[k][j] = (struct ck_loop){
					1 + below(4), below(1 << 20),
					below(UINT64_C(1) << 40)
				};
		}
		check_cuts(list, 3);
	}
}

/* Moves beyond the largest file offset are not requested. */
static void test_impossible(uint8_t *space)
{
	const struct ck_loop far_loop = { 3, 1, UINT64_MAX / 2 };
	struct ck_loop loops[CK_MAX_DIMS + 1];
	struct ck_copy_desc list[4] = {
		{ .run = 2, .fpos = UINT64_MAX, .to = space },
		{ 0, 1, &far_loop, 10, 1, space, 0 },
		{ 0, CK_MAX_DIMS + 1, loops, 10, 1, space, 0 },
		{ .run = 1, .to = space },
	};

	for (uint32_t k = 0; k <= CK_MAX_DIMS; k++)
		loops[k] = (struct ck_loop){ 1, 0, 0 };
	eq_u64(check_cuts(list, 4), 1);
	for (int i = 0; i < 3; i++)
		eq_err(list[i].rc, -EIO);
	eq_err(list[3].rc, 0);
}

/* If a file is not mapped, the bytes between the runs are read with them, and counted. */
static void test_between(struct ck_file_server *unmapped)
{
	const struct ck_loop loop = { .count = 3, .src = 100 };
	const struct ck_copy_desc m = { .nloops = 1,
					.loops = &loop,
					.run = 10 };
	struct ck_answer a;

	ok(answer_moves(unmapped, &m, 1, &a));
	eq_mem(a.body.data, a.body.len, "\xd2\0\0\0\0\0\0\0\0\0\0\0", 12);
	ck_answer_fini(&a);
}

int main(void)
{
	struct ck_file_server *unmapped;
	size_t space_len = (size_t)4 << 30;
	uint8_t *space = mmap(NULL, space_len, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			      0);
	unsigned rounds = (unsigned)tap_cases("CKPTFS_CASES",
					      TAP_SLOW ? 1000 : 4000,
					      TAP_SLOW ? 10000 : 400000);

	seed = tap_seed(20);
	if (!case_begin() || space == MAP_FAILED)
		return 2;
	make_files();
	test_canary();
	test_model(owner, rounds);
	unmapped = owner_begin(CK_BENEATH_NO_SYMLINKS);
	ck_files_map_most(unmapped->files, 0);
	for (unsigned i = 0; i <= GONE; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		eq_u64(number_of(unmapped, name), i);
	}
	maps = false;
	test_model(unmapped, rounds / 2);
	test_between(unmapped);
	test_round_trip(rounds);
	test_large();
	test_cuts_canary(space);
	test_cuts(space);
	test_cuts_by_lot(space);
	test_impossible(space);
	ck_file_server_free(unmapped);
	ck_files_free(files);
	return case_end();
}
