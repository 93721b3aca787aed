/* SPDX-License-Identifier: MIT */
/*
 * json_reader: a pull parser over one JSON text. The state is the position, a
 * stack of open objects and arrays, and the keys of the open objects, which
 * detect duplicates. A string without escapes is borrowed from the text; others
 * are copied into an arena. One thread at a time.
 */
#include "json_reader.h"

#include <errno.h>
#include <math.h>

enum { FEW_KEYS = 8 };

static int bad_at(struct ck_json_reader *r, size_t at, const char *what)
{
	return ck_fail(r->d, EBADMSG, "JSON: byte %zu: %s", at, what);
}

static int bad(struct ck_json_reader *r, const char *what)
{
	return bad_at(r, (size_t)(r->p - r->begin), what);
}

static int no_memory(struct ck_json_reader *r)
{
	return ck_fail(r->d, ENOMEM, "out of memory");
}

int ck_json_refuse(struct ck_json_reader *r, const struct ck_json_value *v,
		   const char *what)
{
	return bad_at(r, v->at, what);
}

void ck_json_reader_init(struct ck_json_reader *r, struct ck_str text,
			 struct ck_diag *d)
{
	*r = (struct ck_json_reader){
		.begin = text.p, .p = text.p, .end = text.p + text.len, .d = d
	};
}

void ck_json_reader_fini(struct ck_json_reader *r)
{
	free(r->keys);
	ck_arena_fini(&r->texts);
	*r = (struct ck_json_reader){ 0 };
}

void ck_json_reader_leave(struct ck_json_reader *r, struct ck_arena *texts)
{
	*texts = r->texts;
	r->texts = (struct ck_arena){ 0 };
	ck_json_reader_fini(r);
}

/* --- pieces ------------------------------------------------------------------- */

static void white_skip(struct ck_json_reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' ||
				 *r->p == '\n' || *r->p == '\r'))
		r->p++;
}

/* Consumes the next character if it is c. */
static bool take(struct ck_json_reader *r, char c)
{
	if (r->p == r->end || *r->p != c)
		return false;
	r->p++;
	return true;
}

static bool is_digit(const struct ck_json_reader *r)
{
	return r->p < r->end && *r->p >= '0' && *r->p <= '9';
}

static bool digits_take(struct ck_json_reader *r)
{
	if (!is_digit(r))
		return false;
	while (is_digit(r))
		r->p++;
	return true;
}

/* Refuses a number beyond the range of a double, as Rust's parser does. Python reads a longer int,
 * or infinity. */
static int finite_check(struct ck_json_reader *r, struct ck_str s)
{
	ck_auto_free char *text = NULL;

	if (r->is_python)
		return 0;
	text = strndup(s.p, s.len);
	if (!text)
		return no_memory(r);
	return isfinite(strtod(text, NULL))
		       ? 0
		       : bad(r, "a number beyond all floats");
}

static int number_take(struct ck_json_reader *r, struct ck_json_value *out)
{
	const char *begin = r->p;
	bool good;

	(void)take(r, '-');
	good = take(r, '0') || digits_take(r);
	if (good && take(r, '.'))
		good = digits_take(r);
	if (good && (take(r, 'e') || take(r, 'E'))) {
		if (!take(r, '+'))
			(void)take(r, '-');
		good = digits_take(r);
	}
	if (!good || is_digit(r))
		return bad(r, "malformed number");
	out->type = CK_JSON_NUMBER;
	out->text = (struct ck_str){ begin, (size_t)(r->p - begin) };
	/* A number of few digits without an exponent is always finite. */
	if (out->text.len < 20 && !memchr(begin, 'e', out->text.len) &&
	    !memchr(begin, 'E', out->text.len))
		return 0;
	return finite_check(r, out->text);
}

/* Takes NaN, Infinity or -Infinity. */
static bool float_word_take(struct ck_json_reader *r, struct ck_json_value *out)
{
	static const struct ck_str words[] = { { "NaN", 3 },
					       { "Infinity", 8 },
					       { "-Infinity", 9 } };
	struct ck_str rest = { r->p, (size_t)(r->end - r->p) };

	for (size_t i = 0; r->is_python && i < CK_ARRAY_SIZE(words); i++)
		if (ck_str_starts(rest, words[i])) {
			out->type = CK_JSON_NUMBER;
			out->text = (struct ck_str){ r->p, words[i].len };
			r->p += words[i].len;
			return true;
		}
	return false;
}

static int word_take(struct ck_json_reader *r, struct ck_json_value *out)
{
	static const struct {
		struct ck_str text;
		enum ck_json_type type;
	} words[] = {
		{ { "null", 4 }, CK_JSON_NULL },
		{ { "true", 4 }, CK_JSON_TRUE },
		{ { "false", 5 }, CK_JSON_FALSE },
	};
	struct ck_str rest = { r->p, (size_t)(r->end - r->p) };

	for (size_t i = 0; i < CK_ARRAY_SIZE(words); i++)
		if (ck_str_starts(rest, words[i].text)) {
			out->type = words[i].type;
			r->p += words[i].text.len;
			return 0;
		}
	return float_word_take(r, out) ? 0 : bad(r, "no value");
}

