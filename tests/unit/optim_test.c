/* SPDX-License-Identifier: MIT */
/*
 * optim: the view optim/ over small catalogs: a table of entries, and the directories,
 * files and groups that they make. Values of objects are texts of the table. Parts of
 * paths are separated by `|`; `#` begins an int, and `[` an index.
 */
#include "catalogs.h"
#include "tap.h"
#include "view/optim/optim.h"
#include "view/view_internal.h"

#include <errno.h>

struct row {
	const char *path;  /* "key" without parts: no path */
	const char *value; /* JSON of an object; NULL: a tensor of 2 elements */
	int alias;	   /* 1 + tensor whose alias it is; or 0 */
};

enum { ROWS_MAX = 40 };

/* Values of the objects of a catalog, the error of each read, and the number of reads. */
static const char *values[ROWS_MAX];
static int read_error;
static bool read_transient;
static unsigned reads;

static int object_json(struct ck_checkpoint *cp, uint32_t object,
		       struct ck_buf *out, bool *transient)
{
	(void)cp;
	reads++;
	*transient = read_transient;
	if (read_error)
		return read_error;
	ck_buf_printf(out, "%s\n", values[object]);
	return 0;
}

/* --- catalogs ----------------------------------------------------------------------- */

static void part_set(struct ck_catalog *c, const char *text, size_t len,
		     struct ck_path_part *out)
{
	struct ck_str s = { text, len };
	uint8_t type = *text == '#'   ? CK_PATH_INT
		       : *text == '[' ? CK_PATH_INDEX
				      : CK_PATH_STR;

	if (type != CK_PATH_STR)
		s = (struct ck_str){ text + 1, len - 1 };
	must(ck_catalog_text_add(c, s, &s));
	*out = (struct ck_path_part){ s.p, (uint32_t)s.len, type };
}

static void path_set(struct ck_catalog *c, const char *path)
{
	struct ck_path_part *parts;
	uint32_t n = 1, i = 0;

	for (const char *at = path; *at; at++)
		n += *at == '|';
	if (n == 1)
		return;
	parts = ck_catalog_path_add(c, n);
	for (const char *at = path; i < n; i++) {
		size_t len = strcspn(at, "|");

		part_set(c, at, len, &parts[i]);
		at += len + 1;
	}
}

static void row_add(struct ck_catalog *c, const struct row *row)
{
	char key[256];

	snprintf(key, sizeof(key), "%s", row->path);
	for (char *at = key; *at; at++)
		*at = *at == '|' ? '.' : *at;
	if (row->value) {
		values[c->objects.n] = row->value;
		object_add(c, key);
	} else {
		tensor_add(c, key, "float32", 1, DIMS(2));
	}
	path_set(c, row->path);
	if (row->value)
		return;
	item_add(c, DIMS(0), DIMS(2), 0,
		 8UL * (row->alias ? (uint32_t)row->alias - 1 : c->chunks.n),
		 8);
	if (row->alias)
		must(ck_catalog_tensor_alias(c, (uint32_t)row->alias - 1));
}

static struct ck_catalog *catalog_of(const struct row *rows)
{
	struct ck_catalog *c = catalog_new();

	file_add(c, "f", 1 << 20, 0);
	for (; rows->path; rows++)
		row_add(c, rows);
	finish(c);
	return c;
}

/* --- the view ----------------------------------------------------------------------- */

static const void *view_make(const struct ck_catalog *c)
{
	static const struct ck_view_options none;
	const struct ck_view_source from = { .catalog = c,
					     .options = &none,
					     .objects = {
						     .json = object_json } };
	const void *state;

	must(ck_view_optim.make(&from, &state));
	return state;
}

static struct ck_dir top_of(const void *state)
{
	return (struct ck_dir){ .view = &ck_view_optim, .state = state };
}

/* Appends the files of a directory and beneath, in their order. Each must be found by
 * its name. */
static void dir_print(const struct ck_catalog *c, const struct ck_dir *dir,
		      const char *path, struct ck_buf *out)
{
	struct ck_child child = { 0 }, found = { 0 };
	struct ck_file_content about;

	for (uint64_t at = 0; ck_view_optim.next(c, dir, &at, &child) == 0;
	     at++) {
		struct ck_buf name = { 0 };

		ck_buf_text(&name, path);
		ck_view_optim.name(c, dir, child.entry, &name);
		ok(ck_view_optim.lookup(c, dir,
					ck_str_from(name.data + strlen(path)),
					&found) == 0 &&
		   found.entry == child.entry && found.type == child.type);
		if (child.type == CK_TYPE_DIR) {
			ck_buf_text(&name, "/");
			dir_print(c, &child.dir, name.data, out);
		} else {
			eq_err(ck_view_optim.stat(c, dir, child.entry, &about),
			       0);
			ck_buf_printf(out, "%s ", name.data);
		}
		ck_buf_fini(&name);
		child = found = (struct ck_child){ 0 };
	}
}

