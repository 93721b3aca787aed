/* SPDX-License-Identifier: MIT */
/*
 * transaction: several transactions of one writer, on a copy of a fixture. Staging, committing
 * and dropping in one does not affect the others, except that a tensor can be open in only one
 * of them.
 *
 *	transaction_test SAMPLE
 */
#include "ckptfs/commit.h"
#include "scene.h"

#include <errno.h>
#include <pthread.h>

static void drop_in(struct ck_transaction *x, uint32_t n, uint32_t open)
{
	struct ck_outcome out;
	struct ck_diag d;

	eq_err(ck_transaction_drop(x, &out, &d), 0);
	eq_u64(out.n, n);
	eq_u64(out.open, open);
	ok(!out.published);
	ck_outcome_fini(&out);
	eq_u64(staged_in(x), 0);
}

static uint32_t open_in(struct ck_transaction *x)
{
	struct ck_transaction_status status;

	ck_transaction_status(x, &status);
	return status.stages;
}

/* A tensor that is open in one transaction cannot be opened in another one. */
static void test_busy(void)
{
	struct ck_stage *stage, *other = NULL;
	struct ck_transaction *y, *z;
	struct ck_diag d = { 0 };
	struct scene s;

	scene_begin(&s);
	y = begun(s.w, true);
	z = begun(s.w, false);
	stage = begin_in(s.x, &s, wk, 0);
	eq_err(stage_case_open(y, s.cp, wk, ALL_BOXES, CK_ACCEPTS_RAW, &other,
			       &d),
	       -EBUSY);
	eq_text(d.text, "is being written already");
	eq_err(stage_case_open(z, s.cp, wk, 1, CK_ACCEPTS_NPY, &other, &d),
	       -EBUSY);
	eq_u64(open_in(s.x), 1);
	eq_u64(open_in(y), 0);
	other = begin_in(y, &s, wq, ALL_BOXES);
	eq_u64(open_in(y), 1);
	ck_stage_close(stage);
	eq_u64(open_in(s.x), 0);
	eq_u64(open_in(y), 1);
	stage = begin_in(z, &s, wk, ALL_BOXES);
	ck_stage_close(stage);
	ck_stage_close(other);
	ck_transaction_end(y);
	ck_transaction_end(z);
	scene_end(&s);
}

/* Each transaction commits its own stages; open stages stay in their transaction. */
static void test_commits(void)
{
	struct ck_transaction *y;
	struct ck_stage *stage;
	struct scene s;

	scene_begin(&s);
	y = begun(s.w, true);
	stage_all_in(s.x, &s, wk, 1);
	stage_all_in(y, &s, wq, 2);
	stage = begin_in(y, &s, wk, ALL_BOXES);
	eq_err(put(stage, 0, 100, 3), 0);
	eq_u64(staged_in(s.x), 1);
	eq_u64(staged_in(y), 1);
	commit_in(s.x, 1, 0);
	expect(&s, wk, 1);
	scene_check(&s);
	eq_u64(count_files(), s.files + 4); /* one for each rank */
	eq_u64(staged_in(y), 1);
	commit_in(s.x, 0, 0);
	eq_err(put(stage, 100, nbytes(&s, wk), 3), 0);
	eq_err(keep(stage), 0);
	ck_stage_close(stage);
	scene_check(&s);
	eq_u64(staged_in(y), 2);
	commit_in(y, 2, 0);
	expect(&s, wk, 3);
	expect(&s, wq, 2);
	eq_u64(count_files(), s.files + 8);
	ck_transaction_end(y);
	scene_end(&s);
}

/* If both transactions have the same tensor, the later commit wins, box by box. */
static void test_same(void)
{
	struct ck_transaction *y;
	struct ck_stage *stage;
	struct scene s;

	scene_begin(&s);
	y = begun(s.w, true);
	stage = begin_in(y, &s, wk, 0); /* the first four rows of 16 */
	eq_err(put(stage, 0, nbytes(&s, wk) / 4, 1), 0);
	eq_err(keep(stage), 0);
	ck_stage_close(stage);
	stage_all_in(s.x, &s, wk, 2);
	commit_in(s.x, 1, 0);
	expect(&s, wk, 2);
	scene_check(&s);
	commit_in(y, 1, 0);
	memset(s.want[wk], 1, nbytes(&s, wk) / 4);
	ck_transaction_end(y);
	scene_end(&s);
}

