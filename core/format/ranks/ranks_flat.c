/* SPDX-License-Identifier: MIT */
/*
 * ranks_flat: flat parameters of FSDP1's LOCAL_STATE_DICT. With use_orig_params, the files also
 * have one piece for each parameter, with its name, but not its shape. The sidecar
 * ckptfs-flat.json describes the parameters. A row of l->flats is added by ranks_join.c, and
 * becomes parameters by ck_rank_params_add(). Used by the thread that loads the checkpoint.
 */
#include "ranks_flat.h"
#include "format/item/item_tensor.h"

#include <errno.h>
#include <inttypes.h>

static int no_memory(const struct ck_torch_load *l)
{
	return ck_fail(l->d, ENOMEM, "out of memory");
}

struct ck_torch_flat *ck_rank_flat_begin(struct ck_torch_load *l, size_t shards)
{
	struct ck_torch_flat *flats = ck_grow(l->flats, &l->flats_cap,
					      l->nflats, 1, sizeof(*flats));
	struct ck_torch_flat flat = { 0 };

	if (!flats)
		return NULL;
	l->flats = flats;
	flat.shards = calloc(shards + 1, sizeof(*flat.shards));
	if (!flat.shards)
		return NULL;
	flats[l->nflats] = flat;
	return &flats[l->nflats++];
}

/* --- pieces -------------------------------------------------------------------------------- */

/* A set of texts. */
struct texts {
	struct ck_str *all;
	size_t n, cap;
	struct ck_table table;
};

static struct ck_str text_at(const void *arg, uint32_t i)
{
	const struct texts *t = arg;

	return t->all[i];
}

static int text_add(struct texts *t, struct ck_str text)
{
	struct ck_str *all = ck_grow(t->all, &t->cap, t->n, 1, sizeof(*all));
	uint32_t n = (uint32_t)t->n, number;

	if (!all)
		return -ENOMEM;
	t->all = all;
	t->table.key = text_at;
	t->table.arg = t;
	if (ck_table_add(&t->table, text, n, &number))
		return -ENOMEM;
	if (number == n)
		all[t->n++] = text;
	return 0;
}

static void texts_fini(struct texts *t)
{
	ck_table_fini(&t->table);
	free(t->all);
}

/* The rows of the file that is read. */
struct rows {
	struct ck_torch_row *all;
	const struct ck_torch_read *reads;
	size_t n;
	const struct ck_pickle *pickle;
	/* Storages of shards of flat parameters, and the dicts that contain these. */
	struct texts storages, dicts;
};

static struct ck_str dict_of(const struct ck_torch_path *path)
{
	const struct ck_path_part *last = &path->parts[path->nparts - 1];

	return (struct ck_str){ path->key.p, (size_t)(last->p - path->key.p) };
}

static bool is_flat_row(const struct rows *r, size_t i)
{
	const struct ck_rank_part *part = r->reads[i].part;

	return part && part->kind == CK_KIND_SHARDED_TENSOR &&
	       ck_name_is_flat(r->all[i].path->key);
}

static int flat_look(struct rows *r, size_t i)
{
	const struct ck_rank_part *part = r->reads[i].part;
	struct ck_torch_tensor t;
	int rc = text_add(&r->dicts, dict_of(r->all[i].path));

	for (uint32_t k = 0; k < part->npieces && rc == 0; k++)
		if (ck_torch_tensor_take(r->pickle, &part->pieces[k].tensor, &t,
					 NULL) > 0)
			rc = text_add(&r->storages, t.key);
	return rc;
}

/* True if a row is a piece. An empty tensor shares no storage: it counts as a piece in a dict
 * that has a flat parameter. */
static bool is_piece(const struct rows *r, size_t i)
{
	const struct ck_torch_read *read = &r->reads[i];
	struct ck_torch_tensor t;

	if (read->part ||
	    ck_torch_tensor_take(r->pickle, read->value, &t, NULL) <= 0 ||
	    t.ndim != 1)
		return false;
	if (t.size[0] == 0)
		return ck_table_find(&r->dicts.table,
				     dict_of(r->all[i].path)) >= 0;
	return ck_table_find(&r->storages.table, t.key) >= 0;
}

