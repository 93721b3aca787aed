/* SPDX-License-Identifier: MIT */
/*
 * dump: the catalog as text, for a person who looks for a fault and for tests
 * that compare two of them.
 */
#include "ckptfs/format.h"
#include "commands.h"

int ck_cmd_dump(int argc, char **argv)
{
	struct ck_format_options options = { .shardlinks =
						     CK_BENEATH_NO_SYMLINKS };
	struct ck_checkpoint *cp = NULL;
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };

	if (argc != 2)
		return ck_usage(argv[0]);
	if (ck_checkpoint_open(argv[1], &options, &cp, &d))
		return ck_trouble("%s", d.text);
	ck_catalog_dump(cp->catalog, &out);
	ck_checkpoint_close(cp);
	return ck_print(&out);
}
