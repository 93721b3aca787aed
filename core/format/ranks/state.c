/* SPDX-License-Identifier: MIT */
/*
 * state: what optimizers keep under numbers, which with FSDP1 are flat parameters, or
 * parameters of which each rank has a piece. With a sidecar that says what the numbers are,
 * each parameter has its own state: of what has the length of a rank's part, its elements, and
 * of all else what the lowest rank has. What files have under numbers is in local/ alone then.
 * Source: torch/distributed/fsdp/_optim_utils.py, _unflatten_optim_state().
 */
#include "state_internal.h"

#include <errno.h>
#include <inttypes.h>

static int no_memory(const struct ck_torch_load *l)
{
	return ck_fail(l->d, ENOMEM, "out of memory");
}

/* --- what ranks have ------------------------------------------------------------------ */

/* Rows of one path that are state, and the parameters that they are of. */
struct state {
	struct ck_torch_load *l;
	const struct ck_torch_row *const *rows;
	uint32_t n;
	uint32_t number; /* the part of their path that is a number */
	struct ck_rank_tree *tree;
	const struct ck_sidecar_state *said;
	const struct ck_sidecar_unit *unit;   /* NULL: it is in none */
	const struct ck_sidecar_param *param; /* NULL: all of the unit */
	struct ck_str name;		      /* the sidecar's */
	const struct ck_torch_row *first; /* the lowest rank's that is of use */
	bool cut;			  /* each has a part: */
	bool odd;		      /* it might be one, but for its length */
	struct ck_flat_shard *shards; /* room for n */
	uint32_t nshards;
};

/* Of how many ranks' parts a file has which; false: nobody knows. */
static bool rank_of(const struct state *s, const struct ck_torch_row *row,
		    uint64_t *ranks, uint64_t *rank)
{
	const struct ck_torch_load *l = s->l;

	*ranks = l->said.is.world ? l->said.is.world
				  : ck_max(l->world, UINT64_C(1));
	*rank = l->files[row->file].rank;
	if (*rank == CK_NO_RANK && *ranks > 1)
		return false;
	*rank = *ranks > 1 ? *rank % *ranks : 0;
	return true;
}

/* What of the unit, or of the parameter, a row of so many elements is; *begin: counted in
 * that. false: it is not a rank's part of it. */
static bool part_of(const struct state *s, const struct ck_torch_row *row,
		    uint64_t *begin, uint64_t *count)
{
	uint64_t numel = s->unit->numel, len = (uint64_t)row->spec->shape[0];
	uint64_t ranks, rank;

	if (!rank_of(s, row, &ranks, &rank))
		return false;
	if (s->param) {
		*count = ck_flat_piece(numel, ranks, rank, s->param->offset,
				       s->param->numel, begin);
		return *count == len;
	}
	*count = ck_flat_chunk(numel, ranks, rank, begin);
	return len == numel / ranks + (numel % ranks != 0);
}

/* NO_SHARD: each rank has all of it. */
static bool all_of(const struct state *s, const struct ck_torch_row *row,
		   uint64_t *begin, uint64_t *count)
{
	*begin = 0;
	*count = s->unit->numel;
	return !s->param && (uint64_t)row->spec->shape[0] == *count;
}

/* Elements behind each other, as a rank has those of a flat parameter. */
static bool is_run(const struct ck_torch_row *row)
{
	const struct ck_torch_spec *spec = row->spec;

	return !row->is_value && spec->kind == CK_KIND_TENSOR &&
	       spec->is_known && spec->ndim == 1 && row->nboxes == 1 &&
	       !row->boxes->strides;
}

/* Each row is such a part: sets shards. */
static bool is_cut(struct state *s,
		   bool (*part)(const struct state *s,
				const struct ck_torch_row *row, uint64_t *begin,
				uint64_t *count))
{
	s->first = NULL;
	s->nshards = 0;
	for (uint32_t i = 0; i < s->n; i++) {
		const struct ck_torch_row *row = s->rows[i];
		struct ck_flat_shard *shard = &s->shards[s->nshards];

		if (!row->is_value && !row->spec)
			continue; /* a line of damage says so */
		s->first = s->first ? s->first : row;
		if (!is_run(row) ||
		    !ck_str_eq(row->spec->dtype, s->first->spec->dtype) ||
		    !part(s, row, &shard->begin, &shard->count))
			return false;
		shard->item = row->boxes->item;
		s->nshards++;
	}
	return s->first != NULL;
}