int ck_rank_pieces_find(struct ck_torch_load *l, size_t first)
{
	struct rows r = { .reads = l->reads, .n = l->nreads };
	int rc = 0;

	if (r.n == 0)
		return 0;
	r.all = &l->rows[first];
	r.pickle = &l->files[r.all->file].pickle;
	for (size_t i = 0; i < r.n && rc == 0; i++)
		if (is_flat_row(&r, i))
			rc = flat_look(&r, i);
	for (size_t i = 0; i < r.n && r.dicts.n && rc == 0; i++)
		r.all[i].piece = is_piece(&r, i);
	texts_fini(&r.storages);
	texts_fini(&r.dicts);
	return rc ? no_memory(l) : 0;
}

int ck_rank_pieces_show(struct ck_torch_load *l,
			const struct ck_torch_row *const *rows, uint32_t n)
{
	struct ck_str name = rows[0]->path->key;
	int64_t at = ck_table_find(&l->names, name);
	struct ck_entry_id named = { 0 };
	bool is_param = at >= 0 && l->shown[at].param;
	int rc = 0;

	if (is_param)
		named.i = l->shown[at].param - 1;
	else
		rc = ck_torch_name_take(l, rows[0], &name);
	return rc ? rc
		  : ck_rank_pieces_join(l, rows, n, name,
					is_param ? &named : NULL);
}

/* --- the sidecar ------------------------------------------------------------------------------ */

static int lose(const struct ck_torch_load *l, struct ck_str name,
		const char *what)
{
	const struct ck_loss loss = { .name = name,
				      .file = CK_NO_FILE,
				      .err = EBADMSG,
				      .what = ck_str_from(what) };

	return ck_catalog_loss_add(l->c, &loss) ? no_memory(l) : 0;
}

/* Bytes of a name that count as one row. */
enum { NAME_ROW = 64 };

/* Limit of the rows that a sidecar may add. It grows with the sidecar and with the rows of the
 * files: a parameter takes a few words of a sidecar, and one row for each rank with elements of
 * it. */
static uint64_t made_most(const struct ck_torch_load *l)
{
	return (1 << 17) + l->source.len / 8 + 16 * (l->given + l->nrows);
}

/* A row with many dimensions counts as several rows. */
static uint64_t row_cost(const struct ck_catalog *c)
{
	uint32_t n = c->tensors.n;

	return n ? 1 + ck_catalog_tensor(c, n - 1)->ndim / 8 : 1;
}

bool ck_rank_made_all(const struct ck_torch_load *l)
{
	return l->made > made_most(l);
}

uint64_t ck_rank_rows(const struct ck_torch_load *l)
{
	const struct ck_catalog *c = l->c;

	return (uint64_t)c->tensors.n + c->objects.n + c->chunks.n +
	       c->replicas.n;
}

int ck_rank_made(struct ck_torch_load *l, uint64_t before, struct ck_str name)
{
	uint64_t most = made_most(l), was = l->made;
	int rc = 0;

	l->made += (ck_rank_rows(l) - before) * row_cost(l->c) +
		   name.len / NAME_ROW;
	if (l->made <= most)
		return 1;
	if (was <= most)
		rc = lose(l, CK_STR(""),
			  "the sidecar makes more parameters than its size and "
			  "the files' allow; some are not shown");
	return rc;
}

/* A flat parameter, and its description in the sidecar. */
struct unit {
	struct ck_torch_load *l;
	const struct ck_sidecar *s;
	const struct ck_sidecar_unit *is;
	struct ck_torch_flat *flat;
	struct ck_str prefix;
};

/* Makes a row with the path of a parameter: the parts of the unit's path that lie inside the
 * prefix, then the rest of the name as one part. NULL if memory is short. */
static struct ck_torch_row *row_make(const struct unit *u, struct ck_str fqn)
{
	struct ck_arena *arena = &u->l->arena;
	const struct ck_torch_path *unit = u->flat->path;
	struct ck_torch_row *row = ck_arena_alloc(arena, sizeof(*row));
	struct ck_torch_path *path = ck_arena_alloc(arena, sizeof(*path));
	struct ck_path_part *parts =
		ck_arena_alloc(arena, (unit->nparts + 1UL) * sizeof(*parts));
	char *key = ck_arena_alloc(arena, u->prefix.len + fqn.len + 1);
	size_t len = u->prefix.len + fqn.len, at = 0;
	uint32_t n = 0;

