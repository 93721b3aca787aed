/* SPDX-License-Identifier: MIT */
/*
 * local_box: boxes of the ranks of a mesh, by a table, and at random against lists of
 * indexes that are divided as torch.chunk does; the boxes of all ranks tile the tensor.
 * The rules of option placements: forms, precedence, dimensions.
 */
#include "ckptfs/model.h"
#include "model/local_box.h"
#include "model/place_rules.h"
#include "tap.h"

enum { DIMS = 4, LONGEST = 40 };

/* --- chunks ------------------------------------------------------------------------ */

static void chunk_is(uint64_t n, uint64_t parts, uint64_t number,
		     uint64_t want_begin, uint64_t want_len)
{
	uint64_t begin;

	eq_u64(ck_chunk(n, parts, number, &begin), want_len);
	eq_u64(begin, want_begin);
}

static void test_chunks(void)
{
	chunk_is(5, 4, 0, 0, 2);
	chunk_is(5, 4, 1, 2, 2);
	chunk_is(5, 4, 2, 4, 1);
	chunk_is(5, 4, 3, 5, 0);
	chunk_is(8, 6, 3, 6, 2);
	chunk_is(8, 6, 4, 8, 0);
	chunk_is(4, 3, 2, 4, 0);
	chunk_is(0, 3, 1, 0, 0);
	chunk_is(UINT64_MAX, 1, 0, 0, UINT64_MAX);
	chunk_is(INT64_MAX, 2, 1, UINT64_C(1) << 62, (UINT64_C(1) << 62) - 1);
	chunk_is(INT64_MAX, 1000000, UINT64_MAX, INT64_MAX, 0);
}

/* --- placements ---------------------------------------------------------------------- */

static struct ck_mesh_dim dims[CK_SPEC_DIMS];

static void place(const char *spec, struct ck_place_rules *rules,
		  const char *name, uint32_t ndim, const char *want)
{
	struct ck_spec s;
	struct ck_buf text = { 0 };

	ok(ck_spec_parse(ck_str_from(spec), &s));
	ck_spec_dims(&s, ndim, dims);
	eq_err(ck_place_rules_apply(rules, ck_str_from(name), ndim, dims,
				    s.ndim),
	       0);
	for (uint32_t i = 0; i < s.ndim; i++) {
		ck_buf_text(&text, i ? " " : "");
		ck_placement_print(&text, &dims[i].placement);
	}
	if (!ck_str_is((struct ck_str){ text.data, text.len }, want))
		tap_result(false, __FILE__, __LINE__, text.data);
	ck_buf_fini(&text);
}

static void test_defaults(void)
{
	place("4", NULL, "w", 2, "S(0)");
	place("4", NULL, "w", 0, "R");
	place("dp_replicate=2,replicate=2,ddp=2,pp=2", NULL, "w", 2, "R R R R");
	place("tp=2,ep=2,etp=2,sp=2", NULL, "w", 2, "R R R R");
	place("dp=2,fsdp=2,cp=2,Tp=2,tp_=2", NULL, "w", 1,
	      "S(0) S(0) S(0) S(0) S(0)");
}

static struct ck_place_rules *rules_of(const char *text)
{
	struct ck_place_rules *r = NULL;
	struct ck_diag d = { 0 };

	eq_err(ck_place_rules_parse(ck_str_from(text), &r, &d), 0);
	return r;
}

