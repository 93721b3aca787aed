/* SPDX-License-Identifier: MIT */
/*
 * ranks_load: loads a directory of files that the ranks of a job wrote by torch.save, each rank
 * its own. The names follow no convention. Files whose names differ in one number are a family
 * (ranks_name.c). The rank of a file is the one in its DTensors and ShardedTensors; without
 * one, the number in its name.
 *
 * Steps: find the families, read all files, assign ranks, join the rows of each path of a
 * family (ranks_join.c). Then state of optimizers, parameters of flat ones, and pieces are
 * added (ranks_flat.h). The state is local to the load, and used by one thread.
 */
#include "format/load/load_gather.h"
#include "ranks_flat.h"
#include "ranks_kind.h"

#include <errno.h>
#include <inttypes.h>

enum { NAMES_MOST = 16 }; /* missing ranks in a line of damage */

struct ranks {
	struct ck_torch_load *l;
	struct ck_rank_name *parsed; /* name of each file */
	uint32_t nfamilies;
	uint32_t *first; /* for each file, the first file of its family */
	uint32_t *order; /* files, by family and rank */
};

static int no_memory(const struct ck_torch_load *l)
{
	return ck_fail(l->d, ENOMEM, "out of memory");
}

/* --- names ------------------------------------------------------------------------ */

/* True for files of random states, which a Trainer writes beside the files of a model. */
static bool is_beside(const char *name)
{
	return strncmp(name, "rng_state", 9) == 0 ||
	       strncmp(name, "random_states", 13) == 0;
}

static int families_find(const struct ck_dir_names *names,
			 struct ck_rank_name *parsed, uint32_t *n)
{
	struct ck_str *texts = calloc(names->n + 1, sizeof(*texts));
	int rc;

	if (!texts)
		return -ENOMEM;
	for (size_t i = 0; i < names->n; i++)
		texts[i] = ck_str_from(names->all[i]);
	rc = ck_rank_names(texts, names->n, parsed, n);
	free(texts);
	return rc;
}

int ck_ranks_has_family(const struct ck_src *src, struct ck_diag *d)
{
	struct ck_dir_names names = { 0 };
	struct ck_rank_name *parsed = NULL;
	uint32_t n;
	bool found = false;
	int rc;

	if (src->file)
		return 0;
	rc = ck_torch_names_find(ck_src_dir(src), ck_torch_is_name,
				 src->by_search, &names);
	parsed = calloc(names.n + 1, sizeof(*parsed));
	if (rc == 0)
		rc = parsed ? families_find(&names, parsed, &n) : -ENOMEM;
	for (size_t i = 0; i < names.n && rc == 0; i++)
		found |= parsed[i].family != CK_RANK_NO_FAMILY &&
			 !is_beside(names.all[i]);
	free(parsed);
	ck_dir_names_fini(&names);
	return rc < 0 ? ck_fail(d, -rc, "%s", strerror(-rc)) : found;
}

/* Sets r->first. first_of_family: a buffer of nfamilies. */
static void firsts_find(const struct ranks *r, uint32_t *first_of_family)
{
	for (uint32_t i = (uint32_t)r->l->nfiles; i > 0 && i--;)
		if (r->parsed[i].family != CK_RANK_NO_FAMILY)
			first_of_family[r->parsed[i].family] = i;
	for (uint32_t i = 0; i < r->l->nfiles; i++)
		r->first[i] = r->parsed[i].family == CK_RANK_NO_FAMILY
				      ? i
				      : first_of_family[r->parsed[i].family];
}

static struct ck_str above_of(const void *arg, uint32_t i)
{
	const struct ck_torch_load *l = arg;

	return l->files[i].above;
}

/* Chooses the first path component of a file that is the first one of its family, or has no
 * family: a text of its name that is not taken. */
static int part_name(const struct ranks *r, uint32_t i, struct ck_table *taken)
{
	struct ck_torch_file *f = &r->l->files[i];
	struct ck_str name = ck_str_from(f->name), part = { "", 0 };
	uint32_t number;

	if (r->parsed[i].family != CK_RANK_NO_FAMILY)
		part = ck_rank_name_part(name, &r->parsed[i]);
	if (part.len == 0 || ck_table_find(taken, part) >= 0)
		part = ck_rank_name_stem(name);
	f->above = part;
	return ck_table_add(taken, part, i, &number);
}

/* Sets the first component of the paths of each file. It is empty if all files are one
 * family. */
