/* SPDX-License-Identifier: MIT */
/*
 * collect: removes files that earlier commits left: those of interrupted commits, and
 * data files that later commits replaced. Such files have names that only commits give,
 * and no metadata references them. Runs once, when a writer opens, under the lock of
 * the checkpoint.
 *
 * Metadata may reference a file by another path than its name: `./name`, a symbolic
 * link, a hard link. So files are compared, not names. If a file of the metadata cannot
 * be identified, nothing is removed, since any file may be that one.
 */
#include "commit_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- files of the metadata -------------------------------------------------------- */

struct ids {
	struct ck_file_id *list; /* sorted; owned */
	size_t n;
};

static bool ids_have(const struct ids *ids, const struct stat *st)
{
	const struct ck_file_id id = ck_file_id_of(st);

	return ids->n &&
	       bsearch(&id, ids->list, ids->n, sizeof(id), ck_file_id_cmp);
}

/* Lists all files that the metadata references. After an error the list is
 * incomplete. */
static int ids_find(struct ids *ids, const struct ck_files *files,
		    struct ck_diag *d)
{
	uint32_t n = ck_files_count(files);

	ids->list = calloc(n + 1UL, sizeof(*ids->list));
	if (!ids->list)
		return ck_fail(d, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < n; i++) {
		int rc = ck_files_identify(files, i, &ids->list[ids->n]);

		if (rc && rc != -ENOENT)
			return ck_fail(d, -rc, "%s: %s",
				       ck_show(ck_files_info(files, i)->path),
				       strerror(-rc));
		ids->n += rc == 0;
	}
	qsort(ids->list, ids->n, sizeof(*ids->list), ck_file_id_cmp);
	return 0;
}

/* --- unreferenced files ----------------------------------------------------------- */

struct found {
	uint64_t generation;
	unsigned n;
};

/* True for a regular file with a name that only a commit gives. */
static bool is_ours(const struct ck_writer *w, const char *name,
		    uint64_t *generation, struct stat *st)
{
	return ck_name_is_ours(w->cp, name, generation) &&
	       fstatat(w->dirfd, name, st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st->st_mode);
}

static void note_names(struct ck_writer *w, DIR *dir, struct found *found)
{
	const struct dirent *e;
	uint64_t generation;
	struct stat st;

	while ((e = readdir(dir))) {
		if (!is_ours(w, e->d_name, &generation, &st))
			continue;
		found->generation = ck_max(found->generation, generation);
		found->n++;
	}
	rewinddir(dir);
}

static void remove_others(struct ck_writer *w, DIR *dir, const struct ids *ids)
{
	const struct dirent *e;
	unsigned removed = 0;
	uint64_t generation;
	struct stat st;

	while ((e = readdir(dir)))
		if (is_ours(w, e->d_name, &generation, &st) &&
		    !ids_have(ids, &st))
			removed += unlinkat(w->dirfd, e->d_name, 0) == 0;
	if (removed)
		ck_log("%s: removed %u files of earlier commits that nothing "
		       "names any more",
		       ck_show(ck_str_from(w->cp->path)), removed);
}

/* Sets the last generation, and removes unreferenced files if all files of the metadata
 * are identified. */
static void collect(struct ck_writer *w, DIR *dir)
{
	struct found found = { 0 };
	struct ids ids = { 0 };
	struct ck_diag d = { 0 };

	note_names(w, dir, &found);
	w->generation = found.generation;
	if (found.n == 0)
		return;
	if (ids_find(&ids, w->cp->files, &d) == 0)
		remove_others(w, dir, &ids);
	else
		ck_log("%s: files of earlier commits are kept, since one that "
		       "%s names may be any of them: %s",
		       ck_show(ck_str_from(w->cp->path)),
		       ck_metadata_name(w->cp), d.text);
	free(ids.list);
}

int ck_writer_collect(struct ck_writer *w, struct ck_diag *d)
{
	int fd = ck_open_again(w->dirfd);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return ck_fail(d, fd < 0 ? -fd : ENOMEM, "cannot be listed");
	}
	collect(w, dir);
	closedir(dir);
	return 0;
}
