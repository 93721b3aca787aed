/* SPDX-License-Identifier: MIT */
/*
 * mounts: reads the kernel's mount table, and finds the row of a path. No function sends a
 * request to a mount. Paths are resolved in a child process, since their directories may be
 * in file systems that hang. No state.
 */
#include "mounts.h"
#include "base/system/mountinfo.h"
#include "ckptfs/fs.h"
#include "cli.h"
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

enum { LINKS = 40 }; /* symbolic links followed, the kernel's limit */

/* --- rows ----------------------------------------------------------------- */

static int add_row(const struct ck_mountinfo *row, void *arg)
{
	struct ck_mounts *out = arg;
	struct ck_mount *rows = ck_grow(out->rows, &out->cap, out->n, 1,
					sizeof(*rows));
	struct ck_mount m = { .id = row->id,
			      .parent = row->parent,
			      .major = row->major,
			      .minor = row->minor };

	if (!rows)
		return -ENOMEM;
	out->rows = rows;
	m.ours = strcmp(row->type, CK_FS_TYPE) == 0 &&
		 ck_mountinfo_user(row, &m.user);
	m.whole = strcmp(row->root, "/") == 0;
	m.write = ck_mountinfo_option(row, "rw", NULL);
	m.point = strdup(row->point);
	m.source = strdup(row->source);
	rows[out->n++] = m;
	return m.point && m.source ? 0 : -ENOMEM;
}

int ck_mounts_read(struct ck_mounts *out)
{
	int rc;

	*out = (struct ck_mounts){ 0 };
	rc = ck_mountinfo_each(add_row, out);
	if (rc)
		ck_mounts_fini(out);
	return rc;
}

void ck_mount_fini(struct ck_mount *m)
{
	free(m->point);
	free(m->source);
	*m = (struct ck_mount){ 0 };
}

void ck_mounts_fini(struct ck_mounts *m)
{
	for (size_t i = 0; i < m->n; i++)
		ck_mount_fini(&m->rows[i]);
	free(m->rows);
	*m = (struct ck_mounts){ 0 };
}

bool ck_mount_elsewhere(const struct ck_mount *m, bool whole)
{
	struct ck_mounts all;
	bool found = false;

	if (ck_mounts_read(&all))
		return false;
	for (size_t i = 0; i < all.n && !found; i++) {
		const struct ck_mount *row = &all.rows[i];

		found = row->ours && row->id != m->id &&
			row->major == m->major && row->minor == m->minor &&
			(row->whole || !whole);
	}
	ck_mounts_fini(&all);
	return found;
}

/* --- paths ---------------------------------------------------------------- */

/* Returns the last component of a path, inside `path`: "b" of "a/b///". Removes the
 * trailing slashes. */
