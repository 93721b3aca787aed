/* SPDX-License-Identifier: MIT */
/*
 * Directories of a tree that are read: entries have the numbers that lookup gives them,
 * and are in use if it was asked for; and what a commit changes without another number.
 *
 *	tree_list_test DIRECTORY	a checkpoint of some shards
 */
#include "tree/number.h"
#include "tree_case.h"

#include <errno.h>

/* To list directories takes numbers as long as most are left, and those stay. */
static void test_listing(void)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct ck_node_stat d, st;
	struct ck_tree_list *list;
	struct ck_buf name = { 0 };
	uint64_t at = 0, given = 0;
	struct ck_node n;

	begin();
	d = looked_up(CK_TREE_ROOT, "deep");
	eq_err(ck_tree_list(tree, CK_TREE_ROOT, &list), 0);
	ck_tree_list_end(list);
	eq_err(ck_tree_list(tree, d.number, &list), 0);
	for (; ck_tree_list_next(list, &at, &n, &name) == 0; at++) {
		given += n.number != 0;
		ok(n.number || SMALL);
		eq_err(tree_lookup(tree, d.number, ck_str_from(name.data), &st),
		       0);
		ok(n.number == 0 || n.number == st.number);
		ck_tree_forget(tree, st.number, 1);
	}
	eq_u64(at, shown_tensors(c));
	ok(given > 0);
	ck_tree_list_end(list);
	ck_buf_fini(&name);
}

/* Entries of a list are in use when it has ended. */
static void test_list_use(void)
{
	struct ck_node_stat d, st;
	struct ck_tree_list *list;
	struct ck_buf name = { 0 };
	uint64_t at = 0;
	struct ck_node n;

	begin();
	d = looked_up(CK_TREE_ROOT, "flat");
	eq_err(ck_tree_list(tree, d.number, &list), 0);
	eq_err(ck_tree_list_next(list, &at, &n, &name), 0);
	eq_err(ck_tree_list_use(list, &n), 0);
	eq_err(ck_tree_list_stat(list, &n, &st), 0);
	ck_tree_list_end(list);
	ck_tree_forget(tree, d.number, 1);
	for (unsigned i = 0; !SMALL && i < MANY; i++)
		ck_tree_forget(tree, any(i), 1);
	eq_err(tree_stat(tree, n.number, &st), 0);
	ck_tree_forget(tree, n.number, 1);
	for (unsigned i = 0; !SMALL && i < MANY; i++)
		ck_tree_forget(tree, any(i), 1);
	eq_err(tree_stat(tree, n.number, &st), SMALL ? 0 : -ESTALE);
	eq_err(ck_tree_list(tree, n.number, &list), -ENOTDIR);
	ck_buf_fini(&name);
}

/* Those that a commit changes without another number: directories in use, and
 * reports. */
struct counted {
	unsigned dirs, reports;
};

static void count_each(void *arg, uint64_t number)
{
	struct ck_node_stat st;
	struct counted *n = arg;

	eq_err(tree_stat(tree, number, &st), 0);
	ok(ck_number_is_dir(number) == (st.type == CK_TYPE_DIR));
	n->dirs += st.type == CK_TYPE_DIR;
	n->reports += st.type == CK_TYPE_FILE;
}

static void test_each(void)
{
	struct counted n = { .dirs = 0 };

	begin();
	eq_err(ck_tree_each(tree, count_each, &n), 0);
	eq_u64(n.dirs, 1);
	eq_u64(n.reports, 0);
	looked_up(looked_up(CK_TREE_ROOT, "deep").number, "any7");
	looked_up(CK_TREE_ROOT, ".ckptfs");
	n = (struct counted){ .dirs = 0 };
	eq_err(ck_tree_each(tree, count_each, &n), 0);
	eq_u64(n.dirs, 4);
	eq_u64(n.reports, 7);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	case_open(argv[1]);
	test_listing();
	test_list_use();
	test_each();
	case_close();
	return tap_done();
}
