/* SPDX-License-Identifier: MIT */
/*
 * run_scan: reads a run directory. It is listed again if its mtime has changed.
 * A subdirectory is checked again if its mtime has changed, or as long as it is
 * not shown: growing files change no directory. Timestamps are coarse, so a
 * changed directory is checked once more at the next scan. Links are not
 * followed. The state is in struct ck_rundir, under its lock.
 */
#include "format/load/load_names.h"
#include "run_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MOST = 1024 };

void ck_found_fini(struct ck_found *f)
{
	free(f->name);
	free(f->why);
}

int ck_run_text(const struct ck_rundir *r, const char *name, struct ck_buf *out)
{
	ck_auto_fd int fd = ck_open_beneath(r->cp->dirfd, ck_str_from(name),
					    O_RDONLY | O_NONBLOCK | O_NOCTTY,
					    CK_BENEATH_NO_SYMLINKS);
	char text[TEXT_MOST];
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -ENOENT;
	n = read(fd, text, sizeof(text));
	while (n > 0 && strchr(" \t\r\n", text[n - 1]))
		n--;
	if (n > 0)
		ck_buf_add(out, text, (size_t)n);
	return n > 0 ? out->err : -ENOENT;
}

/* --- names ------------------------------------------------------------------------- */

static int found_cmp(const void *a, const void *b)
{
	const struct ck_found *x = a, *y = b;

	return ck_str_natural_cmp(ck_str_from(x->name), ck_str_from(y->name));
}

/* Finds a name among the first n subdirectories, which are sorted. */
static struct ck_found *found_find(const struct ck_rundir *r, size_t n,
				   const char *name)
{
	const struct ck_found key = { .name = (char *)(uintptr_t)name };

	return n ? bsearch(&key, r->found, n, sizeof(key), found_cmp) : NULL;
}

static int directory_note(struct ck_rundir *r, size_t sorted, const char *name)
{
	struct ck_found *f = found_find(r, sorted, name);

	if (f) {
		f->is_there = true;
		return 0;
	}
	f = ck_grow(r->found, &r->cap, r->n, 1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	r->found = f;
	f[r->n] = (struct ck_found){ .name = strdup(name), .is_there = true };
	if (!f[r->n].name)
		return -ENOMEM;
	r->n++;
	return 0;
}

static int link_note(struct ck_rundir *r, const char *name)
{
	char target[NAME_MAX + 2];
	ssize_t n = readlinkat(r->cp->dirfd, name, target, sizeof(target));
	struct ck_found_link *l = r->links;
	size_t i = 0;

	if (n <= 0 || (size_t)n == sizeof(target))
		return 0;
	while (i < r->nlinks && strcmp(l[i].name, name) != 0)
		i++;
	if (i == r->nlinks) {
		l = ck_grow(l, &r->links_cap, i, 1, sizeof(*l));
		if (!l)
			return -ENOMEM;
		r->links = l;
		l[i] = (struct ck_found_link){ .name = strdup(name) };
		if (!l[i].name)
			return -ENOMEM;
		r->nlinks++;
	}
	free(l[i].target);
	l[i].target = strndup(target, (size_t)n);
	l[i].is_there = true;
	return l[i].target ? 0 : -ENOMEM;
}

struct listing {
	struct ck_rundir *r;
	size_t sorted; /* number of sorted rows of r->found */
};

static int entry_note(void *arg, const struct dirent *e)
{
	const struct listing *l = arg;
	struct ck_rundir *r = l->r;
	struct stat st;
	unsigned type = e->d_type;

	if (e->d_name[0] == '.')
		return 0;
	if (type == DT_UNKNOWN &&
	    fstatat(r->cp->dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		type = IFTODT(st.st_mode);
	if (type == DT_LNK)
		return link_note(r, e->d_name);
	return type == DT_DIR ? directory_note(r, l->sorted, e->d_name) : 0;
}

/* Drops names that no longer exist. */
static void prune(struct ck_rundir *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		if (r->found[i].is_there)
			r->found[n++] = r->found[i];
		else
			ck_found_fini(&r->found[i]);
	r->n = n;
	n = 0;
	for (size_t i = 0; i < r->nlinks; i++)
		if (r->links[i].is_there && r->links[i].target) {
			r->links[n++] = r->links[i];
		} else {
			free(r->links[i].name);
			free(r->links[i].target);
		}
	r->nlinks = n;
}

static int list(struct ck_rundir *r)
{
	struct listing l = { r, r->n };
	int rc;

	for (size_t i = 0; i < r->n; i++)
		r->found[i].is_there = false;
	for (size_t i = 0; i < r->nlinks; i++)
		r->links[i].is_there = false;
	rc = ck_dir_each((struct ck_directory){ r->cp->dirfd, NULL }, SIZE_MAX,
			 entry_note, &l);
	if (rc)
		return rc;
	prune(r);
	if (r->n)
		qsort(r->found, r->n, sizeof(*r->found), found_cmp);
	return 0;
}

/* --- subdirectories ---------------------------------------------------------------- */

static bool is_same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Checks a subdirectory. It loses its id if it is no longer complete, was replaced by
 * another directory, or has another format. */
static int judge(struct ck_rundir *r, struct ck_found *f, bool other)
{
	ck_auto_fd int fd = ck_open_beneath(r->cp->dirfd, ck_str_from(f->name),
					    O_RDONLY | O_DIRECTORY | O_NONBLOCK,
					    CK_BENEATH_NO_SYMLINKS);
	const struct ck_format *format = NULL;
	char *why = NULL;
	int rc = 0;

	if (fd < 0)
		why = strdup(strerror(-fd));
	else
		rc = ck_run_judge(r, f->name, fd, &format, &why);
	if (rc || (fd < 0 && !why))
		return -ENOMEM;
	if (other || why || format != f->format)
		f->id = 0;
	free(f->why);
	f->why = why;
	f->format = format;
	return 0;
}

/* Stats a subdirectory, and checks it if necessary. */
static int found_check(struct ck_rundir *r, struct ck_found *f)
{
	struct stat st;
	bool other, changed;

	if (fstatat(r->cp->dirfd, f->name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISDIR(st.st_mode)) {
		f->is_there = false;
		return 0;
	}
	other = !f->was_seen || f->dev != st.st_dev || f->ino != st.st_ino;
	changed = other || !is_same_time(f->mtime, st.st_mtim);
	if (!changed && !f->why && f->is_settled)
		return 0;
	f->changes += changed || !f->is_settled;
	f->is_settled = !changed;
	f->was_seen = true;
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	f->mtime = st.st_mtim;
	return judge(r, f, other);
}

int ck_run_scan(struct ck_rundir *r)
{
	struct stat st;
	bool changed;
	int rc = fstat(r->cp->dirfd, &st) ? -errno : 0;

	if (rc)
		return rc;
	changed = !r->was_looked || !is_same_time(st.st_mtim, r->mtime);
	if (changed || !r->is_settled)
		rc = list(r);
	for (size_t i = 0; i < r->n && rc == 0; i++)
		rc = found_check(r, &r->found[i]);
	if (rc)
		return rc;
	prune(r);
	r->is_settled = !changed;
	r->mtime = st.st_mtim;
	r->was_looked = true;
	return 0;
}