static int parts_name(const struct ranks *r)
{
	struct ck_torch_load *l = r->l;
	struct ck_table taken = { .key = above_of, .arg = l };
	bool one = r->nfamilies == 1;
	int rc = 0;

	for (size_t i = 0; i < l->nfiles; i++)
		one &= r->parsed[i].family != CK_RANK_NO_FAMILY;
	for (uint32_t i = 0; i < l->nfiles && !one && rc == 0; i++) {
		if (r->first[i] < i)
			l->files[i].above = l->files[r->first[i]].above;
		else
			rc = part_name(r, i, &taken);
	}
	ck_table_fini(&taken);
	return rc ? no_memory(l) : 0;
}

/* --- ranks ------------------------------------------------------------------------ */

/* Sets family and rank of each file. */
static void ranks_find(const struct ranks *r)
{
	for (size_t i = 0; i < r->l->nfiles; i++) {
		struct ck_torch_file *f = &r->l->files[i];

		f->family = r->parsed[i].family;
		f->rank = f->good ? f->answer.rank : CK_NO_RANK;
		if (f->rank == CK_NO_RANK && f->family != CK_RANK_NO_FAMILY)
			f->rank = r->parsed[i].number;
	}
}

static int file_cmp(const void *a, const void *b, void *arg)
{
	const struct ranks *r = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct ck_torch_file *x = &r->l->files[i], *y = &r->l->files[k];

	/* Families are in the order of their first files. */
	if (r->first[i] != r->first[k])
		return r->first[i] < r->first[k] ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return (i > k) - (i < k);
}

static bool is_one_rank(const struct ck_torch_file *a,
			const struct ck_torch_file *b)
{
	return a->family == b->family && a->family != CK_RANK_NO_FAMILY &&
	       a->rank == b->rank && a->rank != CK_NO_RANK;
}

static int file_lose(const struct ck_torch_load *l,
		     const struct ck_torch_file *f, const char *what)
{
	const struct ck_loss loss = { .file = f->number,
				      .err = EIO,
				      .what = ck_str_from(what) };

	return ck_catalog_loss_add(l->c, &loss) ? no_memory(l) : 0;
}

/* Drops all but one of several files of one rank: the one whose name has the rank is kept, else
 * the first. Adds a line of damage for each dropped file that could be read. */
static int doubles_drop(const struct ranks *r)
{
	struct ck_torch_load *l = r->l;
	int rc = 0;

	for (size_t i = 1; i < l->nfiles && rc == 0; i++) {
		uint32_t x = r->order[i - 1], y = r->order[i], out = y;
		struct ck_torch_file *a = &l->files[x], *b = &l->files[y];

		if (!is_one_rank(a, b))
			continue;
		/* A bad file has its line of damage already. */
		if (!a->good || !b->good)
			out = a->good ? y : x;
		else if (r->parsed[x].number != a->rank &&
			 r->parsed[y].number == b->rank)
			out = x;
		if (a->good && b->good)
			rc = file_lose(
				l, &l->files[out],
				ck_shown("is of rank %" PRIu64 ", as %s is",
					 a->rank,
					 ck_show(ck_str_from(
						 (out == x ? b : a)->name))));
		l->files[out].good = false;
		/* The next file is compared with the one that is kept. */
		if (out == y) {
			r->order[i] = x;
			r->order[i - 1] = y;
		}
	}
	return rc;
}

/* Appends the missing ranks [from, to), and counts them in *missing. */
static void gap_print(struct ck_buf *text, uint64_t from, uint64_t to,
		      uint64_t *missing)
{
	for (uint64_t rank = from;
	     rank < to && *missing + (rank - from) < NAMES_MOST; rank++)
		ck_buf_printf(text, "%s%" PRIu64, text->len ? ", " : "", rank);
	if (to > from)
		*missing += to - from;
}

/* Adds one line of damage with the ranks of a family that have no file. have: n ranks with
 * files, ascending. world: number of ranks. */
static int missing_report(const struct ranks *r,
			  const struct ck_torch_file *first,
			  const uint64_t *have, size_t n, uint64_t world)
{
	struct ck_loss loss = { .file = CK_NO_FILE, .err = ENODATA };
	struct ck_buf text = { 0 };
	uint64_t missing = 0, next = 0;
	int rc;

	for (size_t k = 0; k <= n; k++) {
		gap_print(&text, next, k < n ? ck_min(have[k], world) : world,
			  &missing);
		next = k < n ? have[k] + 1 : next;
	}
	if (missing == 0)
		return 0;
	loss.what = ck_str_from(
		ck_shown("of %" PRIu64 " ranks %" PRIu64
			 " have no file as %s is; missing: %s%s",
			 world, missing, ck_show(ck_str_from(first->name)),
			 text.data ? text.data : "",
			 missing > NAMES_MOST ? ", ..." : ""));
	rc = ck_catalog_loss_add(r->l->c, &loss) ? no_memory(r->l) : 0;
	ck_buf_fini(&text);
	return rc;
}

