/* SPDX-License-Identifier: MIT */
/*
 * tensor_figures: a pass with a tally for each range that is read. A tally is large, so each is
 * used for many ranges, one after another. The tallies of a long tensor are merged in the order of
 * its ranges, each as soon as those before it are, so that the figures do not depend on the
 * threads. Under the lock: merging, and the tallies that are not in use.
 */
#include "tensor_figures.h"

/* A range of a tensor: a row of the pass. */
struct range {
	size_t of; /* index of the tensor */
	size_t first; /* row of the first range of the tensor, and behind its last one */
	size_t end;
	int err; /* positive errno of reading it */
	bool is_read;
	struct ck_value_tally *tally; /* NULL: not in use */
};

/* The argument of the callbacks. */
struct figuring {
	/* Constant once there are several threads: */
	const struct ck_catalog *c;
	struct ck_pass_row *rows;
	size_t n; /* rows */
	/* One thread for each element, the one that reads the row, until it is read: */
	struct range *ranges; /* by row */
	struct ck_figured *all;
	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_value_tally **idle;
	size_t nidle;
	size_t *merged; /* by tensor: the next row that is merged */
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
	struct range *r = &g->ranges[row];

	r->tally = tally_take(g);
	if (!r->tally)
		return -ENOMEM;
	ck_value_tally_begin(
		r->tally, ck_catalog_tensor(g->c, g->all[r->of].tensor)->dtype);
	return 0;
}

static int figures_take(void *arg, const struct ck_pass_block *b)
{
	const struct figuring *g = arg;

	ck_value_tally_add(g->ranges[b->row].tally, b->bytes[0], b->len);
	return 0;
}

/* Merges the ranges of a tensor that are read, up to the first one that is not. True if that was
 * the last of them. Must hold g->lock. */
static bool ranges_merge(struct figuring *g, const struct range *of)
{
	size_t *next = &g->merged[of->of];
	struct range *first = &g->ranges[of->first];

	for (; *next < of->end && g->ranges[*next].is_read; ++*next) {
		struct range *r = &g->ranges[*next];

		if (r == first)
			continue;
		first->err = first->err ? first->err : r->err;
		if (first->err == 0)
			ck_value_tally_merge(first->tally, r->tally);
		g->idle[g->nidle++] = ck_steal(&r->tally);
	}
	return *next == of->end;
}

static void figures_end(void *arg, size_t row, unsigned from, int rc)
{
	struct figuring *g = arg;
	struct range *r = &g->ranges[row], *first = &g->ranges[r->first];
	struct ck_figured *out = &g->all[r->of];
	bool is_last;

	(void)from;
	pthread_mutex_lock(&g->lock);
	r->err = -rc;
	r->is_read = true;
	is_last = ranges_merge(g, r);
	pthread_mutex_unlock(&g->lock);
	if (!is_last)
		return;
	out->err = first->err;
	if (first->err == 0)
		ck_value_tally_end(first->tally, &out->figures);
	pthread_mutex_lock(&g->lock);
	g->idle[g->nidle++] = ck_steal(&first->tally);
	pthread_mutex_unlock(&g->lock);
}

static int rows_make(struct figuring *g, size_t n)
{
	size_t most = 1;

	for (size_t i = 0; i < n; i++)
		most += ck_pass_ranges(
			ck_pass_tensor_bytes(g->c, g->all[i].tensor));
	g->rows = calloc(most, sizeof(*g->rows));
	g->ranges = calloc(most, sizeof(*g->ranges));
	g->idle = calloc(most, sizeof(struct ck_value_tally *));
	g->merged = calloc(n + 1, sizeof(*g->merged));
	if (!g->rows || !g->ranges || !g->idle || !g->merged)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct ck_pass_row row = { .tensor = {
							 g->all[i].tensor } };
		size_t first = g->n;

		g->n += ck_pass_rows_make(
			&row, ck_pass_tensor_bytes(g->c, g->all[i].tensor),
			&g->rows[first]);
		g->merged[i] = first;
		for (size_t k = first; k < g->n; k++)
			g->ranges[k] = (struct range){ .of = i,
						       .first = first,
						       .end = g->n };
	}
	return 0;
}

static void figuring_fini(struct figuring *g)
{
	/* A pass that ended early has ranges that were not merged. */
	for (size_t i = 0; i < g->n; i++)
		ck_value_tally_free(g->ranges[i].tally);
	while (g->nidle)
		ck_value_tally_free(g->idle[--g->nidle]);
	free(g->rows);
	free(g->ranges);
	free(g->idle);
	free(g->merged);
}

int ck_figures_compute(const struct ck_pass_source *from,
		       struct ck_figured *all, size_t n,
		       const struct ck_figures_options *o)
{
	struct figuring g = { .c = from->c, .all = all };
	int rc = rows_make(&g, n);

	pthread_mutex_init(&g.lock, NULL);
	if (rc == 0) {
		const struct ck_pass pass = {
			.from = { *from },
			.nfrom = 1,
			.rows = g.rows,
			.n = g.n,
			.threads = o->threads,
			.begin = figures_begin,
			.take = figures_take,
			.end = figures_end,
			.arg = &g,
			.progress = o->progress,
			.progress_arg = o->arg,
		};

		rc = ck_pass_run(&pass);
	}
	pthread_mutex_destroy(&g.lock);
	figuring_fini(&g);
	return rc;
}
