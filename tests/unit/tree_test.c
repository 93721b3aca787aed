/* SPDX-License-Identifier: MIT */
/*
 * tree: a tree with two views of the tensors of a checkpoint, defined by this test. One is flat,
 * the other has two levels, with links and with names that exist only for lookup. A walk by
 * next() must find the same nodes as a plain loop over the catalog, and as lookup(). A node
 * number must never stand for two files, or for two versions of one. The test is compiled a
 * second time with numbers of a few bits, which run out.
 *
 *	tree_test DIRECTORY	a checkpoint of some shards
 */
#include "commit_again.h"
#include "shell.h"
#include "tap.h"
#include "tree/number.h"
#include "tree_case.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
	COMMITS = TAP_SLOW ? 500 : 3000,
	READERS = 3,
};

/* --- files of numbers ----------------------------------------------------------- */

/* A file or directory, and its version. */
struct meaning {
	uint64_t number, of;
};

static struct meaning *meanings;
static size_t nmeanings, meanings_cap;
static pthread_mutex_t meanings_lock = PTHREAD_MUTEX_INITIALIZER;

static void means(uint64_t number, uint64_t of)
{
	pthread_mutex_lock(&meanings_lock);
	meanings = ck_grow(meanings, &meanings_cap, nmeanings, 1,
			   sizeof(*meanings));
	meanings[nmeanings++] = (struct meaning){ number, of };
	pthread_mutex_unlock(&meanings_lock);
}

static int meaning_cmp(const void *a, const void *b)
{
	const struct meaning *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return (x->of > y->of) - (x->of < y->of);
}

/* Returns the count of numbers that stood for two files, and clears the record. */
static size_t count_mixed(void)
{
	size_t mixed = 0;

	qsort(meanings, nmeanings, sizeof(*meanings), meaning_cmp);
	for (size_t i = 1; i < nmeanings; i++)
		mixed += meanings[i].number == meanings[i - 1].number &&
			 meanings[i].of != meanings[i - 1].of;
	nmeanings = 0;
	return mixed;
}

/* --- a walk --------------------------------------------------------------------- */

static void each(void *arg, const char *path, const struct ck_node_stat *st)
{
	struct ck_buf *out = arg;

	means(st->number, nmeanings);
	/* The other views are in views_test.c. */
	if (strncmp(path, "/flat", 5) && strncmp(path, "/deep", 5))
		return;
	ck_buf_printf(out, "%s %" PRIu64 " %o\n", path, st->size, st->mode);
}

static size_t walk(struct ck_buf *out)
{
	return tree_walk(tree, CK_TREE_ROOT, "", each, out);
}

/* Prints the same lines by a loop over the catalog. */
static void expect(struct ck_buf *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	unsigned d = S_IFDIR | (c->dir_mode & 07755);
	unsigned w = c->meta.mode & 0200;

	ck_buf_printf(out, "/flat 0 %o\n", d);
	for (uint32_t i = 0; i < shown_tensors(c); i++)
		ck_buf_printf(out, "/flat/%s %" PRIu64 " 100%o\n",
			      ck_show(ck_tensor_names(c, i).stem),
			      ck_catalog_tensor(c, i)->nbytes,
			      ck_catalog_tensor(c, i)->facts->mode | w);
	ck_buf_printf(out, "/deep 0 %o\n", d);
	for (uint32_t i = 0; i < shown_tensors(c); i++) {
		const char *stem = ck_show(ck_tensor_names(c, i).stem);

		ck_buf_printf(out, "/deep/%s 0 %o\n", stem, d);
		ck_buf_printf(out, "/deep/%s/all %" PRIu64 " 100%o\n", stem,
			      ck_catalog_tensor(c, i)->nbytes,
			      ck_catalog_tensor(c, i)->facts->mode | w);
		ck_buf_printf(out, "/deep/%s/link 4 120777\n", stem);
	}
}

static void test_walk(void)
{
	struct ck_buf got = { 0 }, want = { 0 };

	begin();
	eq_u64(walk(&got), 0);
	expect(&want);
	eq_text(got.data, want.data);
	eq_u64(count_mixed(), 0);
	/* A node that is not in use gets the same number again. */
	got.len = 0;
	eq_u64(walk(&got), 0);
	eq_text(got.data, want.data);
	/* Canary: a number for two files is detected. */
	means(1, 2);
	means(1, 3);
	ok(count_mixed() > 0);
	ck_buf_fini(&got);
	ck_buf_fini(&want);
}

/* --- attributes, slices, links ----------------------------------------------------- */

