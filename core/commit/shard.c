/* SPDX-License-Identifier: MIT */
/* shard: the new files of a commit. They have no name until all their contents are
 * complete: a process that is killed before that leaves no file. Called by the thread
 * of the commit; ck_file_make() by any thread. */
#include "base/system/fd_link.h"
#include "commit_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { NAME_TRIES = 8 };

/* --- files ----------------------------------------------------------------- */

int ck_file_make(const struct ck_writer *w, int *fd, struct ck_diag *d)
{
	*fd = ck_open_unnamed(w->dirfd);
	if (*fd >= 0)
		return 0;
	if (*fd == -EISDIR || *fd == -EOPNOTSUPP)
		return ck_fail(d, EOPNOTSUPP,
			       "%s: its file system has no files without name",
			       ck_show(ck_str_from(w->cp->path)));
	return ck_fail(d, -*fd, "%s: no new file: %s",
		       ck_show(ck_str_from(w->cp->path)), strerror(-*fd));
}

/* --- all files of a batch --------------------------------------------------------- */

int ck_batch_own(const struct ck_ownership *o, const struct ck_mode_cap *limits,
		 const struct ck_batch *b, struct ck_diag *d)
{
	int rc = 0;

	for (uint32_t i = 0; i < b->nshards && !rc; i++)
		if (b->shards[i].fd >= 0)
			rc = ck_file_own(o, limits ? &limits[i] : NULL,
					 b->shards[i].fd, d);
	return rc;
}

int ck_batch_sync(struct ck_batch *b, struct ck_diag *d)
{
	for (uint32_t i = 0; i < b->nshards; i++)
		if (b->shards[i].fd >= 0 && fsync(b->shards[i].fd))
			return ck_fail(d, errno, "a new data file: fsync: %s",
				       strerror(errno));
	return 0;
}

/* --- names --------------------------------------------------------------------- */

int ck_file_link(const struct ck_writer *w, int fd, const char *name,
		 struct ck_diag *d)
{
	char path[CK_FD_LINK_BYTES];

	ck_fd_link(fd, path);
	if (linkat(AT_FDCWD, path, w->dirfd, name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	return ck_fail(d, errno, "%s: %s", name, strerror(errno));
}

static int shard_link(const struct ck_writer *w, uint64_t generation,
		      struct ck_shard *shard, struct ck_diag *d)
{
	char hex[17], name[CK_NAME_LEN];
	int rc = -EEXIST;

	for (int i = 0; i < NAME_TRIES && rc == -EEXIST; i++) {
		rc = ck_random_hex(hex);
		if (rc)
			return ck_fail(d, -rc, "no random number");
		ck_shard_name(w->cp, name, shard->rank, generation, hex);
		rc = ck_file_link(w, shard->fd, name, d);
	}
	if (rc == 0)
		memcpy(shard->name, name, sizeof(name));
	return rc;
}

int ck_batch_link(const struct ck_writer *w, uint64_t generation,
		  struct ck_batch *b, struct ck_diag *d)
{
	int rc = 0;

	for (uint32_t i = 0; i < b->nshards && !rc; i++)
		if (b->shards[i].fd >= 0)
			rc = shard_link(w, generation, &b->shards[i], d);
	return rc;
}

void ck_batch_unlink(const struct ck_writer *w, struct ck_batch *b)
{
	for (uint32_t i = 0; i < b->nshards; i++) {
		if (b->shards[i].name[0])
			(void)unlinkat(w->dirfd, b->shards[i].name, 0);
		b->shards[i].name[0] = '\0';
	}
}
