/* SPDX-License-Identifier: MIT */
/*
 * Trees that nobody else has: with the view of view_example.c beside those of the
 * mount, without a change anywhere else; and with two checkpoints below names, each
 * with its own bytes, attributes and versions.
 *
 *	roots_test DIRECTORY DIRECTORY	two checkpoints
 */
#include "commit_again.h"
#include "read_case.h"
#include "shell.h"
#include "tap.h"
#include "tree_walk.h"
#include "view_example.h"

#include <errno.h>
#include <unistd.h>

enum { RUNS = 2 };

static char dir[] = "/tmp/ckptfs-roots-XXXXXX";
static struct ck_checkpoint *cps[RUNS];
static struct ck_root *roots[RUNS];
static const struct ck_tree_options options[RUNS] = {
	{ .umask = 022 }, { .umask = 077, .have_uid = true, .uid = 7 }
};

/* --- the example ------------------------------------------------------------- */

static void bytes_of(struct ck_tree *t, uint64_t in, const char *name,
		     struct ck_buf *out)
{
	const struct ck_catalog *of;
	struct ck_node_stat st;
	struct ck_slice *s;

	eq_err(tree_lookup(t, in, ck_str_from(name), &st), 0);
	if (tree_slice(t, st.number, &of, &s)) {
		ok(false);
		return;
	}
	eq_u64(s->size, st.size);
	if (s->size)
		ck_buf_add(out, ck_slice_part(s, 0).at.bytes, s->size);
	ck_slice_free(s);
	ck_catalog_put(of);
	ck_tree_forget(t, st.number, 1);
}

/* One of the texts, against the bytes that raw/ has. */
static unsigned compare(struct ck_tree *t, uint64_t in, uint32_t tensor)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cps[0]);
	const struct ck_tensor *x = ck_catalog_tensor(c, tensor);
	ck_auto_free uint8_t *all = calloc(1, x->nbytes + 1);
	struct ck_buf got = { 0 }, want = { 0 };
	char name[300];

	eq_err(read_case(cps[0], tensor, NULL, all), 0);
	for (unsigned i = 0; x->nbytes && i < ck_dtype_at(x->dtype)->size; i++)
		ck_buf_printf(&want, "%02x", (unsigned)all[i]);
	ck_buf_text(&want, x->nbytes ? "\n" : "");
	snprintf(name, sizeof(name), "%s.txt",
		 ck_show(ck_tensor_names(c, tensor).stem));
	bytes_of(t, in, name, &got);
	eq_text(got.data ? got.data : "", want.data ? want.data : "");
	ck_buf_fini(&got);
	ck_buf_fini(&want);
	return x->nbytes != 0;
}

static void count(void *arg, const char *path, const struct ck_node_stat *st)
{
	unsigned *n = arg;

	(void)st;
	*n += strncmp(path, "/first/", 7) == 0;
}

static void test_example(void)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cps[0]);
	const struct ck_view *const views[] = { ck_views[0], ck_views[1],
						&view_example.view };
	unsigned listed = 0, texts = 0;
	struct ck_node_stat in;
	struct ck_root *root;
	struct ck_tree *t;

	eq_err(ck_root_make(cps[0], views, 3, &options[0], &root), 0);
	eq_err(ck_tree_make(root, &t), 0);
	eq_u64(tree_walk(t, CK_TREE_ROOT, "", count, &listed), 0);
	eq_u64(listed, c->tensors.n);
	eq_err(tree_lookup(t, CK_TREE_ROOT, CK_STR("first"), &in), 0);
	for (uint32_t i = 0; i < c->tensors.n; i++)
		texts += compare(t, in.number, i);
	ok(texts > 0);
	ck_tree_free(t);
	ck_root_free(root);
}

/* --- two checkpoints --------------------------------------------------------------- */

static int runs_lookup(const struct ck_catalog *c, const struct ck_dir *d,
		       struct ck_str name, struct ck_child *out)
{
	(void)c, (void)d;
	if (name.len != 5 || memcmp(name.p, "run-", 4) != 0 ||
	    name.p[4] < '0' || name.p[4] >= '0' + RUNS)
		return -ENOENT;
	out->type = CK_TYPE_DIR;
	out->entry = (uint32_t)(name.p[4] - '0');
	out->dir = ck_root_dir(roots[out->entry]);
	return 0;
}

static int runs_next(const struct ck_catalog *c, const struct ck_dir *d,
		     uint64_t *at, struct ck_child *out)
{
	(void)c, (void)d;
	if (*at >= RUNS)
		return -ENOENT;
	*out = (struct ck_child){ .type = CK_TYPE_DIR,
				  .entry = (uint32_t)*at,
				  .dir = ck_root_dir(roots[*at]) };
	return 0;
}

static void runs_name(const struct ck_catalog *c, const struct ck_dir *d,
		      uint32_t entry, struct ck_buf *out)
{
	(void)c, (void)d;
	ck_buf_printf(out, "run-%u", entry);
}

