/* SPDX-License-Identifier: MIT */
/*
 * step_figures: one pass for each pair of parts that have tensors in common, and one for the
 * others. No state beside the structs.
 */
#include "step_figures.h"

/* --- the tensors -------------------------------------------------------------------------- */

/* Finds a whole tensor by its names; CK_NO_TENSOR if there is none. */
static uint32_t tensor_find(const struct ck_catalog *c, struct ck_names names)
{
	int64_t at = ck_catalog_find(c, names.stem);
	struct ck_entry_id e;

	if (at < 0)
		return CK_NO_TENSOR;
	e = c->listing->entries[at];
	if (e.is_object || !ck_tensor_is_whole(c, e.i) ||
	    !ck_str_eq(ck_tensor_names(c, e.i).name, names.name))
		return CK_NO_TENSOR;
	return e.i;
}

/* Finds the tensor of the older step that a figure is compared with. */
static void older_find(struct ck_step_figure *f, const struct ck_run_step *step,
		       const struct ck_run_step *older)
{
	const struct ck_catalog *c = step->parts[f->part].from.c;
	struct ck_names names = ck_tensor_names(c, f->tensor);

	for (size_t i = 0; older && i < older->nparts; i++) {
		const struct ck_catalog *o = older->parts[i].from.c;
		uint32_t tensor = tensor_find(o, names);

		if (tensor == CK_NO_TENSOR)
			continue;
		f->older_part = i;
		f->older_tensor = tensor;
		f->is_compared =
			ck_tensor_is_alike(ck_catalog_tensor(c, f->tensor),
					   ck_catalog_tensor(o, tensor));
		return;
	}
}

/* Finds the figure that shares the memory of an alias: all earlier figures of the part are known. If
 * the older step does not share it too, the change may be another one. */
static void same_find(struct ck_step_figures *figures, struct ck_step_figure *f,
		      const size_t *index, const struct ck_run_step *step,
		      const struct ck_run_step *older)
{
	uint32_t of = ck_tensor_alias_of(
		ck_catalog_tensor(step->parts[f->part].from.c, f->tensor));
	const struct ck_step_figure *target;
	uint32_t older_of;

	if (of == CK_NO_TENSOR || index[of] == SIZE_MAX)
		return;
	target = &figures->all[index[of]];
	if (f->is_compared) {
		older_of = ck_tensor_alias_of(ck_catalog_tensor(
			older->parts[f->older_part].from.c, f->older_tensor));
		if (!target->is_compared ||
		    target->older_part != f->older_part ||
		    target->older_tensor != older_of)
			return;
	} else if (target->is_compared) {
		return;
	}
	f->same = index[of];
}

static int part_list(struct ck_step_figures *figures, size_t part,
		     const struct ck_run_step *step,
		     const struct ck_run_step *older)
{
	const struct ck_catalog *c = step->parts[part].from.c;
	ck_auto_free size_t *index =
		malloc((c->tensors.n + 1UL) * sizeof(*index));

	if (!index)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->tensors.n; i++) {
		struct ck_step_figure *f = &figures->all[figures->n];

		index[i] = SIZE_MAX;
		if (!ck_tensor_is_whole(c, i))
			continue;
		*f = (struct ck_step_figure){
			.name = ck_tensor_names(c, i).name,
			.part = part,
			.tensor = i,
			.same = SIZE_MAX,
		};
		older_find(f, step, older);
		same_find(figures, f, index, step, older);
		index[i] = figures->n++;
	}
	return 0;
}

static int list(struct ck_step_figures *figures, const struct ck_run_step *step,
		const struct ck_run_step *older)
{
	size_t most = 0;
	int rc = 0;

	for (size_t i = 0; i < step->nparts; i++)
		most += step->parts[i].from.c->tensors.n;
	figures->all = calloc(most + 1, sizeof(*figures->all));
	if (!figures->all)
		return -ENOMEM;
	for (size_t i = 0; i < step->nparts && rc == 0; i++)
		rc = part_list(figures, i, step, older);
	return rc;
}

