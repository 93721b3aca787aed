/* SPDX-License-Identifier: MIT */
/*
 * together: tensors are staged and committed in one transaction, on a copy of a fixture.
 * Before the commit nothing may change. Afterwards all tensors must be there, in one file for
 * each rank. Dropped or replaced stages must leave no trace.
 *
 *	together_test SAMPLE
 */
#include "ckptfs/commit.h"
#include "scene.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ck_stage *begin(struct scene *s, uint32_t tensor, uint32_t box)
{
	return begin_in(s->x, s, tensor, box);
}

static void stage_all(struct scene *s, uint32_t tensor, int with)
{
	stage_all_in(s->x, s, tensor, with);
}

static uint32_t staged(struct scene *s)
{
	return staged_in(s->x);
}

static void commit(struct scene *s, uint32_t n, uint32_t open)
{
	commit_in(s->x, n, open);
}

/* --- tests ------------------------------------------------------------------------ */

static void test_two(void)
{
	struct scene s;

	scene_begin(&s);
	commit(&s, 0, 0);
	stage_all(&s, wk, 1);
	stage_all(&s, wq, 2);
	eq_u64(staged(&s), 2);
	eq_u64(count_files(), s.files);
	scene_check(&s); /* as it was */
	expect(&s, wk, 1);
	expect(&s, wq, 2);
	commit(&s, 2, 0);
	/* each tensor has a box of each of four ranks */
	eq_u64(count_files(), s.files + 4);
	/* and again */
	stage_all(&s, wk, 3);
	expect(&s, wk, 3);
	commit(&s, 1, 0);
	eq_u64(count_files(), s.files + 8);
	scene_end(&s);
}

static void test_all(void)
{
	struct scene s;
	uint32_t n = 0;

	scene_begin(&s);
	for (uint32_t i = 0; i < s.cp->catalog->tensors.n; i++) {
		if (!nbytes(&s, i))
			continue;
		stage_all(&s, i, (int)(i % 250) + 1);
		expect(&s, i, (int)(i % 250) + 1);
		n++;
	}
	commit(&s, n, 0);
	eq_u64(count_files(), s.files + 4);
	scene_end(&s);
}

static void test_dropped(void)
{
	struct scene s;
	struct ck_outcome out;
	struct ck_diag d;
	struct ck_stage *stage;

	scene_begin(&s);
	stage_all(&s, wk, 1);
	stage = begin(&s, wq, ALL_BOXES);
	eq_err(put(stage, 0, 100, 2), 0);
	stage_all(&s, wk, 3);
	eq_err(ck_transaction_drop(s.x, &out, &d), 0);
	eq_u64(out.n, 1);
	eq_u64(out.open, 1);
	eq_u64(out.tensors[0], wk);
	ck_outcome_fini(&out);
	eq_u64(staged(&s), 0);
	commit(&s, 0, 1);
	/* an open stage is not dropped */
	eq_err(put(stage, 100, nbytes(&s, wq), 2), 0);
	eq_err(keep(stage), 0);
	ck_stage_close(stage);
	expect(&s, wq, 2);
	commit(&s, 1, 0);
	scene_end(&s);
}

/* The last complete stage of a tensor is committed; a stage of a box replaces only that box. */
static void test_replaced(void)
{
	struct scene s;
	struct ck_stage *stage;

	scene_begin(&s);
	stage_all(&s, wk, 1);
	stage_all(&s, wq, 1);
	stage_all(&s, wk, 2);
	stage = begin(&s, wk, ALL_BOXES);
	eq_err(put(stage, 0, 100, 3), 0);
	eq_err(keep(stage), -EINVAL);
	ck_stage_close(stage);
	stage = begin(&s, wk, 0); /* the first four rows of 16 */
	eq_err(put(stage, 0, nbytes(&s, wk) / 4, 4), 0);
	eq_err(keep(stage), 0);
	ck_stage_close(stage);
	eq_u64(staged(&s), 2);
	expect(&s, wk, 2);
	memset(s.want[wk], 4, nbytes(&s, wk) / 4);
	expect(&s, wq, 1);
	commit(&s, 2, 0);
	eq_u64(count_files(), s.files + 4);
	scene_end(&s);
}

