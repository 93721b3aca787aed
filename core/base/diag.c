/* SPDX-License-Identifier: MIT */
/*
 * diag: an errno for the program and a line for a person, made in one call.
 */
#include "ckptfs/base.h"

#include <stdio.h>

enum { SHOWN = 8, SHOWN_BYTES = 200 };

int ck_fail(struct ck_diag *d, int err, const char *fmt, ...)
{
	va_list args;

	if (!d)
		return -err;
	d->err = err;
	va_start(args, fmt);
	vsnprintf(d->text, sizeof(d->text), fmt, args);
	va_end(args);
	return -err;
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

const char *ck_show(struct ck_str s)
{
	static _Thread_local char ring[SHOWN][SHOWN_BYTES * 3 + 4];
	static _Thread_local unsigned turn;
	char *out = ring[turn++ % SHOWN];
	bool cut = s.len > SHOWN_BYTES;
	struct ck_buf b = { 0 };

	ck_buf_escaped(&b, (struct ck_str){ s.p, cut ? SHOWN_BYTES : s.len });
	snprintf(out, sizeof(ring[0]), "%s%s", b.data ? b.data : "",
		 cut ? "..." : "");
	ck_buf_fini(&b);
	return out;
}
