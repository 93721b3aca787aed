/* SPDX-License-Identifier: MIT */
/*
 * mountinfo: parses /proc/self/mountinfo. The fields of a row are separated by
 * one blank; in a field, blanks and similar characters are `\` and three octal
 * digits. A carriage return in a name is part of the name, and a source may be
 * empty. No state; any thread.
 */
#include "mountinfo.h"

#include <limits.h>
#include <stdio.h>

/* --- fields ---------------------------------------------------------------- */

static bool is_octal(const char *p)
{
	return p[0] >= '0' && p[0] <= '3' && p[1] >= '0' && p[1] <= '7' &&
	       p[2] >= '0' && p[2] <= '7';
}

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

/* Parses the number at the begin of *text and advances *text. */
static bool take_number(char **text, unsigned long most, unsigned long *out)
{
	char *end;

	if (!*text || **text < '0' || **text > '9')
		return false;
	errno = 0;
	*out = strtoul(*text, &end, 10);
	*text = end;
	return errno == 0 && *out <= most;
}

static bool read_number(char *field, int *out)
{
	unsigned long n;

	if (!take_number(&field, INT_MAX, &n) || *field)
		return false;
	*out = (int)n;
	return true;
}

/* A field such as "0:47". */
static bool read_device(char *field, struct ck_mountinfo *out)
{
	unsigned long major, minor;

	if (!take_number(&field, UINT_MAX, &major) || *field++ != ':' ||
	    !take_number(&field, UINT_MAX, &minor) || *field)
		return false;
	out->major = (unsigned)major;
	out->minor = (unsigned)minor;
	return true;
}

/* Skips the optional fields, up to and including "-". */
static bool skip_tags(char **rest)
{
	const char *field;

	while ((field = strsep(rest, " ")))
		if (strcmp(field, "-") == 0)
			return true;
	return false;
}

/* --- rows ------------------------------------------------------------------- */

/* A line such as "36 35 0:47 / POINT rw,noatime shared:1 - TYPE SOURCE
 * rw,user_id=0". */
bool ck_mountinfo_parse(char *line, struct ck_mountinfo *out)
{
	enum { ID, PARENT, DEVICE, ROOT, POINT, FLAGS, BEFORE };

	char *rest = line, *field[BEFORE];

	*out = (struct ck_mountinfo){ 0 };
	line[strcspn(line, "\n")] = '\0';
	for (int i = 0; i < BEFORE; i++)
		field[i] = strsep(&rest, " ");
	if (!read_number(field[ID], &out->id) ||
	    !read_number(field[PARENT], &out->parent) ||
	    !read_device(field[DEVICE], out) || !field[FLAGS] ||
	    !skip_tags(&rest))
		return false;
	out->root = field[ROOT];
	out->point = field[POINT];
	out->type = strsep(&rest, " ");
	out->source = strsep(&rest, " ");
	out->options = rest;
	if (!out->options)
		return false;
	unescape(out->root);
	unescape(out->point);
	unescape(out->type);
	unescape(out->source);
	return true;
}

bool ck_mountinfo_option(const struct ck_mountinfo *row, const char *name,
			 struct ck_str *value)
{
	size_t len = strlen(name);

	for (const char *at = row->options; *at;) {
		size_t size = strcspn(at, ",");

		if (size >= len && memcmp(at, name, len) == 0 &&
		    (size == len || at[len] == '=')) {
			len += size > len;
			if (value)
				*value = (struct ck_str){ at + len,
							  size - len };
			return true;
		}
		at += size + (at[size] == ',');
	}
	return false;
}

bool ck_mountinfo_user(const struct ck_mountinfo *row, uid_t *out)
{
	struct ck_str value;
	unsigned long n;
	char *at;

	if (!ck_mountinfo_option(row, "user_id", &value))
		return false;
	at = row->options + (value.p - row->options);
	if (!take_number(&at, UINT_MAX, &n) || at != value.p + value.len)
		return false;
	*out = (uid_t)n;
	return true;
}

int ck_mountinfo_each(int (*each)(const struct ck_mountinfo *row, void *arg),
		      void *arg)
{
	FILE *f = fopen(CK_MOUNTINFO, "re");
	struct ck_mountinfo row;
	char *line = NULL;
	size_t size = 0;
	int rc = 0;

	if (!f)
		return -errno;
	while (rc == 0 && getline(&line, &size, f) > 0)
		if (ck_mountinfo_parse(line, &row))
			rc = each(&row, arg);
	if (rc == 0 && !feof(f))
		rc = ferror(f) ? -EIO : -ENOMEM;
	free(line);
	fclose(f);
	return rc;
}
