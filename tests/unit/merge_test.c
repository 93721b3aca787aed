/* SPDX-License-Identifier: MIT */
/*
 * Merging the metadata of ranks, for a checkpoint that was saved without collectives: single
 * cases, and random shardings compared with a model that has the ranks of each box.
 */
#include "format/dcp/dcp_internal.h"
#include "tap.h"

#include <errno.h>

enum { RANKS = 6, DIMS = 3, MOST = 8 };

static struct ck_dcp_part parts[RANKS];

/* The data file of each rank has the number of the rank. */
static void begin(void)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		parts[i] = (struct ck_dcp_part){
			.rank = i,
			.c = ck_catalog_make(""),
			.files = calloc(1, sizeof(uint32_t)),
		};
		parts[i].files[0] = i;
	}
}

static void end(void)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		ck_catalog_put(parts[i].c);
		free(parts[i].files);
	}
}

static void must(int rc)
{
	if (rc)
		abort();
}

static void tensor(uint32_t rank, const char *key, const char *dtype,
		   uint32_t ndim, const int64_t *shape)
{
	must(ck_catalog_tensor_add(parts[rank].c, ck_str_from(key),
				   ck_str_from(dtype), ndim, shape));
}

static void box(uint32_t rank, const int64_t *off, const int64_t *len,
		uint64_t fpos)
{
	const struct ck_item item = { .fpos = fpos, .length = 1 };

	must(ck_catalog_chunk_add(parts[rank].c, off, len, &item));
}

static void object(uint32_t rank, const char *key, uint64_t fpos)
{
	const struct ck_item item = { .fpos = fpos, .length = 1 };

	must(ck_catalog_object_add(parts[rank].c, ck_str_from(key), &item));
}

/* Merges n parts. The catalog is not finished, as there are no files. */
static struct ck_catalog *merged(size_t n)
{
	struct ck_catalog *c = ck_catalog_make("dcp");

	eq_err(ck_dcp_merge(c, parts, n), 0);
	return c;
}

static const int64_t one[] = { 4 }, zero[] = { 0 }, two[] = { 2 };

/* --- single cases ----------------------------------------------------------------- */

static void test_union(void)
{
	struct ck_catalog *c;
	uint32_t n, first;

	begin();
	tensor(0, "a", "float32", 1, one);
	box(0, zero, two, 10);
	object(0, "o", 11);
	tensor(1, "b", "int8", 1, two);
	box(1, zero, two, 20);
	object(1, "o", 21);
	tensor(1, "a", "float32", 1, one);
	box(1, two, two, 22);
	box(1, zero, two, 23);
	object(2, "p", 31);
	tensor(2, "a", "float32", 1, one);
	box(2, zero, two, 32);
	c = merged(3);
	/* Three ranks have the same box, so there are three copies of the tensor. */
	eq_u64(c->tensors.n, 5);
	eq_u64(c->own_tensors, 3);
	eq_u64(c->objects.n, 2);
	ok(ck_str_is(ck_catalog_tensor(c, 0)->entry.key, "a"));
	ok(ck_str_is(ck_catalog_tensor(c, 4)->entry.key, "b"));
	eq_u64(ck_catalog_object(c, 0)->item.fpos, 11);
	eq_u64(ck_catalog_object(c, 1)->item.file, 2);
	eq_u64(c->chunks.n - c->own_chunks, 3);
	eq_u64(ck_catalog_item(c, 0)->fpos, 10);
	eq_u64(ck_catalog_item(c, 1)->fpos, 22);
	eq_u64(ck_catalog_item(c, 1)->file, 1);
	first = ck_catalog_replicas(c, 0, 1, &n);
	eq_u64(n, 2);
	eq_u64(ck_catalog_replica(c, first)->item.fpos, 23);
	eq_u64(ck_catalog_replica(c, first + 1)->item.fpos, 32);
	eq_u64(ck_catalog_tensor(c, 0)->err, 0);
	ck_catalog_put(c);
	end();
}

/* A tensor whose metadata differ between ranks is not served. */
static void disagree(const char *dtype, uint32_t ndim, const int64_t *shape,
		     const char *why)
{
	struct ck_catalog *c;

	begin();
	tensor(0, "a", "float32", 1, one);
	box(0, zero, two, 1);
	if (dtype)
		tensor(2, "a", dtype, ndim, shape);
	else
		object(2, "a", 2);
	c = merged(3);
	eq_u64(c->tensors.n, 1);
	eq_u64(c->objects.n, 0);
	eq_u64(ck_catalog_tensor(c, 0)->err, EIO);
	ok(strstr(ck_catalog_tensor(c, 0)->fault, why) != NULL);
	ck_catalog_put(c);
	end();
}

static void test_disagree(void)
{
	const int64_t square[] = { 2, 2 };
	struct ck_catalog *c;

	disagree("float16", 1, one, "another dtype in the metadata of rank 2");
	disagree("float32", 1, two, "another size in the metadata of rank 2");
	disagree("float32", 2, square, "another size");
	disagree("float32", 0, NULL, "another size");
	disagree(NULL, 0, NULL, "no tensor in the metadata of rank 2");
	begin();
	object(0, "a", 1);
	tensor(1, "a", "float32", 1, one);
	c = merged(2);
	eq_u64(c->tensors.n, 0);
	eq_u64(ck_catalog_object(c, 0)->item.err, EIO);
	ck_catalog_put(c);
	end();
}

