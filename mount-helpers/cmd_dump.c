/* SPDX-License-Identifier: MIT */
/*
 * dump: the catalog as text, for a person who looks for a fault and for tests
 * that compare two of them.
 */
#include "ckptfs/format.h"
#include "commands.h"

static int dump(const char *source, const struct ck_format_options *options)
{
	const struct ck_catalog *c;
	struct ck_checkpoint *cp = NULL;
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };

	if (ck_checkpoint_open(source, options, &cp, &d))
		return ck_trouble("%s", d.text);
	c = ck_checkpoint_catalog(cp);
	ck_catalog_dump(c, &out);
	ck_catalog_put(c);
	ck_checkpoint_close(cp);
	return ck_print(&out);
}

int ck_cmd_dump(int argc, char **argv)
{
	struct ck_format_options options = { .shardlinks =
						     CK_BENEATH_NO_SYMLINKS };
	struct ck_hosts_options hosts = { 0 };
	int rc = ck_parse_operands(&options, &hosts, argc, argv, 1, 1);

	if (rc == 0)
		rc = dump(argv[optind], &options);
	ck_hosts_options_fini(&hosts);
	return rc;
}