/* --- strings -------------------------------------------------------------------- */

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Parses four hex digits at p. False if the text ends before or another
 * character occurs. */
static bool hex4(const struct ck_json_reader *r, const char *p, uint32_t *out)
{
	*out = 0;
	if (r->end - p < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		int digit = hex_value(p[i]);

		if (digit < 0)
			return false;
		*out = *out << 4 | (uint32_t)digit;
	}
	return true;
}

static char *utf8_put(char *to, uint32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
		return to;
	}
	if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
	} else if (c < 0x10000) {
		*to++ = (char)(0xe0 | c >> 12);
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
	} else {
		*to++ = (char)(0xf0 | c >> 18);
		*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (c & 0x3f));
	return to;
}

/* Decodes the second half of a surrogate pair. */
static bool low_take(struct ck_json_reader *r, uint32_t *low)
{
	if (r->end - r->p < 6 || r->p[0] != '\\' || r->p[1] != 'u' ||
	    !hex4(r, r->p + 2, low) || *low < 0xdc00 || *low >= 0xe000)
		return false;
	r->p += 6;
	return true;
}

/* Decodes the digits after \u, and the second half of a surrogate pair. */
static int unicode_take(struct ck_json_reader *r, char **to)
{
	uint32_t c, low;

	if (!hex4(r, r->p, &c))
		return bad(r, "malformed \\u");
	r->p += 4;
	if (c >= 0xd800 && c < 0xdc00 && low_take(r, &low))
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	else if (c >= 0xd800 && c < 0xe000 && !r->is_python)
		return bad(r, "an unpaired surrogate");
	*to = utf8_put(*to, c);
	return 0;
}

/* Decodes the escape after a backslash. */
static int escape_take(struct ck_json_reader *r, char **to)
{
	static const char from[] = "\"\\/bfnrt", is[] = "\"\\/\b\f\n\r\t";
	const char *at = r->p < r->end && *r->p ? strchr(from, *r->p) : NULL;

	if (at) {
		r->p++;
		*(*to)++ = is[at - from];
		return 0;
	}
	return take(r, 'u') ? unicode_take(r, to) : bad(r, "unknown escape");
}

/* Checks and consumes one character, and appends it to the copy; *to is NULL as
 * long as the string had no escape. */
static int character_take(struct ck_json_reader *r, char **to)
{
	size_t len;

	if ((uint8_t)*r->p < 0x20)
		return bad(r, "a control character in a string");
	len = ck_utf8_len(r->p, (size_t)(r->end - r->p));
	if (len == 0)
		return bad(r, "malformed UTF-8");
	if (*to) {
		memcpy(*to, r->p, len);
		*to += len;
	}
	r->p += len;
	return 0;
}

/* Begins the copy of a string at its first escape; the copy is never longer
 * than the spelling in the text. Returns the end of the copy so far. NULL when
 * out of memory. */
static char *copy_begin(struct ck_json_reader *r, const char *begin)
{
	const char *quote = r->p;
	size_t len;
	char *copy;

	while (quote < r->end && *quote != '"')
		quote += *quote == '\\' && r->end - quote > 1 ? 2 : 1;
	len = (size_t)(r->p - begin);
	copy = ck_arena_alloc(&r->texts, (size_t)(quote - begin) + 1);
	if (copy && len)
		memcpy(copy, begin, len);
	return copy;
}

/* Parses a string; r->p is behind its first quote. */
static int string_take(struct ck_json_reader *r, struct ck_str *out)
{
	const char *begin = r->p;
	char *copy = NULL, *to = NULL;
	int rc = 0;

	while (rc == 0 && r->p < r->end && *r->p != '"') {
		if (*r->p != '\\') {
			rc = character_take(r, &to);
			continue;
		}
		if (!copy) {
			copy = copy_begin(r, begin);
			if (!copy)
				return no_memory(r);
			to = copy + (r->p - begin);
		}
		r->p++;
		rc = escape_take(r, &to);
	}
	if (rc)
		return rc;
	*out = copy ? (struct ck_str){ copy, (size_t)(to - copy) }
		    : (struct ck_str){ begin, (size_t)(r->p - begin) };
	return take(r, '"') ? 0 : bad(r, "a string without end");
}

/* --- objects and arrays ------------------------------------------------------------ */