/* --- repeated writes -------------------------------------------------------------- */

/* The number of bytes in all files that commits created. */
static uint64_t new_bytes(void)
{
	DIR *d = opendir(dir);
	const struct dirent *e;
	uint64_t bytes = 0;
	struct stat st;

	while ((e = readdir(d)))
		if (strstr(e->d_name, "ckptfs-") &&
		    fstatat(dirfd(d), e->d_name, &st, 0) == 0)
			bytes += (uint64_t)st.st_size;
	closedir(d);
	return bytes;
}

/* Truncates a stage and writes a part of it: the skipped bytes are zeros. */
static void stage_sparse(struct scene *s, uint32_t tensor)
{
	struct ck_stage *stage = begin(s, tensor, ALL_BOXES);
	uint64_t len = nbytes(s, tensor);
	struct ck_diag d = { 0 };

	eq_err(ck_stage_truncate(stage, 0, &d), 0);
	eq_err(put(stage, len / 2, len / 2 + 8, 7), 0);
	eq_err(ck_stage_truncate(stage, len, &d), 0);
	ck_stage_closed_by(stage, 1);
	eq_err(keep(stage), 0);
	ck_stage_close(stage);
	expect(s, tensor, 0);
	memset(s->want[tensor] + len / 2, 7, 8);
}

/* The space of replaced stages is reused, and their bytes do not reappear. */
static void test_rewritten(const char *of, uint32_t often, uint32_t beside,
			   int times)
{
	struct ck_outcome out;
	static struct ck_diag d;
	struct scene s;

	shell("rm -rf %s && cp -r %s/../%s %s", dir, sample, of, dir);
	scene_open(&s);
	stage_all(&s, often, 255);
	stage_all(&s, beside, 3);
	expect(&s, beside, 3);
	for (int i = 0; i < times; i++)
		stage_all(&s, often, 255);
	stage_sparse(&s, often);
	eq_err(ck_transaction_commit(s.x, &out, &d), 0);
	ok(new_bytes() < 3 * out.bytes);
	ck_outcome_fini(&out);
	scene_end(&s);
}

/* Open stages continue after a commit of others. */
static void test_open(void)
{
	struct scene s;
	struct ck_stage *half, *whole, *none;

	scene_begin(&s);
	half = begin(&s, wq, ALL_BOXES);
	eq_err(put(half, 100, nbytes(&s, wq), 5), 0);
	stage_all(&s, wk, 1);
	whole = begin(&s, wk, ALL_BOXES);
	eq_err(put(whole, 0, nbytes(&s, wk), 6), 0);
	none = begin(&s, tensor_named(s.cp->catalog, "model.norm.weight"),
		     ALL_BOXES);
	expect(&s, wk, 1);
	commit(&s, 1, 2);
	scene_check(&s);
	eq_err(put(half, 0, 100, 7), 0);
	eq_err(keep(half), 0);
	eq_err(keep(whole), 0);
	eq_err(keep(none), -EINVAL);
	ck_stage_close(half);
	ck_stage_close(whole);
	ck_stage_close(none);
	expect(&s, wk, 6);
	expect(&s, wq, 5);
	memset(s.want[wq], 7, 100);
	commit(&s, 2, 0);
	scene_end(&s);
}

/* A commit fails if another program has changed the checkpoint, and keeps its stages. */
static void test_foreign_save(void)
{
	struct scene s;
	struct ck_outcome out;
	struct ck_diag d;

	scene_begin(&s);
	stage_all(&s, wk, 1);
	shell("touch -d '1 hour ago' %s/.metadata", dir);
	eq_err(ck_transaction_commit(s.x, &out, &d), -ESTALE);
	ok(!out.published && !out.lost && out.n == 1);
	ck_outcome_fini(&out);
	eq_u64(staged(&s), 1);
	eq_u64(count_files(), s.files);
	scene_end(&s);
}

