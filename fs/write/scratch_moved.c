/* SPDX-License-Identifier: MIT */
/*
 * scratch_moved: mv(1) of a file from files/ to a directory of tensors, which copies the
 * bytes to a scratch file and then removes the file. The end of the mount would drop the
 * only copy, so the removal is refused.
 *
 * The scratch file is recognised by the thread of all its writes, which is the sender of
 * the removal, by its size, and by its first bytes.
 *
 * No state. Any thread; a file that a commit uses is passed over, without waiting for it.
 */
#include "scratch_internal.h"
#include <fcntl.h>

enum { COMPARED = 64 << 10 };

/* Adds a reference to the newest file with a number below that, a name, and this size.
 * NULL if there is no such file. */
static struct ck_scratch *older_of_size(struct ck_fs *fs, uint64_t below,
					off_t size)
{
	struct ck_scratches *all = fs->scratches;
	struct ck_scratch *s;
	struct stat st;

	pthread_mutex_lock(&all->lock);
	for (s = all->first; s; s = s->next)
		if (s->number < below && s->name && fstat(s->fd, &st) == 0 &&
		    st.st_size == size)
			break;
	if (s)
		s->refs++;
	pthread_mutex_unlock(&all->lock);
	return s;
}

static bool is_written_by(struct ck_scratch *s, pid_t thread)
{
	bool is;

	if (pthread_mutex_trylock(&s->io))
		return false;
	is = !s->taken && s->written.by == (uint32_t)thread;
	pthread_mutex_unlock(&s->io);
	return is;
}

static bool begins_like(const struct ck_scratch *s, int dirfd, const char *name,
			off_t size)
{
	size_t len = (size_t)ck_min((uint64_t)size, (uint64_t)COMPARED);
	ck_auto_free char *bytes = malloc(2 * len);
	ck_auto_fd int fd = ck_open_beneath(dirfd, ck_str_from(name),
					    O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
					    CK_BENEATH_NO_SYMLINKS);

	return fd >= 0 && bytes && ck_pread_full(s->fd, bytes, len, 0) == 0 &&
	       ck_pread_full(fd, bytes + len, len, 0) == 0 &&
	       memcmp(bytes, bytes + len, len) == 0;
}

bool ck_scratch_is_copy(struct ck_fs *fs, pid_t thread, int dirfd,
			const char *name, off_t size, struct ck_buf *path)
{
	uint64_t below = UINT64_MAX;
	struct ck_scratch *s;
	bool found = false;

	if (!fs->scratches || thread == 0)
		return false;
	while (!found && (s = older_of_size(fs, below, size))) {
		found = is_written_by(s, thread) &&
			begins_like(s, dirfd, name, size);
		below = s->number;
		if (found)
			ck_scratch_print(fs, s, path);
		ck_scratch_drop(fs, s);
	}
	return found;
}
