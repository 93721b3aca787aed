/* SPDX-License-Identifier: MIT */
/*
 * optimizers: finds the state dicts of optimizers among the paths of all rows. The i-th of them
 * is the i-th optimizer of the sidecar, if its numbers fit. The result is l->trees.
 */
#include "state_internal.h"

#include <errno.h>
#include <inttypes.h>

static int no_memory(const struct ck_torch_load *l)
{
	return ck_fail(l->d, ENOMEM, "out of memory");
}

/* --- paths --------------------------------------------------------------------------------- */

static bool number_read(const struct ck_path_part *part, uint64_t *number)
{
	*number = 0;
	if (part->type != CK_PATH_INT || part->len == 0)
		return false;
	for (uint32_t i = 0; i < part->len; i++)
		if (part->p[i] < '0' || part->p[i] > '9' ||
		    !ck_mul(number, *number, 10) ||
		    !ck_add(number, *number, (uint64_t)(part->p[i] - '0')))
			return false;
	return true;
}

static bool is_key(const struct ck_path_part *part, const char *key)
{
	return part->type == CK_PATH_STR && ck_str_is(ck_part_text(part), key);
}

struct ck_rank_at ck_rank_at_find(const struct ck_torch_path *path)
{
	struct ck_rank_at at = { .part = 0 };

	for (; at.part < path->nparts; at.part++) {
		const struct ck_path_part *part = &path->parts[at.part];

		at.is_state = is_key(part, "state") &&
			      at.part + 1 < path->nparts &&
			      number_read(part + 1, &at.number);
		if (at.is_state || is_key(part, "param_groups"))
			break;
	}
	return at;
}

struct ck_str ck_rank_tree_key(const struct ck_torch_path *path,
			       const struct ck_rank_at *at)
{
	size_t len = (size_t)(path->parts[at->part].p - path->key.p);

	return (struct ck_str){ path->key.p, len ? len - 1 : 0 };
}

/* --- finding optimizers --------------------------------------------------------------- */

static struct ck_str above_of(const void *arg, uint32_t i)
{
	const struct ck_rank_trees *trees = arg;

	return trees->all[i].above;
}

static bool is_named(const struct ck_torch_path *path,
		     const struct ck_rank_at *at)
{
	return at->part + 1 < path->nparts &&
	       is_key(&path->parts[at->part], "state");
}

/* Finds "state" before a name. Such a path alone does not identify an optimizer: other paths of
 * the same dict must. */
static struct ck_rank_at named_find(const struct ck_torch_path *path)
{
	struct ck_rank_at at = { .part = 0 };

	while (at.part < path->nparts && !is_named(path, &at))
		at.part++;
	return at;
}

/* Adds the dict of a path with "param_groups" or numbered state, or updates it. */
static int tree_add(struct ck_rank_trees *trees,
		    const struct ck_torch_path *path)
{
	const struct ck_rank_at at = ck_rank_at_find(path);
	struct ck_rank_tree *all;
	uint32_t i;

	if (at.part == path->nparts)
		return 0;
	all = ck_grow(trees->all, &trees->cap, trees->n, 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	trees->all = all;
	all[trees->n] =
		(struct ck_rank_tree){ .above = ck_rank_tree_key(path, &at) };
	if (ck_table_add(&trees->table, all[trees->n].above, (uint32_t)trees->n,
			 &i))
		return -ENOMEM;
	trees->n += i == trees->n;
	all[i].groups |= !at.is_state;
	if (at.is_state && at.number >= all[i].numbers)
		all[i].numbers = at.number == UINT64_MAX ? at.number
							 : at.number + 1;
	return 0;
}

/* Marks the dict of a path with state under a name. */
static void tree_name(struct ck_rank_trees *trees,
		      const struct ck_torch_path *path)
{
	const struct ck_rank_at at = named_find(path);
	int64_t i = at.part == path->nparts
			    ? -1
			    : ck_table_find(&trees->table,
					    ck_rank_tree_key(path, &at));

	if (i >= 0 && !ck_rank_at_find(path).is_state)
		trees->all[i].named = true;
}

/* Assigns optimizer i of the sidecar to a dict, unless the dict has larger numbers. */
static int tree_look(struct ck_torch_load *l, struct ck_rank_tree *tree,
		     uint32_t i)
{
	uint32_t n = l->source.is.optimizers[i].nstates;
	struct ck_loss loss = { .name = tree->above,
				.file = CK_NO_FILE,
				.err = EBADMSG };

	tree->optimizer = i;
	tree->known = tree->numbers <= n;
	if (tree->known)
		return 0;
	loss.what = ck_str_from(ck_shown(
		"its optimizer has state of number %" PRIu64
		", of which the sidecar has %" PRIu32 ": it is not used",
		tree->numbers - 1, n));
	return ck_catalog_loss_add(l->c, &loss) ? no_memory(l) : 0;
}

/* Chooses the dicts that are optimizers. A dict without numbers whose state is under names is
 * not one. If any dict has param_groups, those without are not optimizers. */
static int trees_look(struct ck_torch_load *l)
{
	struct ck_rank_trees *trees = l->trees;
	bool groups = false;
	uint32_t number = 0;
	int rc = 0;

	for (size_t i = 0; i < trees->n; i++)
		groups |= trees->all[i].groups;
	for (size_t i = 0; i < trees->n && rc == 0; i++) {
		struct ck_rank_tree *tree = &trees->all[i];

		if (tree->groups == groups && (tree->numbers || !tree->named) &&
		    number < l->source.is.noptimizers)
			rc = tree_look(l, tree, number++);
	}
	return rc;
}

int ck_rank_trees_find(struct ck_torch_load *l)
{
	int rc = 0;

	if (l->source.is.noptimizers == 0)
		return 0;
	l->trees = calloc(1, sizeof(*l->trees));
	if (!l->trees)
		return no_memory(l);
	l->trees->table = (struct ck_table){ .key = above_of, .arg = l->trees };
	for (size_t i = 0; i < l->nrows && rc == 0; i++)
		if (!l->rows[i].unread)
			rc = tree_add(l->trees, l->rows[i].path);
	for (size_t i = 0; i < l->nrows && rc == 0; i++)
		if (!l->rows[i].unread)
			tree_name(l->trees, l->rows[i].path);
	return rc ? no_memory(l) : trees_look(l);
}

void ck_rank_trees_free(struct ck_rank_trees *trees)
{
	if (!trees)
		return;
	ck_table_fini(&trees->table);
	free(trees->all);
	free(trees->found);
	free(trees->numbers);
	free(trees->refused);
	free(trees->rows);
	free(trees);
}
