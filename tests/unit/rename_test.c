/* SPDX-License-Identifier: MIT */
/*
 * rename: maps of names that are refused, and why; random maps against the rules, applied line
 * by line; a map that outlives an edit; many lines for many names.
 */
#include "catalogs.h"
#include "tap.h"

#include <errno.h>

enum { ROUNDS = 500, LINES = 8, NAMES = 12, WIDTH = 8, MANY = 100000 };

static const struct {
	const char *text, *why; /* NULL: accepted */
} maps[] = {
	{ "", NULL },
	{ "\n#a\tb\tc\n\r\na\tb\n\nc*\td*", NULL },
	{ "a\tb\r\nb\ta", NULL },
	{ "*\tmodel.*", NULL },
	{ "a\tb\na*\tb*", NULL },
	{ "#\n\na", "line 3: expected OLD, one tab, NEW" },
	{ "a\tb\tc", "line 1: expected OLD, one tab, NEW" },
	{ "a b", "line 1: expected OLD, one tab, NEW" },
	{ "a\tb\n\tc", "line 2: an empty name" },
	{ "a\t", "line 1: an empty name" },
	{ "a\t\r\n", "line 1: an empty name" },
	{ "a*\tb", "line 1: only one of the two names ends in *" },
	{ "a\tb*", "line 1: only one of the two names ends in *" },
	{ "a*b\tc", "line 1: * is possible only at the end" },
	{ "a\tb*c", "line 1: * is possible only at the end" },
	{ "a**\tb*", "line 1: * is possible only at the end" },
	{ "a\tb\nx\ty\na\tc",
	  "lines 1 and 3 have the same old name: a -> b, a -> c" },
	{ "a\tb\nc\tb",
	  "lines 1 and 2 have the same new name: a -> b, c -> b" },
	{ "a*\tb*\nc*\tb*", "lines 1 and 2 have the same new name" },
};

static const struct ck_renames *map_of(const char *text, size_t len)
{
	const struct ck_renames *m;

	must(ck_renames_parse((struct ck_str){ text, len }, &m, NULL));
	return m;
}

static void test_texts(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(maps); i++) {
		const struct ck_renames *m;
		struct ck_diag d = { 0 };
		int rc = ck_renames_parse(ck_str_from(maps[i].text), &m, &d);

		eq_err(rc, maps[i].why ? -EBADMSG : 0);
		ok(!maps[i].why || strstr(d.text, maps[i].why));
		ok((m != NULL) == (rc == 0));
		ck_renames_put(m);
	}
}

/* --- random maps ------------------------------------------------------------------------ */

static uint32_t drawn(uint64_t *seed, uint32_t below)
{
	*seed = *seed * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(*seed >> 33) % below;
}

/* Short names of few letters, so that many begin as others do. */
static void word(uint64_t *seed, char out[static WIDTH])
{
	uint32_t len = 1 + drawn(seed, 4);

	for (uint32_t i = 0; i < len; i++)
		out[i] = (char)('a' + drawn(seed, 2));
	out[len] = 0;
}

struct drawn_line {
	char from[WIDTH], to[WIDTH];
	bool star;
};

/* By the rules: of all lines that apply the one for a name, else the longest. */
static bool expected(const struct drawn_line *lines, size_t n, const char *name,
		     char out[static 2 * WIDTH])
{
	const struct drawn_line *best = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct drawn_line *l = &lines[i];
		size_t len = strlen(l->from);

		if (l->star ? strncmp(name, l->from, len) != 0
			    : strcmp(name, l->from) != 0)
			continue;
		if (!best || !l->star ||
		    (best->star && len > strlen(best->from)))
			best = l;
	}
	(void)snprintf(out, 2 * WIDTH, "%s%s", best ? best->to : name,
		       best ? name + strlen(best->from) : "");
	return best != NULL;
}

/* Lines that no other one repeats, as text, too. */
static size_t lines_draw(uint64_t *seed, struct drawn_line *lines,
			 struct ck_buf *text)
{
	size_t n = 0;

	for (uint32_t i = drawn(seed, LINES + 1); i > 0; i--) {
		struct drawn_line *l = &lines[n];
		bool again = false;

		word(seed, l->from);
		word(seed, l->to);
		l->star = drawn(seed, 2);
		for (size_t k = 0; k < n; k++)
			again |= lines[k].star == l->star &&
				 (strcmp(lines[k].from, l->from) == 0 ||
				  strcmp(lines[k].to, l->to) == 0);
		if (again)
			continue;
		ck_buf_printf(text, "%s%s\t%s%s\n", l->from, l->star ? "*" : "",
			      l->to, l->star ? "*" : "");
		n++;
	}
	return n;
}

