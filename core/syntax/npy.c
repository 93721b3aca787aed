/* SPDX-License-Identifier: MIT */
/*
 * npy: writes and reads the header before the data of an .npy file.
 *
 *	\x93NUMPY  major minor  length (u16, or u32 from 2.0)  text
 *
 * The text is a Python dict literal with the keys descr, fortran_order and
 * shape, padded with spaces and ended by a newline so that the data begin at
 * a multiple of 64. The header is byte for byte that of numpy, with its spare
 * room for a growing first dimension; the reader accepts the headers that numpy
 * accepts. No state; any thread.
 */
#include "npy.h"

#include <errno.h>
#include <inttypes.h>

enum {
	ALIGN = 64,
	GROWTH_DIGITS = 21, /* numpy's GROWTH_AXIS_MAX_DIGITS */
	PREAMBLE = 10,	    /* magic, version, u16 */
	DIGITS_MAX = 19,    /* of INT64_MAX */
};

#define MAGIC	    CK_STR("\x93NUMPY")
#define DESCR_KEY   "{'descr': '"
#define ORDER_KEY   "', 'fortran_order': False, 'shape': ("
#define CLOSE	    "), }"
#define TEXT_LEN(s) (sizeof(s) - 1)

/* The longest header fits into version 1.0. */
_Static_assert(PREAMBLE + TEXT_LEN(DESCR_KEY ORDER_KEY CLOSE) + 16 +
			       CK_MAX_DIMS * (DIGITS_MAX + 2) + GROWTH_DIGITS +
			       ALIGN <
		       UINT16_MAX,
	       "a header with CK_MAX_DIMS dimensions fits version 1.0");

/* --- writing -------------------------------------------------------------- */

static size_t digits_of(int64_t value)
{
	size_t n = value < 0 ? 2 : 1;

	while (value /= 10)
		n++;
	return n;
}

/* Bytes between the brackets: "", "5,", "3, 4". */
static size_t shape_len(uint32_t ndim, const int64_t *shape)
{
	size_t len = ndim == 1 ? 1 : 0;

	for (uint32_t d = 0; d < ndim; d++)
		len += digits_of(shape[d]) + (d ? 2 : 0);
	return len;
}

static size_t growth_len(uint32_t ndim, const int64_t *shape)
{
	return ndim ? GROWTH_DIGITS - digits_of(shape[0]) : 0;
}

/* The dict and numpy's spare room, without padding and newline. */
static size_t text_len(const char *descr, uint32_t ndim, const int64_t *shape)
{
	return TEXT_LEN(DESCR_KEY) + strlen(descr) + TEXT_LEN(ORDER_KEY) +
	       shape_len(ndim, shape) + TEXT_LEN(CLOSE) +
	       growth_len(ndim, shape);
}

uint64_t ck_npy_header_len(uint8_t dtype, uint32_t ndim, const int64_t *shape)
{
	size_t len = text_len(ck_dtype_at(dtype)->npy, ndim, shape);

	/* If the length is already aligned, numpy adds a whole ALIGN of
	 * padding. */
	return (PREAMBLE + len + 1) / ALIGN * ALIGN + ALIGN;
}

static void add_spaces(struct ck_buf *out, size_t n)
{
	for (; n > 0; n--)
		ck_buf_add(out, " ", 1);
}

void ck_npy_header(uint8_t dtype, uint32_t ndim, const int64_t *shape,
		   struct ck_buf *out)
{
	const char *descr = ck_dtype_at(dtype)->npy;
	uint64_t whole = ck_npy_header_len(dtype, ndim, shape);
	size_t text = text_len(descr, ndim, shape);
	size_t rest = (size_t)whole - PREAMBLE;
	uint8_t version[] = { 1, 0, (uint8_t)rest, (uint8_t)(rest >> 8) };

	ck_buf_str(out, MAGIC);
	ck_buf_add(out, version, sizeof(version));
	ck_buf_printf(out, DESCR_KEY "%s" ORDER_KEY, descr);
	for (uint32_t d = 0; d < ndim; d++)
		ck_buf_printf(out, "%s%" PRId64, d ? ", " : "", shape[d]);
	ck_buf_text(out, ndim == 1 ? "," CLOSE : CLOSE);
	add_spaces(out, growth_len(ndim, shape));
	add_spaces(out, rest - text - 1);
	ck_buf_add(out, "\n", 1);
}

/* --- reading -------------------------------------------------------------- */

