/* SPDX-License-Identifier: MIT */
/*
 * diag: records an errno for the program and a line for a person in one call. A
 * struct ck_diag belongs to its caller; the ring of ck_show() belongs to the
 * thread.
 */
#include "ckptfs/base.h"

#include <stdio.h>

enum { SHOWN = 8, SHOWN_BYTES = 200 };

CK_PRINTF(4, 0)

static void record(struct ck_diag *d, int err, bool transient, const char *fmt,
		   va_list args)
{
	d->err = err;
	d->transient = transient;
	d->expected[0] = d->found[0] = '\0';
	vsnprintf(d->text, sizeof(d->text), fmt, args);
}

int ck_fail(struct ck_diag *d, int err, const char *fmt, ...)
{
	va_list args;

	if (!d)
		return -err;
	va_start(args, fmt);
	record(d, err, false, fmt, args);
	va_end(args);
	return -err;
}

int ck_fail_transient(struct ck_diag *d, int err, const char *fmt, ...)
{
	va_list args;

	if (!d)
		return -err;
	va_start(args, fmt);
	record(d, err, true, fmt, args);
	va_end(args);
	return -err;
}

/* Formats "; expected EXPECTED, found FOUND". Returns its length, or 0 if
 * `size` is too small. */
static int print_difference(const struct ck_diag *d, char *out, size_t size)
{
	int len = snprintf(out, size, "; expected %s, found %s", d->expected,
			   d->found);

	return len < 0 || (size_t)len >= size ? 0 : len;
}

int ck_differs(struct ck_diag *d, int err, const char *expected,
	       const char *found, const char *fmt, ...)
{
	char tail[sizeof(d->expected) + sizeof(d->found) + 32];
	size_t room, len;
	va_list args;

	if (!d)
		return -err;
	d->err = err;
	d->transient = false;
	snprintf(d->expected, sizeof(d->expected), "%s", expected);
	snprintf(d->found, sizeof(d->found), "%s", found);
	room = (size_t)print_difference(d, tail, sizeof(tail)) + 1;
	va_start(args, fmt);
	vsnprintf(d->text, sizeof(d->text) - room, fmt, args);
	va_end(args);
	len = strlen(d->text);
	memcpy(d->text + len, tail, room);
	return -err;
}

struct ck_str ck_diag_what(const struct ck_diag *d)
{
	char tail[sizeof(d->expected) + sizeof(d->found) + 32];
	struct ck_str what = ck_str_from(d->text);
	size_t len;

	if (!d->expected[0] && !d->found[0])
		return what;
	len = (size_t)print_difference(d, tail, sizeof(tail));
	if (what.len >= len && memcmp(what.p + what.len - len, tail, len) == 0)
		what.len -= len;
	return what;
}

void ck_diag_prefix(struct ck_diag *d, const char *fmt, ...)
{
	char prefix[sizeof(d->text) / 2];
	size_t len;
	va_list args;

	if (!d)
		return;
	va_start(args, fmt);
	vsnprintf(prefix, sizeof(prefix) - 2, fmt, args);
	va_end(args);
	len = strlen(prefix);
	memcpy(prefix + len, ": ", 3);
	len += 2;
	d->text[sizeof(d->text) - 1 - len] = '\0';
	memmove(d->text + len, d->text, strlen(d->text) + 1);
	memcpy(d->text, prefix, len);
}

static _Thread_local char ring[SHOWN][SHOWN_BYTES * 3 + 4];

static char *ring_next(void)
{
	static _Thread_local unsigned turn;

	return ring[turn++ % SHOWN];
}

const char *ck_show(struct ck_str s)
{
	char *out = ring_next();
	bool cut = s.len > SHOWN_BYTES;
	struct ck_buf b = { 0 };

	ck_buf_escaped(&b, (struct ck_str){ s.p, cut ? SHOWN_BYTES : s.len });
	snprintf(out, sizeof(ring[0]), "%s%s", b.data ? b.data : "",
		 cut ? "..." : "");
	ck_buf_fini(&b);
	return out;
}

const char *ck_shown(const char *fmt, ...)
{
	char *out = ring_next();
	va_list args;

	va_start(args, fmt);
	vsnprintf(out, sizeof(ring[0]), fmt, args);
	va_end(args);
	return out;
}
