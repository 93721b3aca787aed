/* SPDX-License-Identifier: MIT */
/*
 * State that optimizers keep under numbers is shown as state of the parameters that a sidecar
 * names, case by case. flat_files.h writes the files of ranks, flat_shown.h compares the tree
 * and local/. flat_state_random_test.c has random cases.
 */
#include "flat_shown.h"

static const int64_t shape_w[] = { 3, 4 }, shape_b[] = { 5 };

/* Puts a rank's part of 21 elements in four ranks; element 0 has the value `first`. */
static void put_part(struct file *f, unsigned rank, uint32_t first,
		     const char *dims)
{
	uint32_t v[12];

	for (unsigned i = 0; i < 6; i++)
		v[i] = rank * 6 + i < 21 ? first + rank * 6 + i : PADDING;
	for (unsigned i = 6; i < 12; i++)
		v[i] = PADDING;
	put(f, v, strcmp(dims, ":0:6:2") == 0 ? 12 : 6, dims);
}

/* Opens a checkpoint of four ranks, whose files have a part between `before` and `behind`. */
static struct ck_checkpoint *four(const char *before, const char *dims,
				  const char *behind)
{
	files_begin("o", 4);
	for (unsigned r = 0; r < 4; r++) {
		say(&files[r], before);
		put_part(&files[r], r, 100, dims);
		say(&files[r], behind);
	}
	files_write();
	return opened();
}

/* A checkpoint whose file has the usual keys of optimizers. */
static struct ck_checkpoint *plain(unsigned world, const char *units,
				   const char *optimizers)
{
	side_put(world, units, optimizers);
	return four("{ ( 'state { ( 0 { ( 'm", "",
		    "u u 'param_groups [ ( { 'lr 1 s e u");
}

static bool is_by_number(const struct ck_catalog *c)
{
	return whole(c, "state.0.m") && !whole(c, "state.w.m") &&
	       !whole(c, "state.b.m");
}

static void test_cut(void)
{
	struct ck_checkpoint *cp = plain(4, UNIT, "[\"_flat_param\"]");

	ok(is_run(cp->catalog, "state.w.m", 2, shape_w, 100));
	ok(is_run(cp->catalog, "state.b.m", 1, shape_b, 113));
	ok(!whole(cp->catalog, "state.0.m"));
	eq_u64(cp->catalog->nlosses, 0);
	ok(is_local_as_without(cp->catalog));
	ck_checkpoint_close(cp);
	files_end();
}

/* A sidecar that belongs to another job, or is incomplete. */
static void test_fits(void)
{
	static const struct {
		unsigned world;
		const char *unit, *optimizer, *said;
	} cases[] = {
		{ 4, UNIT, "[]", "of which the sidecar has 0" },
		{ 4, UNIT, "[\"w\"]", NULL },
		{ 2, UNIT, "[\"_flat_param\"]", "length of a rank's part" },
		{ 3, UNIT, "[\"_flat_param\"]", "length of a rank's part" },
		{ 8, UNIT, "[\"_flat_param\"]", "length of a rank's part" },
		{ 4, "", "", NULL },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct ck_checkpoint *cp = plain(cases[i].world, cases[i].unit,
						 cases[i].optimizer);

		printf("# case %zu\n", i);
		ok(is_by_number(cp->catalog));
		ok(!cases[i].said || is_said(cp->catalog, cases[i].said));
		ok(is_local_as_without(cp->catalog));
		ck_checkpoint_close(cp);
		files_end();
	}
}

/* World size and ranks are known from the files, or the rank is unknown. */
static void test_ranks(void)
{
	struct ck_checkpoint *cp = plain(0, UNIT, "[\"_flat_param\"]");

	ok(is_run(cp->catalog, "state.w.m", 2, shape_w, 100));
	ck_checkpoint_close(cp);
	files_end();
	/* A single file, whose rank is not known. */
	side_put(4, UNIT, "[\"_flat_param\"]");
	files_begin("o", 1);
	say(&files[0], "{ ( 'state { ( 0 { ( 'm");
	put_part(&files[0], 2, 100, "");
	say(&files[0], "u u u");
	files_write();
	cp = opened();
	ok(is_by_number(cp->catalog));
	ck_checkpoint_close(cp);
	files_end();
}

