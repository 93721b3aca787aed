/* SPDX-License-Identifier: MIT */
#include "mounted.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE "/proc/self/mountinfo"
#define TYPE  "fuse.ckptfs"

enum { TRIES = 50, TRY_USEC = 1000 };

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000U /* Linux 6.8; else the id may come again */
#endif

/* --- by descriptor -------------------------------------------------------- */

static int id_of(int fd, const char *path, int flags, struct ck_mount_id *out)
{
	struct statx st, number;

	flags |= AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT;
	if (statx(fd, path, flags, STATX_MNT_ID | STATX_MNT_ID_UNIQUE, &st) ||
	    statx(fd, path, flags, STATX_MNT_ID, &number))
		return -errno;
	*out = (struct ck_mount_id){ .id = st.stx_mnt_id,
				     .row = (int)number.stx_mnt_id,
				     .major = st.stx_dev_major,
				     .minor = st.stx_dev_minor };
	return 0;
}

int ck_mount_id(const char *path, struct ck_mount_id *out)
{
	return id_of(AT_FDCWD, path, 0, out);
}

/* Before Linux 5.8 there are no numbers, and the device has to do. */
static bool same_row(const struct ck_mount_id *a, const struct ck_mount_id *b)
{
	return (a->row == b->row || a->row == 0 || b->row == 0) &&
	       a->major == b->major && a->minor == b->minor;
}

/* What is at path, if it is that row: a descriptor. id: 0 is any. */
static int open_if(const char *path, const struct ck_mount_id *wanted,
		   struct ck_mount_id *out)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (id_of(fd, "", AT_EMPTY_PATH, out) == 0 && same_row(out, wanted) &&
	    (wanted->id == 0 || wanted->id == out->id))
		return fd;
	close(fd);
	return -ENOENT;
}

/* --- the table ------------------------------------------------------------ */

struct row {
	struct ck_mount_id id;
	char *point, *type, *source, *options; /* in the line */
};

static bool is_octal(const char *p)
{
	return p[0] >= '0' && p[0] <= '3' && p[1] >= '0' && p[1] <= '7' &&
	       p[2] >= '0' && p[2] <= '7';
}

/* Blanks and the like are `\` and three octal digits. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *p = text; *p; to++) {
		bool octal = *p == '\\' && is_octal(p + 1);

		*to = octal ? (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 +
				     (p[3] - '0'))
			    : *p;
		p += octal ? 4 : 1;
	}
	*to = '\0';
}

/* "36 35 0:47 / POINT rw,noatime shared:1 - TYPE SOURCE rw,user_id=0"; a source
 * may be empty. */
static bool row_parse(char *line, struct row *r)
{
	char *behind = strstr(line, " - ");
	int at = 0;

	*r = (struct row){ 0 };
	line[strcspn(line, "\n")] = '\0';
	if (!behind || sscanf(line, "%d %*d %u:%u %*s %n", &r->id.row,
			      &r->id.major, &r->id.minor, &at) != 3)
		return false;
	*behind = '\0';
	behind += 3;
	r->point = line + at;
	r->point[strcspn(r->point, " ")] = '\0';
	r->type = strsep(&behind, " ");
	r->source = strsep(&behind, " ");
	r->options = behind;
	if (!r->source || !r->options)
		return false;
	unescape(r->point);
	unescape(r->source);
	return true;
}

/* Calls each(row, arg) until it is true. 0, or -errno. */
static int rows_each(bool (*each)(const struct row *r, void *arg), void *arg)
{
	FILE *f = fopen(TABLE, "re");
	char *line = NULL;
	size_t size = 0;
	struct row r;
	int rc = 0;

	if (!f)
		return -errno;
	while (getline(&line, &size, f) > 0)
		if (row_parse(line, &r) && each(&r, arg))
			break;
	if (ferror(f))
		rc = -EIO;
	free(line);
	fclose(f);
	return rc;
}

/* --- which is new --------------------------------------------------------- */