/* --- refused stages ----------------------------------------------------------------- */

/* In the metadata, t0 and t2 share one location object; t1 has its own. */
static void begin_shared(struct scene *s)
{
	shell("rm -rf %s && PYTHONPATH=%s/../../crash python3 -B -c '\n"
	      "import made\n"
	      "def share(rows):\n"
	      "    keys = list(rows)\n"
	      "    for at in (0, 3):\n"
	      "        rows[keys[at + 2]] = rows[keys[at]]\n"
	      "    return rows\n"
	      "make = made.d.checkpoint\n"
	      "made.d.checkpoint = lambda e, rows: make(e, share(rows))\n"
	      "made.Plan(1, columns=4).write_old(\"%s\")'",
	      dir, sample, dir);
	scene_open(s);
}

/* A stage that would fail the whole transaction is refused alone. */
static void test_refused(void)
{
	struct scene s;
	struct ck_stage *stage;
	struct ck_diag d = { 0 };

	begin_shared(&s);
	stage_all(&s, 1, 1);
	stage = begin(&s, 0, ALL_BOXES);
	eq_err(put(stage, 0, nbytes(&s, 0), 2), 0);
	eq_err(ck_stage_keep(stage, &d), -EOPNOTSUPP);
	ok(strstr(d.text, "t0, box 0 cannot be changed") != NULL);
	eq_i64(ck_stage_state(stage), CK_STAGE_COMPLETE);
	ck_stage_close(stage);
	stage = begin(&s, 2, 1);
	eq_err(put(stage, 0, nbytes(&s, 2) / 2, 2), 0);
	eq_err(keep(stage), -EOPNOTSUPP);
	ck_stage_close(stage);
	eq_u64(staged(&s), 1);
	expect(&s, 1, 1);
	commit(&s, 1, 0);
	scene_end(&s);
}

/* --- ranks ---------------------------------------------------------------------- */

/* Commits boxes of several ranks, and checks the number of new files. */
static void test_ranks(unsigned ranks, unsigned files)
{
	struct scene s;

	/* a foreign file has one of the names */
	shell("rm -rf %s && PYTHONPATH=%s/../../crash python3 -B -c 'import "
	      "made; p = made.Plan(1, tensors=3, columns=4, rows=%u, "
	      "ranks=%u); p.write_old(\"%s\"); n = \"__9_0.distcp\"; "
	      "made.put(\"%s/\" + n, p.ready[n])'",
	      dir, sample, ranks, ranks, dir, dir);
	scene_open(&s);
	for (uint32_t i = 0; i < 2; i++) {
		struct ck_stage *box = begin(&s, i, i + 1);

		eq_err(put(box, 0, 16, 8), 0);
		eq_err(keep(box), 0);
		ck_stage_close(box);
		memset(s.want[i] + (i + 1) * 16, 8, 16);
	}
	commit(&s, 2, 0);
	eq_u64(count_files(), s.files + ck_min(files, 2));
	stage_all(&s, 2, 9);
	expect(&s, 2, 9);
	commit(&s, 1, 0);
	eq_u64(count_files(), s.files + ck_min(files, 2) + files);
	scene_end(&s);
}

/* --- many threads ------------------------------------------------------------------ */

struct worker {
	struct scene *s;
	uint32_t tensor;
	pthread_t thread;
};

enum { ROUNDS = 30 };

static atomic_uint ended;