/* A fault of a tensor in one part is a fault of the merged tensor. */
static void test_faults(void)
{
	struct ck_catalog *c;

	begin();
	tensor(0, "a", "float32", 1, one);
	tensor(1, "a", "float32", 1, one);
	must(ck_catalog_tensor_fault(parts[1].c, EBADMSG, "of a part"));
	c = merged(2);
	eq_u64(ck_catalog_tensor(c, 0)->err, EBADMSG);
	ok(ck_str_is(ck_tensor_fault(ck_catalog_tensor(c, 0)),
		     "rank 1: of a part"));
	ck_catalog_put(c);
	end();
}

/* Transforms and paths are renumbered in the merged catalog. */
static void test_texts(void)
{
	struct ck_item item = { .length = 1 };
	struct ck_path_part *path;
	const struct ck_entry *e;
	struct ck_catalog *c;

	begin();
	must(ck_catalog_transform_add(parts[0].c, CK_STR("x"),
				      &item.transform));
	must(ck_catalog_object_add(parts[0].c, CK_STR("q"), &item));
	must(ck_catalog_transform_add(parts[1].c, CK_STR("y"),
				      &item.transform));
	must(ck_catalog_object_add(parts[1].c, CK_STR("a.0"), &item));
	path = ck_catalog_path_add(parts[1].c, 2);
	path[0] = (struct ck_path_part){ ck_catalog_last_key(parts[1].c).p, 1,
					 CK_PATH_STR };
	path[1] = (struct ck_path_part){ "elsewhere", 9, CK_PATH_STR };
	must(ck_catalog_global_add(parts[1].c, CK_STR("some.thing")));
	c = merged(2);
	eq_u64(ck_catalog_object(c, 0)->item.transform, 1);
	eq_u64(ck_catalog_object(c, 1)->item.transform, 2);
	ok(ck_str_is(c->transforms[2], "y"));
	e = &ck_catalog_object(c, 1)->entry;
	eq_u64(e->nparts, 2);
	ok(e->path[0].p == e->key.p);
	ok(ck_str_is(ck_part_text(&e->path[1]), "elsewhere"));
	eq_u64(c->nglobals, 1);
	ck_catalog_put(c);
	end();
}

static void test_names(void)
{
	static const struct {
		const char *name;
		uint64_t rank;
	} names[] = {
		{ "__0.metadata", 0 },
		{ "__17.metadata", 17 },
		{ "__18446744073709551614.metadata", UINT64_MAX - 1 },
		{ "__18446744073709551615.metadata", CK_NO_RANK },
		{ "__18446744073709551616.metadata", CK_NO_RANK },
		{ "__00.metadata", CK_NO_RANK },
		{ "__-1.metadata", CK_NO_RANK },
		{ "__.metadata", CK_NO_RANK },
		{ ".metadata", CK_NO_RANK },
		{ "__0.metadata.tmp", CK_NO_RANK },
		{ "__0_0.distcp", CK_NO_RANK },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++)
		ok(ck_dcp_metadata_rank(names[i].name) == names[i].rank);
}

/* --- random shardings --------------------------------------------------------------- */

static uint64_t state;

static CK_WRAPS uint32_t lot(uint32_t below)
{
	state = state * UINT64_C(6364136223846793005) +
		UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 33) % below;
}

/* A grid of boxes; each rank has some of them. */
struct sharding {
	uint32_t ndim;
	int64_t shape[DIMS];
	uint32_t ncuts[DIMS];
	int64_t cuts[DIMS][MOST + 1]; /* the last one is the shape */
	uint32_t nboxes;
	uint8_t ranks[MOST * MOST *
		      MOST]; /* of each box: a bit for each rank */
};

static void sharding_draw(struct sharding *s)
{
	*s = (struct sharding){ .ndim = lot(DIMS + 1), .nboxes = 1 };
	for (uint32_t d = 0; d < s->ndim; d++) {
		s->shape[d] = lot(MOST);
		s->ncuts[d] = 1;
		for (int64_t at = 1; at < s->shape[d]; at++)
			if (lot(3) == 0)
				s->cuts[d][s->ncuts[d]++] = at;
		s->cuts[d][s->ncuts[d]] = s->shape[d];
		s->nboxes *= s->ncuts[d];
	}
	for (uint32_t i = 0; i < s->nboxes; i++)
		s->ranks[i] = (uint8_t)lot(1 << RANKS);
}

static void box_of(const struct sharding *s, uint32_t i, int64_t *off,
		   int64_t *len)
{
	for (uint32_t d = s->ndim; d > 0 && d--;) {
		uint32_t at = i % s->ncuts[d];

		i /= s->ncuts[d];
		off[d] = s->cuts[d][at];
		len[d] = s->cuts[d][at + 1] - off[d];
	}
}

