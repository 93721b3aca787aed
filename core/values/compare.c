/* SPDX-License-Identifier: MIT */
/*
 * compare: a pass over two sources. Without values, blocks behind the first one that differs are
 * read too, so that each unreadable tensor is found. Ranges of a long tensor are compared by
 * several threads, and merged in their order. No state.
 */
#include "compare.h"

struct comparison {
	const struct ck_pass_source *from;
	const struct ck_compare_options *o;
	struct ck_pass_row *rows;
	struct ck_compared **parts; /* by row: of its range */
	struct ck_compared *others; /* those of ranges behind the first */
	size_t n;		    /* rows */
};

static int compare_begin(void *arg, size_t row)
{
	const struct comparison *k = arg;
	struct ck_compared *c = k->parts[row];

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
	struct ck_compared *c = k->parts[b->row];

	if (!c->differs)
		c->differs = memcmp(b->bytes[0], b->bytes[1], b->len) != 0;
	if (k->o->values)
		ck_value_diff_add(&c->diff, b->bytes[0], b->bytes[1], b->len);
	return 0;
}

static void compare_end(void *arg, size_t row, unsigned from, int rc)
{
	const struct comparison *k = arg;

	k->parts[row]->from = from;
	k->parts[row]->err = -rc;
}

/* --- ranges --------------------------------------------------------------------------- */

static uint64_t bytes_of(const struct comparison *k,
			 const struct ck_compared *c)
{
	return ck_pass_tensor_bytes(k->from[0].c, c->row.tensor[0]);
}

static int rows_make(struct comparison *k, struct ck_compared *all, size_t n)
{
	size_t most = 1, others = 0;

	for (size_t i = 0; i < n; i++)
		most += ck_pass_ranges(bytes_of(k, &all[i]));
	k->rows = calloc(most, sizeof(*k->rows));
	k->parts = calloc(most, sizeof(*k->parts));
	k->others = calloc(most - n, sizeof(*k->others));
	if (!k->rows || !k->parts || !k->others)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		size_t first = k->n;

		k->n += ck_pass_rows_make(&all[i].row, bytes_of(k, &all[i]),
					  &k->rows[first]);
		k->parts[first] = &all[i];
		for (size_t row = first + 1; row < k->n; row++) {
			k->parts[row] = &k->others[others++];
			k->parts[row]->row = all[i].row;
		}
	}
	return 0;
}

/* Adds each range to the tensor that it belongs to, whose first range is the row before them. */
static void ranges_merge(struct comparison *k)
{
	struct ck_compared *to = NULL;

	for (size_t row = 0; row < k->n; row++) {
		const struct ck_compared *part = k->parts[row];

		if (k->rows[row].begin == 0) {
			to = k->parts[row];
			continue;
		}
		if (to->err == 0) {
			to->err = part->err;
			to->from = part->from;
		}
		to->differs |= part->differs;
		if (k->o->values)
			ck_value_diff_merge(&to->diff, &part->diff);
	}
}

int ck_tensors_compare(const struct ck_pass_source from[2],
		       struct ck_compared *all, size_t n,
		       const struct ck_compare_options *o)
{
	struct comparison k = { .from = from, .o = o };
	int rc = rows_make(&k, all, n);

	if (rc == 0) {
		const struct ck_pass pass = {
			.from = { from[0], from[1] },
			.nfrom = 2,
			.rows = k.rows,
			.n = k.n,
			.threads = o->threads,
			.begin = compare_begin,
			.take = compare_take,
			.end = compare_end,
			.arg = &k,
			.progress = o->progress,
			.progress_arg = o->arg,
		};

		rc = ck_pass_run(&pass);
		ranges_merge(&k);
	}
	free(k.rows);
	free(k.parts);
	free(k.others);
	return rc;
}