/* A drop or the end of one transaction does not affect the stages of the other one. */
static void test_dropped(void)
{
	struct ck_transaction *y;
	struct ck_stage *stage;
	struct scene s;

	scene_begin(&s);
	y = begun(s.w, true);
	stage_all_in(s.x, &s, wk, 1);
	stage_all_in(y, &s, wq, 2);
	stage = begin_in(y, &s, wk, ALL_BOXES);
	eq_err(put(stage, 0, nbytes(&s, wk), 3), 0);
	drop_in(s.x, 1, 0);
	eq_u64(staged_in(y), 1);
	commit_in(s.x, 0, 0);
	scene_check(&s); /* as it was */
	stage_all_in(s.x, &s, wq, 4);
	drop_in(y, 1, 1);
	eq_err(keep(stage), 0); /* it was still open */
	ck_stage_close(stage);
	eq_u64(staged_in(s.x), 1);
	eq_u64(staged_in(y), 1);
	ck_transaction_end(y);
	commit_in(s.x, 1, 0);
	expect(&s, wq, 4);
	eq_u64(count_files(), s.files + 4);
	scene_end(&s);
}

/* A transaction that commits each stage alone, beside one that collects its stages. */
static void test_alone(void)
{
	struct ck_transaction *y;
	struct ck_stage *stage;
	struct ck_diag d;
	struct scene s;

	scene_begin(&s);
	y = begun(s.w, false);
	stage_all_in(s.x, &s, wk, 1);
	stage = begin_in(y, &s, wq, ALL_BOXES);
	eq_err(put(stage, 0, nbytes(&s, wq), 2), 0);
	eq_err(ck_stage_commit(stage, &d), 0);
	ck_stage_close(stage);
	expect(&s, wq, 2);
	scene_check(&s);
	eq_u64(ck_writer_generation(s.w), 1);
	eq_u64(staged_in(s.x), 1);
	eq_u64(staged_in(y), 0);
	commit_in(s.x, 1, 0);
	expect(&s, wk, 1);
	eq_u64(ck_writer_generation(s.w), 2);
	ck_transaction_end(y);
	scene_end(&s);
}

/* --- threads ----------------------------------------------------------------------- */

enum { ROUNDS = 30 };

struct worker {
	struct scene *s;
	uint32_t tensor, other;
	uint64_t len;
	pthread_t thread;
};

static bool write_one(struct ck_transaction *x, const struct worker *k,
		      int with)
{
	struct ck_stage *stage = begin_in(x, k->s, k->tensor, ALL_BOXES);
	bool good = put(stage, 0, k->len, with) == 0 && keep(stage) == 0;

	ck_stage_close(stage);
	return good;
}

/* Commits one tensor in a transaction of its own, again and again. Between commits, it tries
 * to open a tensor that all threads use. */
static void *work(void *arg)
{
	struct worker *k = arg;
	struct ck_transaction *x = begun(k->s->w, true);
	unsigned bad = 0;

	for (int i = 1; i <= ROUNDS; i++) {
		struct ck_outcome out;
		struct ck_stage *stage;
		struct ck_diag d;
		int rc;

		bad += !write_one(x, k, i);
		bad += ck_transaction_commit(x, &out, &d) != 0 || out.n != 1 ||
		       out.tensors[0] != k->tensor || !out.published;
		ck_outcome_fini(&out);
		/* only one thread can have it open */
		rc = stage_case_open(x, k->s->cp, k->other, ALL_BOXES,
				     CK_ACCEPTS_RAW, &stage, &d);
		bad += rc != 0 && rc != -EBUSY;
		if (rc == 0)
			ck_stage_close(stage);
	}
	ck_transaction_end(x);
	return bad ? arg : NULL;
}

static void test_threads(void)
{
	static const char *const names[] = {
		"model.layers.0.attention.wk.weight",
		"model.layers.0.attention.wq.weight",
		"model.norm.weight",
	};
	struct worker workers[CK_ARRAY_SIZE(names)];
	struct scene s;
	void *result;

	scene_begin(&s);
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		workers[i] = (struct worker){
			.s = &s,
			.tensor = tensor_named(s.cp->catalog, names[i]),
			.other = tensor_named(s.cp->catalog,
					      "model.output.weight"),
		};
		workers[i].len = nbytes(&s, workers[i].tensor);
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		pthread_join(workers[i].thread, &result);
		ok(result == NULL);
		expect(&s, workers[i].tensor, ROUNDS);
	}
	eq_u64(ck_writer_generation(s.w), ROUNDS * CK_ARRAY_SIZE(names));
	scene_end(&s);
}

int main(int argc, char **argv)
{
	if (!scenes_prepare(argc, argv))
		return 2;
	test_busy();
	test_commits();
	test_same();
	test_dropped();
	test_alone();
	test_threads();
	shell("rm -rf %s", dir);
	return tap_done();
}
