/* SPDX-License-Identifier: MIT */
/*
 * optimizer_state: shows the state that optimizers of FSDP1 have under numbers.
 * A number stands for a flat parameter, or for a parameter of which each rank
 * has a piece; the sidecar describes which. Each parameter gets its own state:
 *
 *   elements of the parameter    if the rows of all ranks have the length of a rank's part
 *   value of the lowest rank     if all ranks have the same kind of value
 *
 * local/ alone then shows the rows under numbers. Rows of other kinds are shown
 * as without a sidecar. Rows are first taken one path at a time
 * (ck_rank_state_take()), and then shown in three passes: classify all numbers,
 * make state, show the rows. Used by the thread that loads the checkpoint.
 *
 * Source: torch/distributed/fsdp/_optim_utils.py, _unflatten_optim_state().
 */
#include "model/local_box.h"
#include "state_internal.h"

#include <errno.h>
#include <inttypes.h>

static int no_memory(const struct ck_torch_load *l)
{
	return ck_fail(l->d, ENOMEM, "out of memory");
}

/* --- rows of all ranks ------------------------------------------------------------------ */

/* Rows of one path that are state, and the parameters that they belong to. */
struct state {
	struct ck_torch_load *l;
	const struct ck_torch_row *const *rows;
	uint32_t n;
	uint32_t number; /* index of the part of their path that is a number */
	struct ck_rank_tree *tree;
	const struct ck_sidecar_state *entry;
	const struct ck_sidecar_unit *unit;   /* NULL: in no flat parameter */
	const struct ck_sidecar_param *param; /* NULL: the whole unit */
	struct ck_str name;		      /* the sidecar's */
	const struct ck_torch_row *first; /* lowest rank with a usable row */
	bool cut; /* each row is a rank's part, with a shard */
	bool odd; /* rows could be parts, but have another length */
	struct ck_flat_shard *shards; /* for n rows; owned */
	uint32_t nshards;
};

/* Sets the number of ranks that share a flat parameter, and the rank of a row among them. False
 * if that is unknown. */
static bool rank_of(const struct state *s, const struct ck_torch_row *row,
		    uint64_t *ranks, uint64_t *rank)
{
	const struct ck_torch_load *l = s->l;

	*ranks = l->source.is.world ? l->source.is.world
				    : ck_max(l->world, UINT64_C(1));
	*rank = l->files[row->file].rank;
	if (*rank == CK_NO_RANK && *ranks > 1)
		return false;
	*rank = *ranks > 1 ? *rank % *ranks : 0;
	return true;
}

/* Sets the elements of the unit, or of the parameter, that a row of this length contains. False
 * if it does not have the length of a rank's part. */
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
	*count = ck_chunk(numel, ranks, rank, begin);
	return len == numel / ranks + (numel % ranks != 0);
}

/* The same for NO_SHARD, where each rank has the whole unit. */
static bool all_of(const struct state *s, const struct ck_torch_row *row,
		   uint64_t *begin, uint64_t *count)
{
	*begin = 0;
	*count = s->unit->numel;
	return !s->param && (uint64_t)row->spec->shape[0] == *count;
}

/* True if a row is a contiguous plain tensor of one dimension, like a part of a flat
 * parameter. */
static bool is_run(const struct ck_torch_row *row)
{
	const struct ck_torch_spec *spec = row->spec;

	return !row->is_value && spec->kind == CK_KIND_TENSOR &&
	       spec->is_known && spec->ndim == 1 && row->nboxes == 1 &&
	       !row->boxes->strides;
}

/* True if each row is a part by the given function: sets s->shards and s->first. */
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
			continue; /* malformed: has a line of damage */
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

/* False if the rank has no elements of the parameter: its state, such as a step count, may be
 * out of date. */
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

/* True if the row may be a rank's part of the unit. It is then not a value of all ranks. */
static bool may_be_part(const struct state *s, const struct ck_torch_row *row)
{
	uint64_t ranks, rank, begin, count;

	if (!s->unit || !is_long(row))
		return false;
	return !rank_of(s, row, &ranks, &rank) ||
	       part_of(s, row, &begin, &count) ||
	       all_of(s, row, &begin, &count);
}

/* True if the row can be shown as one entry. */
static bool is_good(const struct ck_torch_row *row)
{
	return !row->lost &&
	       (row->is_value ? row->value != NULL : row->nboxes == 1);
}

static bool is_alike(const struct ck_torch_row *a, const struct ck_torch_row *b)
{
	return a->is_value == b->is_value && a->spec == b->spec;
}

/* True if the rows of all ranks have the same kind of value, and are not parts of the unit. Sets
 * s->first to the first row that can be shown, and s->odd. */
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

/* --- making state ------------------------------------------------------------------------ */

/* Makes the path of the rows with a name in place of the number. NULL if memory is short. */
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

/* Adds a tensor with the elements of a parameter. */
static int cut_add(const struct state *s, const struct ck_torch_row *row,
		   struct ck_str key, const struct ck_sidecar_param *p)
{
	struct ck_torch_load *l = s->l;