static bool is_space(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

static void skip_spaces(struct ck_cur *c)
{
	struct ck_cur next = *c;
	uint8_t byte;

	while (ck_cur_u8(&next, &byte) && is_space(byte))
		*c = next;
}

/* Consumes `want` if it is the next character after spaces. */
static bool take(struct ck_cur *c, char want)
{
	struct ck_cur next;
	uint8_t byte;

	skip_spaces(c);
	next = *c;
	if (!ck_cur_u8(&next, &byte) || byte != (uint8_t)want)
		return false;
	*c = next;
	return true;
}

static bool take_word(struct ck_cur *c, const char *word)
{
	struct ck_cur next;
	struct ck_str got;

	skip_spaces(c);
	next = *c;
	if (!ck_cur_bytes(&next, strlen(word), &got) || !ck_str_is(got, word))
		return false;
	*c = next;
	return true;
}

/* A string without escapes, in either kind of quotes. */
static bool take_string(struct ck_cur *c, struct ck_str *out)
{
	char quote = take(c, '\'') ? '\'' : take(c, '"') ? '"' : '\0';
	struct ck_str rest = { (const char *)c->p, ck_cur_left(c) };
	const char *end;

	if (!quote)
		return false;
	end = rest.len ? memchr(rest.p, quote, rest.len) : NULL;
	if (!end || !ck_cur_bytes(c, (uint64_t)(end - rest.p), out) ||
	    !ck_cur_skip(c, 1))
		return false;
	return out->len == 0 || (!memchr(out->p, '\\', out->len) &&
				 !memchr(out->p, '\n', out->len));
}

/* A decimal number; Python 2's L may follow. */
static bool take_number(struct ck_cur *c, uint64_t *out)
{
	uint64_t value = 0;
	unsigned digits = 0;
	bool leading_zero = false;
	struct ck_cur next;
	uint8_t byte;

	skip_spaces(c);
	next = *c;
	while (ck_cur_u8(&next, &byte) && byte >= '0' && byte <= '9') {
		if (!ck_mul(&value, value, 10) ||
		    !ck_add(&value, value, (uint64_t)(byte - '0')))
			return false;
		leading_zero |= digits == 0 && byte == '0';
		digits++;
		*c = next;
	}
	next = *c;
	if (digits && ck_cur_u8(&next, &byte) && byte == 'L')
		*c = next;
	*out = value;
	return digits && !(leading_zero && value) && value <= INT64_MAX;
}

/* "()", "(5,)", "(3, 4)", "(3, 4,)"; "(5)" is a number, no tuple. */
static bool take_shape(struct ck_cur *c, struct ck_npy *out)
{
	bool comma = true;

	if (!take(c, '('))
		return false;
	out->ndim = 0;
	while (!take(c, ')')) {
		if (!comma || out->ndim == CK_MAX_DIMS ||
		    !take_number(c, &out->shape[out->ndim]))
			return false;
		out->ndim++;
		comma = take(c, ',');
	}
	return out->ndim != 1 || comma;
}

static bool take_bool(struct ck_cur *c, bool *out)
{
	*out = take_word(c, "True");
	return *out || take_word(c, "False");
}

/* One `key: value`. seen: bits of the keys met. */
static bool take_pair(struct ck_cur *c, struct ck_npy *out, unsigned *seen)
{
	struct ck_str key;
	unsigned bit;
	bool good;

	if (!take_string(c, &key) || !take(c, ':'))
		return false;
	if (ck_str_is(key, "descr")) {
		bit = 1;
		good = take_string(c, &out->descr) && out->descr.len;
	} else if (ck_str_is(key, "fortran_order")) {
		bit = 2;
		good = take_bool(c, &out->fortran_order);
	} else {
		bit = 4;
		good = ck_str_is(key, "shape") && take_shape(c, out);
	}
	good = good && !(*seen & bit);
	*seen |= bit;
	return good;
}

static bool take_dict(struct ck_cur *c, struct ck_npy *out)
{
	unsigned seen = 0;
	bool comma = true;

	if (!take(c, '{'))
		return false;
	while (!take(c, '}')) {
		if (!comma || !take_pair(c, out, &seen))
			return false;
		comma = take(c, ',');
	}
	skip_spaces(c);
	return seen == 7 && ck_cur_left(c) == 0;
}

static int take_preamble(struct ck_cur *c, struct ck_cur *text,
			 struct ck_diag *d)
{
	uint8_t major, minor;
	struct ck_str magic, body;
	uint32_t len = 0;
	uint16_t short_len = 0;
	bool good;

	if (!ck_cur_bytes(c, MAGIC.len, &magic) || !ck_str_eq(magic, MAGIC) ||
	    !ck_cur_u8(c, &major) || !ck_cur_u8(c, &minor))
		return ck_fail(d, EINVAL, "npy: no magic number");
	if (major < 1 || major > 3 || minor != 0)
		return ck_fail(d, EINVAL,
			       "npy: version %u.%u, expected 1.0 "
			       "to 3.0",
			       major, minor);
	good = major == 1 ? ck_cur_u16(c, &short_len) : ck_cur_u32(c, &len);
	len |= short_len;
	if (!good || !ck_cur_bytes(c, len, &body))
		return ck_fail(d, EINVAL, "npy: header cut short");
	*text = ck_cur_make(body.p, body.len);
	return 0;
}

int ck_npy_parse(struct ck_str bytes, struct ck_npy *out, struct ck_diag *d)
{
	struct ck_cur c = ck_cur_make(bytes.p, bytes.len);
	struct ck_cur text;
	int rc = take_preamble(&c, &text, d);

	if (rc)
		return rc;
	memset(out, 0, sizeof(*out));
	out->data = bytes.len - ck_cur_left(&c);
	if (!take_dict(&text, out))
		return ck_fail(d, EINVAL,
			       "npy: header is no dict with descr, "
			       "fortran_order and shape; at byte %" PRIu64,
			       out->data - ck_cur_left(&text));
	return 0;
}