/* Parts with a stride are not combined. */
static void test_strided(void)
{
	struct ck_checkpoint *cp;

	side_put(4, UNIT, "[\"_flat_param\"]");
	cp = four("{ ( 'state { ( 0 { ( 'm", ":0:6:2", "u u u");
	ok(is_by_number(cp->catalog));
	ok(is_local_as_without(cp->catalog));
	ck_checkpoint_close(cp);
	files_end();
}

/* A derived name that a file already has gets the suffix `~2`. */
static void test_names_taken(void)
{
	struct ck_checkpoint *cp;

	side_put(4, UNIT, "[\"_flat_param\"]");
	cp = four("{ ( 'state { ( 0 { ( 'm", "", "u 'w { 'm 5 s u u");
	ok(has_object(cp->catalog, "state.w.m"));
	ok(is_run(cp->catalog, "state.w.m~2", 2, shape_w, 100));
	ok(is_local_as_without(cp->catalog));
	ck_checkpoint_close(cp);
	files_end();
	/* The name of one parameter is the number of another. */
	side_put(4, UNIT_AT("_flat_param", "1", "0"), "[\"_flat_param\"]");
	cp = four("{ ( 'state { ( 0 { ( 'm", "", "u u u");
	ok(is_run(cp->catalog, "state.1.m", 2, shape_w, 100));
	ok(is_run(cp->catalog, "state.0.m~2", 1, shape_b, 113));
	ok(is_local_as_without(cp->catalog));
	ck_checkpoint_close(cp);
	files_end();
}

/* Other dictionaries with a key `state` are not optimizers. */
static void test_which(void)
{
	struct ck_checkpoint *cp;

	side_put(4, UNIT, "[\"_flat_param\"]");
	cp = four("{ ( 'loader { 'state { ( 0 7 1 8 u s "
		  "'named { ( 'state { 'w { 'm 1 s s 'param_groups [ u "
		  "'optim { ( 'state { ( 0 { ( 'm",
		  "", "u u 'param_groups [ u u");
	ok(has_object(cp->catalog, "loader.state.0"));
	ok(has_object(cp->catalog, "named.state.w.m"));
	ok(is_run(cp->catalog, "optim.state.b.m", 1, shape_b, 113));
	eq_u64(cp->catalog->nlosses, 0);
	ck_checkpoint_close(cp);
	files_end();
	/* Keys that are not numbers, and a number that is too large. */
	side_put(4, UNIT, "[\"_flat_param\"]");
	cp = four("{ ( 'state { ( -1 { 'e 1 s '0 { 'e 2 s T { 'e 3 s 0 { ( 'm",
		  "", "u u u");
	ok(has_object(cp->catalog, "state.-1.e"));
	ok(has_object(cp->catalog, "state.0.e"));
	ok(has_object(cp->catalog, "state.True.e"));
	ok(is_run(cp->catalog, "state.w.m", 2, shape_w, 100));
	ck_checkpoint_close(cp);
	files_end();
	side_put(4, UNIT, "[\"_flat_param\"]");
	cp = four("{ ( 'state { ( 9223372036854775807 { 'e 1 s 0 { ( 'm", "",
		  "u u u");
	ok(is_by_number(cp->catalog));
	ok(is_said(cp->catalog, "number 9223372036854775807"));
	ck_checkpoint_close(cp);
	files_end();
}

/* If ranks disagree on a value, it stays under its number. */
static void test_disagree(void)
{
	static const char *const odd[] = {
		"5", "N", "[ ( 1 e", "+0:6:0:2,3:3,1", "+0:6:0:4:1", "+0:6:1::",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(odd); i++) {
		struct ck_checkpoint *cp;

		side_put(4, UNIT, "[\"_flat_param\"]");
		files_begin("o", 4);
		for (unsigned r = 0; r < 4; r++) {
			say(&files[r], "{ 'state { 0 { ( 'x");
			put_part(&files[r], r, 100, "");
			say(&files[r], "'m");
			say(&files[r], r == 2 ? odd[i] : "+0:6");
			say(&files[r], "u s s");
		}
		files_write();
		cp = opened();
		printf("# %s\n", odd[i]);
		ok(!whole(cp->catalog, "state.w.m"));
		ok(!has_object(cp->catalog, "state.w.m"));
		ok(is_run(cp->catalog, "state.w.x", 2, shape_w, 100));
		ok(is_local_as_without(cp->catalog));
		ck_checkpoint_close(cp);
		files_end();
	}
}