/* Of a rank without elements of a parameter its state may stand still. */
static bool has_some(const struct state *s, const struct ck_torch_row *row)
{
	uint64_t ranks, rank, begin;

	return !s->param || !s->unit || !rank_of(s, row, &ranks, &rank) ||
	       ck_flat_piece(s->unit->numel, ranks, rank, s->param->offset,
			     s->param->numel, &begin) > 0;
}

/* One dimension, and more than one element. */
static bool is_long(const struct ck_torch_row *row)
{
	return !row->is_value && row->spec && row->spec->ndim == 1 &&
	       row->spec->shape[0] > 1;
}

/* Is it perhaps what a rank has of a unit? Then it is nothing that all have. */
static bool may_be_part(const struct state *s, const struct ck_torch_row *row)
{
	uint64_t ranks, rank, begin, count;

	if (!s->unit || !is_long(row))
		return false;
	return !rank_of(s, row, &ranks, &rank) ||
	       part_of(s, row, &begin, &count) ||
	       all_of(s, row, &begin, &count);
}

/* Can it be shown as it is? */
static bool is_good(const struct ck_torch_row *row)
{
	return !row->lost &&
	       (row->is_value ? row->value != NULL : row->nboxes == 1);
}

static bool is_alike(const struct ck_torch_row *a, const struct ck_torch_row *b)
{
	return a->is_value == b->is_value && a->spec == b->spec;
}

/* All say the same of it, so nothing is shown that others contradict; and it is no part of
 * anything. */
static bool agree(struct state *s)
{
	const struct ck_torch_row *like = NULL;

	s->first = NULL;
	for (uint32_t i = 0; i < s->n; i++) {
		const struct ck_torch_row *row = s->rows[i];

		if ((!row->is_value && !row->spec) || !has_some(s, row))
			continue;
		like = like ? like : row;
		if (!is_alike(like, row) || may_be_part(s, row) ||
		    (row->spec && row->spec->kind != CK_KIND_TENSOR))
			return false;
		if (!s->first && is_good(row))
			s->first = row;
	}
	s->odd = s->unit && s->first && is_long(s->first);
	return s->first != NULL;
}

/* --- what becomes of it ------------------------------------------------------------------ */

/* A path with a name in place of its number. */
static struct ck_torch_path *path_make(const struct state *s, struct ck_str fqn)
{
	const struct ck_torch_path *from = s->rows[0]->path;
	const struct ck_path_part *number = &from->parts[s->number];
	struct ck_arena *arena = &s->l->arena;
	size_t before = (size_t)(number->p - from->key.p);
	size_t behind = from->key.len - before - number->len;
	struct ck_torch_path *path = ck_arena_alloc(arena, sizeof(*path));
	struct ck_path_part *parts =
		ck_arena_alloc(arena, from->nparts * sizeof(*parts));
	char *key = ck_arena_alloc(arena, before + fqn.len + behind + 1);

	if (!path || !parts || !key)
		return NULL;
	memcpy(key, from->key.p, before);
	memcpy(key + before, fqn.p, fqn.len);
	memcpy(key + before + fqn.len, number->p + number->len, behind);
	for (uint32_t i = 0; i < from->nparts; i++) {
		size_t at = (size_t)(from->parts[i].p - from->key.p);

		parts[i] = from->parts[i];
		parts[i].p = key +
			     (i > s->number ? at - number->len + fqn.len : at);
	}
	parts[s->number].len = (uint32_t)fqn.len;
	parts[s->number].type = CK_PATH_STR;
	*path = (struct ck_torch_path){ .key = { key,
						 before + fqn.len + behind },
					.parts = parts,
					.nparts = from->nparts };
	return path;
}

/* The elements of a parameter. */
static int cut_add(const struct state *s, const struct ck_torch_row *row,
		   struct ck_str key, const struct ck_sidecar_param *p)
{
	struct ck_torch_load *l = s->l;

	if (ck_flat_tensor_add(l->c, key, row->spec->dtype, p->ndim,
			       ck_sidecar_shape(&l->said.is, p),
			       s->param ? 0 : p->offset, s->shards, s->nshards))
		return no_memory(l);
	return ck_torch_path_add(l, row);
}

/* One value for all parameters. */
static int value_add(const struct state *s, const struct ck_torch_row *row,
		     struct ck_str key)
{
	struct ck_catalog *c = s->l->c;
	uint32_t before = c->objects.n;
	int rc = ck_torch_value_add(s->l, row, key);

	if (rc == 0 && c->objects.n > before)
		ck_catalog_object_local(c, false);
	return rc;
}