	if (!row || !path || !parts || !key)
		return NULL;
	memcpy(key, u->prefix.p, u->prefix.len);
	memcpy(key + u->prefix.len, fqn.p, fqn.len);
	for (; n < unit->nparts && at + unit->parts[n].len < u->prefix.len;
	     n++) {
		parts[n] = unit->parts[n];
		parts[n].p = key + at;
		at += parts[n].len + 1UL;
	}
	parts[n++] = (struct ck_path_part){ key + at, (uint32_t)(len - at),
					    CK_PATH_STR };
	*path = (struct ck_torch_path){ .key = { key, len },
					.parts = parts,
					.nparts = n };
	*row = (struct ck_torch_row){ .path = path };
	return row;
}

/* Adds a tensor with the elements of a parameter. *number: of the tensor. Returns as
 * ck_rank_made() does. */
static int param_add(const struct unit *u, struct ck_str fqn,
		     const struct ck_sidecar_param *p, uint32_t *number)
{
	struct ck_torch_load *l = u->l;
	uint64_t before = ck_rank_rows(l);
	struct ck_torch_row *row;
	struct ck_str key;
	int rc;

	if (ck_rank_made_all(l))
		return 0;
	row = row_make(u, fqn);
	if (!row)
		return no_memory(l);
	rc = ck_torch_name_take(l, row, &key);
	if (rc)
		return rc;
	*number = l->c->tensors.n;
	if (ck_str_eq(key, row->path->key)) /* pieces may have this name */
		l->shown[l->nshown - 1].param = *number + 1;
	if (ck_flat_tensor_add(l->c, key, u->flat->dtype, p->ndim,
			       ck_sidecar_shape(u->s, p), p->offset,
			       u->flat->shards, u->flat->nshards))
		return no_memory(l);
	rc = ck_torch_path_add(l, row);
	return rc ? rc : ck_rank_made(l, before, key);
}

static int params_add(const struct unit *u)
{
	const struct ck_sidecar *s = u->s;
	uint32_t first = u->l->c->tensors.n, number;
	int more = 1;

	for (uint32_t i = 0; i < u->is->nparams && more > 0; i++)
		more = param_add(u, s->params[u->is->param + i].fqn,
				 &s->params[u->is->param + i], &number);
	for (uint32_t i = 0; i < u->is->nshared && more > 0; i++) {
		const struct ck_sidecar_shared *x =
			&s->shared[u->is->shared + i];

		more = param_add(u, x->fqn, &s->params[x->of], &number);
		if (more > 0 && x->of >= u->is->param &&
		    ck_catalog_tensor_alias(
			    u->l->c, first + x->of - u->is->param) == -ENOMEM)
			more = no_memory(u->l);
	}
	return more < 0 ? more : 0;
}

static int unit_add(struct ck_torch_load *l, const struct ck_sidecar *s,
		    struct ck_torch_flat *flat, size_t *unknown)
{
	struct unit u = { .l = l, .s = s, .flat = flat };
	struct ck_diag d = { 0 };
	int rc;

	u.is = ck_sidecar_find(s, flat->key, &u.prefix);
	if (!u.is) {
		++*unknown;
		return 0;
	}
	rc = ck_sidecar_fits(u.is, flat->key, flat->numel, &d);
	if (rc == 0)
		rc = ck_flat_sort(flat->shards, &flat->nshards, &d);
	if (rc == -ENOMEM)
		return no_memory(l);
	return rc ? lose(l, flat->key, d.text) : params_add(&u);
}

static int note(const struct ck_torch_load *l, size_t unknown)
{
	if (unknown == 0)
		return 0;
	return ck_catalog_doubt_add(
		       l->c,
		       ck_shown("flat parameters of FSDP1: %zu are shown as "
				"vectors, because no " CK_FLAT_SIDECAR
				" names the parameters in them; "
				"ckptfs_sidecar.write(model, path) writes it, "
				"see ckptfs(5)",
				unknown))
		       ? no_memory(l)
		       : 0;
}

int ck_rank_params_add(struct ck_torch_load *l)
{
	size_t unknown = 0;
	int rc = 0;

	for (size_t i = 0; i < l->nflats && rc == 0; i++)
		rc = unit_add(l, &l->source.is, &l->flats[i], &unknown);
	return rc ? rc : note(l, unknown);
}