static char *cut_last(char *path)
{
	size_t len = strlen(path);
	char *slash;

	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
	slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Returns the target of a symbolic link, relative to the link's directory. Caller frees it.
 * NULL with errno set after an error: EINVAL if it is not a link. */
static char *link_target(const char *link, const char *directory)
{
	char target[PATH_MAX / 2];
	ssize_t n = readlink(link, target, sizeof(target));
	char *whole = NULL;

	if (n == sizeof(target))
		errno = ENAMETOOLONG;
	if (n < 0 || n == sizeof(target))
		return NULL;
	target[n] = '\0';
	if (*target == '/')
		return strdup(target);
	return asprintf(&whole, "%s/%s", directory, target) < 0 ? NULL : whole;
}

/* One step of ck_resolve(). *is_link: the last component was a link, and its target is
 * returned, not resolved yet. Otherwise the parent is resolved. Caller frees the path. NULL with
 * errno set after an error. */
static char *resolve_step(char *path, bool *is_link)
{
	char *last = cut_last(path), *target;
	ck_auto_free char *name = strdup(last);
	ck_auto_free char *parent = NULL;
	ck_auto_free char *whole = NULL;

	*is_link = false;
	if (!name || !*name || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0)
		return realpath(path, NULL);
	*last = '\0';
	parent = realpath(*path ? path : ".", NULL);
	if (!parent ||
	    asprintf(&whole, "%s/%s", parent + (parent[1] == '\0'), name) < 0)
		return NULL;
	target = link_target(whole, parent);
	*is_link = target != NULL;
	if (target || (errno != EINVAL && errno != ENOTCONN))
		return target;
	return ck_steal(&whole);
}

char *ck_resolve(const char *path)
{
	char *at = strdup(path);
	bool is_link = true;

	if (at && !*at) {
		free(at);
		errno = ENOENT;
		return NULL;
	}
	for (int i = 0; at && is_link; i++) {
		char *next = NULL;

		if (i < LINKS)
			next = resolve_step(at, &is_link);
		else
			errno = ELOOP;
		free(at);
		at = next;
	}
	return at;
}

/* The answer is a struct ck_shown and the path. */
static int resolve_work(void *arg, struct ck_buf *answer)
{
	ck_auto_free char *path = ck_resolve(arg);
	struct ck_shown shown;

	if (!path)
		return -errno;
	if (ck_shown_at(path, &shown))
		shown = (struct ck_shown){ 0 };
	ck_buf_add(answer, &shown, sizeof(shown));
	ck_buf_text(answer, path);
	return answer->err;
}

char *ck_path(const char *path, struct ck_shown *shown)
{
	ck_auto_free char *copy = strdup(path);
	const char *name = ck_show(ck_str_from(path));
	struct ck_buf answer = { 0 };
	int rc = copy ? ck_probe(resolve_work, copy, CK_PROBE_MSEC, NULL,
				 &answer)
		      : -ENOMEM;
	char *whole = NULL;

	*shown = (struct ck_shown){ 0 };
	if (rc == 0 && answer.len > sizeof(*shown)) {
		memcpy(shown, answer.data, sizeof(*shown));
		whole = strdup(answer.data + sizeof(*shown));
	}
	ck_buf_fini(&answer);
	if (rc == -ETIMEDOUT)
		ck_trouble("%s: the file system of a directory above it does "
			   "not answer",
			   name);
	else if (!whole)
		ck_trouble("%s: %s", name, strerror(rc ? -rc : ENOMEM));
	return whole;
}

static bool has_covered(const struct ck_mounts *all, const char *path)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->rows[i].ours && strcmp(all->rows[i].point, path) == 0)
			return true;
	return false;
}

/* out: receives a copy of the row; out->point is `path`. name: `path`, for messages.
 * Returns the exit status. */
static int find_row(const char *path, const struct ck_shown *shown,
		    const char *name, struct ck_mount *out)
{
	struct ck_mounts all;
	const struct ck_mount *m;
	bool covered;
	int rc = ck_mounts_read(&all);

	if (rc)
		return ck_trouble(CK_MOUNTINFO ": %s", strerror(-rc));
	m = ck_mounts_shown(&all, shown);
	if (!m || !m->ours) {
		covered = has_covered(&all, path);
		ck_mounts_fini(&all);
		return ck_trouble("%s: %s", name,
				  covered ? "is covered by another mount"
					  : "not the mount point of a "
					    "checkpoint");
	}
	*out = *m;
	out->unique = shown->unique;
	out->point = strdup(path);
	out->source = strdup(m->source);
	ck_mounts_fini(&all);
	if (out->point && out->source)
		return CK_EXIT_FINE;
	ck_mount_fini(out);
	return ck_trouble("out of memory");
}

int ck_mount_find(const char *path, struct ck_mount *out)
{
	struct ck_shown shown;
	ck_auto_free char *whole = ck_path(path, &shown);

	*out = (struct ck_mount){ 0 };
	if (!whole)
		return CK_EXIT_TROUBLE;
	return find_row(whole, &shown, ck_show(ck_str_from(path)), out);
}
