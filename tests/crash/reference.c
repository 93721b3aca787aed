/* SPDX-License-Identifier: MIT */
/*
 * reference: the smallest crash-consistent writer, and mutants that omit one of
 * its steps. It tests the crash harness: the correct writer must survive all
 * faults, and the harness must catch every mutant.
 *
 *	reference correct|MUTANT CHECKPOINT NEW
 *
 * NEW is a directory with the new shards and the new .metadata. Prints
 * "committed" and exits 0 if, and only if, they are durable.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 64 << 10, MOST_SHARDS = 64 };

static const char TMP[] = ".metadata.tmp", METADATA[] = ".metadata";

/* The deviation of each mutant. */
enum mutant {
	CORRECT,
	NO_SHARD_SYNC,
	NO_METADATA_SYNC,
	NO_FIRST_DIRECTORY_SYNC,
	NO_LAST_METADATA_SYNC,
	NO_LAST_DIRECTORY_SYNC,
	NO_LAST_SYNC, /* neither of the two above */
	NO_SYNC_AT_ALL,
	RENAME_BEFORE_SYNC,
	SYNC_BEFORE_WRITE,
	UNLINK_FIRST,
	SHARDS_IN_PLACE,   /* NEW has names of old shards */
	METADATA_IN_PLACE, /* the same name is opened with O_TRUNC */
	METADATA_FIRST,
	REPORT_EARLY,
	LIKE_DCP, /* four of these at once: what PyTorch does */
	IGNORE_SHORT,
	IGNORE_SYNC_ERROR,
	RETRY_SYNC,
	LEAVE_FILES,
	CLEAN_AFTER_RENAME,
	REMOVE_FOREIGN,
	NO_MEMORY_CHECK,
	MUTANTS,
};

static const char *const names[MUTANTS] = {
	[CORRECT] = "correct",
	[NO_SHARD_SYNC] = "no-shard-sync",
	[NO_METADATA_SYNC] = "no-metadata-sync",
	[NO_FIRST_DIRECTORY_SYNC] = "no-first-directory-sync",
	[NO_LAST_METADATA_SYNC] = "no-last-metadata-sync",
	[NO_LAST_SYNC] = "no-last-sync",
	[NO_LAST_DIRECTORY_SYNC] = "no-last-directory-sync",
	[NO_SYNC_AT_ALL] = "no-sync-at-all",
	[RENAME_BEFORE_SYNC] = "rename-before-sync",
	[SYNC_BEFORE_WRITE] = "sync-before-write",
	[UNLINK_FIRST] = "unlink-first",
	[SHARDS_IN_PLACE] = "shards-in-place",
	[METADATA_IN_PLACE] = "metadata-in-place",
	[METADATA_FIRST] = "metadata-first",
	[REPORT_EARLY] = "report-early",
	[LIKE_DCP] = "like-dcp",
	[IGNORE_SHORT] = "ignore-short",
	[IGNORE_SYNC_ERROR] = "ignore-sync-error",
	[RETRY_SYNC] = "retry-sync",
	[LEAVE_FILES] = "leave-files",
	[CLEAN_AFTER_RENAME] = "clean-after-rename",
	[REMOVE_FOREIGN] = "remove-foreign",
	[NO_MEMORY_CHECK] = "no-memory-check",
};

struct writer {
	enum mutant mutant;
	int to, from;	  /* directories */
	struct stat like; /* the old .metadata */
	char *shards[MOST_SHARDS];
	size_t n, made; /* shards; those already created */
	bool made_tmp, published;
};

static bool is(const struct writer *w, enum mutant m)
{
	return w->mutant == m;
}

static int sync_fd(const struct writer *w, int fd)
{
	if (is(w, NO_SYNC_AT_ALL) || fsync(fd) == 0)
		return 0;
	if (is(w, IGNORE_SYNC_ERROR))
		return 0;
	if (is(w, RETRY_SYNC) && fsync(fd) == 0)
		return 0;
	return -errno;
}

static int write_all(const struct writer *w, int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0)
			return -errno;
		if (is(w, IGNORE_SHORT))
			return 0;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int copy_pieces(const struct writer *w, int in, int out)
{
	char *buf = malloc(PIECE);
	ssize_t n = 1;
	int rc = 0;

	if (!buf && !is(w, NO_MEMORY_CHECK))
		return -ENOMEM;
	buf[0] = 0;
	while (rc == 0 && (n = read(in, buf, PIECE)) > 0)
		rc = write_all(w, out, buf, (size_t)n);
	free(buf);
	return n < 0 ? -errno : rc;
}

static int fill(struct writer *w, const char *name, int out, bool sync)
{
	int rc = 0, in = openat(w->from, name, O_RDONLY | O_CLOEXEC);
	bool early = is(w, SYNC_BEFORE_WRITE) ||
		     (is(w, LIKE_DCP) && strcmp(name, METADATA) == 0);

	if (in < 0)
		return -errno;
	if (fchmod(out, w->like.st_mode & 0777) ||
	    fchown(out, w->like.st_uid, w->like.st_gid))
		rc = -errno;
	if (rc == 0 && sync && early)
		rc = sync_fd(w, out);
	if (rc == 0)
		rc = copy_pieces(w, in, out);
	if (rc == 0 && sync && !early)
		rc = sync_fd(w, out);
	close(in);
	return rc;
}