/* Each rank has its boxes in another order. The offset of an item is the number of its box. */
static void sharding_say(const struct sharding *s)
{
	int64_t off[DIMS], len[DIMS];

	for (uint32_t rank = 0; rank < RANKS; rank++) {
		uint32_t from = lot(s->nboxes);

		tensor(rank, "t", "uint8", s->ndim, s->shape);
		for (uint32_t i = 0; i < s->nboxes; i++) {
			uint32_t at = (from + i) % s->nboxes;

			box_of(s, at, off, len);
			if (s->ranks[at] >> rank & 1)
				box(rank, off, len, at);
		}
	}
}

static uint32_t lowest(uint8_t ranks)
{
	uint32_t rank = 0;

	while (!(ranks >> rank & 1))
		rank++;
	return rank;
}

/* The chunk of a box has the item of the lowest rank; the other items are its replicas. */
static bool chunk_is_right(const struct sharding *s, const struct ck_catalog *c,
			   uint32_t chunk, uint8_t *left)
{
	const int64_t *box = ck_tensor_box(ck_catalog_tensor(c, 0), chunk);
	const struct ck_item *item = ck_catalog_item(c, chunk);
	uint32_t at = (uint32_t)item->fpos, n, first, rank = item->file;
	int64_t off[DIMS], len[DIMS];
	bool good = left[at] && rank == lowest(left[at]);

	box_of(s, at, off, len);
	for (uint32_t d = 0; d < s->ndim; d++)
		good &= box[d] == off[d] && box[s->ndim + d] == len[d];
	left[at] &= (uint8_t) ~(1U << rank);
	first = ck_catalog_replicas(c, chunk, 1, &n);
	for (uint32_t i = first; i < first + n; i++) {
		item = &ck_catalog_replica(c, i)->item;
		good &= item->fpos == at && left[at] &&
			item->file == lowest(left[at]);
		left[at] &= (uint8_t) ~(1U << item->file);
	}
	return good && left[at] == 0;
}

/* A chunk of a copy is the item of one rank for a box, and is in no other copy. */
static bool copy_is_right(const struct sharding *s, const struct ck_catalog *c,
			  const struct ck_tensor *t, uint32_t i, uint8_t *left)
{
	const struct ck_item *item = ck_catalog_item(c, t->chunk + i);
	const int64_t *box = ck_tensor_box(t, i);
	uint32_t at = (uint32_t)item->fpos;
	int64_t off[DIMS], len[DIMS];
	bool good = left[at] >> item->file & 1;

	box_of(s, at, off, len);
	for (uint32_t d = 0; d < s->ndim; d++)
		good &= box[d] == off[d] && box[s->ndim + d] == len[d];
	left[at] &= (uint8_t) ~(1U << item->file);
	return good;
}

/* If two ranks have the same box, each item is in one copy; otherwise there are no copies. */
static bool copies_are_right(const struct sharding *s,
			     const struct ck_catalog *c)
{
	struct sharding model = *s;
	bool good = true, any = false;

	for (uint32_t i = 0; i < s->nboxes; i++)
		any |= (s->ranks[i] & (s->ranks[i] - 1)) != 0;
	if (!any || ck_catalog_tensor(c, 0)->apart != any)
		return !any && c->tensors.n == 1 && c->own_tensors == 0;
	for (uint32_t n = 1; n < c->tensors.n && good; n++) {
		const struct ck_tensor *t = ck_catalog_tensor(c, n);

		good = t->entry.role == CK_ROLE_COPY && t->entry.of == 0;
		for (uint32_t i = 0; i < t->nchunks && good; i++)
			good = copy_is_right(s, c, t, i, model.ranks);
	}
	for (uint32_t i = 0; i < s->nboxes; i++)
		good &= model.ranks[i] == 0;
	return good;
}

static bool is_right(const struct sharding *s, const struct ck_catalog *c)
{
	struct sharding model = *s;
	bool good = c->tensors.n == 1 + c->own_tensors &&
		    ck_catalog_tensor(c, 0)->err == 0 && copies_are_right(s, c);

	for (uint32_t i = 0; i < ck_catalog_tensor(c, 0)->nchunks && good; i++)
		good = chunk_is_right(s, c, i, model.ranks);
	for (uint32_t i = 0; i < s->nboxes; i++)
		good &= model.ranks[i] == 0;
	return good;
}

static void test_random(void)
{
	uint64_t cases = tap_cases("CKPTFS_CASES", 1000, 30000);
	unsigned right = 0;
	bool seen = false;

	state = tap_seed(20264);
	for (uint64_t i = 0; i < cases; i++) {
		struct sharding s;
		struct ck_catalog *c = ck_catalog_make("dcp");

		begin();
		sharding_draw(&s);
		sharding_say(&s);
		must(ck_dcp_merge(c, parts, RANKS));
		right += is_right(&s, c);
		s.ranks[0] ^= 1; /* canary: the model is changed */
		seen |= i == 0 && !is_right(&s, c);
		ck_catalog_put(c);
		end();
	}
	eq_u64(right, cases);
	ok(seen);
}

int main(void)
{
	test_union();
	test_disagree();
	test_faults();
	test_texts();
	test_names();
	test_random();
	return tap_done();
}
