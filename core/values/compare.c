/* SPDX-License-Identifier: MIT */
/*
 * compare: a pass over two sources. Without values, blocks behind the first one that differs are
 * read too, so that each unreadable tensor is found. No state.
 */
#include "compare.h"

struct comparison {
	struct ck_compared *all;
	const struct ck_pass_source *from;
	const struct ck_compare_options *o;
};

static int compare_begin(void *arg, size_t row)
{
	const struct comparison *k = arg;
	struct ck_compared *c = &k->all[row];

	if (k->o->values)
		c->diff = ck_value_diff_make(
			ck_catalog_tensor(k->from[0].c, c->row.tensor[0])
				->dtype,
			k->o->tolerance);
	return 0;
}

static int compare_take(void *arg, const struct ck_pass_block *b)
{
	const struct comparison *k = arg;
	struct ck_compared *c = &k->all[b->row];

	if (!c->differs)
		c->differs = memcmp(b->bytes[0], b->bytes[1], b->len) != 0;
	if (k->o->values)
		ck_value_diff_add(&c->diff, b->bytes[0], b->bytes[1], b->len);
	return 0;
}

static void compare_end(void *arg, size_t row, unsigned from, int rc)
{
	const struct comparison *k = arg;

	k->all[row].from = from;
	k->all[row].err = -rc;
}

int ck_tensors_compare(const struct ck_pass_source from[2],
		       struct ck_compared *all, size_t n,
		       const struct ck_compare_options *o)
{
	struct comparison k = { all, from, o };
	ck_auto_free struct ck_pass_row *rows = calloc(n + 1, sizeof(*rows));
	const struct ck_pass pass = {
		.from = { from[0], from[1] },
		.nfrom = 2,
		.rows = rows,
		.n = n,
		.threads = o->threads,
		.begin = compare_begin,
		.take = compare_take,
		.end = compare_end,
		.arg = &k,
		.progress = o->progress,
		.progress_arg = o->arg,
	};

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		rows[i] = all[i].row;
	return ck_pass_run(&pass);
}