static int key_cmp(const void *a, const void *b)
{
	const struct ck_str *x = a, *y = b;
	size_t len = x->len < y->len ? x->len : y->len;
	int order = len ? memcmp(x->p, y->p, len) : 0;

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static int twice(struct ck_json_reader *r, struct ck_str key)
{
	return ck_fail(r->d, EBADMSG, "JSON: byte %zu: two values of key %s",
		       (size_t)(r->p - r->begin), ck_show(key));
}

/* Checks the keys of an object that ends for duplicates, and drops them. */
static int keys_end(struct ck_json_reader *r, size_t first)
{
	struct ck_str *keys = r->keys;
	size_t n = r->nkeys - first;

	r->nkeys = first;
	if (n == 0)
		return 0;
	keys += first;
	if (n > FEW_KEYS) {
		qsort(keys, n, sizeof(*keys), key_cmp);
		for (size_t i = 1; i < n; i++)
			if (ck_str_eq(keys[i - 1], keys[i]))
				return twice(r, keys[i]);
		return 0;
	}
	for (size_t i = 1; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (ck_str_eq(keys[k], keys[i]))
				return twice(r, keys[i]);
	return 0;
}

static int level_open(struct ck_json_reader *r, bool is_object)
{
	if (r->nlevels == CK_JSON_READER_LEVELS)
		return bad(r, "nested more than 127 deep");
	r->levels[r->nlevels++] = (struct ck_json_level){
		.is_object = is_object, .keys = r->nkeys
	};
	return 0;
}

static int level_close(struct ck_json_reader *r, struct ck_json_value *out)
{
	struct ck_json_level level = r->levels[--r->nlevels];

	out->type = CK_JSON_END;
	r->done = r->nlevels == 0;
	return level.is_object ? keys_end(r, level.keys) : 0;
}

static int key_take(struct ck_json_reader *r, struct ck_json_value *out)
{
	struct ck_str *keys;
	int rc;

	if (!take(r, '"'))
		return bad(r, "no key");
	rc = string_take(r, &out->key);
	if (rc)
		return rc;
	white_skip(r);
	if (!take(r, ':'))
		return bad(r, "no colon");
	keys = ck_grow(r->keys, &r->keys_cap, r->nkeys, 1, sizeof(*keys));
	if (!keys)
		return no_memory(r);
	r->keys = keys;
	keys[r->nkeys++] = out->key;
	white_skip(r);
	return 0;
}

static int value_take(struct ck_json_reader *r, struct ck_json_value *out)
{
	int rc = 0;

	out->at = (size_t)(r->p - r->begin);
	if (r->p == r->end)
		return bad(r, "no value");
	switch (*r->p) {
	case '{':
	case '[':
		out->type = *r->p == '{' ? CK_JSON_OBJECT : CK_JSON_ARRAY;
		rc = level_open(r, *r->p == '{');
		r->p++;
		return rc;
	case '"':
		r->p++;
		out->type = CK_JSON_STRING;
		rc = string_take(r, &out->text);
		break;
	case '-':
		if (!float_word_take(r, out))
			rc = number_take(r, out);
		break;
	default: rc = is_digit(r) ? number_take(r, out) : word_take(r, out);
	}
	r->done = r->nlevels == 0;
	return rc;
}

/* Parses the next member of an object or array, or its end. */
static int member_take(struct ck_json_reader *r, struct ck_json_value *out)
{
	struct ck_json_level *level = &r->levels[r->nlevels - 1];
	int rc = 0;

	if (take(r, level->is_object ? '}' : ']'))
		return level_close(r, out);
	if (level->some) {
		if (!take(r, ','))
			return bad(r, "no comma");
		white_skip(r);
	}
	level->some = true;
	if (level->is_object)
		rc = key_take(r, out);
	return rc ? rc : value_take(r, out);
}

int ck_json_next(struct ck_json_reader *r, struct ck_json_value *out)
{
	white_skip(r);
	*out = (struct ck_json_value){ .type = CK_JSON_DONE,
				       .at = (size_t)(r->p - r->begin) };
	if (r->nlevels)
		return member_take(r, out);
	if (!r->done)
		return value_take(r, out);
	return r->p == r->end ? 0 : bad(r, "something behind the value");
}

int ck_json_skip(struct ck_json_reader *r, const struct ck_json_value *v)
{
	uint32_t outside = r->nlevels - 1;
	struct ck_json_value in;
	int rc = 0;

	if (v->type != CK_JSON_OBJECT && v->type != CK_JSON_ARRAY)
		return 0;
	while (rc == 0 && r->nlevels > outside)
		rc = ck_json_next(r, &in);
	return rc;
}

bool ck_json_u63(const struct ck_json_value *v, uint64_t *out)
{
	if (v->type != CK_JSON_NUMBER)
		return false;
	*out = 0;
	for (size_t i = 0; i < v->text.len; i++) {
		char c = v->text.p[i];

		if (c < '0' || c > '9' || !ck_mul(out, *out, 10) ||
		    !ck_add(out, *out, (uint64_t)(c - '0')) || *out > INT64_MAX)
			return false;
	}
	return true;
}
