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
	const struct ck_catalog *c;
	struct ck_checkpoint *cp = NULL;
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };

	if (ck_parse_operands(&options, argc, argv, 1, 1))
		return CK_EXIT_TROUBLE;
	if (ck_checkpoint_open(argv[optind], &options, &cp, &d))
		return ck_trouble("%s", d.text);
	c = ck_checkpoint_catalog(cp);
	ck_catalog_dump(c, &out);
	ck_catalog_put(c);
	ck_checkpoint_close(cp);
	return ck_print(&out);
}