/* One tensor for all parameters. */
static int tensor_add(const struct state *s, const struct ck_torch_row *row,
		      struct ck_str key)
{
	struct ck_torch_load *l = s->l;
	uint32_t number = l->c->tensors.n;
	int rc = ck_torch_entry_add(l, row, key);

	if (rc || l->c->tensors.n == number)
		return rc;
	ck_catalog_tensor_apart(l->c);
	return 0;
}

static int one_add(const struct state *s, struct ck_str fqn,
		   const struct ck_sidecar_param *p)
{
	struct ck_torch_load *l = s->l;
	struct ck_torch_row *row = ck_arena_alloc(&l->arena, sizeof(*row));
	uint64_t before = ck_rank_rows(l);
	struct ck_str key;
	int rc;

	if (ck_rank_made_all(l))
		return 0;
	if (!row)
		return no_memory(l);
	*row = s->cut ? (struct ck_torch_row){ .spec = s->first->spec }
		      : *s->first;
	row->path = path_make(s, fqn);
	if (!row->path)
		return no_memory(l);
	rc = ck_torch_name_take(l, row, &key);
	if (rc)
		return rc;
	if (s->cut)
		rc = cut_add(s, row, key, p);
	else
		rc = row->is_value ? value_add(s, row, key)
				   : tensor_add(s, row, key);
	return rc ? rc : ck_rank_made(l, before, key);
}

static int all_add(const struct state *s)
{
	const struct ck_sidecar *is = &s->l->said.is;
	int more = 1;

	if (!s->unit || s->param)
		return one_add(s, s->name, s->param);
	for (uint32_t i = 0; i < s->unit->nparams && more > 0; i++) {
		const struct ck_sidecar_param *p =
			&is->params[s->unit->param + i];

		more = one_add(s, p->fqn, p);
	}
	return more;
}

/* --- which rows they are -------------------------------------------------------------------- */

/* 1: the sidecar says what the rows of a path are of; 0: it does not. */
static int state_find(struct state *s, const struct ck_torch_path *path)
{
	const struct ck_sidecar *is = &s->l->said.is;
	struct ck_rank_trees *trees = s->l->trees;
	const struct ck_rank_at at = ck_rank_at_find(path);
	int64_t tree;

	if (at.part == path->nparts || !at.is_state)
		return 0;
	tree = ck_table_find(&trees->table, ck_rank_tree_key(path, &at));
	if (tree < 0 || !trees->all[tree].known)
		return 0;
	s->tree = &trees->all[tree];
	s->said = ck_sidecar_state(is, s->tree->optimizer, at.number);
	if (!s->said)
		return 0;
	s->number = at.part + 1;
	s->name = s->said->name;
	if (s->said->unit != CK_SIDECAR_NONE)
		s->unit = &is->units[s->said->unit];
	if (s->said->param != CK_SIDECAR_NONE)
		s->param = &is->params[s->said->param];
	return 1;
}

int ck_rank_state_take(struct ck_torch_load *l,
		       const struct ck_torch_row *const *rows, uint32_t n)
{
	struct ck_rank_trees *trees = l->trees;
	struct state s = { .l = l };
	struct ck_rank_found *found;
	int rc = trees ? state_find(&s, rows[0]->path) : 0;

	if (rc == 0)
		return 0;
	found = ck_grow(trees->found, &trees->found_cap, trees->nfound, 1,
			sizeof(*found));
	if (!found)
		return no_memory(l);
	trees->found = found;
	found += trees->nfound++;
	*found = (struct ck_rank_found){ .row = (uint32_t)(rows[0] - l->rows) };
	if (n > trees->most)
		trees->most = n;
	/* As without a sidecar, whatever that makes. */
	rc = ck_torch_name_take(l, rows[0], &found->name);
	return rc ? rc : 1;
}

/* --- all of them ---------------------------------------------------------------------------- */

/* What was found. Its shards are the caller's. */
static int state_open(struct ck_torch_load *l,
		      const struct ck_rank_found *found, struct state *s)
{
	*s = (struct state){ .l = l, .rows = l->trees->rows };
	for (uint32_t i = found->row + 1; i; i = l->rows[i - 1].next)
		l->trees->rows[s->n++] = &l->rows[i - 1];
	(void)state_find(s, s->rows[0]->path);
	s->shards = calloc(s->n + 1UL, sizeof(*s->shards));
	return s->shards ? 0 : no_memory(l);
}