/* Copies a file of NEW to the name `as`; `over`: replaces an existing file. */
static int put(struct writer *w, const char *name, const char *as, bool over,
	       bool sync)
{
	int how = O_WRONLY | O_CREAT | O_CLOEXEC | (over ? O_TRUNC : O_EXCL);
	int rc, fd = openat(w->to, as, how, 0600);

	if (fd < 0)
		return -errno;
	if (strcmp(as, name) == 0)
		w->made++;
	else
		w->made_tmp = true;
	rc = fill(w, name, fd, sync);
	if (close(fd) && rc == 0)
		rc = -errno;
	return rc;
}

static int put_shards(struct writer *w)
{
	bool over = is(w, SHARDS_IN_PLACE) || is(w, LIKE_DCP);
	int rc = 0;

	for (size_t i = 0; i < w->n && rc == 0; i++)
		rc = put(w, w->shards[i], w->shards[i], over,
			 !is(w, NO_SHARD_SYNC));
	if (rc == 0 && !is(w, NO_FIRST_DIRECTORY_SYNC) && !is(w, LIKE_DCP))
		rc = sync_fd(w, w->to);
	return rc;
}

static int sync_late(struct writer *w)
{
	int rc, fd = openat(w->to, METADATA, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	rc = sync_fd(w, fd);
	close(fd);
	return rc;
}

/* fsync of a directory may return 0 on a file system that was shut down. */
static int sync_last(struct writer *w)
{
	int rc = 0;

	if (is(w, NO_LAST_SYNC) || is(w, LIKE_DCP))
		return 0;
	if (!is(w, NO_LAST_METADATA_SYNC))
		rc = sync_late(w);
	if (rc == 0 && !is(w, NO_LAST_DIRECTORY_SYNC))
		rc = sync_fd(w, w->to);
	return rc;
}

static int publish(struct writer *w)
{
	bool late = is(w, RENAME_BEFORE_SYNC);
	int rc;

	if (is(w, METADATA_IN_PLACE))
		return put(w, METADATA, METADATA, true, true);
	rc = put(w, METADATA, TMP, is(w, LIKE_DCP),
		 !late && !is(w, NO_METADATA_SYNC));
	if (rc)
		return rc;
	if (is(w, UNLINK_FIRST) || is(w, LIKE_DCP))
		unlinkat(w->to, METADATA, 0);
	if (renameat(w->to, TMP, w->to, METADATA))
		return -errno;
	w->published = true;
	return sync_last(w);
}

/* Mutant: removes files of other programs, as if they were unreferenced. */
static void remove_foreign(struct writer *w)
{
	unlinkat(w->to, "notes.json", 0);
}

static void clean(struct writer *w)
{
	if (is(w, LEAVE_FILES) || (w->published && !is(w, CLEAN_AFTER_RENAME)))
		return;
	for (size_t i = 0; i < w->made && i < w->n; i++)
		unlinkat(w->to, w->shards[i], 0);
	if (w->made_tmp && !w->published)
		unlinkat(w->to, TMP, 0);
}

static int report(void)
{
	if (puts("committed") < 0 || fflush(stdout))
		return -EIO;
	return 0;
}

static int commit(struct writer *w)
{
	int rc = 0;

	if (flock(w->to, LOCK_EX | LOCK_NB) ||
	    fstatat(w->to, METADATA, &w->like, 0))
		return -errno;
	if (is(w, REPORT_EARLY))
		rc = report();
	if (rc == 0 && is(w, METADATA_FIRST))
		rc = publish(w);
	if (rc == 0)
		rc = put_shards(w);
	if (rc == 0 && !is(w, METADATA_FIRST))
		rc = publish(w);
	if (rc == 0 && is(w, REMOVE_FOREIGN))
		remove_foreign(w);
	if (rc == 0 && !is(w, REPORT_EARLY))
		rc = report();
	return rc;
}

static int list_new(struct writer *w, const char *path)
{
	struct dirent **rows = NULL;
	int n = scandir(path, &rows, NULL, alphasort);

	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		if (rows[i]->d_name[0] != '.' && w->n < MOST_SHARDS)
			w->shards[w->n++] = strdup(rows[i]->d_name);
		free(rows[i]);
	}
	free(rows);
	for (size_t i = 0; i < w->n; i++)
		if (!w->shards[i])
			return -ENOMEM;
	return 0;
}

static int start(struct writer *w, char **argv)
{
	while (w->mutant < MUTANTS && strcmp(argv[1], names[w->mutant]) != 0)
		w->mutant++;
	if (w->mutant == MUTANTS)
		return -EINVAL;
	w->to = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w->from = open(argv[3], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->to < 0 || w->from < 0)
		return -errno;
	return list_new(w, argv[3]);
}

int main(int argc, char **argv)
{
	struct writer w = { .mutant = CORRECT, .to = -1, .from = -1 };
	int rc = argc == 4 ? start(&w, argv) : -EINVAL;

	if (rc == 0) {
		rc = commit(&w);
		if (rc)
			clean(&w);
	}
	for (size_t i = 0; i < w.n; i++)
		free(w.shards[i]);
	if (rc) {
		fprintf(stderr, "reference: %s\n", strerror(-rc));
		return 1;
	}
	return 0;
}
