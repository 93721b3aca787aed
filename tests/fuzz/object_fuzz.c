/* SPDX-License-Identifier: MIT */
/*
 * object: any bytes as the pickle of an entry: it is refused, or its text is one JSON value and a
 * newline. The text is within the limits and nested at most 200 deep, without malformed UTF-8 or
 * control characters.
 */
#include "ckptfs/value.h"

#include <errno.h>

enum { LEVELS = 200 };

/* A cursor over text that ends with NUL. */
struct json {
	const char *p;
	char open[LEVELS + 1]; /* '[' or '{' of each level */
	unsigned level;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool good)
{
	if (!good)
		abort();
}

static void read_string(struct json *j)
{
	need(*j->p++ == '"');
	while (*j->p != '"') {
		need((uint8_t)*j->p >= 0x20);
		if (*j->p++ != '\\')
			continue;
		need(*j->p && strchr("\"\\bfnrtu", *j->p));
		if (*j->p++ != 'u')
			continue;
		need(strspn(j->p, "0123456789abcdef") >= 4);
		j->p += 4;
	}
	j->p++;
}

static void read_digits(struct json *j)
{
	need(*j->p >= '0' && *j->p <= '9');
	j->p += strspn(j->p, "0123456789");
}

static void read_number(struct json *j)
{
	j->p += *j->p == '-';
	need(*j->p != '0' || j->p[1] < '0' || j->p[1] > '9');
	read_digits(j);
	if (*j->p == '.') {
		j->p++;
		read_digits(j);
	}
	if (*j->p == 'e') {
		j->p++;
		j->p += *j->p == '+' || *j->p == '-';
		read_digits(j);
	}
}

static void read_scalar(struct json *j)
{
	static const char *const words[] = { "null", "true", "false" };

	for (size_t i = 0; i < 3; i++)
		if (strncmp(j->p, words[i], strlen(words[i])) == 0) {
			j->p += strlen(words[i]);
			return;
		}
	if (*j->p == '"')
		read_string(j);
	else
		read_number(j);
}

static void read_key(struct json *j)
{
	read_string(j);
	need(*j->p++ == ':');
}

/* Opens an array or object, or reads a scalar. True if a value is complete. */
static bool read_value(struct json *j)
{
	if (*j->p != '[' && *j->p != '{') {
		read_scalar(j);
		return true;
	}
	need(j->level < LEVELS);
	j->open[j->level++] = *j->p++;
	if (*j->p == ']' || *j->p == '}')
		return true;
	if (j->open[j->level - 1] == '{')
		read_key(j);
	return false;
}

/* Reads values. After each one, closes its levels or continues behind a comma. */
static void check_json(const char *text)
{
	struct json j = { .p = text };

	for (;;) {
		if (!read_value(&j))
			continue;
		while (j.level && *j.p != ',') {
			need(*j.p++ == (j.open[--j.level] == '[' ? ']' : '}'));
		}
		if (j.level == 0)
			break;
		j.p++;
		if (j.open[j.level - 1] == '{')
			read_key(&j);
	}
	need(strcmp(j.p, "\n") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_pickle p = { 0 };
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };

	if (ck_pickle_read(&p, data, size, NULL, NULL) == 0) {
		int rc = ck_pickle_json(&p, size, &out, &d);

		if (rc == 0) {
			need(strlen(out.data) == out.len);
			need(ck_utf8_valid(
				(struct ck_str){ out.data, out.len }));
			check_json(out.data);
		} else {
			need(rc == -EBADMSG && d.err == EBADMSG && *d.text);
		}
		need(out.len < (64 << 20) + 48 * size);
	}
	ck_pickle_fini(&p);
	ck_buf_fini(&out);
	return 0;
}
