/* SPDX-License-Identifier: MIT */
/* What single ranks have: rows that only local/ shows, their names, and what edits of it do. */
#include "catalogs.h"
#include "ckptfs/view.h"
#include "model/catalog/catalog_edit.h"
#include "model/catalog/items.h"
#include "tap.h"
#include "view/local.h"

#include <inttypes.h>
#include <time.h>

static struct ck_catalog *ranks_new(uint32_t n)
{
	struct ck_catalog *c = catalog_new();

	for (uint32_t i = 0; i < n; i++) {
		char name[32];

		snprintf(name, sizeof(name), "rank_%" PRIu32 ".pt", i);
		file_add_of(c, name, 1 << 20, 0, i);
	}
	return c;
}

static void replica_add(struct ck_catalog *c, uint32_t file, uint64_t fpos)
{
	struct ck_item item = { .file = file, .fpos = fpos, .length = 10 };

	must(ck_catalog_replica_add(c, &item));
}

static void own_add(struct ck_catalog *c, uint32_t of, uint8_t role,
		    uint32_t ndim, const int64_t *shape, uint32_t file)
{
	struct ck_entry_id id = { of, false };
	int64_t zeros[4] = { 0 };

	must(ck_catalog_own_add(c, id, role, CK_STR("int8"), ndim, shape));
	item_add(c, zeros, shape, file, 0, 10);
}

static void object_own(struct ck_catalog *c, struct ck_entry_id of,
		       uint8_t role, uint32_t file)
{
	struct ck_item item = { .file = file, .length = 1 };

	must(ck_catalog_object_own(c, of, role, &item));
}

/* What an owner has, by names. */
static const char *listed(const struct ck_catalog *c, const char *owner)
{
	static char text[600];
	struct ck_buf b = { 0 };
	struct ck_local *l;
	uint32_t n;

	must(ck_local_make(c, &l));
	if (ck_local_find(l, c, ck_str_from(owner), &n) == 0)
		for (uint32_t i = 0; i < ck_local_boxes(l, n); i++) {
			ck_buf_text(&b, i ? " " : "");
			ck_local_box_name(l, c, ck_local_box(l, n, i), &b);
		}
	snprintf(text, sizeof(text), "%s", b.data ? b.data : "");
	ck_buf_fini(&b);
	ck_local_free(l);
	return text;
}

/* a: two boxes, one of them in two ranks; s: of other shapes; k: a value in one rank. */
static struct ck_catalog *make(void)
{
	struct ck_catalog *c = ranks_new(3);

	tensor_add(c, "a", "int8", 1, DIMS(20));
	item_add(c, DIMS(0), DIMS(10), 0, 0, 10);
	replica_add(c, 2, 0);
	item_add(c, DIMS(10), DIMS(10), 1, 0, 10);
	must(ck_catalog_copies_add(c, false));
	tensor_add(c, "s", "int8", 1, DIMS(4));
	must(ck_catalog_tensor_unwhole(c, "its shapes differ"));
	item_add(c, DIMS(0), DIMS(4), 0, 100, 4);
	own_add(c, c->tensors.n - 1, CK_ROLE_OWN, 1, DIMS(5), 2);
	tensor_add(c, "k", "int8", 1, DIMS(3));
	must(ck_catalog_tensor_fault(c, EIO, "its kinds differ"));
	own_add(c, c->tensors.n - 1, CK_ROLE_OWN, 1, DIMS(3), 1);
	object_own(c, (struct ck_entry_id){ c->tensors.n - 2, false },
		   CK_ROLE_OWN, 0);
	object_add(c, "o");
	ck_catalog_object_local(c, true);
	object_own(c, (struct ck_entry_id){ c->objects.n - 1, true },
		   CK_ROLE_COPY, 2);
	finish(c);
	return c;
}

static void test_names(void)
{
	struct ck_catalog *c = make();

	eq_u64(c->listing->n, 4);
	eq_text(listed(c, "rank-0"), "a.npy s.npy k.json o.json");
	eq_text(listed(c, "rank-1"), "a.npy k.npy");
	eq_text(listed(c, "rank-2"), "a.npy s.npy o.json");
	eq_u64(c->tensors.n - c->own_tensors, 2);
	eq_u64(c->objects.n - c->own_objects, 1);
	eq_u64(c->chunks.n - c->own_chunks, 2);
	eq_u64(c->nbytes, 20); /* of the whole one that can be read */
	ck_catalog_put(c);
}

