/* SPDX-License-Identifier: MIT */
/*
 * tensor_figures: a pass with a tally for each tensor that is read. A tally is large, so each is
 * used for many tensors, one after another. Under the lock: the tallies that are not in use.
 */
#include "tensor_figures.h"

/* The argument of the callbacks. */
struct figuring {
	/* Constant once there are several threads: */
	const struct ck_catalog *c;
	/* One thread for each element, the one that reads the row: */
	struct ck_figured *all;
	struct ck_value_tally **tallies; /* by row; NULL: not read now */
	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_value_tally *idle[CK_PASS_THREADS];
	unsigned nidle;
};

static struct ck_value_tally *tally_take(struct figuring *g)
{
	struct ck_value_tally *t = NULL;

	pthread_mutex_lock(&g->lock);
	if (g->nidle)
		t = g->idle[--g->nidle];
	pthread_mutex_unlock(&g->lock);
	return t ? t : ck_value_tally_make();
}

static int figures_begin(void *arg, size_t row)
{
	struct figuring *g = arg;

	g->tallies[row] = tally_take(g);
	if (!g->tallies[row])
		return -ENOMEM;
	ck_value_tally_begin(
		g->tallies[row],
		ck_catalog_tensor(g->c, g->all[row].tensor)->dtype);
	return 0;
}

static int figures_take(void *arg, const struct ck_pass_block *b)
{
	const struct figuring *g = arg;

	ck_value_tally_add(g->tallies[b->row], b->bytes[0], b->len);
	return 0;
}

static void figures_end(void *arg, size_t row, unsigned from, int rc)
{
	struct figuring *g = arg;
	struct ck_figured *out = &g->all[row];

	(void)from;
	out->err = -rc;
	if (rc == 0)
		ck_value_tally_end(g->tallies[row], &out->figures);
	pthread_mutex_lock(&g->lock);
	g->idle[g->nidle++] = ck_steal(&g->tallies[row]);
	pthread_mutex_unlock(&g->lock);
}

int ck_figures_compute(const struct ck_pass_source *from,
		       struct ck_figured *all, size_t n,
		       const struct ck_figures_options *o)
{
	ck_auto_free struct ck_pass_row *rows = calloc(n + 1, sizeof(*rows));
	struct figuring g = { .c = from->c,
			      .all = all,
			      .tallies = calloc(n + 1, sizeof(*g.tallies)) };
	const struct ck_pass pass = {
		.from = { *from },
		.nfrom = 1,
		.rows = rows,
		.n = n,
		.threads = o->threads,
		.begin = figures_begin,
		.take = figures_take,
		.end = figures_end,
		.arg = &g,
		.progress = o->progress,
		.progress_arg = o->arg,
	};
	int rc = rows && g.tallies ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && rc == 0; i++)
		rows[i].tensor[0] = all[i].tensor;
	pthread_mutex_init(&g.lock, NULL);
	if (rc == 0)
		rc = ck_pass_run(&pass);
	pthread_mutex_destroy(&g.lock);
	while (g.nidle)
		ck_value_tally_free(g.idle[--g.nidle]);
	free(g.tallies);
	return rc;
}