static void test_nodes(void)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	const char *stem = ck_show(ck_tensor_names(c, 0).stem);
	const struct ck_catalog *of;
	struct ck_buf target = { 0 };
	struct ck_node_stat d, in, all, link;
	struct ck_slice *slice;
	uint64_t parent;

	begin();
	d = looked_up(CK_TREE_ROOT, "deep");
	in = looked_up(d.number, stem);
	all = looked_up(in.number, "all");
	link = looked_up(in.number, "link");
	eq_err(tree_slice(tree, all.number, &of, &slice), 0);
	eq_u64(slice->size, all.size);
	ok(of == c);
	ck_slice_free(slice);
	ck_catalog_put(of);
	eq_err(tree_slice(tree, in.number, &of, &slice), -EISDIR);
	eq_err(tree_slice(tree, link.number, &of, &slice), -ELOOP);
	eq_err(tree_link(tree, link.number, &target), 0);
	ok(ck_str_starts((struct ck_str){ target.data, target.len },
			 CK_STR("../../flat/")));
	eq_err(tree_link(tree, all.number, &target), -EINVAL);
	eq_err(tree_link(tree, in.number, &target), -EINVAL);
	eq_err(tree_lookup(tree, all.number, CK_STR("x"), &d), -ENOTDIR);
	eq_err(tree_lookup(tree, in.number, CK_STR("x"), &d), -ENOENT);
	eq_err(tree_parent(tree, all.number, &parent), 0);
	eq_u64(parent, in.number);
	eq_err(tree_parent(tree, CK_TREE_ROOT, &parent), 0);
	eq_u64(parent, CK_TREE_ROOT);
	ck_buf_fini(&target);
}

static void test_no_node(void)
{
	const uint64_t none[] = { 0,
				  2,
				  ck_number_of_dir(7),
				  ck_number_of(0, 3, 0),
				  ck_number_of(7, 3, 1),
				  ck_number_of_dir(CK_DIRS_MAX),
				  UINT64_MAX };
	const struct ck_node foreign = { .number = CK_TREE_FOREIGN };
	const struct ck_catalog *of;
	struct ck_buf value = { 0 };
	struct ck_node_stat st;
	struct ck_slice *slice;

	begin();
	eq_err(ck_tree_xattr(&foreign, CK_XATTR_PREFIX "fqn", NULL, &value),
	       -ENODATA);
	ck_tree_xattrs(&foreign, &value);
	eq_u64(value.len, 0);
	for (size_t i = 0; i < CK_ARRAY_SIZE(none); i++) {
		eq_err(tree_stat(tree, none[i], &st), -ESTALE);
		ok(tree_slice(tree, none[i], &of, &slice) < 0);
		ok(tree_lookup(tree, none[i], CK_STR("flat"), &st) < 0);
		ck_tree_forget(tree, none[i], 1);
	}
}

static void test_modes(void)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct ck_node_stat st, in;

	options = (struct ck_tree_options){ .umask = 07,
					    .have_uid = true,
					    .uid = 5,
					    .have_gid = true,
					    .gid = 6 };
	begin();
	in = looked_up(CK_TREE_ROOT, "flat");
	eq_u64(in.mode, S_IFDIR | (c->dir_mode & 0550));
	st = looked_up(in.number, ck_show(ck_tensor_names(c, 0).stem));
	eq_u64(st.mode,
	       S_IFREG | (ck_catalog_tensor(c, 0)->facts->mode & 0440));
	eq_u64(st.uid, 5);
	eq_u64(st.gid, 6);
	ok(st.mtime.tv_sec == ck_catalog_tensor(c, 0)->facts->mtime.tv_sec);
	options = (struct ck_tree_options){ .umask = 022, .write = true };
}

/* --- versions ---------------------------------------------------------------------- */

/* Looks a tensor up in flat/, opens it and forgets it. Its version is that of the catalog of
 * the slice. */
static int visit(uint64_t in, const char *stem, uint32_t tensor)
{
	const struct ck_catalog *of;
	struct ck_node_stat st;
	struct ck_slice *slice;
	int rc = tree_lookup(tree, in, ck_str_from(stem), &st);

	if (rc)
		return rc;
	rc = tree_slice(tree, st.number, &of, &slice);
	if (rc == 0) {
		means(st.number,
		      ck_catalog_tensor(of, tensor)->facts->version * 64 +
			      tensor);
		ck_slice_free(slice);
		ck_catalog_put(of);
	}
	ck_tree_forget(tree, st.number, 1);
	return rc;
}

