/* SPDX-License-Identifier: MIT */
/*
 * Run directories: which steps are shown, in which order, and when; links and `latest`;
 * steps that are looked up and forgotten again.
 *
 *	runs_test DIRECTORY	a checkpoint
 */
#include "ckptfs/tree.h"
#include "format/run/run.h"
#include "shell.h"
#include "tap.h"
#include "tree_lookup.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#ifndef CK_RUN_SCAN_MSEC
#define CK_RUN_SCAN_MSEC 1000
#endif

enum { MANY = 1000, INTERVAL = CK_RUN_SCAN_MSEC * 1050 /* microseconds */ };

static char dir[] = "/tmp/ckptfs-runs-XXXXXX";
static const char *sample;
static const struct ck_tree_options shown = { .umask = 022 };

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void names(struct ck_checkpoint *cp, struct ck_buf *out)
{
	const struct ck_steps *steps;

	out->len = 0;
	eq_err(ck_run_steps(ck_checkpoint_run(cp), &steps), 0);
	for (uint32_t i = 0; i < steps->nshown; i++) {
		ck_buf_printf(out, "%s%s", i ? " " : "", steps->all[i].stem);
		if (steps->all[i].is_link)
			ck_buf_printf(out, ">%s", steps->all[i].target);
	}
	ck_steps_put(steps);
}

/* After the next look into the directory. */
static void expect(struct ck_checkpoint *cp, const char *text)
{
	struct ck_buf got = { 0 };

	usleep(INTERVAL);
	names(cp, &got);
	eq_text(got.data, text);
	ck_buf_fini(&got);
}

static void copy(const char *name)
{
	shell("cp -r %s %s/run/.new && mv %s/run/.new %s/run/%s", sample, dir,
	      dir, dir, name);
}

static struct ck_checkpoint *run_open(void)
{
	static const struct ck_format_options reads;
	struct ck_checkpoint *cp = NULL;
	char path[64];

	snprintf(path, sizeof(path), "%s/run", dir);
	eq_err(ck_checkpoint_open(path, &reads, &cp, NULL), 0);
	eq_text(ck_checkpoint_kind(cp), "run");
	return cp;
}

static void test_names(void)
{
	struct ck_buf got = { 0 };
	struct ck_checkpoint *cp;

	shell("mkdir %s/run %s/run/logs %s/run/torn && cp %s/*.distcp "
	      "%s/run/torn",
	      dir, dir, dir, sample, dir);
	copy("step-10");
	copy("step-9");
	copy("b");
	shell("cd %s/run && ln -s step-9 best && ln -s torn bad && ln -s "
	      "../run/b out",
	      dir);
	cp = run_open();
	names(cp, &got);
	eq_text(got.data, "b step-9 step-10 best>step-9 latest>step-10");
	ck_buf_fini(&got);
	/* .metadata that is not written to its end, then is. */
	shell("head -c 100 %s/.metadata >%s/run/torn/.metadata", sample, dir);
	expect(cp, "b step-9 step-10 best>step-9 latest>step-10");
	shell("cp %s/.metadata %s/run/torn/.metadata", sample, dir);
	expect(cp, "b step-9 step-10 best>step-9 latest>step-10 torn bad>torn");
	/* What texts name. */
	shell("echo step-9 >%s/run/latest", dir);
	expect(cp, "b step-9 step-10 best>step-9 latest>step-9 torn bad>torn");
	shell("echo gone >%s/run/latest", dir);
	expect(cp, "b step-9 step-10 best>step-9 latest>step-10 torn bad>torn");
	shell("rm %s/run/latest && ln -s b %s/run/latest", dir, dir);
	expect(cp, "b step-9 step-10 best>step-9 torn bad>torn latest>b");
	/* One that is gone, and one that comes again. */
	shell("rm -r %s/run/step-10 %s/run/latest", dir, dir);
	expect(cp, "b step-9 best>step-9 latest>step-9 torn bad>torn");
	copy("step-10");
	expect(cp, "b step-9 best>step-9 latest>step-10 torn bad>torn step-10");
	ck_checkpoint_close(cp);
	shell("rm -r %s/run", dir);
}