/* Adds a doubt if only the numbers in their names suggest that files belong to ranks: they may
 * belong to steps. */
static int doubt_add(const struct ranks *r, size_t begin, size_t end)
{
	const struct ck_torch_file *first = &r->l->files[r->order[begin]];

	for (size_t i = begin; i < end; i++) {
		const struct ck_torch_file *f = &r->l->files[r->order[i]];

		if (f->good &&
		    (f->answer.rank != CK_NO_RANK || f->answer.world))
			return 0;
	}
	if (ck_rank_name_says_rank(ck_str_from(first->name)))
		return 0;
	return ck_catalog_doubt_add(
		       r->l->c,
		       ck_shown("ranks: %zu files such as %s are read as one "
				"file per rank, only because of the numbers in "
				"their names; if they are steps, -o kind=torch "
				"shows each file separately",
				end - begin, ck_show(ck_str_from(first->name))))
		       ? no_memory(r->l)
		       : 0;
}

/* Finds the number of ranks of a family, files order[begin, end), and those without a file. */
static int family_look(const struct ranks *r, size_t begin, size_t end)
{
	const struct ck_torch_file *first = &r->l->files[r->order[begin]];
	uint64_t *have, world = 0, named = 0;
	size_t n = 0;
	int rc;

	if (first->family == CK_RANK_NO_FAMILY)
		return 0;
	have = calloc(end - begin + 1, sizeof(*have));
	if (!have)
		return no_memory(r->l);
	for (size_t i = begin; i < end; i++) {
		const struct ck_torch_file *f = &r->l->files[r->order[i]];

		if (f->rank == CK_NO_RANK || f->rank >= CK_RANK_MAX)
			continue;
		have[n++] = f->rank;
		if (f->good)
			world = ck_max(world, f->answer.world);
		if (f->good && f->answer.rank == f->rank)
			world = ck_max(world, f->rank + 1);
		else
			named = ck_max(named, f->rank + 1);
	}
	/* A number in a name that is far above the number of files may be a step;
	 * a rank in a file is always one. */
	if (named <= 64 * (uint64_t)(n + 1))
		world = ck_max(world, named);
	r->l->world = ck_max(r->l->world, world);
	rc = missing_report(r, first, have, n, world);
	free(have);
	return rc ? rc : doubt_add(r, begin, end);
}

/* --- entries ---------------------------------------------------------------------- */

/* Rows of one path in the order of ranks, linked by `next`. */
struct group {
	uint32_t first, last, n;
};

struct groups {
	struct group *all;
	size_t n, cap;
	const struct ck_torch_row **rows; /* buffer for the rows of a group */
	uint32_t most; /* its size: rows of the largest group */
};

/* Adds a row to the group of its path. path->group is set until groups_fini(). */
static int row_add(struct ck_torch_load *l, struct groups *g, uint32_t row)
{
	struct group *all = ck_grow(g->all, &g->cap, g->n, 1, sizeof(*all));
	struct ck_torch_path *path = l->rows[row].path;
	struct group *of;

	if (!all)
		return no_memory(l);
	g->all = all;
	l->rows[row].next = 0;
	if (path->group == 0) {
		all[g->n++] = (struct group){ row, row, 0 };
		path->group = (uint32_t)g->n;
	}
	of = &all[path->group - 1];
	if (of->n)
		l->rows[of->last].next = row + 1;
	of->last = row;
	if (++of->n > g->most)
		g->most = of->n;
	return 0;
}

static int group_show(struct ck_torch_load *l, const struct groups *g,
		      const struct group *of)
{
	struct ck_str name;
	uint32_t n = 0;
	int rc;

	for (uint32_t i = of->first + 1; i; i = l->rows[i - 1].next)
		g->rows[n++] = &l->rows[i - 1];
	if (g->rows[0]->piece)
		return ck_rank_pieces_show(l, g->rows, n);
	rc = ck_rank_state_take(l, g->rows, n);
	if (rc)
		return rc < 0 ? rc : 0;
	rc = ck_torch_name_take(l, g->rows[0], &name);
	return rc ? rc : ck_rank_rows_join(l, g->rows, n, name);
}

static int groups_show(struct ck_torch_load *l, struct groups *g)
{
	int rc = 0;

	g->rows = calloc(g->most + 1UL, sizeof(*g->rows));
	if (!g->rows)
		return no_memory(l);
	for (size_t i = 0; i < g->n && rc == 0; i++)
		rc = group_show(l, g, &g->all[i]);
	return rc;
}

/* Resets path->group, because another family may have the same paths. */
static void groups_fini(struct ck_torch_load *l, struct groups *g)
{
	for (size_t i = 0; i < g->n; i++)
		l->rows[g->all[i].first].path->group = 0;
	free(g->rows);
	free(g->all);
}