static void test_old_version(void)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	const char *stem = ck_show(ck_tensor_names(c, 0).stem);
	const char *other = ck_show(ck_tensor_names(c, 1).stem);
	const struct ck_catalog *of;
	struct ck_node_stat in, old, beside, now;
	struct ck_slice *slice;

	begin();
	in = looked_up(CK_TREE_ROOT, "flat");
	old = looked_up(in.number, stem);
	beside = looked_up(in.number, other);
	ok(commit_again(cp, 0));
	now = looked_up(in.number, stem);
	ok(now.number != old.number);
	eq_u64(looked_up(in.number, other).number, beside.number);
	eq_err(tree_slice(tree, old.number, &of, &slice), -ESTALE);
	eq_err(tree_stat(tree, old.number, &now), 0);
	eq_u64(now.number, old.number);
	eq_u64(now.size, old.size);
}

/* With small numbers, versions run until the numbers run out. */
static void test_versions(void)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	unsigned visits = 0, wrong = 0;
	struct ck_node_stat in;
	int rc = 0;

	begin();
	in = looked_up(CK_TREE_ROOT, "flat");
	for (unsigned i = 0; rc == 0 && i < COMMITS; i++) {
		uint32_t tensor = i * 7 % shown_tensors(c);

		commit_again(cp, tensor);
		for (uint32_t k = 0; rc == 0 && k < 3; k++) {
			uint32_t which = (tensor + k) % shown_tensors(c);

			rc = visit(in.number,
				   ck_show(ck_tensor_names(c, which).stem),
				   which);
			visits++;
		}
		wrong += rc && (!SMALL || rc != -ENFILE);
	}
	eq_u64(wrong, 0);
	eq_u64(count_mixed(), 0);
	eq_err(rc, SMALL ? -ENFILE : 0);
	ok(visits > (SMALL ? CK_DIRS_MAX : COMMITS));
	/* An older node is still valid. */
	eq_err(tree_stat(tree, in.number, &in), 0);
}

/* --- forgetting --------------------------------------------------------------------- */

/* Many directories are looked up and forgotten one after the other. */
static void test_many(void)
{
	unsigned n = TAP_SLOW ? 100000 : 1000000;
	size_t before, grown;
	uint64_t last = 0;
	unsigned i = 0;

	begin();
	any(ANYS - 1);
	before = mallinfo2().uordblks;
	for (; i < n; i++) {
		uint64_t number = any(i);

		if (number <= last) /* no number, or a reused one */
			break;
		last = number;
		ck_tree_forget(tree, number, 1);
	}
	grown = mallinfo2().uordblks - before;
	eq_u64(i, n);
	ok(grown < 4 << 20);
	ok(ck_number_is_dir(last));
}

/* Nested directories until the numbers run out. */
static void test_run_out(void)
{
	struct ck_node_stat in, st;
	uint32_t n = 2; /* the root, deep/ */
	int rc;

	begin();
	in = looked_up(CK_TREE_ROOT, "deep");
	eq_err(tree_lookup(tree, in.number, CK_STR("any99"), &st), -ENFILE);
	st = in;
	do
		rc = tree_lookup(tree, st.number, CK_STR("any1"), &st);
	while (rc == 0 && ++n);
	eq_err(rc, -ENFILE);
	eq_u64(n, CK_DIRS_MAX);
	eq_u64(looked_up(CK_TREE_ROOT, "deep").number, in.number);
}

/* A directory stays while a node in it is in use. */
static void test_in_use(void)
{
	struct ck_node_stat d, in, all, above, below, now;
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	unsigned many = MANY;

	begin();
	d = looked_up(CK_TREE_ROOT, "deep");
	in = looked_up(d.number, ck_show(ck_tensor_names(c, 0).stem));
	all = looked_up(in.number, "all");
	above = looked_up(d.number, "any900000");
	below = looked_up(above.number, "any1");
	ck_tree_forget(tree, in.number, 1);
	ck_tree_forget(tree, d.number, 1);
	ck_tree_forget(tree, above.number, 1);
	for (unsigned i = 0; i < many; i++)
		ck_tree_forget(tree, any(i), 1);
	eq_err(tree_stat(tree, all.number, &now), 0);
	eq_err(tree_stat(tree, d.number, &now), 0);
	eq_err(tree_stat(tree, above.number, &now), 0);
	ck_tree_forget(tree, all.number, 1);
	ck_tree_forget(tree, below.number, 1);
	eq_err(tree_stat(tree, all.number, &now), 0); /* remembered */
	for (unsigned i = 0; i < many; i++)
		ck_tree_forget(tree, any(i), 1);
	eq_err(tree_stat(tree, all.number, &now), -ESTALE);
	eq_err(tree_stat(tree, in.number, &now), -ESTALE);
	eq_err(tree_stat(tree, below.number, &now), -ESTALE);
	/* `above` is not in use since `below` was forgotten. */
	for (unsigned i = 0; i < many; i++)
		ck_tree_forget(tree, any(i), 1);
	eq_err(tree_stat(tree, above.number, &now), -ESTALE);
	ok(looked_up(CK_TREE_ROOT, "deep").number == d.number);
}