/* Appends the content of param_groups.json; "-ERRNO" if it cannot be opened. */
static void groups_print(const struct ck_catalog *c, const struct ck_dir *dir,
			 struct ck_buf *out)
{
	struct ck_child child = { 0 };
	struct ck_slice *slice = NULL;
	uint64_t size = 0;
	int rc = ck_view_optim.lookup(c, dir, CK_STR("param_groups.json"),
				      &child);

	if (rc)
		return;
	eq_err(ck_view_optim.size(c, dir, child.entry, &size), 0);
	rc = ck_view_optim.slice(c, dir, child.entry, &slice);
	if (rc) {
		ck_buf_printf(out, "%d", rc);
		return;
	}
	eq_u64(slice->size, size);
	ck_buf_add(out, ck_slice_part(slice, 0).at.bytes, size - 1);
	ck_slice_free(slice);
}

/* Compares the files, and the groups of the only optimizer. */
static void shows(const struct row *rows, const char *files, const char *groups)
{
	const struct ck_catalog *c = catalog_of(rows);
	const void *state = view_make(c);
	const struct ck_dir dir = top_of(state);
	struct ck_buf text = { 0 };

	reads = 0;
	ok(ck_view_optim.is_empty(c, state) == !*files);
	eq_u64(ck_view_optim.count(c, state), 0);
	eq_u64(reads, 0); /* nothing is read before a program looks into it */
	ck_buf_text(&text, "");
	dir_print(c, &dir, "", &text);
	eq_text(text.data ? text.data : "", files);
	text.len = 0;
	groups_print(c, &dir, &text);
	if (groups)
		eq_text(text.data ? text.data : "", groups);
	ck_buf_fini(&text);
	ck_view_optim.free(state);
	ck_catalog_put(c);
}

#define SHOWS(files, groups, ...)                                              \
	shows((const struct row[]){ __VA_ARGS__, { 0 } }, files, groups)

/* --- tests -------------------------------------------------------------------------- */

static void test_find(void)
{
	/* No optimizers. */
	SHOWS("", NULL, { "model|a", 0, 0 });
	SHOWS("", NULL, { "optim|a", 0, 0 }, { "optim", "1", 0 });
	SHOWS("", NULL, { "optim|state", "{}", 0 });
	SHOWS("", NULL, { "optim|state|#0", "{}", 0 });
	SHOWS("", NULL, { "state|#0|exp_avg", 0, 0 });
	SHOWS("", NULL, { "optim.state.w", 0, 0 });
	SHOWS("", NULL, { "optimum.state.w.exp_avg", 0, 0 });
	SHOWS("", NULL, { "lr|optim|state.", 0, 0 });
	/* Each name, in a list, nested, flattened, without a path. */
	SHOWS("by-id/0/m.npy ", NULL,
	      { "optimizer_states|[0|state|#0|m", 0, 0 });
	SHOWS("by-id/0/m.npy ", NULL, { "a|optimizer|state|#0|m", 0, 0 });
	SHOWS("by-name/a.w/m.npy ", NULL, { "optim|state.a.w.m", 0, 0 });
	SHOWS("by-name/a.w/m.npy ", NULL,
	      { "x.optimizers.3.state.a.w.m", 0, 0 });
	SHOWS("by-name/w/m.npy ", NULL,
	      { "optimizer_state_dict|state|w|m", 0, 0 });
	SHOWS("param_groups.json ", "[]", { "optim|param_groups", "[]", 0 });
	/* Several, of which the whole checkpoint is none. */
	SHOWS("optim.0/by-id/7/m.npy optim.1/param_groups.json ", NULL,
	      { "optim|[0|state|#7|m", 0, 0 },
	      { "optim|[1|param_groups|[0|lr", "1", 0 },
	      { "param_groups|[0|lr", "1", 0 });
	/* The whole checkpoint. */
	SHOWS("by-id/0/m.npy param_groups.json ", "[{\"lr\":1}]",
	      { "state|#0|m", 0, 0 }, { "param_groups|[0|lr", "1", 0 });
	/* Names of files: nested state, equal texts, odd characters. */
	SHOWS("by-name/%_/%_.npy by-id/0/p.0.npy by-id/0/p.0~2.npy "
	      "by-id/0/a%2Fb.json by-id/0/%_.npy ",
	      NULL, { "optim|state||", 0, 0 }, { "optim|state|#0|p|[0", 0, 0 },
	      { "optim|state|#0|p|#0", 0, 0 },
	      { "optim|state|#0|a/b", "null", 0 }, { "optim|state|#0|", 0, 0 });
}

