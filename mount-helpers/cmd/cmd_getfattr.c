/* SPDX-License-Identifier: MIT */
/*
 * getfattr: prints the extended attributes of one file of the tree as JSON, without a mount.
 * One thread.
 */
#include "attributes.h"
#include "commands.h"
#include "offline_tree.h"

static int print(const struct ck_named *named)
{
	struct ck_buf out = { 0 };
	int rc = ck_attributes_json(&named->node, true, &out);

	ck_buf_text(&out, "\n");
	if (rc == 0)
		return ck_print_json(&out);
	ck_buf_fini(&out);
	return ck_trouble("%s: %s", ck_path_shown(named->path), strerror(-rc));
}

static int run(struct ck_offline *u, const char *src, const char *path)
{
	struct ck_paths names = { 0 };
	int rc = ck_offline_open(u, src);

	if (rc == 0)
		rc = ck_paths_find(u, path, &names);
	if (rc == 0)
		rc = names.n == 1
			     ? print(&names.all[0])
			     : ck_trouble("%s: expected one name, found %zu",
					  ck_path_shown(path), names.n);
	ck_paths_fini(&names);
	return rc;
}

int ck_cmd_getfattr(int argc, char **argv)
{
	struct ck_offline u = { .cluster = NULL };
	int rc = ck_parse_operands(&u.s.options, &u.hosts, &u.s.view, argc,
				   argv, 2, 2);

	if (rc == 0)
		rc = run(&u, argv[optind], argv[optind + 1]);
	ck_offline_close(&u);
	return rc;
}