static int runs_stat(const struct ck_catalog *c, const struct ck_dir *d,
		     uint32_t entry, struct ck_file_content *out)
{
	(void)c, (void)d, (void)entry, (void)out;
	return -ENOENT;
}

static const struct ck_view runs = { .top = "runs",
				     .lookup = runs_lookup,
				     .next = runs_next,
				     .name = runs_name,
				     .stat = runs_stat };

static void print_path(void *arg, const char *path,
		       const struct ck_node_stat *st)
{
	struct ck_buf *out = arg;
	/* Its size depends on earlier reads. */
	bool counts = strstr(path, "/.ckptfs/stats") != NULL;

	ck_buf_printf(out, "%s %" PRIu64 " %o %u\n", path,
		      counts ? 0 : st->size, st->mode, st->uid);
}

/* Below its name each is what it is as a tree of its own. */
static void compare_run(struct ck_tree *t, uint64_t in, unsigned i)
{
	struct ck_buf alone = { 0 }, below = { 0 };
	struct ck_node_stat st;
	struct ck_tree *own;
	char name[16], path[24];

	snprintf(name, sizeof(name), "run-%u", i);
	eq_err(ck_tree_make(roots[i], &own), 0);
	eq_u64(tree_walk(own, CK_TREE_ROOT, "", print_path, &alone), 0);
	eq_err(tree_lookup(t, in, ck_str_from(name), &st), 0);
	eq_u64(st.uid, i ? 7 : (uint64_t)getuid());
	snprintf(path, sizeof(path), "/runs/%s", name);
	eq_u64(tree_walk(t, st.number, path, print_path, &below), 0);
	/* The longer path is the only difference. */
	for (char *at = below.data, *end; at && *at; at = end + 1) {
		end = strchr(at, '\n');
		memmove(at, at + strlen(path), strlen(at + strlen(path)) + 1);
		end -= strlen(path);
	}
	eq_text(below.data, alone.data);
	ok(strlen(alone.data) > 100);
	ck_tree_free(own);
	ck_buf_fini(&alone);
	ck_buf_fini(&below);
}

static uint64_t number_of(struct ck_tree *t, uint64_t in, const char *run)
{
	unsigned i = (unsigned)(run[4] - '0');
	ck_auto_catalog *c = ck_checkpoint_catalog(cps[i]);
	struct ck_node_stat st;

	eq_err(tree_lookup(t, in, ck_str_from(run), &st), 0);
	eq_err(tree_lookup(t, st.number, CK_STR("raw"), &st), 0);
	eq_err(tree_lookup(t, st.number, ck_tensor_names(c, 0).stem, &st), 0);
	return st.number;
}

static void test_runs(void)
{
	const struct ck_view *const views[] = { &runs };
	const struct ck_catalog *of;
	struct ck_node_stat in;
	struct ck_slice *s;
	struct ck_root *root;
	struct ck_tree *t;
	uint64_t a, b;

	for (unsigned i = 0; i < RUNS; i++)
		eq_err(ck_root_make(cps[i], ck_views, ck_nviews, &options[i],
				    &roots[i]),
		       0);
	eq_err(ck_root_make(cps[0], views, 1, &options[0], &root), 0);
	eq_err(ck_tree_make(root, &t), 0);
	eq_err(tree_lookup(t, CK_TREE_ROOT, CK_STR("runs"), &in), 0);
	for (unsigned i = 0; i < RUNS; i++)
		compare_run(t, in.number, i);
	/* A commit to one changes nothing of the other. */
	a = number_of(t, in.number, "run-0");
	b = number_of(t, in.number, "run-1");
	ok(commit_again(cps[1], 0));
	eq_u64(number_of(t, in.number, "run-0"), a);
	ok(number_of(t, in.number, "run-1") != b);
	eq_err(tree_slice(t, a, &of, &s), 0);
	ok(of == cps[0]->catalog);
	ck_slice_free(s);
	ck_catalog_put(of);
	eq_err(tree_slice(t, b, &of, &s), -ESTALE);
	ck_tree_free(t);
	ck_root_free(root);
	for (unsigned i = 0; i < RUNS; i++)
		ck_root_free(roots[i]);
}

int main(int argc, char **argv)
{
	static const struct ck_format_options writes = { .write = true };
	char path[64];

	if (argc != 1 + RUNS || !mkdtemp(dir))
		return 2;
	for (int i = 0; i < RUNS; i++) {
		snprintf(path, sizeof(path), "%s/%d", dir, i);
		shell("cp -r %s %s && chmod 755 %s && chmod 644 %s/.metadata "
		      "%s/*",
		      argv[1 + i], path, path, path, path);
		if (ck_checkpoint_open(path, &writes, &cps[i], NULL))
			return 1;
	}
	test_example();
	test_runs();
	for (int i = 0; i < RUNS; i++)
		ck_checkpoint_close(cps[i]);
	shell("rm -r %s", dir);
	return tap_done();
}
