/* SPDX-License-Identifier: MIT */
/*
 * collect: what was left behind. An interrupted commit, and the files that
 * later commits took the place of, have names of ours and are in no metadata.
 */
#include "commit_internal.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

static bool is_named(const struct ck_checkpoint *cp, const char *name)
{
	for (uint32_t i = 0; i < ck_files_count(cp->files); i++)
		if (ck_str_is(ck_files_info(cp->files, i)->path, name))
			return true;
	return false;
}

/* True: it was removed. */
static bool look_at(struct ck_writer *w, const char *name)
{
	uint64_t generation;

	if (!ck_name_is_ours(name, &generation))
		return false;
	w->generation = ck_max(w->generation, generation);
	return !is_named(w->cp, name) && unlinkat(w->dirfd, name, 0) == 0;
}

/* The lock is held and .metadata is the one that was read: what it does not
 * name nobody can need. */
int ck_writer_collect(struct ck_writer *w, struct ck_diag *d)
{
	int fd = ck_open_again(w->dirfd);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	unsigned removed = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return ck_fail(d, fd < 0 ? -fd : ENOMEM, "cannot be listed");
	}
	while ((e = readdir(dir)))
		removed += look_at(w, e->d_name);
	closedir(dir);
	if (removed)
		ck_log("%s: removed %u files of earlier commits that nothing "
		       "names any more",
		       ck_show(ck_str_from(w->cp->path)), removed);
	return 0;
}
