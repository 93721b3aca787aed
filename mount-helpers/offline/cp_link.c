/* SPDX-License-Identifier: MIT */
/*
 * cp_link: copies a symbolic link with its target text unchanged. It leads to the copy of
 * its target if that is copied, too. Called by the walk; no state.
 */
#include "cp_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* Creates the link under a temporary name and renames it. Returns 0 or a positive errno. */
static int link_make(const struct ck_cp_mark *mark,
		     const struct ck_cp_dir *into, const char *name,
		     const char *target, const struct ck_node_stat *st)
{
	const struct timespec times[2] = { st->mtime, st->mtime };
	char temporary[CK_CP_NAME];
	int rc = ck_cp_name(mark, temporary), err;

	if (rc)
		return rc;
	if (symlinkat(target, into->fd, temporary))
		return errno;
	/* An error is ignored: some file systems do not store times of links. */
	(void)utimensat(into->fd, temporary, times, AT_SYMLINK_NOFOLLOW);
	if (renameat(into->fd, temporary, into->fd, name) == 0)
		return 0;
	err = errno;
	(void)unlinkat(into->fd, temporary, 0);
	return err;
}

void ck_cp_link(struct ck_cp *c, const struct ck_named *from,
		struct ck_cp_dir *into, const char *name)
{
	const char *why = ck_cp_kept(into, name, AT_SYMLINK_NOFOLLOW);
	struct ck_buf target = { 0 };
	struct ck_node_stat st;
	int rc, err = 0;

	if (why) {
		ck_cp_refuse(c, into, name, why);
		return;
	}
	rc = ck_tree_link(&from->node, &target);
	if (rc == 0)
		rc = ck_tree_stat(&from->node, &st);
	if (rc == 0)
		err = link_make(c->how.mark, into, name, target.data, &st);
	ck_buf_fini(&target);
	if (rc)
		ck_cp_unread(c, from, rc);
	else if (err)
		ck_cp_unwritten(c, into, name, err);
}
