/* SPDX-License-Identifier: MIT */
/*
 * views: mounts a checkpoint with views that a mount does not have: that of
 * tests/unit/view_example.c, and runs/, in whose directories soon/ and ever/ there is
 * a file `new` for as long as there is one named `there` in the working directory.
 * Names in soon/ may be taken for known for 0.3 s.
 *
 *	views SOURCE MOUNTPOINT [OPTIONS]
 *
 * Writes a line when the tree can be used; serves it until it is unmounted.
 */
#include "ckptfs/fs.h"

#include "view_example.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { RUNS, SOON, EVER };

static bool is_there(const struct ck_dir *dir)
{
	return dir->a[0] == RUNS || access("there", F_OK) == 0;
}

static void child_set(const struct ck_dir *dir, uint32_t i,
		      struct ck_child *out)
{
	*out = (struct ck_child){ .type = CK_TYPE_FILE };
	if (dir->a[0] != RUNS)
		return;
	*out = (struct ck_child){
		.type = CK_TYPE_DIR,
		.entry = i,
		.dir = { .view = dir->view,
			 .a = { SOON + i },
			 .names_msec = i == 0 ? 300 : 0 },
	};
}

static int runs_next(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint64_t *at, struct ck_child *out)
{
	(void)c;
	if (*at >= (dir->a[0] == RUNS ? 2 : 1) || !is_there(dir))
		return -ENOENT;
	child_set(dir, (uint32_t)*at, out);
	return 0;
}

static void runs_name(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint32_t entry, struct ck_buf *out)
{
	(void)c;
	ck_buf_text(out, dir->a[0] != RUNS ? "new" : entry ? "ever" : "soon");
}

static int runs_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
		       struct ck_str name, struct ck_child *out)
{
	struct ck_buf is = { 0 };
	int rc;

	for (uint64_t at = 0; (rc = runs_next(c, dir, &at, out)) == 0; at++) {
		is.len = 0;
		runs_name(c, dir, out->entry, &is);
		if (ck_str_is(name, is.data))
			break;
	}
	ck_buf_fini(&is);
	return rc;
}

static int runs_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_file_content *out)
{
	(void)c, (void)entry;
	*out = (struct ck_file_content){ .topic = CK_FILE_KIND_CHECKPOINT,
					 .size = 4 };
	return is_there(dir) ? 0 : -ENOENT;
}

static int runs_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint32_t entry, struct ck_slice **out)
{
	struct ck_slice_builder b = { 0 };

	(void)c, (void)dir, (void)entry;
	ck_slice_add_bytes(&b, CK_STR("new\n"));
	return ck_slice_make(&b, out);
}

static const struct ck_view runs = {
	.top = "runs",
	.lookup = runs_lookup,
	.next = runs_next,
	.name = runs_name,
	.stat = runs_stat,
	.slice = runs_slice,
};

static void ready(uint64_t mount, void *unused)
{
	(void)mount, (void)unused;
	puts("ready");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const struct ck_view *views[] = { ck_views[0], &view_example.view,
					  &runs };
	struct ck_mount_options options = { .views = views, .nviews = 3 };
	struct ck_checkpoint *cp = NULL;
	struct ck_diag d = { 0 };
	int rc;

	if (argc < 3)
		return 2;
	rc = ck_options_parse(&options, argc > 3 ? argv[3] : "", &d);
	options.format.write = options.write;
	if (rc == 0)
		rc = ck_checkpoint_open(argv[1], &options.format, &cp, &d);
	if (rc == 0)
		rc = ck_fs_serve(cp, argv[2], &options, NULL, ready, NULL, &d);
	if (rc)
		fprintf(stderr, "%s\n", d.text);
	ck_checkpoint_close(cp);
	ck_options_fini(&options);
	return rc != 0;
}
