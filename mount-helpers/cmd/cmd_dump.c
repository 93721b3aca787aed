/* SPDX-License-Identifier: MIT */
/*
 * dump: prints the catalog as text, to diagnose a fault or to compare two catalogs in a test.
 * One thread.
 */
#include "ckptfs/format.h"
#include "commands.h"
#include "offline_tree.h"

static int dump(const char *source, struct ck_format_options *options,
		struct ck_hosts_options *hosts)
{
	const struct ck_catalog *c;
	struct ck_checkpoint *cp = NULL;
	struct ck_cluster *cluster = NULL;
	struct ck_buf out = { 0 };
	int rc = ck_source_open(source, options, hosts, &cluster, &cp);

	if (rc == 0)
		rc = ck_source_is_one(source, cp);
	if (rc == 0) {
		c = ck_checkpoint_catalog(cp);
		ck_catalog_dump(c, &out);
		ck_catalog_put(c);
	}
	ck_source_close(cluster, cp);
	return rc ? rc : ck_print(&out);
}

int ck_cmd_dump(int argc, char **argv)
{
	struct ck_format_options options = { .shardlinks =
						     CK_BENEATH_NO_SYMLINKS };
	struct ck_hosts_options hosts = { 0 };
	int rc = ck_parse_operands(&options, &hosts, NULL, argc, argv, 1, 1);

	if (rc == 0)
		rc = dump(argv[optind], &options, &hosts);
	ck_hosts_options_fini(&hosts);
	ck_format_options_fini(&options);
	return rc;
}
