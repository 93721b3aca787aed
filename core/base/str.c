/* SPDX-License-Identifier: MIT */
/*
 * str: compares borrowed bytes, computes edit distances, validates UTF-8,
 * parses numbers, and has the cleanup functions of ck_auto_free and ck_auto_fd.
 * No state; any thread.
 */
#include "ckptfs/base.h"

#include <errno.h>
#include <unistd.h>

void ck_free_cleanup(void *p)
{
	free(*(void **)p);
}

void ck_fd_cleanup(int *fd)
{
	int keep = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = keep;
}

struct ck_str ck_str_from(const char *text)
{
	return (struct ck_str){ text, strlen(text) };
}

bool ck_str_eq(struct ck_str a, struct ck_str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

bool ck_str_is(struct ck_str a, const char *text)
{
	/* Callers compare with lists of texts: the first byte usually
	 * differs. */
	if (a.len && a.p[0] != *text)
		return false;
	return ck_str_eq(a, ck_str_from(text));
}

bool ck_str_starts(struct ck_str a, struct ck_str prefix)
{
	return a.len >= prefix.len &&
	       ck_str_eq((struct ck_str){ a.p, prefix.len }, prefix);
}

bool ck_str_ends(struct ck_str a, struct ck_str suffix)
{
	return a.len >= suffix.len &&
	       ck_str_eq(
		       (struct ck_str){ a.p + a.len - suffix.len, suffix.len },
		       suffix);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int bytes_cmp(struct ck_str a, struct ck_str b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int order = len ? memcmp(a.p, b.p, len) : 0;

	if (order)
		return order;
	return (a.len > b.len) - (a.len < b.len);
}

/* The run of digits at s.p[*i], without leading zeros; moves *i behind the
 * run. */
static struct ck_str digit_run(struct ck_str s, size_t *i)
{
	size_t begin;

	while (*i < s.len && s.p[*i] == '0')
		++*i;
	begin = *i;
	while (*i < s.len && is_digit(s.p[*i]))
		++*i;
	return (struct ck_str){ s.p + begin, *i - begin };
}

static int number_cmp(struct ck_str a, struct ck_str b)
{
	if (a.len != b.len)
		return a.len < b.len ? -1 : 1;
	return bytes_cmp(a, b);
}

int ck_str_natural_cmp(struct ck_str a, struct ck_str b)
{
	size_t i = 0, j = 0;

	while (i < a.len && j < b.len) {
		int order;

		if (is_digit(a.p[i]) && is_digit(b.p[j])) {
			struct ck_str x = digit_run(a, &i);
			struct ck_str y = digit_run(b, &j);

			order = number_cmp(x, y);
		} else {
			order = (uint8_t)a.p[i++] - (uint8_t)b.p[j++];
		}
		if (order)
			return order;
	}
	if (i < a.len || j < b.len)
		return i < a.len ? 1 : -1;
	return bytes_cmp(a, b);
}

/* --- edit distance ---------------------------------------------------------- */

#define DISTANCE_LEN 256 /* bytes of the differing parts */

/* Removes the common prefix and suffix, which is most of a typical pair. */
static void cut_common(struct ck_str *a, struct ck_str *b)
{
	size_t n = 0, most = ck_min(a->len, b->len);

	while (n < most && a->p[n] == b->p[n])
		n++;
	*a = (struct ck_str){ a->p + n, a->len - n };
	*b = (struct ck_str){ b->p + n, b->len - n };
	while (a->len && b->len && a->p[a->len - 1] == b->p[b->len - 1]) {
		a->len--;
		b->len--;
	}
}

/* Computes row i of the distances from row i - 1, in place. row[j] is the
 * distance of the first i bytes of a, the last of which is c, to the first j
 * bytes of b. Returns the smallest value of the row. */
static size_t next_row(size_t *row, size_t i, char c, struct ck_str b)
{
	size_t corner = row[0], least = i;

	row[0] = i;
	for (size_t j = 1; j <= b.len; j++) {
		size_t best = corner + (c != b.p[j - 1]);

		corner = row[j];
		best = ck_min(best, row[j] + 1);
		row[j] = ck_min(best, row[j - 1] + 1);
		least = ck_min(least, row[j]);
	}
	return least;
}

size_t ck_str_distance(struct ck_str a, struct ck_str b, size_t most)
{
	size_t row[DISTANCE_LEN + 1];

	cut_common(&a, &b);
	if (b.len > DISTANCE_LEN || a.len > b.len + most ||
	    b.len > a.len + most)
		return most + 1;
	for (size_t j = 0; j <= b.len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a.len; i++)
		if (next_row(row, i, a.p[i - 1], b) > most)
			return most + 1;
	return ck_min(row[b.len], most + 1);
}

/* --- UTF-8 ------------------------------------------------------------------- */

static bool is_tail(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

/* Second bytes that would make an overlong form, a surrogate or a value
 * above U+10FFFF. */
static bool second_is_bad(uint8_t first, uint8_t second)
{
	switch (first) {
	case 0xe0: return second < 0xa0;
	case 0xed: return second > 0x9f;
	case 0xf0: return second < 0x90;
	case 0xf4: return second > 0x8f;
	default: return false;
	}
}

static size_t length_by_first(uint8_t c)
{
	if (c < 0x80)
		return 1;
	if (c < 0xc2 || c > 0xf4)
		return 0;
	if (c < 0xe0)
		return 2;
	return c < 0xf0 ? 3 : 4;
}

size_t ck_utf8_len(const char *p, size_t len)
{
	const uint8_t *u = (const uint8_t *)p;
	size_t need;

	if (len == 0)
		return 0;
	need = length_by_first(u[0]);
	if (need > len || (need > 1 && second_is_bad(u[0], u[1])))
		return 0;
	for (size_t i = 1; i < need; i++)
		if (!is_tail(u[i]))
			return 0;
	return need;
}

bool ck_utf8_valid(struct ck_str s)
{
	for (size_t i = 0; i < s.len;) {
		size_t len = ck_utf8_len(s.p + i, s.len - i);

		if (len == 0)
			return false;
		i += len;
	}
	return true;
}

/* --- numbers ------------------------------------------------------------------- */

bool ck_digits_take(const char **text, uint64_t *out)
{
	const char *begin = *text;

	*out = 0;
	for (; **text >= '0' && **text <= '9'; (*text)++)
		if (!ck_mul(out, *out, 10) ||
		    !ck_add(out, *out, (uint64_t)(**text - '0')))
			return false;
	return *text > begin;
}

bool ck_size_parse(const char *text, uint64_t *out)
{
	unsigned shift = 0;

	if (!ck_digits_take(&text, out))
		return false;
	switch (*text) {
	case 'K': shift = 10; break;
	case 'M': shift = 20; break;
	case 'G': shift = 30; break;
	default: break;
	}
	return !text[shift > 0] && ck_mul(out, *out, UINT64_C(1) << shift);
}
