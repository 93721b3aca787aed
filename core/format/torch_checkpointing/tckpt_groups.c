/* SPDX-License-Identifier: MIT */
/*
 * tckpt_groups: the groups of ranks that metadata.pkl has for each tensor. Stateless.
 */
#include "tckpt_internal.h"

#include <errno.h>

bool ck_tckpt_group_take(const struct ck_tckpt_path *path, uint32_t i,
			 struct ck_pv *ranks, struct ck_pv *sharding)
{
	struct ck_pv group = ck_pv_at(&path->groups, i);

	return ck_pv_get(&group, "ranks", ranks) && ck_pv_is_sequence(ranks) &&
	       ck_pv_get(&group, "sharding_metadata", sharding);
}

uint32_t ck_tckpt_meshes(const struct ck_tckpt_path *path)
{
	struct ck_pv ranks, sharding, v;
	uint32_t n = 0;

	for (uint32_t i = 0; i < ck_pv_count(&path->groups); i++)
		n += ck_tckpt_group_take(path, i, &ranks, &sharding) &&
		     ck_pv_get(&sharding, "data", &v) &&
		     ck_pv_get(&v, "mesh_spec", &v);
	return n;
}

/* True for the record of a tensor that is not a DTensor: replicated on a mesh of one
 * dimension. */
static bool is_for_all(const struct ck_pv *sharding)
{
	struct ck_pv data, placements, v;
	struct ck_str type = CK_STR("");

	if (!ck_pv_get(sharding, "data", &data) ||
	    !ck_pv_get(&data, "placements", &placements) ||
	    ck_pv_count(&placements) != 1)
		return false;
	v = ck_pv_at(&placements, 0);
	if (ck_pv_get(&v, "type", &v))
		(void)ck_pv_str(&v, &type);
	return ck_str_is(type, "Replicate");
}

int ck_tckpt_ranks_each(const struct ck_tckpt_path *path,
			int (*each)(void *arg, uint64_t rank, bool for_all),
			void *arg)
{
	struct ck_pv ranks, sharding;
	int rc = 0;

	for (uint32_t i = 0; i < ck_pv_count(&path->groups); i++) {
		bool for_all;

		if (!ck_tckpt_group_take(path, i, &ranks, &sharding))
			continue;
		for_all = is_for_all(&sharding);
		for (uint32_t k = 0; k < ck_pv_count(&ranks) && rc == 0; k++) {
			struct ck_pv v = ck_pv_at(&ranks, k);
			int64_t rank;

			if (!ck_pv_int(&v, &rank) || rank < 0)
				rank = INT64_MAX;
			rc = each(arg, (uint64_t)rank, for_all);
		}
	}
	return rc;
}

/* The item whose ranks are collected. */
struct promises {
	const struct ck_tckpt_metadata *m;
	struct ck_tckpt_item *item;
};

static int promise(void *arg, uint64_t rank, bool for_all)
{
	const struct promises *p = arg;

	(void)for_all;
	if (rank < p->m->world)
		p->item->promised[rank / 8] |= (uint8_t)(1U << rank % 8);
	return 0;
}

/* True if the budget allows to visit all ranks of a path. */
static bool is_affordable(struct ck_tckpt_metadata *m,
			  const struct ck_tckpt_path *path)
{
	struct ck_pv ranks, sharding;
	uint64_t n = 1;

	for (uint32_t i = 0; i < ck_pv_count(&path->groups); i++)
		if (ck_tckpt_group_take(path, i, &ranks, &sharding))
			n += ck_pv_count(&ranks) / 8 + 1;
	return ck_pickle_spend(&m->pickle, n);
}

int ck_tckpt_promised_find(struct ck_tckpt_metadata *m)
{
	size_t bits = (size_t)(m->world + 7) / 8;

	for (size_t i = 0; i < m->nitems; i++) {
		m->items[i].promised = ck_arena_alloc(&m->arena, bits);
		if (!m->items[i].promised)
			return -ENOMEM;
		memset(m->items[i].promised, 0, bits);
	}
	for (size_t k = 0; k < m->npaths; k++) {
		const struct ck_tckpt_path *path = &m->paths[k];
		int64_t at = ck_tckpt_item_find(
			m, ck_part_text(&path->path.parts[0]));
		struct promises p = { m, at < 0 ? NULL : &m->items[at] };

		if (p.item && is_affordable(m, path))
			(void)!ck_tckpt_ranks_each(path, promise, &p);
		else if (p.item)
			memset(p.item->promised, UINT8_MAX, bits);
		if (p.item)
			p.item->has_paths = true;
	}
	for (size_t i = 0; i < m->nitems; i++)
		if (!m->items[i].has_paths)
			memset(m->items[i].promised, UINT8_MAX, bits);
	return 0;
}