static size_t names_draw(uint64_t *seed, struct ck_catalog *c,
			 char names[][WIDTH])
{
	size_t n = 0;

	for (uint32_t i = 1 + drawn(seed, NAMES - 1); i > 0; i--) {
		bool again = false;

		word(seed, names[n]);
		for (size_t k = 0; k < n; k++)
			again |= strcmp(names[k], names[n]) == 0;
		if (!again)
			tensor_add(c, names[n++], "float32", 1, DIMS(0));
	}
	return n;
}

/* 1: the names are as expected; 0: two of them are equal, and both are named. */
static int one_map(uint64_t *seed)
{
	struct ck_catalog *c = catalog_new();
	struct drawn_line lines[LINES];
	char names[NAMES][WIDTH], now[NAMES][2 * WIDTH];
	struct ck_buf text = { 0 };
	struct ck_diag d = { 0 };
	size_t nlines = lines_draw(seed, lines, &text);
	size_t n = names_draw(seed, c, names), renamed = 0;
	const struct ck_renames *m = map_of(text.data, text.len);
	bool clash = false;
	int rc;

	for (size_t i = 0; i < n; i++) {
		renamed += expected(lines, nlines, names[i], now[i]);
		for (size_t k = 0; k < i; k++)
			clash |= strcmp(now[i], now[k]) == 0;
	}
	ck_catalog_rename(c, m);
	ck_renames_put(m);
	rc = ck_catalog_finish(c, &d);
	eq_err(rc, clash ? -EBADMSG : 0);
	ok(!clash || strstr(d.text, "would have the same name"));
	for (size_t i = 0; rc == 0 && i < n; i++) {
		eq_text(name_of(c, i), now[i]);
		eq_i64(ck_catalog_find(c, ck_str_from(now[i])), (int64_t)i);
	}
	eq_u64(rc ? 0 : c->listing->nrenamed, rc ? 0 : renamed);
	ck_buf_fini(&text);
	ck_catalog_put(c);
	return rc == 0;
}

static void test_random(void)
{
	uint64_t seed = 35;
	int good = 0;

	for (int i = 0; i < ROUNDS; i++)
		good += one_map(&seed);
	printf("# %d maps, %d applied\n", ROUNDS, good);
	ok(good > ROUNDS / 4 && good < ROUNDS * 19 / 20);
}

/* --- a catalog ---------------------------------------------------------------------------- */

/* Wrappers are removed first; unused lines are counted; an edit keeps the new names. */
static void test_catalog(void)
{
	struct ck_catalog *c = catalog_new(), *next;
	static const char text[] = "w\tv\nnone\tx\n_orig_mod.w\ty\nk*\tq/*\n";
	const struct ck_renames *m = map_of(text, sizeof(text) - 1);
	const struct ck_edit edit = { .kind = CK_EDIT_REMOVE, .number = 1 };
	struct ck_names names;

	tensor_add(c, "_orig_mod.w", "float32", 1, DIMS(0));
	tensor_add(c, "other", "float32", 1, DIMS(0));
	object_add(c, "k.1");
	ck_catalog_rename(c, m);
	ck_renames_put(m);
	finish(c);
	eq_text(name_of(c, 0), "v");
	names = ck_entry_names(c, 2);
	ok(ck_str_is(names.stem, "q%2F.1") && ck_str_is(names.key, "k.1"));
	eq_u64(c->nnotes, 1);
	ok(c->notes[0].doubt &&
	   ck_str_is(c->notes[0].text,
		     "rename: 2 of 4 lines apply to no name; the first is line "
		     "2: none"));
	next = ck_catalog_next(c);
	ck_catalog_put(c);
	must(ck_catalog_edit(next, &edit, 1, NULL));
	eq_text(name_of(next, 0), "v");
	eq_text(name_of(next, 1), "q/.1");
	ck_catalog_put(next);
}

static void test_many(void)
{
	struct ck_catalog *c = catalog_new();
	struct ck_buf text = { 0 };
	const struct ck_renames *m;
	char name[64];

	for (int i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "layers.%d.weight", i);
		tensor_add(c, name, "float32", 1, DIMS(0));
		ck_buf_printf(&text,
			      i % 2 ? "layers.%d.*\tlayers.%d.*\n"
				    : "layers.%d.weight\tlayers.%d.w\n",
			      i, MANY - 1 - i);
	}
	m = map_of(text.data, text.len);
	ck_buf_fini(&text);
	ck_catalog_rename(c, m);
	ck_renames_put(m);
	finish(c);
	eq_u64(c->listing->nrenamed, MANY);
	eq_text(name_of(c, 0), "layers.99999.w");
	eq_text(name_of(c, MANY - 1), "layers.0.weight");
	ck_catalog_put(c);
}

int main(void)
{
	test_texts();
	test_random();
	test_catalog();
	test_many();
	return tap_done();
}