/* --- passes ------------------------------------------------------------------------------ */

/* The argument of the callbacks: figures by row. */
struct figuring {
	struct ck_step_figure **rows;
	bool is_compared; /* there is a second source */
};

static int figures_take(void *arg, const struct ck_pass_block *b)
{
	const struct figuring *g = arg;
	struct ck_step_figure *f = g->rows[b->row];

	ck_value_change_add(&f->values, b->bytes[0],
			    g->is_compared ? b->bytes[1] : NULL, b->len);
	return 0;
}

/* A tensor that only the older step cannot read is read again, without that step. */
static void figures_end(void *arg, size_t row, unsigned from, int rc)
{
	const struct figuring *g = arg;
	struct ck_step_figure *f = g->rows[row];

	f->is_read = !(rc && from == 1);
	f->is_compared = g->is_compared && rc == 0;
	f->err = f->is_read ? -rc : 0;
}

/* Reads n figures of one part. second: NULL, or the part of the older step. */
static int pass_run(struct ck_step_figure **rows, size_t n,
		    const struct ck_run_part *part,
		    const struct ck_run_part *second,
		    const struct ck_step_figures_options *o)
{
	ck_auto_free struct ck_pass_row *tensors = calloc(n + 1,
							  sizeof(*tensors));
	struct figuring g = { rows, second != NULL };
	struct ck_pass pass = {
		.from = { part->from },
		.nfrom = second ? 2 : 1,
		.rows = tensors,
		.n = n,
		.take = figures_take,
		.end = figures_end,
		.arg = &g,
		.progress = o->progress,
		.progress_arg = o->arg,
	};

	if (!tensors)
		return -ENOMEM;
	if (second)
		pass.from[1] = second->from;
	for (size_t i = 0; i < n; i++)
		tensors[i] = (struct ck_pass_row){
			.tensor = { rows[i]->tensor, rows[i]->older_tensor }
		};
	return n ? ck_pass_run(&pass) : 0;
}

/* Lists the figures of a part that are still to be read: with a part of the older step; or
 * SIZE_MAX: all, which are not compared. */
static size_t rows_list(struct ck_step_figures *figures, size_t part,
			size_t older, const struct ck_run_step *step,
			struct ck_step_figure **rows)
{
	size_t n = 0;

	for (size_t i = 0; i < figures->n; i++) {
		struct ck_step_figure *f = &figures->all[i];

		if (f->part != part || f->same != SIZE_MAX || f->is_read ||
		    (older != SIZE_MAX &&
		     (!f->is_compared || f->older_part != older)))
			continue;
		f->values = ck_value_change_make(
			ck_catalog_tensor(step->parts[part].from.c, f->tensor)
				->dtype);
		rows[n++] = f;
	}
	return n;
}

int ck_step_figures_compute(const struct ck_run_step *step,
			    const struct ck_run_step *older,
			    const struct ck_step_figures_options *o,
			    struct ck_step_figures *out)
{
	ck_auto_free struct ck_step_figure **rows = NULL;
	int rc = list(out, step, older);

	rows = calloc(out->n + 1, sizeof(struct ck_step_figure *));
	if (rc || !rows)
		return -ENOMEM;
	for (size_t p = 0; p < step->nparts && rc == 0; p++) {
		size_t n;

		for (size_t q = 0; older && q < older->nparts && rc == 0; q++) {
			n = rows_list(out, p, q, step, rows);
			rc = pass_run(rows, n, &step->parts[p],
				      &older->parts[q], o);
		}
		n = rows_list(out, p, SIZE_MAX, step, rows);
		if (rc == 0)
			rc = pass_run(rows, n, &step->parts[p], NULL, o);
	}
	return rc;
}

void ck_step_figures_fini(struct ck_step_figures *f)
{
	free(f->all);
	*f = (struct ck_step_figures){ 0 };
}