	if (ck_flat_tensor_add(l->c, key, row->spec->dtype, p->ndim,
			       ck_sidecar_shape(&l->source.is, p),
			       s->param ? 0 : p->offset, s->shards, s->nshards))
		return no_memory(l);
	return ck_torch_path_add(l, row);
}

/* Adds the value of the lowest rank for one parameter. local/ does not show it. */
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

/* Adds the tensor of the lowest rank for one parameter. local/ does not show it. */
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

/* Adds the state of one parameter. Returns as ck_rank_made() does. */
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

/* Adds the state of the parameter, or of all parameters of the unit. */
static int all_add(const struct state *s)
{
	const struct ck_sidecar *is = &s->l->source.is;
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

/* --- taking rows ---------------------------------------------------------------------------- */

/* Returns 1 if a path is state that the sidecar describes: fills *s; else 0. */
static int state_find(struct state *s, const struct ck_torch_path *path)
{
	const struct ck_sidecar *is = &s->l->source.is;
	struct ck_rank_trees *trees = s->l->trees;
	const struct ck_rank_at at = ck_rank_at_find(path);
	int64_t tree;

	if (at.part == path->nparts || !at.is_state)
		return 0;
	tree = ck_table_find(&trees->table, ck_rank_tree_key(path, &at));
	if (tree < 0 || !trees->all[tree].known)
		return 0;
	s->tree = &trees->all[tree];
	s->entry = ck_sidecar_state(is, s->tree->optimizer, at.number);
	if (!s->entry)
		return 0;
	s->number = at.part + 1;
	s->name = s->entry->name;
	if (s->entry->unit != CK_SIDECAR_NONE)
		s->unit = &is->units[s->entry->unit];
	if (s->entry->param != CK_SIDECAR_NONE)
		s->param = &is->params[s->entry->param];
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
	/* The name that the rows have without a sidecar. */
	rc = ck_torch_name_take(l, rows[0], &found->name);
	return rc ? rc : 1;
}

/* --- showing rows --------------------------------------------------------------------------- */

/* Fills *s with the rows of one path. Caller frees s->shards, also after an error. */
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

/* Returns 1 if state can be made of the rows: sets s->cut, s->first and the sorted shards; 0 if
 * not; or -ENOMEM. */
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

/* First pass: records in trees->numbers which kinds of state a number has. */
static int number_look(struct ck_torch_load *l, struct ck_rank_found *found)
{
	struct state s;
	int rc = state_open(l, found, &s);

	if (rc == 0)
		rc = look(&s);
	if (rc > 0)
		l->trees->numbers[s.entry - l->source.is.states] |=
			(s.cut ? CK_RANK_HAS_CUT : 0) |
			(s.odd ? CK_RANK_HAS_ODD : 0);
	free(s.shards);
	return rc < 0 ? rc : 0;
}

/* Marks the units whose flat parameters in the files have another size: no state is made of
 * them. */
static void units_look(struct ck_torch_load *l)
{
	const struct ck_sidecar *is = &l->source.is;
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

/* Adds a line of damage if no state of a number has the length of a part: the sidecar belongs to
 * another job. One line for each optimizer. */
static int number_refuse(const struct state *s)
{
	struct ck_loss loss = { .name = s->tree->above,
				.file = CK_NO_FILE,
				.err = EBADMSG };

	if (s->tree->reported)
		return 0;
	s->tree->reported = true;
	loss.what = ck_str_from(ck_shown(
		"its optimizer has no state of the length of a rank's part of "
		"%s: the sidecar is not used for that",
		ck_show(s->name)));
	return ck_catalog_loss_add(s->l->c, &loss) ? no_memory(s->l) : 0;
}

/* Makes the state of parameters. Returns 1 if it was made, 0 if it cannot be, or -ENOMEM. */
static int state_make(struct state *s)
{
	const struct ck_rank_trees *trees = s->l->trees;
	const struct ck_sidecar *is = &s->l->source.is;
	int rc;

	if (s->unit && trees->refused[s->unit - is->units])
		return 0;
	if (trees->numbers[s->entry - is->states] == CK_RANK_HAS_ODD) {
		rc = number_refuse(s);
		return rc;
	}
	rc = look(s);
	if (rc <= 0)
		return rc;
	rc = all_add(s);
	return rc < 0 ? rc : 1;
}

/* Second pass: makes state of parameters, or shows the rows as without a sidecar. */
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

/* Third pass: adds the rows that became state of parameters, which only local/ shows. */
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
	trees->numbers = calloc(l->source.is.nstates + 1, 1);
	trees->refused = calloc(l->source.is.nunits + 1, 1);
	trees->rows = calloc(trees->most + 1UL, sizeof(*trees->rows));
	if (!trees->numbers || !trees->refused || !trees->rows)
		return no_memory(l);
	units_look(l);
	rc = each(l, number_look);
	if (rc == 0)
		rc = each(l, state_show);
	return rc ? rc : each(l, state_own);
}