/* Shows the rows of a family that are pieces of flat parameters, or those that are not. */
static int rows_show(const struct ranks *r, size_t begin, size_t end,
		     bool pieces)
{
	struct ck_torch_load *l = r->l;
	struct groups g = { 0 };
	int rc = 0;

	for (size_t i = begin; i < end && rc == 0; i++) {
		const struct ck_torch_file *f = &l->files[r->order[i]];

		for (size_t k = f->row;
		     k < f->row + f->nrows && f->good && rc == 0; k++)
			if (!l->rows[k].unread && l->rows[k].piece == pieces)
				rc = row_add(l, &g, (uint32_t)k);
	}
	if (rc == 0)
		rc = groups_show(l, &g);
	groups_fini(l, &g);
	return rc;
}

static int family_show(const struct ranks *r, size_t begin, size_t end)
{
	return rows_show(r, begin, end, false);
}

static int family_pieces(const struct ranks *r, size_t begin, size_t end)
{
	return rows_show(r, begin, end, true);
}

/* Calls each() for the files order[begin, end) of each family. */
static int families_each(const struct ranks *r,
			 int (*each)(const struct ranks *r, size_t begin,
				     size_t end))
{
	size_t n = r->l->nfiles, begin = 0;
	int rc = 0;

	for (size_t end = 1; begin < n && rc == 0; end++)
		if (end == n ||
		    r->first[r->order[end]] != r->first[r->order[begin]]) {
			rc = each(r, begin, end);
			begin = end;
		}
	return rc;
}

/* --- the load --------------------------------------------------------------------- */

static int show(struct ranks *r)
{
	int rc;

	ranks_find(r);
	for (uint32_t i = 0; i < r->l->nfiles; i++)
		r->order[i] = i;
	qsort_r(r->order, r->l->nfiles, sizeof(*r->order), file_cmp, r);
	rc = doubles_drop(r);
	if (rc == 0)
		rc = families_each(r, family_look);
	if (rc == 0)
		rc = ck_rank_trees_find(r->l);
	if (rc == 0)
		rc = families_each(r, family_show);
	if (rc == 0)
		rc = ck_rank_states_show(r->l);
	if (rc == 0)
		rc = ck_rank_params_add(r->l);
	return rc ? rc : families_each(r, family_pieces);
}

static int families_join(struct ranks *r)
{
	ck_auto_free uint32_t *firsts = NULL;
	int rc = families_find(&r->l->paths, r->parsed, &r->nfamilies);

	firsts = calloc(r->nfamilies + 1UL, sizeof(*firsts));
	if (rc || !firsts)
		return no_memory(r->l);
	firsts_find(r, firsts);
	rc = parts_name(r);
	if (rc == 0)
		rc = ck_torch_files_read(r->l);
	return rc ? rc : show(r);
}

static int files_join(struct ck_torch_load *l)
{
	struct ranks r = {
		.l = l,
		.parsed = calloc(l->nfiles + 1, sizeof(*r.parsed)),
		.first = calloc(l->nfiles + 1, sizeof(*r.first)),
		.order = calloc(l->nfiles + 1, sizeof(*r.order)),
	};
	int rc = r.parsed && r.first && r.order ? families_join(&r)
						: no_memory(l);

	free(r.parsed);
	free(r.first);
	free(r.order);
	return rc;
}

static int load(struct ck_checkpoint *cp, struct ck_catalog *c,
		const struct ck_format_options *options,
		const struct ck_fetched_metadata *fetched, struct ck_diag *d)
{
	struct ck_torch_load l = { .cp = cp, .c = c, .d = d, .by_rank = true };
	int rc = ck_torch_files_find(&l);

	(void)fetched;
	if (rc == 0)
		rc = ck_metadata_open_first(cp, c, &l.paths, options, d);
	if (rc == 0)
		rc = ck_checkpoint_gather(cp, c, options, NULL, d);
	if (rc == 0)
		rc = ck_sidecar_source_read(cp, c, options, &l.source, d);
	if (rc == 0)
		rc = files_join(&l);
	if (rc == 0)
		rc = ck_torch_state_keep(&l);
	ck_torch_load_fini(&l);
	return rc;
}

const struct ck_format ck_format_ranks = {
	.name = "ranks",
	.has_sidecar = true,
	.is_part = ck_torch_is_part,
	.rank = ck_torch_rank,
	.head = ck_torch_head,
	.sum = ck_torch_sum,
	.pickle_sum = ck_torch_pickle_sum,
	.record = ck_torch_record,
	.load = load,
	.forget = ck_torch_forget,
};