static void test_rules(void)
{
	struct ck_place_rules *r = rules_of(
		"# a comment\r\n\n \t\n"
		"*.wq.weight\ttp=S(0)   ep=R # and another one\r\n"
		"*.deep tp=S(3)\n"
		"*.deep tp=S(-2) dp=R\n"
		"a[bc]?.* tp=S(1)\n"
		"* tp=S(-1)");

	place("dp=2,tp=2", r, "x.wq.weight", 2, "S(0) S(0)");
	place("dp=2,ep=2", r, "x.wq.weight", 2, "S(0) R");
	place("8", r, "x.wq.weight", 2, "S(0)");
	place("dp=2,tp=2", r, "x.deep", 4, "S(0) S(3)");
	place("dp=2,tp=2", r, "x.deep", 3, "R S(1)");
	place("dp=2,tp=2", r, "x.deep", 1, "S(0) S(0)");
	place("dp=2,tp=2", r, "x.deep", 0, "R R");
	place("dp=2,tp=2", r, "ab1.x", 3, "S(0) S(1)");
	place("dp=2,tp=2", r, "ab12.x", 3, "S(0) S(2)");
	ck_place_rules_free(r);
	r = rules_of("");
	place("dp=2,tp=2", r, "x", 2, "S(0) R");
	ck_place_rules_free(r);
	ck_place_rules_free(NULL);
}

static void test_found(void)
{
	struct ck_place_rules *r = rules_of("# one\na* tp=S(2)\n\n"
					    "a* tp=R\n* tp=R");
	uint32_t rule, line;

	eq_u64(ck_place_rules_count(r), 3);
	eq_err(ck_place_rules_find(r, CK_STR("ab"), 3, &rule), 0);
	eq_u64(rule, 0);
	eq_err(ck_place_rules_find(r, CK_STR("ab"), 2, &rule), 0);
	eq_u64(rule, 1);
	ok(strcmp(ck_place_rules_at(r, rule, &line), "a*") == 0 && line == 4);
	ck_place_rules_free(r);
	r = rules_of("b tp=R");
	eq_err(ck_place_rules_find(r, CK_STR("a"), 1, &rule), 0);
	eq_u64(rule, 1);
	ck_place_rules_free(r);
	eq_u64(ck_place_rules_count(NULL), 0);
}

static void test_bad_rules(void)
{
	static const char *const bad[] = {
		"w",	      "w tp",	     "w tp=",	    "w tp=S",
		"w tp=S()",   "w tp=r",	     "w tp=S(a)",   "w tp=S(1",
		"w tp=S(1))", "w tp=S(01)",  "w tp=RR",	    "w =R",
		"w 1p=R",     "w tp=R,ep=R", "w tp=S(-0)",  "w tp=P",
		"w tp=R x",   "w tp=S(-)",   "w tp=R tp=R", "w tp=S(10000)",
	};
	struct ck_place_rules *r;

	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++) {
		struct ck_diag d = { 0 };
		char text[64];

		snprintf(text, sizeof(text), "a tp=R\n%s\n", bad[i]);
		eq_err(ck_place_rules_parse(ck_str_from(text), &r, &d),
		       -EBADMSG);
		if (!strstr(d.text, "line 2: "))
			tap_result(false, __FILE__, __LINE__, bad[i]);
	}
	eq_err(ck_place_rules_parse((struct ck_str){ "a\0b tp=R", 8 }, &r,
				    &(struct ck_diag){ 0 }),
	       -EBADMSG);
}

/* --- boxes against lists of indexes ----------------------------------------------- */

/* The indexes of one dimension of a tensor. */
struct list {
	int64_t at[LONGEST];
	uint32_t n;
};

/* Keeps part `number` of a list that is divided as torch.chunk does. */
static void list_divide(struct list *l, uint64_t parts, uint64_t number)
{
	struct list kept = { .n = 0 };
	uint64_t size = 1;

	while (size * parts < l->n)
		size++;
	for (uint32_t i = 0; i < l->n; i++)
		if (i / size == number)
			kept.at[kept.n++] = l->at[i];
	*l = kept;
}

/* The box of a rank. first: names of the dimensions that cut first. */
static void plain_box(const char *first, uint32_t n, const uint64_t *at,
		      const int64_t *shape, uint32_t ndim, int64_t *box)
{
	for (uint32_t d = 0; d < ndim; d++) {
		struct list l = { .n = (uint32_t)shape[d] };

		for (uint32_t i = 0; i < l.n; i++)
			l.at[i] = i;
		for (unsigned pass = 0; pass < 2; pass++)
			for (uint32_t i = 0; i < n; i++)
				if (dims[i].placement.type == CK_PLACE_SHARD &&
				    dims[i].placement.dim == d &&
				    (strstr(first, dims[i].name.p) == NULL) ==
					    pass)
					list_divide(&l, dims[i].size, at[i]);
		box[d] = l.n ? l.at[0] : shape[d];
		box[ndim + d] = l.n;
	}
}

