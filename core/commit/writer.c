/* SPDX-License-Identifier: MIT */
/*
 * writer: the right to change a checkpoint. A writer holds flock(2) on the directory
 * for as long as it is mounted, which excludes other writers of ckptfs. Files of an
 * interrupted commit have names of commits and no metadata references them; they are
 * removed before the first write (collect.c). This is the only recovery. Any thread may
 * use an open writer.
 */
#include "commit_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 100 }; /* 2 s in total */

/* --- the writer ------------------------------------------------------------ */

/* Tries for 2 s: a daemon whose mount was removed may still hold the lock for a short
 * time. */
static bool try_lock(int fd)
{
	const struct timespec moment = { .tv_nsec = 20 * 1000 * 1000 };

	for (int tries = 0; tries < LOCK_TRIES; tries++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return false;
		nanosleep(&moment, NULL);
	}
	errno = EWOULDBLOCK;
	return false;
}

static int lock(struct ck_writer *w, struct ck_diag *d)
{
	w->dirfd = ck_open_again(w->cp->dirfd);
	if (w->dirfd < 0)
		return ck_fail(d, -w->dirfd, "%s", strerror(-w->dirfd));
	if (faccessat(w->dirfd, ".", W_OK, AT_EACCESS))
		return ck_fail(d, errno, "cannot be written: %s",
			       strerror(errno));
	if (try_lock(w->dirfd))
		return 0;
	if (errno == EWOULDBLOCK)
		return ck_fail(d, EBUSY, "is mounted for writing already");
	return ck_fail(d, errno, "cannot be locked: %s", strerror(errno));
}

/* Refuses a symbolic link, which the rename of a commit would replace. */
static int check_no_link(const struct ck_writer *w, struct ck_diag *d)
{
	const char *name = ck_metadata_name(w->cp);
	struct stat st;

	if (fstatat(w->dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
		return ck_fail(d, errno, "%s: %s", name, strerror(errno));
	return S_ISREG(st.st_mode)
		       ? 0
		       : ck_fail(d, EOPNOTSUPP, "%s is a symbolic link", name);
}

static int begin(struct ck_writer *w, struct ck_diag *d)
{
	int rc = ck_metadata_writable(w->cp, w->options.keep_unknown, d);

	if (rc == 0)
		rc = lock(w, d);
	if (rc == 0)
		rc = check_no_link(w, d);
	if (rc)
		return rc;
	/* The metadata was read before the lock was taken; another writer may have
	 * changed it. */
	rc = ck_checkpoint_same(w->cp, d);
	if (rc)
		return rc;
	/* Report at the mount, not at the first commit, that new files cannot get the
	 * owner of .metadata. */
	rc = ck_owner_check(w, d);
	if (rc)
		return rc;
	return ck_writer_collect(w, d);
}

int ck_writer_open(struct ck_checkpoint *cp,
		   const struct ck_writer_options *options,
		   struct ck_writer **out, struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct ck_writer *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return ck_fail(d, ENOMEM, "out of memory");
	w->cp = cp;
	w->options = *options;
	w->dirfd = -1;
	pthread_mutex_init(&w->lock, NULL);
	pthread_mutex_init(&w->commit_lock, NULL);
	rc = ck_bits_make(&w->busy, c->tensors.n)
		     ? ck_fail(d, ENOMEM, "out of memory")
		     : begin(w, d);
	if (rc) {
		ck_diag_prefix(d, "%s", ck_show(ck_str_from(cp->path)));
		ck_writer_close(w);
		return rc;
	}
	*out = w;
	return 0;
}

void ck_writer_close(struct ck_writer *w)
{
	if (!w)
		return;
	if (w->dirfd >= 0)
		close(w->dirfd);
	pthread_mutex_destroy(&w->lock);
	pthread_mutex_destroy(&w->commit_lock);
	ck_bits_fini(&w->busy);
	free(w);
}

uint64_t ck_writer_generation(struct ck_writer *w)
{
	uint64_t generation;

	pthread_mutex_lock(&w->lock);
	generation = w->generation;
	pthread_mutex_unlock(&w->lock);
	return generation;
}