/* Values that all ranks have, and a number that is in no unit. */
static void test_others(void)
{
	static const int64_t four_long[] = { 4 };
	struct ck_checkpoint *cp;

	side_put(4, UNIT, "[\"_flat_param\",\"plain\"]");
	files_begin("o", 4);
	for (unsigned r = 0; r < 4; r++) {
		uint32_t v[4] = { 50 + r, 51 + r, 52 + r, 53 + r };

		say(&files[r], "{ 'state { ( 0 { ( 'm");
		put_part(&files[r], r, 100, "");
		say(&files[r], "'n 'text 'step");
		put_one(&files[r], 70 + r);
		say(&files[r], "'table");
		put(&files[r], v, 4, "");
		say(&files[r], "u 1 { ( 'm");
		put(&files[r], v, 4, "");
		say(&files[r], "'n N u u s");
	}
	files_write();
	cp = opened();
	ok(is_run(cp->catalog, "state.b.m", 1, shape_b, 113));
	ok(is_run(cp->catalog, "state.b.step", 0, NULL, 70));
	ok(is_run(cp->catalog, "state.w.table", 1, four_long, 50));
	ok(is_run(cp->catalog, "state.plain.m", 1, four_long, 50));
	ok(has_object(cp->catalog, "state.w.n"));
	ok(has_object(cp->catalog, "state.plain.n"));
	ok(!has_object(cp->catalog, "state.0.n"));
	ok(is_local_as_without(cp->catalog));
	ck_checkpoint_close(cp);
	files_end();
}

/* A tensor that is malformed on all ranks gives one loss for each, with and without a sidecar. */
static void test_malformed(void)
{
	for (int with = 0; with < 2; with++) {
		struct ck_checkpoint *cp;

		if (with)
			side_put(4, UNIT, "[\"_flat_param\"]");
		cp = four(
			"{ ( 'state { ( 0 { ( 'm", "",
			"'bad @torch._utils:_rebuild_tensor_v2 ( 1 t R u u u");
		eq_u64(cp->catalog->nlosses, 4);
		ok((whole(cp->catalog, "state.w.m") != NULL) == with);
		ck_checkpoint_close(cp);
		files_end();
	}
}

/* --- limits ------------------------------------------------------------------------------ */

static uint64_t bytes_of_names(const struct ck_catalog *c)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < c->tensors.n; i++)
		n += ck_catalog_tensor(c, i)->entry.key.len;
	for (uint32_t i = 0; i < c->objects.n; i++)
		n += ck_catalog_object(c, i)->entry.key.len;
	return n;
}

/* A file with many states of one number, a unit with many parameters, or with long names. */
static void limited(unsigned states, unsigned params, unsigned longer)
{
	struct ck_buf units = { 0 };
	struct ck_checkpoint *cp;

	ck_buf_printf(&units, "{\"flat_param\":\"f\",\"numel\":%u,\"params\":[",
		      params);
	for (unsigned i = 0; i < params; i++)
		ck_buf_printf(
			&units,
			"%s{\"fqn\":\"%0*u\",\"shape\":[1],\"offset\":%u}",
			i ? "," : "", (int)longer, i, i);
	ck_buf_text(&units, "]}");
	side_put(1, units.data, "[\"f\"]");
	ck_buf_fini(&units);
	files_begin("o", 1);
	say(&files[0], "{ 'state { 0 { (");
	for (unsigned i = 0; i < states; i++)
		ck_buf_printf(&files[0].words, " 's%u 1", i);
	say(&files[0], "u s s");
	files_write();
	cp = opened();
	printf("# %" PRIu64 " entries, %" PRIu64 " bytes of names\n",
	       (uint64_t)cp->catalog->objects.n, bytes_of_names(cp->catalog));
	ok(cp->catalog->objects.n < 200000);
	ok(bytes_of_names(cp->catalog) < 16 << 20);
	ok(is_said(cp->catalog, "makes more parameters"));
	eq_u64(cp->catalog->nlosses, 1);
	ck_checkpoint_close(cp);
	files_end();
}

static void test_limits(void)
{
	limited(600, 600, 4);
	limited(2000, 1, 200000);
}

int main(void)
{
	tc_begin();
	test_cut();
	test_fits();
	test_ranks();
	test_strided();
	test_names_taken();
	test_which();
	test_disagree();
	test_others();
	test_malformed();
	test_limits();
	return tc_end();
}
