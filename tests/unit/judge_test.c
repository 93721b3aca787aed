/* SPDX-License-Identifier: MIT */
/*
 * Whose bytes a mode is about: who opened a file reads the version of then, and is
 * judged by the data files that this version lies in, whatever a commit has made
 * of the tensor since. Nor does what he finds wrong say something of the present
 * version.
 *
 *	judge_test DIRECTORY	a checkpoint of some shards
 */
#include "format/rewrite.h"
#include "internal.h"
#include "shell.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/ckptfs-judge-XXXXXX";
static struct ck_mount_options options;
static struct ck_fs fs = { .options = &options };

/* Who may read what a catalog says of a file. */
static mode_t mode_of(const struct ck_catalog *c, const struct ck_node *n)
{
	struct ck_node_stat st;

	ck_tree_rights(c, n, &st);
	return st.mode & 0444;
}

/* All boxes of tensor 0 lie in another file from now on. */
static void commit(void)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs.cp);
	struct stat metadata = ck_checkpoint_metadata(fs.cp);
	const struct ck_tensor *t = ck_catalog_tensor(c, 0);
	struct ck_change_of_place changes[64];
	struct ck_catalog *next;

	if (t->nchunks > 64)
		abort();
	for (uint32_t i = 0; i < t->nchunks; i++)
		changes[i] = (struct ck_change_of_place){
			.chunk = t->chunk + i,
			.path = CK_STR("__9_0.distcp"),
			.fpos = ck_catalog_item(c, t->chunk + i)->fpos,
			.length = ck_catalog_item(c, t->chunk + i)->length,
		};
	if (ck_checkpoint_prepare(fs.cp, changes, t->nchunks, &next))
		abort();
	ck_checkpoint_switch(fs.cp, next, &metadata, changes, t->nchunks);
}

static void test_rights(const struct ck_node *n)
{
	ck_auto_catalog *old = ck_checkpoint_catalog(fs.cp);
	struct ck_items items = ck_about_items(old, &n->about);

	commit();
	eq_u64(mode_of(old, n), 0444);
	shell("chmod 600 %s/__[0-7]_*.distcp", dir);
	ck_checkpoint_stat_items(fs.cp, items);
	eq_err(ck_checkpoint_renew_access(fs.cp, items), 0);
	{
		ck_auto_catalog *now = ck_checkpoint_catalog(fs.cp);

		eq_u64(mode_of(now, n), 0444);
		eq_u64(mode_of(old, n), 0400);
	}
	shell("chmod 644 %s/__[0-7]_*.distcp", dir);
	ck_checkpoint_stat_items(fs.cp, items);
	eq_err(ck_checkpoint_renew_access(fs.cp, items), 0);
	eq_u64(mode_of(old, n), 0444);
}

/* The old version is damaged, the present one is not. */
static void test_faults(void)
{
	ck_auto_catalog *old = ck_checkpoint_catalog(fs.cp);
	const struct ck_layout *layout;
	bool faulty;

	shell("cd %s && cp --preserve=timestamps __9_0.distcp __8_0.distcp && "
	      "head -c $(stat -c %%s __9_0.distcp) /dev/zero >__9_0.distcp",
	      dir);
	commit(); /* the same places: damaged too */
	eq_err(ck_damage_locate(ck_root_damage(fs.root), old, 0, NULL, &layout,
				&faulty),
	       0);
	ok(faulty);
	ck_layout_put(fs.cp, layout);
	ok(!ck_damage_was_found(ck_root_damage(fs.root), 0));
	{
		ck_auto_catalog *now = ck_checkpoint_catalog(fs.cp);

		eq_err(ck_damage_locate(ck_root_damage(fs.root), now, 0, NULL,
					&layout, &faulty),
		       0);
	}
	ok(faulty &&
	   ck_damage_was_found(ck_root_damage(fs.root), 0)); /* the canary */
	ck_layout_put(fs.cp, layout);
}

int main(int argc, char **argv)
{
	static const struct ck_format_options format = { .write = true };
	struct ck_tree_list *list;
	struct ck_buf name = { 0 };
	struct ck_node n;
	uint64_t at = 0;

	if (argc != 2 || !mkdtemp(dir))
		return 2;
	shell("cp -r %s/. %s && cd %s && chmod 755 . && "
	      "cat __0_0.distcp >__9_0.distcp && chmod 644 .metadata *.distcp",
	      argv[1], dir, dir);
	if (ck_checkpoint_open(dir, &format, &fs.cp, NULL))
		return 1;
	if (ck_root_make(fs.cp, ck_views, 1, &fs.shown, &fs.root) ||
	    ck_tree_make(fs.root, &fs.tree) ||
	    ck_tree_name(fs.tree, CK_TREE_ROOT, CK_STR("full"), &n) ||
	    ck_tree_use(fs.tree, &n) ||
	    ck_tree_list(fs.tree, n.number, &list) ||
	    ck_tree_list_next(list, &at, &n, &name))
		return 1;
	ck_tree_list_end(list);
	ck_buf_fini(&name);
	eq_u64(n.about.number, 0);
	test_rights(&n);
	test_faults();
	ck_tree_free(fs.tree);
	ck_root_free(fs.root);
	ck_checkpoint_close(fs.cp);
	shell("rm -r %s", dir);
	return tap_done();
}