static void test_split(void)
{
	/* The longest parameter that is known from the model or groups; else the last dot of
	 * the flattened part. */
	SHOWS("by-name/a.b/m.npy by-name/a/c.n.npy by-name/d.e/m.npy "
	      "by-name/f/p.0.npy ",
	      NULL, { "model|a", 0, 0 }, { "model|a.b", 0, 0 },
	      { "optim|state.a.b.m", 0, 0 }, { "optim|state.a.c.n", 0, 0 },
	      { "optim|state.d.e.m", 0, 0 }, { "optim|state.f.p|[0", 0, 0 });
	SHOWS("by-name/g.h/i.j.npy param_groups.json ",
	      "{\"g.h\":{\"lr\":1,\"b\":{\"c\":2}}}",
	      { "optim|state.g.h.i.j", 0, 0 },
	      { "optim|param_groups.g.h.lr", "1", 0 },
	      { "optim|param_groups.g.h.b|c", "2", 0 });
	/* Megatron has the name first. */
	SHOWS("by-name/a.b/m.npy by-name/x.y/exp_avg.npy "
	      "by-name/exp_avg/step.npy ",
	      NULL, { "model|a", 0, 0 }, { "model|a.b", 0, 0 },
	      { "optimizer.state.m.a.b", 0, 0 },
	      { "optimizer.state.exp_avg.x.y", 0, 0 },
	      { "optimizer.state.exp_avg.step", 0, 0 });
}

#define STATE_OF(key)                                                          \
	{                                                                      \
		"optim|state|" key "|m", 0, 0                                  \
	}

static void test_mapping(void)
{
	/* Ids in numeric order; texts are ids if the groups say so, or all are numbers. */
	SHOWS("by-id/2/m.npy by-id/9/m.npy by-id/10/m.npy ", NULL,
	      STATE_OF("#10"), STATE_OF("#9"), STATE_OF("#2"));
	SHOWS("by-id/0/m.npy by-id/1/m.npy ", NULL, STATE_OF("0"),
	      STATE_OF("1"));
	SHOWS("by-name/a/m.npy by-id/1/m.npy ", NULL, STATE_OF("[1"),
	      STATE_OF("a"));
	SHOWS("by-name/w/m.npy by-id/0/m.npy param_groups.json ",
	      "[{\"params\":[0]}]", STATE_OF("0"), STATE_OF("w"),
	      { "optim|param_groups|[0|params", "[0]", 0 });
	SHOWS("by-name/0/m.npy by-id/0/m.npy param_groups.json ", NULL,
	      STATE_OF("0"), { "optim|param_groups|[0|params", "[\"0\"]", 0 });
	SHOWS("by-name/0/m.npy param_groups.json ", "{\"0\":{\"lr\":1}}",
	      { "optim|state.0.m", 0, 0 },
	      { "optim|param_groups.0.lr", "1", 0 });
	/* Groups that list names: their order is that of ids. */
	SHOWS("by-name/b/m.npy by-name/a/m.npy by-id/0/m.npy by-id/2/m.npy "
	      "param_groups.json ",
	      NULL, STATE_OF("b"), STATE_OF("a"),
	      { "optim|param_groups|[1|params", "[\"b\"]", 0 },
	      { "optim|param_groups|[0|params", "[\"a\",\"c\"]", 0 });
	/* Names of ids. */
	SHOWS("by-name/x/m.npy by-id/4/m.npy param_groups.json ", NULL,
	      STATE_OF("#4"),
	      { "optim|param_groups|[0|params", "{\"$tuple\":[4,5]}", 0 },
	      { "optim|param_groups|[0|param_names", "[\"x\",\"y\"]", 0 });
	/* Without a path, groups are a list if they list parameters. */
	SHOWS("by-name/w.v/m.npy by-id/0/m.npy param_groups.json ",
	      "[null,{\"params\":[\"w.v\"],\"lr\":1}]",
	      { "optim.state.w.v.m", 0, 0 },
	      { "optim.param_groups.1.params", "[\"w.v\"]", 0 },
	      { "optim.param_groups.1.lr", "1", 0 });
	/* All groups are one object, as DCP before 2.4 has them. */
	SHOWS("by-name/x/m.npy by-id/3/m.npy param_groups.json ", NULL,
	      STATE_OF("#3"),
	      { "optim|param_groups",
		"[{\"lr\":{\"a\":[1]},\"params\":{\"$tuple\":[3]},"
		"\"param_names\":[\"x\"]}]",
		0 });
	SHOWS("by-name/w.v/m.npy by-id/1/m.npy param_groups.json ",
	      "[{\"params\":[\"u\"]},{\"params\":[\"w.v\"]}]",
	      { "optim.state.w.v.m", 0, 0 },
	      { "optim.param_groups",
		"[{\"params\":[\"u\"]},{\"params\":[\"w.v\"]}]", 0 });
	/* Wrappers are not shown; equal names are. */
	SHOWS("by-name/a.b/m.npy by-name/a.b~2/m.npy ", NULL,
	      STATE_OF("a._orig_mod.b"), STATE_OF("a.b"));
}

