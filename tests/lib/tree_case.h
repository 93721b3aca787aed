/* SPDX-License-Identifier: MIT */
/* tree_case: a tree of the views of tree_views.h over a copy of a checkpoint. */
#ifndef CK_TREE_CASE_H
#define CK_TREE_CASE_H

#include "shell.h"
#include "tap.h"
#include "tree_lookup.h"
#include "tree_views.h"
#include "tree_walk.h"

enum { MANY = 20000 }; /* directories: more than are remembered */

static char dir[] = "/tmp/ckptfs-tree-XXXXXX";
static struct ck_checkpoint *cp;
static struct ck_root *root;
static struct ck_tree *tree;
static struct ck_tree_options options = { .umask = 022, .write = true };

static const struct ck_view *const views[] = { &flat, &deep };

/* A tree with nothing in use. */
static void begin(void)
{
	ck_tree_free(tree);
	ck_root_free(root);
	eq_u64((uint64_t)states, 0);
	if (ck_root_make(cp, views, 2, &options, &root) ||
	    ck_tree_make(root, &tree))
		abort();
}

static struct ck_node_stat looked_up(uint64_t in, const char *name)
{
	struct ck_node_stat st = { .number = 0 };
	int rc = tree_lookup(tree, in, ck_str_from(name), &st);

	if (rc)
		printf("# lookup of %s: %s\n", name, strerror(-rc));
	return st;
}

/* The number of deep/any<i>/, which is in use. */
static uint64_t any(unsigned i)
{
	struct ck_node_stat deep_st = looked_up(CK_TREE_ROOT, "deep"), st;
	char name[32];
	int rc;

	snprintf(name, sizeof(name), "any%u", i);
	rc = tree_lookup(tree, deep_st.number, ck_str_from(name), &st);
	ck_tree_forget(tree, deep_st.number, 1);
	return rc ? 0 : st.number;
}

static void case_open(const char *from)
{
	static const struct ck_format_options writes = { .write = true };

	if (!mkdtemp(dir))
		abort();
	shell("cp -r %s/. %s && chmod 755 %s && chmod 644 %s/.metadata %s/*",
	      from, dir, dir, dir, dir);
	if (ck_checkpoint_open(dir, &writes, &cp, NULL))
		abort();
}

static void case_close(void)
{
	ck_tree_free(tree);
	ck_root_free(root);
	ck_checkpoint_close(cp);
	shell("rm -r %s", dir);
}

#endif