static bool could_be_ours(const struct row *r, const char *fsname)
{
	char user[32];
	const char *at;

	if (strcmp(r->type, TYPE) != 0 || strcmp(r->source, fsname) != 0)
		return false;
	snprintf(user, sizeof(user), "user_id=%u,", getuid());
	at = strstr(r->options, user);
	return at && (at == r->options || at[-1] == ',');
}

struct noting {
	const char *fsname;
	struct ck_mounts_before *out;
	int rc;
};

static bool note(const struct row *r, void *arg)
{
	struct noting *n = arg;
	struct ck_mounts_before *out = n->out;
	struct ck_mount_id *ids;

	if (!could_be_ours(r, n->fsname))
		return false;
	ids = ck_grow(out->ids, &out->cap, out->n, 1, sizeof(*ids));
	if (!ids) {
		n->rc = -ENOMEM;
		return true;
	}
	out->ids = ids;
	out->ids[out->n++] = r->id;
	return false;
}

int ck_mounts_note(const char *fsname, struct ck_mounts_before *out)
{
	struct noting n = { fsname, out, 0 };
	int rc;

	*out = (struct ck_mounts_before){ 0 };
	rc = rows_each(note, &n);
	return rc ? rc : n.rc;
}

void ck_mounts_forget(struct ck_mounts_before *before)
{
	free(before->ids);
	*before = (struct ck_mounts_before){ 0 };
}

struct search {
	const char *fsname, *mountpoint;
	const struct ck_mounts_before *before;
	struct ck_mount_id wanted; /* by number */
	struct ck_mount_id found;
	char *point; /* of what was found; owned */
	size_t n;
	bool at_place;
};

static void take(struct search *s, const struct row *r)
{
	free(s->point);
	s->point = strdup(r->point);
	s->found = r->id;
}

static bool look_for_new(const struct row *r, void *arg)
{
	struct search *s = arg;
	bool at_place = strcmp(r->point, s->mountpoint) == 0;

	if (!could_be_ours(r, s->fsname))
		return false;
	for (size_t i = 0; i < s->before->n; i++)
		if (same_row(&s->before->ids[i], &r->id))
			return false;
	s->n++;
	if (at_place || !s->at_place)
		take(s, r);
	s->at_place |= at_place;
	return false;
}

int ck_mount_find_new(const char *fsname, const char *mountpoint,
		      const struct ck_mounts_before *before,
		      struct ck_mount_id *out)
{
	int fd = -ENOENT;

	/* Its path may change between the table and the look at it. */
	for (int i = 0; i < TRIES && fd == -ENOENT; i++) {
		struct search s = { .fsname = fsname,
				    .mountpoint = mountpoint,
				    .before = before };
		int rc = rows_each(look_for_new, &s);

		if (rc == 0 && s.point && (s.n == 1 || s.at_place))
			fd = open_if(s.point, &s.found, out);
		free(s.point);
		if (rc)
			return rc;
		if (fd < 0)
			usleep(TRY_USEC);
	}
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* --- where it is ---------------------------------------------------------- */

static bool look_for_row(const struct row *r, void *arg)
{
	struct search *s = arg;

	if (!same_row(&s->wanted, &r->id) || strcmp(r->type, TYPE) != 0)
		return false;
	take(s, r);
	return true;
}

int ck_mounted_open(const char *mountpoint, const struct ck_mount_id *mounted)
{
	struct ck_mount_id there;
	int fd = open_if(mountpoint, mounted, &there);

	for (int i = 0; i < TRIES && fd < 0; i++) {
		struct search s = { .wanted = *mounted };
		int rc = rows_each(look_for_row, &s);

		if (rc == 0 && !s.point)
			return -ENOENT;
		if (s.point)
			fd = open_if(s.point, mounted, &there);
		free(s.point);
		if (fd < 0)
			usleep(TRY_USEC);
	}
	return fd < 0 ? -EBUSY : fd;
}