/* Lists from which no id and no name follows. */
static void test_no_mapping(void)
{
	static const char *const lists[][2] = {
		{ "[0,1]", "[\"a\"]" },
		{ "[0,0]", "[\"a\",\"b\"]" },
		{ "[0,1]", "[\"a\",\"a\"]" },
		{ "[0,1]", "[\"a\",2]" },
		{ "[0,1.0]", "[\"a\",\"b\"]" },
		{ "[0,-1]", "[\"a\",\"b\"]" },
		{ "[1]", "[\"a\"]" },
		{ "{\"a\":[0]}", "[\"a\"]" },
		{ "[0,\"a\"]", "[\"a\",\"b\"]" },
		{ "[0", "[\"a\"]" },
		{ "", "" },
	};

	static const char *const wholes[] = {
		"",
		"1",
		"[1]",
		"[{\"params\":[\"a\"]},1]",
		"[{\"params\":1}]",
		"[{\"params\":[\"a\"]},{\"lr\":1}]",
		"[{\"params\":[\"a\"]}",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(lists); i++)
		SHOWS("by-id/0/m.npy param_groups.json ", NULL, STATE_OF("#0"),
		      { "optim|param_groups|[0|params", lists[i][0], 0 },
		      { "optim|param_groups|[0|param_names", lists[i][1], 0 });
	for (size_t i = 0; i < CK_ARRAY_SIZE(wholes); i++)
		SHOWS("by-name/a/m.npy param_groups.json ", NULL, STATE_OF("a"),
		      { "optim|param_groups", wholes[i], 0 });
	/* A parameter with state that the groups lack. */
	SHOWS("by-name/a/m.npy by-name/b/m.npy param_groups.json ", NULL,
	      STATE_OF("a"), STATE_OF("b"),
	      { "optim|param_groups|[0|params", "[\"a\"]", 0 });
	/* Flat parameters have no ids. */
	SHOWS("by-name/a._flat_param/m.npy param_groups.json ", NULL,
	      STATE_OF("a._flat_param"),
	      { "optim|param_groups|[0|params", "[\"a._flat_param\"]", 0 });
}

static void test_shared(void)
{
	SHOWS("by-name/b/m.npy by-name/d/m.npy by-name/e/m.npy by-name/a/m.npy "
	      "by-name/c/m.npy ",
	      NULL, { "model|a", 0, 0 }, { "model|b", 0, 1 },
	      { "model|c", 0, 1 }, { "model|d", 0, 0 }, { "model|e", 0, 4 },
	      STATE_OF("b"), STATE_OF("d"), STATE_OF("e"));
}

static void test_groups(void)
{
	/* Nested values, keys that are not plain texts, tensors, positions without a value,
	 * and references, which point into the whole text. */
	SHOWS("param_groups.json ",
	      "[null,null,{\"a/~\":[{\"$ref\":\"/2/a~1~0/0\"}],"
	      "\"b\":{\"$dict\":[[0,{\"$ref\":\"/2/b/$dict/0/1\"}],"
	      "[\"$x\",2.0]]},"
	      "\"t\":{\"$tensor\":{\"dtype\":\"float32\",\"shape\":[2]}}}]",
	      { "optim|param_groups|[2|a/~|[0", "{\"$ref\":\"\"}", 0 },
	      { "optim|param_groups|[2|b|#0", "{\"$ref\":\"\"}", 0 },
	      { "optim|param_groups|[2|t", 0, 0 },
	      { "optim|param_groups|[2|b|$x", "2.0", 0 });
	/* Paths that contradict each other, or are absurd. */
	SHOWS("param_groups.json ", "-74", { "optim|param_groups|[0", "{}", 0 },
	      { "optim|param_groups|[0|lr", "1", 0 });
	SHOWS("param_groups.json ", "-74",
	      { "optim|param_groups|[0|lr", "1", 0 },
	      { "optim|param_groups|x|lr", "1", 0 });
	SHOWS("param_groups.json ", "-74",
	      { "optim|param_groups|[99999999|lr", "1", 0 });
	SHOWS("param_groups.json ", "-74",
	      { "optim|param_groups|[99999999999999999999|lr", "1", 0 });
}

