/* SPDX-License-Identifier: MIT */
/*
 * ranks_show: adds the rows of files of ranks to the catalog. Steps: assign ranks, report missing
 * ones, join the rows of each path of a family (ranks_join.c). Then state of optimizers,
 * parameters of flat ones, and pieces are added (ranks_flat.h). The state is local to the load,
 * and used by one thread.
 */
#include "ranks_show.h"

#include <errno.h>
#include <inttypes.h>

enum { NAMES_MOST = 16 }; /* missing ranks in a line of damage */

static int no_memory(const struct ck_torch_load *l)
{
	return ck_fail(l->d, ENOMEM, "out of memory");
}

int ck_rank_files_init(struct ck_rank_files *r, struct ck_torch_load *l)
{
	r->l = l;
	r->names = calloc(l->nfiles + 1, sizeof(*r->names));
	r->first = calloc(l->nfiles + 1, sizeof(*r->first));
	r->order = calloc(l->nfiles + 1, sizeof(*r->order));
	return r->names && r->first && r->order ? 0 : no_memory(l);
}

void ck_rank_files_fini(struct ck_rank_files *r)
{
	free(r->names);
	free(r->first);
	free(r->order);
}

/* Sets r->first. first_of_family: a buffer of nfamilies. */
static void firsts_find(const struct ck_rank_files *r,
			uint32_t *first_of_family)
{
	for (uint32_t i = (uint32_t)r->l->nfiles; i > 0 && i--;)
		if (r->names[i].family != CK_RANK_NO_FAMILY)
			first_of_family[r->names[i].family] = i;
	for (uint32_t i = 0; i < r->l->nfiles; i++)
		r->first[i] = r->names[i].family == CK_RANK_NO_FAMILY
				      ? i
				      : first_of_family[r->names[i].family];
}

int ck_rank_families_set(struct ck_rank_files *r, uint32_t nfamilies)
{
	uint32_t *firsts = calloc(nfamilies + 1UL, sizeof(*firsts));

	if (!firsts)
		return no_memory(r->l);
	r->nfamilies = nfamilies;
	firsts_find(r, firsts);
	free(firsts);
	return 0;
}

/* --- ranks ------------------------------------------------------------------------ */

/* Sets family and rank of each file. */
static void ranks_find(const struct ck_rank_files *r)
{
	for (size_t i = 0; i < r->l->nfiles; i++) {
		struct ck_torch_file *f = &r->l->files[i];

		f->family = r->names[i].family;
		f->rank = f->good && !r->is_listed ? f->answer.rank
						   : CK_NO_RANK;
		if (f->rank == CK_NO_RANK && f->family != CK_RANK_NO_FAMILY)
			f->rank = r->names[i].number;
	}
}

static int file_cmp(const void *a, const void *b, void *arg)
{
	const struct ck_rank_files *r = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct ck_torch_file *x = &r->l->files[i], *y = &r->l->files[k];

	/* Families are in the order of their first files, or in that of the list. */
	if (r->is_listed && x->family != y->family)
		return x->family < y->family ? -1 : 1;
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
static int doubles_drop(const struct ck_rank_files *r)
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
		else if (r->names[x].number != a->rank &&
			 r->names[y].number == b->rank)
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
static int missing_report(const struct ck_rank_files *r,
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
	loss.what =
		ck_str_from(ck_shown("files like %s are missing for %" PRIu64
				     " of %" PRIu64 " ranks: %s%s",
				     ck_show(ck_str_from(first->name)), missing,
				     world, text.data ? text.data : "",
				     missing > NAMES_MOST ? ", ..." : ""));
	rc = ck_catalog_loss_add(r->l->c, &loss) ? no_memory(r->l) : 0;
	ck_buf_fini(&text);
	return rc;
}

/* True if a file has the rank or the number of ranks, for n files or more. */
static bool knows_ranks(const struct ck_torch_file *f, size_t n)
{
	return f->good && (f->answer.rank != CK_NO_RANK || f->answer.world) &&
	       (n == 0 || f->answer.world >= n);
}

/* Adds a doubt if only the numbers in their names suggest that files belong to ranks: they may
 * belong to steps. Not if files of another family beside them are of as many ranks. */
static int doubt_add(const struct ck_rank_files *r, size_t begin, size_t end)
{
	const struct ck_torch_file *first = &r->l->files[r->order[begin]];

	for (size_t i = begin; i < end; i++)
		if (knows_ranks(&r->l->files[r->order[i]], 0))
			return 0;
	for (size_t i = 0; i < r->l->nfiles; i++)
		if (knows_ranks(&r->l->files[i], end - begin))
			return 0;
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

/* Reports the other ranks of a file without a family that belongs to one rank of several. */
static int alone_look(const struct ck_rank_files *r,
		      const struct ck_torch_file *f)
{
	const struct ck_rank_answer *answer = &f->answer;

	if (!f->good || answer->rank == CK_NO_RANK || r->is_listed ||
	    answer->ranks < 2 || answer->world <= answer->rank)
		return 0;
	return missing_report(r, f, &answer->rank, 1, answer->world);
}

/* Finds the number of ranks of a family, files order[begin, end), and those without a file. */
static int family_look(const struct ck_rank_files *r, size_t begin, size_t end)
{
	const struct ck_torch_file *first = &r->l->files[r->order[begin]];
	uint64_t *have, world = r->world, named = 0;
	size_t n = 0;
	int rc;

	if (first->family == CK_RANK_NO_FAMILY)
		return alone_look(r, first);
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
	/* A list has its own missing files; others may be of some ranks only. */
	rc = r->is_listed ? 0 : missing_report(r, first, have, n, world);
	free(have);
	return rc || r->is_listed ? rc : doubt_add(r, begin, end);
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
static int rows_show(const struct ck_rank_files *r, size_t begin, size_t end,
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

static int family_show(const struct ck_rank_files *r, size_t begin, size_t end)
{
	return rows_show(r, begin, end, false);
}

static int family_pieces(const struct ck_rank_files *r, size_t begin,
			 size_t end)
{
	return rows_show(r, begin, end, true);
}

/* Calls each() for the files order[begin, end) of each family. */
static int families_each(const struct ck_rank_files *r,
			 int (*each)(const struct ck_rank_files *r,
				     size_t begin, size_t end))
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

/* --- all files ------------------------------------------------------------------------ */

int ck_rank_files_show(struct ck_rank_files *r)
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