static void test_views(void)
{
	struct ck_catalog *c = make();
	struct ck_dir dir = { .view = &ck_tensor_views[0]->view };
	struct ck_child child;
	uint64_t at = 0;
	unsigned n = 0;
	uint32_t tensor;

	for (; dir.view->next(c, &dir, &at, &child) == 0; at++)
		n++;
	eq_u64(n, 2);
	eq_u64(dir.view->count(c, NULL), 2);
	eq_err(ck_tensor_view_lookup(ck_tensor_views[0], c, CK_STR("a.npy"),
				     &tensor),
	       0);
	eq_err(ck_tensor_view_lookup(ck_tensor_views[0], c, CK_STR("s.npy"),
				     &tensor),
	       -ENOENT);
	ck_catalog_put(c);
}

/* A box of its own file, whatever is wrong with another's. */
static void test_items(void)
{
	struct ck_catalog *c = ranks_new(2);
	uint32_t n, first;

	file_add_of(c, "rank_9.pt", 0, ENODATA, 9);
	tensor_add(c, "a", "int8", 1, DIMS(10));
	item_add(c, DIMS(0), DIMS(10), 2, 0, 10);
	replica_add(c, 1, 7);
	must(ck_catalog_copies_add(c, false));
	finish(c);
	eq_u64(ck_catalog_item(c, 0)->file, 1); /* the first good one */
	first = ck_catalog_replicas(c, 0, 1, &n);
	eq_u64(ck_catalog_replica(c, first)->item.file, 2);
	eq_u64(ck_catalog_item(c, 1)->file, 2);
	eq_u64(ck_catalog_item(c, 1)->err, ENODATA);
	eq_u64(ck_catalog_item(c, 2)->fpos, 7);
	eq_u64(ck_catalog_tensor(c, 1)->holes, 0);
	ck_catalog_put(c);
}

static int edited(const struct ck_catalog *c, const struct ck_edit *e,
		  struct ck_catalog **out)
{
	struct ck_diag d = { 0 };

	*out = ck_catalog_next(c);
	return *out ? ck_catalog_edit(*out, e, 1, &d) : -ENOMEM;
}

static void test_edits(void)
{
	struct ck_catalog *c = make(), *next;
	const struct ck_new_entry new = { .key = CK_STR("new") };
	const struct ck_edit place = { .kind = CK_EDIT_PLACE,
				       .item = { .length = 10 } };
	const struct ck_edit remove = { .kind = CK_EDIT_REMOVE };
	const struct ck_edit add = { .kind = CK_EDIT_ADD,
				     .is_object = true,
				     .item = { .length = 1 },
				     .new = &new };

	/* local/ would show what was before. */
	eq_err(edited(c, &place, &next), -EINVAL);
	ck_catalog_put(next);
	eq_err(edited(c, &remove, &next), -EINVAL);
	ck_catalog_put(next);
	eq_err(edited(c, &add, &next), 0);
	eq_text(listed(next, "rank-2"), "a.npy s.npy o.json");
	eq_text(text_of(ck_tensor_names(next, 2).name), "a");
	ck_catalog_put(next);
	ck_catalog_put(c);
}

static void test_dump(void)
{
	struct ck_catalog *c = make();
	struct ck_buf b = { 0 };

	ck_catalog_dump(c, &b);
	ok(strstr(b.data, "\ntensor s dtype=int8 shape=[4] bytes=4 chunks=1 "
			  "kind=tensor own\n") != NULL);
	ok(strstr(b.data, "\nown tensor s dtype=int8 shape=[5] ") != NULL);
	ok(strstr(b.data, "\nown object k file=0 ") != NULL);
	ok(strstr(b.data, "\nown tensor a ") == NULL); /* replicas say it */
	ck_buf_fini(&b);
	ck_catalog_put(c);
}

/* --- by lot ----------------------------------------------------------------------- */

enum { RANKS = 4, DIMS_MOST = 3, CUTS = 3, BOXES = 27 };

static uint64_t state;

static CK_WRAPS uint32_t lot(uint32_t below)
{
	state = state * UINT64_C(6364136223846793005) +
		UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 33) % below;
}

/* A grid of boxes; of each who has it. */
struct grid {
	uint32_t ndim, n;
	int64_t at[BOXES][2 * DIMS_MOST];
	uint32_t ranks[BOXES]; /* bits */
};

