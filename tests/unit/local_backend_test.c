/* SPDX-License-Identifier: MIT */
/*
 * The mover of this host's files: random loop nests over mapped and other files are
 * what copying run by run makes of them; and what it answers to moves that cannot be
 * done.
 */
#include "answerer.h"

enum { LIMIT = 4096 };

static int move_rc(struct ck_files *in, struct ck_copy_desc m)
{
	struct ck_copy_batch batch = { .list = &m, .n = 1 };
	struct ck_local_backend host;

	ck_local_backend_init(&host, in);
	m.rc = 1;
	if (host.backend.start(&host.backend, &batch))
		return 1;
	return m.rc;
}

static void test_refused(void)
{
	static const struct ck_loop wide = { .count = 2, .src = UINT64_MAX };
	struct ck_files *remote = files_open_remote(2);
	uint8_t to[64];
	struct ck_copy_desc m = { .run = 8, .to = to };

	eq_err(move_rc(files, m), 0);
	ok(memcmp(to, content[0], 8) == 0);
	m.file = 3;
	eq_err(move_rc(unmapped, m), 0);
	ok(memcmp(to, content[3], 8) == 0);
	m.file = 0;
	m.fpos = FILE_BYTES - 8;
	eq_err(move_rc(files, m), 0);
	ok(memcmp(to, content[0] + m.fpos, 8) == 0);
	m.fpos++;
	eq_err(move_rc(files, m), -EIO);
	eq_err(move_rc(unmapped, m), -EIO);
	m.fpos = UINT64_MAX - 3;
	eq_err(move_rc(unmapped, m), -EIO);
	eq_err(move_rc(files, m), -EIO);
	m.fpos = 0;
	m.nloops = 1;
	m.loops = &wide;
	eq_err(move_rc(files, m), -EIO);
	eq_err(move_rc(unmapped, m), -EIO);
	m.nloops = 0;
	m.file = BIG + 1; /* missing */
	eq_err(move_rc(files, m), -ENODATA);
	m.file = BIG + 2; /* none */
	eq_err(move_rc(files, m), -ENODATA);
	m.file = CK_NO_FILE;
	eq_err(move_rc(files, m), -ENODATA);
	m.file = 1;
	eq_err(move_rc(remote, m), -EREMOTE);
	m.file = 2;
	eq_err(move_rc(remote, m), 0);
	ck_files_free(remote);
}

/* Each has its own answer. */
static void test_several(void)
{
	uint8_t to[2];
	struct ck_copy_desc list[] = { { .file = 0, .run = 1, .to = to },
				       { .file = BIG + 1, .run = 1, .to = to },
				       { .file = 1, .run = 1, .to = to + 1 } };
	struct ck_copy_batch batch = { .list = list, .n = 3 };
	struct ck_local_backend host;

	ck_local_backend_init(&host, files);
	ok(host.backend.interrupt == NULL && host.backend.name != NULL);
	eq_err(host.backend.start(&host.backend, &batch), 0);
	ok(list[0].rc == 0 && list[1].rc == -ENODATA && list[2].rc == 0);
	ok(to[0] == content[0][0] && to[1] == content[1][0]);
	batch.n = 0;
	eq_err(host.backend.start(&host.backend, &batch), 0);
}

/* --- random moves --------------------------------------------------------------------- */

/* Loops whose runs lie apart in memory, and anyhow in the file. */
static void random_move(struct ck_copy_desc *m, struct ck_loop *loops,
			uint64_t *random)
{
	uint64_t extent;

	*m = (struct ck_copy_desc){ .file = (uint32_t)boxes_below(random,
								  NFILES),
				    .nloops = (uint32_t)boxes_below(random, 6),
				    .loops = loops };
	m->fpos = boxes_below(random, FILE_BYTES);
	m->run = extent = 1 + boxes_below(random, 24);
	for (uint32_t k = m->nloops; k > 0; k--) {
		struct ck_loop *loop = &loops[k - 1];

		loop->count = 1 + boxes_below(random, 5);
		if (extent * loop->count > LIMIT / 2)
			loop->count = 1;
		loop->dst = extent + boxes_below(random, 4);
		if (loop->dst * loop->count > LIMIT)
			loop->dst = extent;
		loop->src = boxes_below(random,
					1ULL << boxes_below(random, 12));
		extent = loop->dst * loop->count;
	}
}

static bool is_right(struct ck_files *in, struct ck_copy_desc m)
{
	static uint8_t got[2 * LIMIT], want[2 * LIMIT];
	bool inside;
	int rc;

	memset(got, 0x77, sizeof(got));
	memset(want, 0x77, sizeof(want));
	m.to = want;
	inside = move_fill(&m, content[m.file], FILE_BYTES);
	m.to = got;
	rc = move_rc(in, m);
	if (!inside)
		return rc == -EIO && got[0] == 0x77;
	return rc == 0 && memcmp(got, want, sizeof(got)) == 0;
}

static unsigned check_moves(uint64_t cases, uint64_t seed, unsigned *longest)
{
	struct ck_files *const sets[] = { files, unmapped, half_mapped };
	uint64_t random = seed | 1;
	struct ck_loop loops[8];
	unsigned wrong = 0;

	for (uint64_t i = 0; i < cases; i++) {
		struct ck_copy_desc m;

		random_move(&m, loops, &random);
		*longest = m.nloops > *longest ? m.nloops : *longest;
		wrong += !is_right(sets[i % 3], m);
	}
	return wrong;
}

static void test_random(void)
{
	uint64_t cases = tap_cases("CKPTFS_CASES", 1000000, 20000000) / 50;
	unsigned longest = 0;

	eq_u64(check_moves(cases, tap_seed(42), &longest), 0);
	ok(longest == 5);
	content[1][FILE_BYTES / 2] ^= 1; /* one wrong byte is seen */
	ok(check_moves(20000, 42, &longest) > 0);
	content[1][FILE_BYTES / 2] ^= 1;
}

int main(void)
{
	if (!world_begin())
		return 2;
	test_refused();
	test_several();
	test_random();
	return world_end();
}