static unsigned count_in(const int64_t *box, const int64_t *element,
			 uint32_t ndim)
{
	for (uint32_t d = 0; d < ndim; d++)
		if (element[d] < box[d] || element[d] >= box[d] + box[ndim + d])
			return 0;
	return 1;
}

static void random_mesh(uint64_t *random, uint32_t n, uint32_t ndim)
{
	static const char *const names[] = { "tp", "dp", "sp", "cp" };
	uint64_t turn = tap_random(random);

	for (uint32_t i = 0; i < n; i++) {
		uint64_t drawn = tap_random(random);

		dims[i] = (struct ck_mesh_dim){
			.name = ck_str_from(names[(i + turn) % 4]),
			.size = 1 + drawn % 4,
			.placement = { .type = ndim && drawn / 4 % 4
						       ? CK_PLACE_SHARD
						       : CK_PLACE_REPLICATE },
		};
		if (ndim)
			dims[i].placement.dim = (uint32_t)(drawn / 16 % ndim);
	}
}

/* True if the box of a rank has elements, and no lower rank has it. */
static bool is_new(uint32_t n, uint32_t rank, const int64_t *shape,
		   uint32_t ndim, int64_t *box)
{
	int64_t other[2 * DIMS];

	ck_local_box_of(dims, n, rank, shape, ndim, box);
	if (ck_dims_have_zero(box + ndim, ndim))
		return false;
	for (uint32_t r = 0; r < rank; r++) {
		ck_local_box_of(dims, n, r, shape, ndim, other);
		if (memcmp(box, other, 2 * ndim * sizeof(*box)) == 0)
			return false;
	}
	return true;
}

/* A walk has each box with elements once, by its lowest rank. Returns the number of ranks
 * that are wrong. */
static unsigned walk_check(uint32_t n, uint32_t ranks, const int64_t *shape,
			   uint32_t ndim)
{
	struct ck_box_walk w = { dims, n, shape, ndim, .ended = true };
	int64_t box[2 * DIMS], want[2 * DIMS];
	uint32_t at = UINT32_MAX;
	unsigned wrong = 0;
	bool more;

	if (ck_dims_have_zero(shape, ndim))
		return 0;
	ck_box_walk_begin(&w);
	more = ck_box_walk_next(&w, &at, box);
	for (uint32_t r = 0; r < ranks; r++) {
		bool is = is_new(n, r, shape, ndim, want);

		wrong += is != (more && at == r);
		wrong += is && !ck_local_box_is_first(dims, n, r);
		wrong += is && memcmp(box, want, 2 * ndim * sizeof(*box)) != 0;
		if (more && at == r)
			more = ck_box_walk_next(&w, &at, box);
	}
	return wrong + more;
}

/* Adds the elements of all ranks' boxes; each must be in as many boxes as the product of
 * the dimensions that replicate. Returns the number of wrong boxes. */
static unsigned case_check(uint32_t n, const int64_t *shape, uint32_t ndim,
			   unsigned *empty, unsigned *other)
{
	uint64_t ranks = 1, replicas = 1, held = 0, all = 1;
	unsigned wrong = 0;

	for (uint32_t i = 0; i < n; i++) {
		ranks *= dims[i].size;
		if (dims[i].placement.type == CK_PLACE_REPLICATE)
			replicas *= dims[i].size;
	}
	for (uint32_t d = 0; d < ndim; d++)
		all *= (uint64_t)shape[d];
	for (uint32_t r = 0; r < ranks; r++) {
		int64_t got[2 * DIMS], want[2 * DIMS], element[DIMS];
		uint64_t at[CK_SPEC_DIMS], elements = 1, left = r;

		for (uint32_t i = n; i-- > 0; left /= dims[i].size)
			at[i] = left % dims[i].size;
		ck_local_box_of(dims, n, r, shape, ndim, got);
		plain_box("tp sp", n, at, shape, ndim, want);
		wrong += memcmp(got, want, 2 * ndim * sizeof(*got)) != 0;
		for (uint32_t d = 0; d < ndim; d++) {
			elements *= (uint64_t)got[ndim + d];
			element[d] = got[d];
		}
		held += elements;
		*empty += elements == 0;
		wrong += elements && !count_in(got, element, ndim);
		plain_box("dp cp", n, at, shape, ndim, want);
		*other += memcmp(got, want, 2 * ndim * sizeof(*got)) != 0;
	}
	if (ranks <= 24)
		wrong += walk_check(n, (uint32_t)ranks, shape, ndim);
	return wrong + (held != all * replicas);
}

