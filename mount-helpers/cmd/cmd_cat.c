/* SPDX-License-Identifier: MIT */
/*
 * cat: writes the bytes of files of the tree to stdout, without a mount. A file that cannot
 * be read is reported, and the next one follows; a failed write ends the command. One
 * thread.
 */
#include "ckptfs/memory.h"
#include "commands.h"
#include "offline_tree.h"
#include <errno.h>
#include <limits.h>
#include <unistd.h>

/* Bytes read at once: they stay in a processor's cache between the two copies. */
enum { PIECE = 256 << 10 };

struct catting {
	struct ck_offline u;
	void *bytes; /* PIECE bytes */
	bool full;   /* a write failed, and was reported */
};

static void put(void *arg, const struct iovec *bytes, uint32_t n)
{
	struct catting *k = arg;
	int rc = 0;

	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = ck_write_full(STDOUT_FILENO, bytes[i].iov_base,
				   bytes[i].iov_len);
	k->full = rc != 0;
	if (rc)
		(void)ck_trouble("standard output: %s", strerror(-rc));
}

static int cat_file(struct catting *k, const struct ck_tree_file *f)
{
	struct ck_reader r = ck_reader_of(&k->u, f);
	uint64_t size = ck_session_size(f);
	int rc = -f->err;

	for (uint64_t at = 0; rc == 0 && !k->full && at < size; at += PIECE) {
		size_t len = (size_t)ck_min((uint64_t)PIECE, size - at);

		rc = ck_reader_pass(&r, at, len, k->bytes, put, k);
	}
	ck_reader_end(&r);
	return rc;
}

static int cat(struct catting *k, const struct ck_named *named)
{
	struct ck_tree_file f;
	int rc = ck_session_file(&k->u.s, &named->node, &f);

	if (rc == 0)
		rc = cat_file(k, &f);
	ck_tree_file_close(&f);
	if (rc)
		(void)ck_offline_report(&named->node, named->path, rc);
	return rc || k->full ? CK_EXIT_TROUBLE : CK_EXIT_FINE;
}

/* Continues after a file that cannot be read. */
static int cat_all(struct catting *k, const struct ck_paths *names)
{
	int rc = CK_EXIT_FINE;

	k->bytes = ck_pages_alloc(PIECE);
	if (!k->bytes)
		return ck_trouble("out of memory");
	for (size_t i = 0; !k->full && i < names->n; i++)
		rc |= cat(k, &names->all[i]);
	ck_pages_free(k->bytes, PIECE);
	return rc;
}

static int run(struct catting *k, char **argv, int n)
{
	struct ck_paths names = { 0 };
	int rc = ck_offline_open(&k->u, argv[0]);

	if (rc)
		return rc;
	for (int i = 1; i < n; i++)
		rc |= ck_paths_find(&k->u, argv[i], &names);
	rc |= cat_all(k, &names);
	ck_paths_fini(&names);
	return rc;
}

int ck_cmd_cat(int argc, char **argv)
{
	struct catting k = { .full = false };
	int rc = ck_parse_operands(&k.u.s.options, &k.u.hosts, &k.u.s.view,
				   argc, argv, 2, INT_MAX);

	if (rc == 0)
		rc = run(&k, argv + optind, argc - optind);
	ck_offline_close(&k.u);
	return rc;
}
