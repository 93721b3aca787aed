/* SPDX-License-Identifier: MIT */
#include "load_names.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int ck_str_cmp(const void *a, const void *b)
{
	const struct ck_str *x = a, *y = b;
	int order = memcmp(x->p, y->p, ck_min(x->len, y->len));

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

bool ck_name_ends(const char *name, const char *suffix)
{
	size_t len = strlen(name), end = strlen(suffix);

	return len > end && strcmp(name + len - end, suffix) == 0;
}

void ck_dir_names_fini(struct ck_dir_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->all[i]);
	free(names->all);
	*names = (struct ck_dir_names){ 0 };
}

int ck_dir_names_add(struct ck_dir_names *names, const char *name)
{
	char **all = ck_grow(names->all, &names->cap, names->n, 1,
			     sizeof(*all));
	char *copy = strdup(name);

	if (all)
		names->all = all;
	if (!all || !copy) {
		free(copy);
		return -ENOMEM;
	}
	all[names->n++] = copy;
	return 0;
}

static int name_cmp(const void *a, const void *b)
{
	return ck_str_natural_cmp(ck_str_from(*(char *const *)a),
				  ck_str_from(*(char *const *)b));
}

void ck_dir_names_sort(struct ck_dir_names *names)
{
	if (names->n)
		qsort(names->all, names->n, sizeof(*names->all), name_cmp);
}

/* --- directories --------------------------------------------------------------------- */

/* Lists the entries of all hosts. */
static int each_elsewhere(struct ck_remote_source *elsewhere, size_t entries,
			  int (*entry)(void *arg, const struct dirent *e),
			  void *arg)
{
	const struct ck_remote_source_name *list = NULL;
	size_t n = 0;
	int rc = elsewhere->list(elsewhere, &list, &n, NULL);

	for (size_t i = 0; i < n && entries && rc == 0; i++) {
		struct dirent e = { .d_type = list[i].type };
		size_t len = strlen(list[i].name);

		if (len >= sizeof(e.d_name))
			continue;
		memcpy(e.d_name, list[i].name, len + 1);
		entries--;
		rc = entry(arg, &e);
	}
	return rc;
}

static int each_here(int dirfd, size_t entries,
		     int (*entry)(void *arg, const struct dirent *e), void *arg)
{
	int fd = ck_open_again(dirfd);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e = NULL;
	int rc = 0;

	if (!dir) {
		rc = fd < 0 ? fd : -errno;
		if (fd >= 0)
			close(fd);
		return rc;
	}
	errno = 0;
	while (rc == 0 && entries-- && (e = readdir(dir)))
		rc = entry(arg, e);
	if (rc == 0 && !e && errno)
		rc = -errno;
	closedir(dir);
	return rc;
}

int ck_dir_each(struct ck_directory dir, size_t entries,
		int (*entry)(void *arg, const struct dirent *e), void *arg)
{
	return dir.elsewhere
		       ? each_elsewhere(dir.elsewhere, entries, entry, arg)
		       : each_here(dir.fd, entries, entry, arg);
}

struct reading {
	const struct ck_dir_want *want;
	struct ck_dir_names *out;
};

/* Returns 1 if there are as many names as wanted. */
static int name_read(void *arg, const struct dirent *e)
{
	const struct reading *r = arg;
	int rc = 0;

	if (e->d_name[0] != '.' && r->want->wanted(e->d_name))
		rc = ck_dir_names_add(r->out, e->d_name);
	return rc ? rc : r->out->n >= r->want->most;
}

int ck_dir_names_read(struct ck_directory dir, const struct ck_dir_want *want,
		      struct ck_dir_names *out)
{
	struct reading r = { want, out };
	int rc = ck_dir_each(dir, want->entries, name_read, &r);

	ck_dir_names_sort(out);
	return rc < 0 ? rc : 0;
}

/* --- first bytes of files --------------------------------------------------------- */

/* True for a regular file, also one that cannot be opened for reading. */
static bool is_regular(int dirfd, const char *name)
{
	ck_auto_fd int fd = ck_open_beneath(dirfd, ck_str_from(name), O_PATH,
					    CK_BENEATH_SYMLINKS);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static int begin_of(int fd, bool (*is)(const uint8_t *head, size_t len))
{
	uint8_t head[CK_REMOTE_SOURCE_HEAD];
	struct stat st;
	size_t n;
	int rc;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return 0;
	n = (size_t)ck_min((uint64_t)st.st_size, sizeof(head));
	rc = ck_pread_full(fd, head, n, 0);
	return rc ? rc : is(head, n);
}

int ck_dir_begins(int dirfd, const char *name,
		  bool (*is)(const uint8_t *head, size_t len))
{
	ck_auto_fd int fd = ck_open_beneath(dirfd, ck_str_from(name),
					    O_RDONLY | O_NONBLOCK | O_NOCTTY,
					    CK_BENEATH_SYMLINKS);
	int rc = fd < 0 ? fd : begin_of(fd, is);

	if (rc >= 0 || ck_is_shortage(rc))
		return rc;
	if (fd >= 0 || rc == -EXDEV)
		return 1;
	return rc != -ENOENT && rc != -ELOOP && is_regular(dirfd, name);
}

static int begin_elsewhere(struct ck_remote_source *elsewhere,
			   bool (*is)(const uint8_t *head, size_t len),
			   const struct ck_dir_names *names, bool *out)
{
	ck_auto_free struct ck_str *texts = calloc(names->n + 1,
						   sizeof(*texts));

	if (!texts)
		return -ENOMEM;
	for (size_t i = 0; i < names->n; i++)
		texts[i] = ck_str_from(names->all[i]);
	return elsewhere->begins(elsewhere, texts, names->n, is, out, NULL);
}

static void names_leave(struct ck_dir_names *names, const bool *which)
{
	size_t n = 0;

	for (size_t i = 0; i < names->n; i++)
		if (which[i])
			names->all[n++] = names->all[i];
		else
			free(names->all[i]);
	names->n = n;
}

int ck_dir_names_begin(struct ck_directory dir,
		       bool (*is)(const uint8_t *head, size_t len),
		       struct ck_dir_names *names)
{
	ck_auto_free bool *which = calloc(names->n + 1, sizeof(*which));
	int rc = which ? 0 : -ENOMEM;

	if (rc == 0 && dir.elsewhere)
		rc = begin_elsewhere(dir.elsewhere, is, names, which);
	for (size_t i = 0; i < names->n && rc >= 0 && !dir.elsewhere; i++) {
		rc = ck_dir_begins(dir.fd, names->all[i], is);
		which[i] = rc > 0;
	}
	if (rc < 0)
		return rc;
	names_leave(names, which);
	return 0;
}