static void *work(void *arg)
{
	struct worker *k = arg;
	uint64_t len = nbytes(k->s, k->tensor);
	unsigned bad = 0;

	for (int i = 1; i <= ROUNDS; i++) {
		struct ck_stage *stage = begin(k->s, k->tensor, ALL_BOXES);

		for (uint64_t at = 0; at < len; at += 128)
			bad += put(stage, at, ck_min(at + 128, len), i) != 0;
		bad += keep(stage) != 0;
		ck_stage_close(stage);
	}
	atomic_fetch_add(&ended, 1);
	return bad ? arg : NULL;
}

static void test_threads(void)
{
	static const char *const names[] = {
		"model.layers.0.attention.wk.weight",
		"model.layers.0.attention.wq.weight",
		"model.output.weight",
		"model.norm.weight",
	};
	struct worker workers[CK_ARRAY_SIZE(names)];
	struct scene s;
	struct ck_outcome out;
	struct ck_diag d;
	unsigned bad = 0;
	void *result;

	scene_begin(&s);
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		workers[i].s = &s;
		workers[i].tensor = tensor_named(s.cp->catalog, names[i]);
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	while (atomic_load(&ended) < CK_ARRAY_SIZE(names)) {
		bad += ck_transaction_commit(s.x, &out, &d) != 0;
		ck_outcome_fini(&out);
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		pthread_join(workers[i].thread, &result);
		bad += result != NULL;
		expect(&s, workers[i].tensor, ROUNDS);
	}
	eq_u64(bad, 0);
	eq_err(ck_transaction_commit(s.x, &out, &d), 0);
	ck_outcome_fini(&out);
	scene_end(&s);
}

/* --- opens beside commits ---------------------------------------------------------- */

struct opener {
	struct scene *s;
	atomic_bool end;
};

/* Opens a tensor for writing as often as possible, and at least once: at the end no other
 * thread has the tensor open. */
static void *open_often(void *arg)
{
	struct opener *o = arg;
	unsigned opened = 0;

	while (!atomic_load(&o->end) || !opened) {
		struct ck_stage *stage;
		struct ck_diag d;

		if (stage_case_open(o->s->x, o->s->cp, wk, ALL_BOXES,
				    CK_ACCEPTS_RAW, &stage, &d))
			continue;
		ck_stage_close(stage);
		opened++;
	}
	return opened ? arg : NULL;
}

/* The locations of the boxes change meanwhile. ThreadSanitizer detects an access without a
 * lock. */
static void test_opens(void)
{
	struct scene s;
	struct opener opener = { .s = &s };
	struct ck_outcome out;
	struct ck_diag d;
	pthread_t thread;
	void *result;

	scene_begin(&s);
	pthread_create(&thread, NULL, open_often, &opener);
	for (int i = 1; i <= ROUNDS; i++) {
		struct ck_stage *stage = NULL;

		while (stage_case_open(s.x, s.cp, wk, ALL_BOXES, CK_ACCEPTS_RAW,
				       &stage, &d) == -EBUSY)
			;
		eq_err(put(stage, 0, nbytes(&s, wk), i), 0);
		eq_err(keep(stage), 0);
		ck_stage_close(stage);
		eq_err(ck_transaction_commit(s.x, &out, &d), 0);
		ck_outcome_fini(&out);
	}
	atomic_store(&opener.end, true);
	pthread_join(thread, &result);
	ok(result != NULL);
	expect(&s, wk, ROUNDS);
	scene_end(&s);
}

int main(int argc, char **argv)
{
	if (!scenes_prepare(argc, argv))
		return 2;
	test_two();
	test_all();
	test_dropped();
	test_replaced();
	for (int times = 50; times < 52; times++) {
		test_rewritten("sample", wk, wq, times);
		test_rewritten("sample", wq, wk, times);
		test_rewritten("dtensor_columns", 0, 1, times);
	}
	test_open();
	test_foreign_save();
	test_refused();
	test_ranks(64, 64);
	test_ranks(65, 1);
	test_threads();
	test_opens();
	shell("rm -rf %s", dir);
	return tap_done();
}