/* --- directories with more than one number ------------------------------------------ */

/* Looks up new names in a directory that has got another number. */
static void test_renewed_children(uint64_t in)
{
	for (int i = 10; i < (SMALL ? 11 : 40); i++) {
		char name[16];
		uint64_t number;

		snprintf(name, sizeof(name), "any%d", i);
		number = looked_up(in, name).number;
		eq_u64(looked_up(in, name).number, number);
		ck_tree_forget(tree, number, 2);
		eq_u64(looked_up(in, name).number, number);
		ck_tree_forget(tree, number, 1);
	}
}

/* A directory with a used directory and a file in it. When the versions exceed the range of
 * its number, the file gets another number, but the directories do not. */
static void test_renewed(void)
{
	struct ck_node_stat d, above, below, file, again;
	uint64_t parent;

	begin();
	d = looked_up(CK_TREE_ROOT, "deep");
	above = looked_up(d.number, "any1");
	below = looked_up(above.number, "any2");
	for (uint64_t i = 0; i < CK_VERSIONS_MAX + 3; i++)
		ok(commit_again(cp, 0));
	file = looked_up(above.number, "all");
	ok(ck_number_dir(file.number) != ck_number_dir(above.number));
	again = looked_up(d.number, "any1");
	eq_u64(again.number, above.number);
	eq_u64(looked_up(again.number, "any2").number, below.number);
	eq_u64(looked_up(above.number, "any2").number, below.number);
	eq_u64(looked_up(above.number, "all").number, file.number);
	eq_err(tree_parent(tree, below.number, &parent), 0);
	eq_u64(parent, again.number);
	test_renewed_children(above.number);
	/* The directory stays while a file in it is in use. */
	ck_tree_forget(tree, below.number, 3);
	ck_tree_forget(tree, above.number, 2);
	for (unsigned i = 3; !SMALL && i < MANY; i++)
		ck_tree_forget(tree, any(i), 1);
	eq_err(tree_stat(tree, above.number, &again), 0);
	eq_err(tree_stat(tree, file.number, &again), 0);
	ck_tree_forget(tree, file.number, 2);
	for (unsigned i = 3; !SMALL && i < MANY; i++)
		ck_tree_forget(tree, any(i), 1);
	eq_err(tree_stat(tree, above.number, &again), SMALL ? 0 : -ESTALE);
	eq_err(tree_stat(tree, file.number, &again), SMALL ? 0 : -ESTALE);
}

/* --- threads -------------------------------------------------------------------------- */

static atomic_bool ended;
static atomic_uint failed, visited;

static void *reads(void *arg)
{
	uint64_t random = tap_seed((unsigned)(uintptr_t)arg);
	struct ck_node_stat in = looked_up(CK_TREE_ROOT, "flat");

	while (!ended) {
		ck_auto_catalog *c = ck_checkpoint_catalog(cp);
		uint32_t tensor =
			(uint32_t)(tap_random(&random) % shown_tensors(c));
		struct ck_str stem = ck_tensor_names(c, tensor).stem;
		char name[256];
		int rc;

		snprintf(name, sizeof(name), "%.*s", (int)stem.len, stem.p);
		rc = visit(in.number, name, tensor);

		failed += rc && rc != -ESTALE;
		visited++;
		ck_tree_forget(tree,
			       any((unsigned)(tap_random(&random) % ANYS)), 1);
	}
	return NULL;
}

/* If a commit runs between lookup and open, open fails with ESTALE. */
static void test_threads(void)
{
	pthread_t threads[READERS];
	unsigned commits = TAP_SLOW ? 300 : 2000;

	begin();
	for (uintptr_t i = 0; i < READERS; i++)
		pthread_create(&threads[i], NULL, reads, (void *)(i + 1));
	for (unsigned i = 0; i < commits || visited < commits; i++)
		commit_again(cp, i % 5);
	ended = true;
	for (size_t i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	eq_u64(failed, 0);
	ok(visited >= commits);
	eq_u64(count_mixed(), 0);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	case_open(argv[1]);
	test_walk();
	test_nodes();
	test_no_node();
	test_modes();
	test_old_version();
	test_versions();
	if (CK_VERSION_BITS < 8)
		test_renewed();
	if (SMALL) {
		test_run_out();
	} else {
		test_many();
		test_in_use();
		test_threads();
	}
	free(meanings);
	case_close();
	return tap_done();
}