/* A transient error is not kept, a lost list is. */
static void test_errors(void)
{
	static const struct row rows[] = {
		STATE_OF("a"),
		{ "optim|param_groups|[0|params", "[\"a\"]", 0 },
		{ 0 },
	};
	const struct ck_catalog *c = catalog_of(rows);
	const void *state = view_make(c);
	const struct ck_dir dir = top_of(state);
	struct ck_child child = { 0 };

	read_error = -EIO;
	read_transient = true;
	eq_err(ck_view_optim.lookup(c, &dir, CK_STR("by-id"), &child), -EIO);
	read_error = 0;
	read_transient = false;
	eq_err(ck_view_optim.lookup(c, &dir, CK_STR("by-id"), &child), 0);
	ok(ck_view_optim.count(c, state) == 7);
	ck_view_optim.free(state);
	read_error = -ENODATA;
	state = view_make(c);
	shows(rows, "by-name/a/m.npy param_groups.json ", "-61");
	read_error = 0;
	ck_view_optim.free(state);
	ck_catalog_put(c);
}

/* Another catalog of the same mount: a path keeps its number, and a directory that it
 * lacks is gone. */
static void test_paths(void)
{
	static const struct row old[] = { STATE_OF("a"), STATE_OF("b"), { 0 } };
	static const struct row new[] = { STATE_OF("c"), STATE_OF("b"), { 0 } };
	const struct ck_catalog *c = catalog_of(old), *d = catalog_of(new);
	const void *state = view_make(c);
	struct ck_dir dir = top_of(state);
	struct ck_child by_name = { 0 }, b = { 0 }, a = { 0 }, found = { 0 };
	uint64_t at = 0;

	eq_err(ck_view_optim.lookup(c, &dir, CK_STR("by-name"), &by_name), 0);
	eq_err(ck_view_optim.lookup(c, &by_name.dir, CK_STR("a"), &a), 0);
	eq_err(ck_view_optim.lookup(c, &by_name.dir, CK_STR("b"), &b), 0);
	eq_err(ck_view_optim.lookup(d, &by_name.dir, CK_STR("b"), &found), 0);
	eq_u64(found.entry, b.entry);
	eq_err(ck_view_optim.lookup(d, &by_name.dir, CK_STR("a"), &found),
	       -ENOENT);
	eq_err(ck_view_optim.next(d, &a.dir, &at, &found), -ENOENT);
	eq_err(ck_view_optim.next(c, &a.dir, &at, &found), 0);
	ck_view_optim.free(state);
	ck_catalog_put(c);
	ck_catalog_put(d);
}

/* So many directories are listed without numbers. */
static void test_many(void)
{
	struct ck_catalog *c = catalog_new();
	const void *state;
	struct ck_dir dir;
	struct ck_child child = { 0 };
	uint64_t at = 0, n = 0;
	char key[64];

	file_add(c, "f", 1 << 30, 0);
	for (uint32_t i = 0; i < 5000; i++) {
		snprintf(key, sizeof(key), "optim.state.w%u.exp_avg", i);
		tensor_add(c, key, "float32", 1, DIMS(2));
		item_add(c, DIMS(0), DIMS(2), 0, i * 8UL, 8);
	}
	finish(c);
	state = view_make(c);
	dir = top_of(state);
	eq_err(ck_view_optim.lookup(c, &dir, CK_STR("by-name"), &child), 0);
	dir = child.dir;
	for (; ck_view_optim.next(c, &dir, &at, &child) == 0; at++)
		n += !child.dir.view;
	eq_u64(n, 5000);
	eq_err(ck_view_optim.lookup(c, &dir, CK_STR("w4999"), &child), 0);
	ok(child.dir.view == &ck_view_optim);
	ck_view_optim.free(state);
	ck_catalog_put(c);
}

int main(void)
{
	test_find();
	test_split();
	test_mapping();
	test_no_mapping();
	test_shared();
	test_groups();
	test_errors();
	test_paths();
	test_many();
	return tap_done();
}