/* 1: there is something to be made of the rows. Sets shards, or only the first. -ENOMEM. */
static int look(struct state *s)
{
	struct ck_diag d = { 0 };
	int rc;

	s->cut = s->unit && (is_cut(s, part_of) || is_cut(s, all_of));
	if (!s->cut)
		return agree(s);
	rc = ck_flat_sort(s->shards, &s->nshards, &d);
	return rc == -ENOMEM ? no_memory(s->l) : rc == 0;
}

/* What all numbers have. */
static int number_look(struct ck_torch_load *l, struct ck_rank_found *found)
{
	struct state s;
	int rc = state_open(l, found, &s);

	if (rc == 0)
		rc = look(&s);
	if (rc > 0)
		l->trees->numbers[s.said - l->said.is.states] |=
			(s.cut ? CK_RANK_HAS_CUT : 0) |
			(s.odd ? CK_RANK_HAS_ODD : 0);
	free(s.shards);
	return rc < 0 ? rc : 0;
}

/* Of a unit whose flat parameter is of another size nothing can be told. */
static void units_look(struct ck_torch_load *l)
{
	const struct ck_sidecar *is = &l->said.is;
	struct ck_str prefix;

	for (int fits = 0; fits < 2; fits++)
		for (size_t i = 0; i < l->nflats; i++) {
			const struct ck_torch_flat *flat = &l->flats[i];
			const struct ck_sidecar_unit *u =
				ck_sidecar_find(is, flat->key, &prefix);

			if (u && (u->numel == flat->numel) == fits)
				l->trees->refused[u - is->units] = !fits;
		}
}

/* None of its state has the length of a part: the sidecar is of another job. One line for all
 * of the optimizer. */
static int number_refuse(const struct state *s)
{
	struct ck_loss loss = { .name = s->tree->above,
				.file = CK_NO_FILE,
				.err = EBADMSG };

	if (s->tree->said)
		return 0;
	s->tree->said = true;
	loss.what = ck_str_from(ck_shown(
		"its optimizer has no state of the length of a rank's part of "
		"%s: the sidecar is not used for that",
		ck_show(s->name)));
	return ck_catalog_loss_add(s->l->c, &loss) ? no_memory(s->l) : 0;
}

/* 1: state of parameters was made of it; 0: nothing can be. */
static int state_make(struct state *s)
{
	const struct ck_rank_trees *trees = s->l->trees;
	const struct ck_sidecar *is = &s->l->said.is;
	int rc;

	if (s->unit && trees->refused[s->unit - is->units])
		return 0;
	if (trees->numbers[s->said - is->states] == CK_RANK_HAS_ODD) {
		rc = number_refuse(s);
		return rc;
	}
	rc = look(s);
	if (rc <= 0)
		return rc;
	rc = all_add(s);
	return rc < 0 ? rc : 1;
}

static int state_show(struct ck_torch_load *l, struct ck_rank_found *found)
{
	struct state s;
	int rc = state_open(l, found, &s);

	if (rc == 0)
		rc = state_make(&s);
	found->own = rc > 0;
	if (rc == 0 && l->by_rank)
		rc = ck_rank_rows_join(l, s.rows, s.n, found->name);
	else if (rc == 0)
		rc = ck_torch_entry_add(l, s.rows[0], found->name);
	free(s.shards);
	return rc < 0 ? rc : 0;
}

/* What local/ alone has then. */
static int state_own(struct ck_torch_load *l, struct ck_rank_found *found)
{
	struct state s;
	int rc = 0;

	if (!found->own)
		return 0;
	rc = state_open(l, found, &s);
	if (rc == 0)
		rc = ck_rank_pieces_join(l, s.rows, s.n, found->name, NULL);
	free(s.shards);
	return rc;
}

static int each(struct ck_torch_load *l,
		int (*f)(struct ck_torch_load *l, struct ck_rank_found *found))
{
	int rc = 0;

	for (size_t i = 0; i < l->trees->nfound && rc == 0; i++)
		rc = f(l, &l->trees->found[i]);
	return rc;
}

int ck_rank_states_show(struct ck_torch_load *l)
{
	struct ck_rank_trees *trees = l->trees;
	int rc;

	if (!trees || trees->nfound == 0)
		return 0;
	trees->numbers = calloc(l->said.is.nstates + 1, 1);
	trees->refused = calloc(l->said.is.nunits + 1, 1);
	trees->rows = calloc(trees->most + 1UL, sizeof(*trees->rows));
	if (!trees->numbers || !trees->refused || !trees->rows)
		return no_memory(l);
	units_look(l);
	rc = each(l, number_look);
	if (rc == 0)
		rc = each(l, state_show);
	return rc ? rc : each(l, state_own);
}