static uint64_t file_of(struct ck_tree *t, const char *step)
{
	struct ck_node_stat in, st = { 0 };

	eq_err(tree_lookup(t, CK_TREE_ROOT, ck_str_from(step), &in), 0);
	eq_err(tree_lookup(t, in.number, CK_STR(".ckptfs"), &st), 0);
	ck_tree_forget(t, in.number, 1);
	eq_err(tree_lookup(t, st.number, CK_STR("tensors.csv"), &in), 0);
	ck_tree_forget(t, st.number, 1);
	return in.number;
}

/* All are looked up, and no more is open than of the last ones. */
static void test_many(void)
{
	unsigned before = descriptors();
	const struct ck_catalog *c;
	struct ck_checkpoint *cp;
	struct ck_root *root;
	struct ck_tree *t;
	struct ck_node n;
	char name[32];
	uint64_t used, again, begun;

	/* Files are missing, but not since just now. */
	shell("mkdir %s/run && cd %s/run && mkdir $(seq -f step-%%g 0 %d) && "
	      "tee $(seq -f step-%%g/.metadata 0 %d) <%s/.metadata >/dev/null "
	      "&& touch -d '1 hour ago' step-*",
	      dir, dir, MANY - 1, MANY - 1, sample);
	cp = run_open();
	eq_err(ck_root_make(cp, ck_views, ck_nviews, &shown, &root), 0);
	eq_err(ck_tree_make(root, &t), 0);
	used = file_of(t, "step-0");
	for (unsigned i = 1; i < MANY; i++) {
		snprintf(name, sizeof(name), "step-%u", i);
		ck_tree_forget(t, file_of(t, name), 1);
	}
	ok(descriptors() < before + 64);
	/* What is in use is there still, the others were forgotten. */
	eq_err(ck_tree_find(t, used, &n), 0);
	eq_err(ck_tree_pin(t, &n, &c), 0);
	ck_catalog_put(c);
	again = file_of(t, "step-0");
	eq_u64(again, used);
	/* A new one. */
	copy("new-1000");
	usleep(INTERVAL);
	begun = ck_msec_now();
	ck_tree_forget(t, file_of(t, "new-1000"), 1);
	printf("# lookup of a new step beside %d: %d ms\n", MANY,
	       (int)(ck_msec_now() - begun));
	ok(ck_msec_now() - begun < 1000 || !tap_is_long());
	/* Replaced: another number, and what was is stale. */
	shell("rm -r %s/run/step-0", dir);
	copy("step-0");
	usleep(INTERVAL);
	ok(file_of(t, "step-0") != used);
	eq_err(ck_tree_pin(t, &n, &c), -ESTALE);
	ck_tree_free(t);
	ck_root_free(root);
	ck_checkpoint_close(cp);
	eq_u64(descriptors(), before);
	shell("rm -r %s/run", dir);
}

static void test_nested(void)
{
	const struct ck_steps *steps;
	struct ck_checkpoint *cp, *step = NULL;

	shell("mkdir -p %s/run/checkpoint-5 %s/run/x/y/z", dir, dir);
	shell("cp -r %s %s/run/checkpoint-5/model && cp -r %s "
	      "%s/run/x/y/z/deep",
	      sample, dir, sample, dir);
	cp = run_open();
	eq_err(ck_run_steps(ck_checkpoint_run(cp), &steps), 0);
	eq_u64(steps->nshown, 2);
	eq_text(steps->all[0].stem, "checkpoint-5");
	eq_err(ck_run_open(ck_checkpoint_run(cp), &steps->all[0], &step, NULL),
	       0);
	eq_text(ck_checkpoint_kind(step), "run");
	ck_checkpoint_close(step);
	ck_steps_put(steps);
	ck_checkpoint_close(cp);
	shell("rm -r %s/run", dir);
}

int main(int argc, char **argv)
{
	if (argc != 2 || !mkdtemp(dir))
		return 2;
	sample = argv[1];
	test_names();
	test_nested();
	test_many();
	shell("rmdir %s", dir);
	return tap_done();
}
