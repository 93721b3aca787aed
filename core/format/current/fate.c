/* SPDX-License-Identifier: MIT */
/*
 * fate: detects that a checkpoint was saved again, moved or removed since it was opened. It
 * has no state: each call compares the metadata file and the directory with the records of
 * the checkpoint. Any thread may call the functions, which may block in stat(2).
 */
#include "base/system/fd_link.h"
#include "current.h"
#include "current_metadata.h"

#include <errno.h>
#include <unistd.h>

/* The path of the directory, also if the checkpoint is a file in it. */
static struct ck_str directory_of(const struct ck_checkpoint *cp)
{
	const struct ck_str all = ck_str_from(cp->path);

	if (!cp->file)
		return all;
	return (struct ck_str){ all.p, ck_max(all.len - strlen(cp->file) - 1,
					      (size_t)1) };
}

bool ck_checkpoint_holds(const struct ck_checkpoint *cp, int fd)
{
	struct stat st;

	if (!cp->file && fstat(cp->dirfd, &st) == 0)
		return ck_lies_in(fd, &st);
	if (fd >= 0)
		close(fd);
	return !cp->file;
}

/* Checks the descriptor, not the path. The path may lead to a mount of this process by now,
 * and a stat(2) of it would wait for this thread. */
static enum ck_fate directory_fate(const struct ck_checkpoint *cp)
{
	const struct ck_str was = directory_of(cp);
	size_t len = was.len;
	ck_auto_free char *path = malloc(len + 1);
	char name[CK_FD_LINK_BYTES];
	struct stat st;
	ssize_t n;

	if (cp->no_local_dir)
		return CK_FATE_NONE;
	ck_access_note_directory(cp);
	if (fstat(cp->dirfd, &st) == 0 && st.st_nlink == 0)
		return CK_FATE_NO_DIRECTORY;
	ck_fd_link(cp->dirfd, name);
	n = path ? readlink(name, path, len + 1) : -1;
	if (n < 0 ||
	    ((size_t)n == was.len && memcmp(path, was.p, was.len) == 0))
		return CK_FATE_NONE;
	return CK_FATE_MOVED;
}

enum ck_fate ck_checkpoint_fate(struct ck_checkpoint *cp, int *err)
{
	struct stat was = ck_checkpoint_metadata(cp);
	int rc = ck_metadata_changed(cp, &was);
	enum ck_fate of_directory;

	*err = 0;
	if (rc > 0)
		return CK_FATE_SAVED;
	if (rc < 0 && rc != -ENOENT) {
		*err = -rc;
		return CK_FATE_UNSEEN;
	}
	of_directory = directory_fate(cp);
	return of_directory || rc == 0 ? of_directory : CK_FATE_NO_METADATA;
}