static void test_random(void)
{
	uint64_t random = tap_seed(39) | 1;
	unsigned wrong = 0, empty = 0, other = 0;

	for (uint64_t i = 0; i < tap_cases("CKPTFS_CASES", 20000, 1000000);
	     i++) {
		uint32_t ndim = (uint32_t)(tap_random(&random) % (DIMS + 1));
		uint32_t n = 1 + (uint32_t)(tap_random(&random) % 4);
		int64_t shape[DIMS] = { 0 };

		for (uint32_t d = 0; d < ndim; d++)
			shape[d] = (int64_t)(tap_random(&random) %
					     (ndim < 3 ? LONGEST : 6));
		random_mesh(&random, n, ndim);
		wrong += case_check(n, shape, ndim, &empty, &other);
	}
	printf("# %u empty boxes, %u that another order of cuts changes\n",
	       empty, other);
	eq_u64(wrong, 0);
	ok(empty > 1000 && other > 1000);
}

/* n = 13 on dp=3, tp=2: tensor parallelism cuts first, wherever it is in the mesh. */
static void test_order(void)
{
	static const int64_t shape[] = { 13 };
	static const int64_t want[6][2] = { { 0, 3 }, { 7, 2 }, { 3, 3 },
					    { 9, 2 }, { 6, 1 }, { 11, 2 } };
	struct ck_place_rules *r = rules_of("* tp=S(0)");
	int64_t box[2];

	place("dp=3,tp=2", r, "w", 1, "S(0) S(0)");
	for (uint32_t i = 0; i < 6; i++) {
		ck_local_box_of(dims, 2, i, shape, 1, box);
		ok(box[0] == want[i][0] && box[1] == want[i][1]);
	}
	place("tp=2,dp=3", r, "w", 1, "S(0) S(0)");
	for (uint32_t i = 0; i < 6; i++) {
		ck_local_box_of(dims, 2, i % 2 * 3 + i / 2, shape, 1, box);
		ok(box[0] == want[i][0] && box[1] == want[i][1]);
	}
	ck_place_rules_free(r);
}

/* A million ranks of which few have elements: the walk does not visit the others. */
static void test_long_walk(void)
{
	static const int64_t shape[] = { 7, 3 };
	struct ck_place_rules *r = rules_of("* b=S(1) c=S(0)");
	struct ck_box_walk w = { dims, 4, shape, 2, .ended = false };
	int64_t box[4];
	uint32_t rank, n = 0;

	place("ddp=10,a=100,b=10,c=100", r, "w", 2, "R S(0) S(1) S(0)");
	ck_box_walk_begin(&w);
	ok(w.ends[0] == 1 && w.ends[1] == 7 && w.ends[2] == 3 &&
	   w.ends[3] == 1);
	while (ck_box_walk_next(&w, &rank, box)) {
		ok(rank == (uint64_t)box[0] * 1000 + (uint64_t)box[1] * 100);
		n++;
	}
	eq_u64(n, 21);
	ck_place_rules_free(r);
}

int main(void)
{
	test_chunks();
	test_defaults();
	test_rules();
	test_found();
	test_bad_rules();
	test_order();
	test_random();
	test_long_walk();
	return tap_done();
}
