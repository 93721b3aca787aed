/* SPDX-License-Identifier: MIT */
/*
 * Exports of random slices of random layouts into memory of a fake device. No files, some or
 * all files are remote. Each byte is right, or the error is one that brute force
 * predicts. Equal requests share one export.
 */
#include "gathering.h"
#include "trials.h"

#include "gpu/export/export.h"

struct trial {
	struct trial_world is; /* first */
	struct headers headers;
	struct ck_open_slice *there;
	struct ck_files *files;
	struct ck_exports *exports;
	bool located; /* without headers */
};

/* True if rc may come from a failure that this trial injects. */
static bool may_fail(const struct trial *t, uint64_t vpos, uint64_t len, int rc)
{
	const struct trial_world *w = &t->is;

	return is_right_rc(&w->truth, vpos, vpos + len, rc) ||
	       (rc == -EIO && gathering.fails) ||
	       (w->failing >= 0 && rc == answerer.errs[w->failing]);
}

enum { HELD_MOST = 64 }; /* exports at a time */

/* Exports in use, with their offsets among the bytes of the slice. */
static struct held {
	struct ck_export *export;
	uint64_t vpos, len;
} held[HELD_MOST];

/* Gets one part, in each form of allocation: in a slab, alone, with a descriptor. */
static unsigned get_part(struct trial *t, uint32_t i, struct held *out)
{
	const struct ck_slice *slice = ck_open_slice_slice(t->there);
	struct ck_export_request w = { .from = t->there,
				       .vpos = slice->begins[i],
				       .len = ck_slice_part_len(slice, i),
				       .slice = i,
				       .uuid = "gpu",
				       .own = i % 4 == 1,
				       .with_file = i % 4 == 2 };
	int rc = ck_gpu_exports.get(t->exports, &w, &out->export);

	out->vpos = w.vpos;
	out->len = w.len;
	if (rc == 0)
		return !is_right_rc(&t->is.truth, w.vpos, w.vpos + w.len, 0);
	out->export = NULL;
	return !may_fail(t, w.vpos, w.len, rc);
}

/* Later exports must not have changed the bytes. */
static unsigned put_part(struct trial *t, const struct held *h)
{
	const struct gathering_memory *m;
	unsigned wrong;

	if (!h->export)
		return 0;
	m = (const struct gathering_memory *)h->export->memory;
	wrong = h->export->bytes != h->len ||
		memcmp(m->bytes + h->export->at, t->is.truth.byte + h->vpos,
		       h->len) != 0;
	ck_gpu_exports.put(t->exports, h->export);
	return wrong;
}

/* The totals equal the sums over idle exports and slabs, and stay within the cache limit. */
static bool is_counted(const struct ck_exports *all)
{
	uint64_t idle = 0, kept = 0;

	for (const struct ck_export *e = all->table.oldest; e; e = e->newer) {
		idle += e->room;
		kept += e->slab ? 0 : e->room;
	}
	for (const struct ck_slab *s = all->slabs; s; s = s->next)
		kept += s->users ? 0 : CK_SLAB;
	return idle == all->table.idle && kept == all->kept &&
	       idle <= all->cache && kept <= all->cache;
}

static unsigned check_parts(struct trial *t)
{
	const struct ck_slice *slice = ck_open_slice_slice(t->there);
	unsigned wrong = 0, n = 0;

	for (uint32_t i = 0; i < slice->nparts && n < HELD_MOST; i++)
		if (ck_slice_part(slice, i).kind == CK_PART_BOX &&
		    ck_slice_part_len(slice, i) > 0)
			wrong += get_part(t, i, &held[n++]);
	while (n) {
		wrong += put_part(t, &held[--n]);
		wrong += !is_counted(t->exports);
	}
	return wrong;
}

static void random_trial(struct trial *t, uint64_t *windows, uint64_t *random)
{
	static const char *const dtypes[] = {
		"float32", "bfloat16",	 "int64",   "uint8",	 "complex64",
		"int16",   "complex128", "float64", "complex32", "int32",
	};
	static const int errs[] = { -EIO, -ENODATA, -EBADMSG, -ENOMEM };
	static const unsigned fails[] = { 0, 0, 0, 20 };
	struct trial_world *w = &t->is;

	random_world(w->w, dtypes, 10, windows, random);
	define(w->w, &w->truth);
	w->remote = (unsigned)boxes_below(random, 1 << (BIG + 2));
	if (boxes_one_in(random, 4))
		w->remote = boxes_one_in(random, 3) ? 0 : ~0U >> (30 - BIG);
	answerer.at_once = boxes_one_in(random, 3);
	answerer.inside = boxes_one_in(random, 3);
	trial_fail(w, errs, t->located ? 4 : 0, random);
	gathering.fails = fails[boxes_below(random, 4)];
}

static unsigned check_trial(struct trial_world *w, uint64_t *random)
{
	struct trial *t = (struct trial *)w;
	uint64_t windows[8 * 2 * BOXES_DIMS];
	unsigned wrong;

	t->located = !boxes_one_in(random, 3);
	random_trial(t, windows, random);
	t->files = trial_files(w->remote, !boxes_one_in(random, 3));
	t->there = headers_open(
		&t->headers, w->w, t->files,
		t->located ? 0 : 1 + (unsigned)boxes_below(random, 3));
	t->exports =
		ck_gpu_exports.make(t->files, &answerer.backend, &gathering.is,
				    boxes_below(random, 3) * (CK_SLAB + 5000));
	if (!t->exports)
		abort();
	wrong = check_parts(t);
	if (boxes_one_in(random, 2))
		wrong += check_parts(t);
	ck_gpu_exports.free(t->exports);
	ck_open_slice_free(t->there);
	return wrong + t->headers.wrong + (gathering.memories != 0);
}

static unsigned check_trials(uint64_t trials, uint64_t seed)
{
	static struct trial t;

	return trials_check(&t.is, trials, seed, check_trial);
}

static void test_random(void)
{
	uint64_t trials = trials_wanted(2, TAP_SLOW ? 600 : 1500,
					TAP_SLOW ? 8000 : 200000);

	gathering_begin(tap_seed(77));
	eq_u64(check_trials(trials, tap_seed(1871)), 0);
	eq_u64(answerer.wrong, 0);
	eq_u64(gathering.wrong, 0);
	printf("# %u gathered, %u failed\n", gathering.done, gathering.failed);
	ok(gathering.done > trials && gathering.failed > trials / 200);
}

/* A gatherer that copies one wrong byte is detected. */
static void test_canaries(void)
{
	gathering_canary(check_trials);
	gathering_end();
	eq_u64(gathering.wrong, 0);
}

int main(void)
{
	return trials_main(test_random, test_canaries);
}
