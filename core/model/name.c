/* SPDX-License-Identifier: MIT */
/*
 * name: keys, shown names and stems. Stateless; any thread.
 *
 * key   _fsdp_wrapped_module.layers.0._orig_mod.w   as stored name  layers.0.w
 * as shown to the user stem  layers.0.w                                  a valid file
 * name
 *
 * A stem is the name with %XX for characters that a file name cannot have or a terminal
 * should not show, so short stems can be decoded. A stem longer than STEM_MAX is cut
 * and ends in a hash of the name. It begins with `%~`, which is not an escape.
 */
#include "ckptfs/model.h"

#include <errno.h>

enum {
	STEM_MAX = 200,	  /* bytes of a stem that is not shortened */
	PREFIX_MAX = 120, /* bytes that a shortened stem keeps */
};

bool ck_name_is_flat(struct ck_str name)
{
	static const struct ck_str flat = { "_flat_param", 11 };

	return ck_str_ends(name, flat) &&
	       (name.len == flat.len || name.p[name.len - flat.len - 1] == '.');
}

/* --- unwrap --------------------------------------------------------------- */

static bool is_wrapper(struct ck_str component)
{
	return ck_str_is(component, "_fsdp_wrapped_module") ||
	       ck_str_is(component, "_checkpoint_wrapped_module") ||
	       ck_str_is(component, "_orig_mod") ||
	       ck_str_is(component, "_fpw_module");
}

/* One pass also removes repeated wrappers: behind a removed component, the next one
 * begins at a boundary again. */
void ck_name_unwrap(struct ck_str key, struct ck_buf *out)
{
	while (key.len) {
		const char *dot = memchr(key.p, '.', key.len);
		size_t len = dot ? (size_t)(dot - key.p) : key.len;
		struct ck_str component = { key.p, len };
		size_t step = dot ? len + 1 : len;

		if (!dot || !is_wrapper(component))
			ck_buf_add(out, key.p, step);
		key.p += step;
		key.len -= step;
	}
}

/* --- stem ----------------------------------------------------------------- */

static bool stands_for_itself(struct ck_str name, size_t at)
{
	uint8_t c = (uint8_t)name.p[at];

	return c >= 0x20 && c != 0x7f && c != '%' && c != '/' &&
	       !(c == '.' && at == 0);
}

/* Writes the character, or invalid byte, at `at`. Returns its length in the stem, and
 * sets *used to its length in the name. */
static size_t spell(struct ck_str name, size_t at, char out[static 4],
		    size_t *used)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t len = ck_utf8_len(name.p + at, name.len - at);
	uint8_t c = (uint8_t)name.p[at];

	if (len && stands_for_itself(name, at)) {
		memcpy(out, name.p + at, len);
		*used = len;
		return len;
	}
	out[0] = '%';
	out[1] = digits[c >> 4];
	out[2] = digits[c & 15];
	*used = 1;
	return 3;
}

void ck_name_stem(struct ck_str name, unsigned nth, struct ck_buf *out)
{
	char text[STEM_MAX + 4];
	size_t len = 0, prefix = 0, used;
	char hash[33];

	for (size_t at = 0; at < name.len && len <= STEM_MAX; at += used) {
		len += spell(name, at, text + len, &used);
		if (len <= PREFIX_MAX)
			prefix = len;
	}
	if (name.len == 0) {
		ck_buf_text(out, "%_");
		return;
	}
	if (len <= STEM_MAX) {
		ck_buf_add(out, text, len);
		return;
	}
	ck_hash128_hex(name, hash);
	ck_buf_text(out, "%~");
	ck_buf_add(out, text, prefix);
	ck_buf_printf(out, "~%s", hash);
	if (nth > 1)
		ck_buf_printf(out, "~%u", nth);
}