static void grid_draw(struct grid *g, int64_t *shape)
{
	uint32_t cuts[DIMS_MOST];

	*g = (struct grid){ .ndim = lot(DIMS_MOST + 1), .n = 1 };
	for (uint32_t d = 0; d < g->ndim; d++) {
		cuts[d] = 1 + lot(CUTS);
		shape[d] = 2 * cuts[d];
		g->n *= cuts[d];
	}
	for (uint32_t i = 0; i < g->n; i++) {
		uint32_t rest = i;

		for (uint32_t d = 0; d < g->ndim; d++) {
			g->at[i][d] = 2 * (rest % cuts[d]);
			g->at[i][g->ndim + d] = 2;
			rest /= cuts[d];
		}
		g->ranks[i] = 1 + lot((1 << RANKS) - 1);
	}
}

/* Where a rank has a box; the copies of one rank are not the same bytes. */
static uint64_t place_of(uint32_t i, uint32_t rank)
{
	return 1000 * rank + 10 * i;
}

static void grid_add(struct ck_catalog *c, const struct grid *g,
		     const int64_t *shape)
{
	tensor_add(c, "t", "int8", g->ndim, shape);
	for (uint32_t i = 0; i < g->n; i++) {
		bool any = false;

		for (uint32_t r = 0; r < RANKS; r++) {
			if (!(g->ranks[i] >> r & 1))
				continue;
			if (any)
				replica_add(c, r, place_of(i, r));
			else
				item_add(c, g->at[i], g->at[i] + g->ndim, r,
					 place_of(i, r), 10);
			any = true;
		}
	}
	must(ck_catalog_copies_add(c, false));
}

/* Each rank has its boxes, with its bytes, each under a name that finds it. */
static bool rank_is_right(const struct ck_catalog *c, const struct ck_local *l,
			  const struct grid *g, uint32_t rank)
{
	struct ck_buf name = { 0 };
	uint32_t seen = 0, wanted = 0, owner, box;
	bool good = true;

	for (uint32_t i = 0; i < g->n; i++)
		wanted |= (g->ranks[i] >> rank & 1) << i;
	ck_buf_printf(&name, "rank-%" PRIu32, rank);
	must(ck_local_find(l, c, (struct ck_str){ name.data, name.len },
			   &owner));
	for (uint32_t i = 0; i < ck_local_boxes(l, owner); i++) {
		uint32_t entry = ck_local_box(l, owner, i);
		uint64_t fpos = ck_catalog_item(c, entry)->fpos;
		const struct ck_tensor *t =
			ck_catalog_tensor(c, ck_catalog_tensor_of(c, entry));
		uint32_t at = (uint32_t)(fpos - 1000UL * rank) / 10;

		good &= ck_catalog_item(c, entry)->file == rank && at < g->n &&
			memcmp(ck_tensor_box(t, entry - t->chunk), g->at[at],
			       2 * g->ndim * sizeof(int64_t)) == 0;
		seen |= 1U << at;
		name.len = 0;
		ck_local_box_name(l, c, entry, &name);
		good &= ck_local_box_find(
				l, c, owner,
				(struct ck_str){ name.data, name.len },
				&box) == 0 &&
			box == entry;
	}
	good &= seen == wanted && ck_local_boxes(l, owner) ==
					  (uint32_t)__builtin_popcount(wanted);
	ck_buf_fini(&name);
	return good;
}

static bool grid_is_right(const struct ck_catalog *c, const struct grid *g)
{
	struct ck_local *l;
	bool good = true;

	must(ck_local_make(c, &l));
	for (uint32_t r = 0; r < RANKS; r++)
		good &= rank_is_right(c, l, g, r);
	ck_local_free(l);
	return good;
}

static void test_random(void)
{
	uint64_t cases = tap_cases("CKPTFS_CASES", 500, 20000);
	unsigned right = 0, seen = 0;

	state = tap_seed(20263);
	for (uint64_t i = 0; i < cases; i++) {
		struct ck_catalog *c = ranks_new(RANKS);
		int64_t shape[DIMS_MOST];
		struct grid g;

		grid_draw(&g, shape);
		grid_add(c, &g, shape);
		finish(c);
		right += grid_is_right(c, &g);
		g.ranks[lot(g.n)] ^= 1U << lot(RANKS); /* canary */
		seen += !grid_is_right(c, &g);
		ck_catalog_put(c);
	}
	eq_u64(right, cases);
	eq_u64(seen, cases);
}

int main(void)
{
	test_names();
	test_views();
	test_items();
	test_edits();
	test_dump();
	test_random();
	return tap_done();
}
