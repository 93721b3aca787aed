/* SPDX-License-Identifier: MIT */
/*
 * ranks_name: parses names of per-rank files. No convention exists for them: files whose names
 * differ in one run of digits only are a family. A name that fits two families, by different
 * runs, belongs to the larger one; of equal ones to that whose run is further to the right.
 * Stateless.
 */
#include "ranks.h"

#include <errno.h>

/* A run of digits of a name. Runs with the same text around them may form a family. */
struct run {
	struct ck_str name;
	uint32_t at, len;
	uint32_t index; /* of the name */
	uint32_t count; /* number of runs with the same text around them */
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool run_next(struct ck_str name, uint32_t *at, uint32_t *len)
{
	while (*at < name.len && !is_digit(name.p[*at]))
		(*at)++;
	for (*len = 0; *at + *len < name.len && is_digit(name.p[*at + *len]);)
		(*len)++;
	return *len > 0;
}

static struct ck_str before(const struct run *r)
{
	return (struct ck_str){ r->name.p, r->at };
}

static struct ck_str behind(const struct run *r)
{
	size_t from = (size_t)r->at + r->len;

	return (struct ck_str){ r->name.p + from, r->name.len - from };
}

static int str_cmp(struct ck_str a, struct ck_str b)
{
	int c = memcmp(a.p, b.p, ck_min(a.len, b.len));

	return c ? c : (a.len > b.len) - (a.len < b.len);
}

static int text_cmp(const struct run *a, const struct run *b)
{
	int c = str_cmp(before(a), before(b));

	return c ? c : str_cmp(behind(a), behind(b));
}

static int by_text(const void *a, const void *b)
{
	const struct run *x = a, *y = b;
	int c = text_cmp(x, y);

	return c ? c : (x->index > y->index) - (x->index < y->index);
}

/* The largest families first, then those of runs further to the right; members together. */
static int by_count(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	if (x->at != y->at)
		return x->at < y->at ? 1 : -1;
	return by_text(a, b);
}

/* Finds the runs of all names. Caller frees *out, also after an error. */
static int runs_find(const struct ck_str *names, size_t n, struct run **out,
		     size_t *count)
{
	size_t cap = 0;

	for (size_t i = 0; i < n; i++) {
		for (uint32_t at = 0, len; run_next(names[i], &at, &len);
		     at += len) {
			struct run *more = ck_grow(*out, &cap, *count, 1,
						   sizeof(*more));

			if (!more)
				return -ENOMEM;
			*out = more;
			more[(*count)++] = (struct run){ names[i], at, len,
							 (uint32_t)i, 0 };
		}
	}
	return 0;
}

/* Returns the end of the runs with the same text as run i. */
static size_t group_end(const struct run *runs, size_t i, size_t n)
{
	size_t end = i + 1;

	while (end < n && text_cmp(&runs[end], &runs[i]) == 0)
		end++;
	return end;
}

static void runs_count(struct run *runs, size_t n)
{
	for (size_t i = 0, end; i < n; i = end) {
		end = group_end(runs, i, n);
		for (size_t k = i; k < end; k++)
			runs[k].count = (uint32_t)(end - i);
	}
}

static uint64_t number_of(struct ck_str name, uint32_t at, uint32_t len)
{
	uint64_t n = 0;

	for (uint32_t i = at; i < at + len; i++) {
		n = n * 10 + (uint64_t)(name.p[i] - '0');
		if (n > CK_RANK_MAX)
			return CK_NO_RANK;
	}
	return n;
}

static void name_set(const struct run *r, int64_t family,
		     struct ck_rank_name *out)
{
	*out = (struct ck_rank_name){ family, number_of(r->name, r->at, r->len),
				      r->at, r->len };
}

/* Makes a family of those of n names that have no family yet, if there are two or more. */
static void family_make(const struct run *runs, size_t n,
			struct ck_rank_name *out, int64_t *families)
{
	size_t free_ones = 0;

	for (size_t i = 0; i < n; i++)
		free_ones += out[runs[i].index].family == CK_RANK_NO_FAMILY;
	if (free_ones < 2)
		return;
	for (size_t i = 0; i < n; i++)
		if (out[runs[i].index].family == CK_RANK_NO_FAMILY)
			name_set(&runs[i], *families, &out[runs[i].index]);
	(*families)++;
}

/* Numbers the families in the order of their first names. */
static int renumber(struct ck_rank_name *out, size_t n, uint32_t families)
{
	uint32_t *to = malloc(((size_t)families + 1) * sizeof(*to)), next = 0;

	if (!to)
		return -ENOMEM;
	for (uint32_t i = 0; i < families; i++)
		to[i] = UINT32_MAX;
	for (size_t i = 0; i < n; i++) {
		if (out[i].family == CK_RANK_NO_FAMILY)
			continue;
		if (to[out[i].family] == UINT32_MAX)
			to[out[i].family] = next++;
		out[i].family = to[out[i].family];
	}
	free(to);
	return 0;
}

int ck_rank_names(const struct ck_str *names, size_t n,
		  struct ck_rank_name *out, uint32_t *nfamilies)
{
	ck_auto_free void *owned = NULL;
	struct run *runs = NULL;
	int64_t families = 0;
	size_t count = 0;
	int rc = runs_find(names, n, &runs, &count);

	owned = runs;
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		out[i] = (struct ck_rank_name){ CK_RANK_NO_FAMILY, CK_NO_RANK,
						0, 0 };
	/* The last run of a name remains. */
	for (size_t i = 0; i < count; i++)
		name_set(&runs[i], CK_RANK_NO_FAMILY, &out[runs[i].index]);
	if (count) {
		qsort(runs, count, sizeof(*runs), by_text);
		runs_count(runs, count);
		qsort(runs, count, sizeof(*runs), by_count);
	}
	for (size_t i = 0, end; i < count; i = end) {
		end = group_end(runs, i, count);
		family_make(runs + i, end - i, out, &families);
	}
	*nfamilies = (uint32_t)families;
	return renumber(out, n, *nfamilies);
}

/* --- path part -------------------------------------------------------------------- */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Words that precede the number of a rank. */
static const char *const words[] = { "world_size", "rank", "shard", "mp",
				     "pp",	   "tp",   "dp" };

/* True if s has the word at byte `at`, between other characters than letters. s must have at
 * least at + len bytes. */
static bool is_word_at(struct ck_str s, size_t at, const char *word, size_t len)
{
	return memcmp(s.p + at, word, len) == 0 &&
	       (at == 0 || !is_letter(s.p[at - 1])) &&
	       (at + len == s.len || !is_letter(s.p[at + len]));
}

/* Number of bytes to remove from the end: a digit, a separator or a word; else 0. */
static size_t tail_len(struct ck_str s)
{
	char last = s.len ? s.p[s.len - 1] : 'x';

	if (is_digit(last) || last == '_' || last == '-' || last == '.')
		return 1;
	for (size_t i = 0; i < CK_ARRAY_SIZE(words); i++) {
		size_t len = strlen(words[i]);

		if (s.len >= len && is_word_at(s, s.len - len, words[i], len))
			return len;
	}
	return 0;
}

struct ck_str ck_rank_name_part(struct ck_str name,
				const struct ck_rank_name *of)
{
	struct ck_str part = { name.p, of->at };
	size_t len = 1;

	while (part.len && len) {
		len = tail_len(part);
		part.len -= len;
	}
	return part;
}

static bool has_word(struct ck_str name, const char *word)
{
	size_t len = strlen(word);

	for (size_t i = 0; i + len <= name.len; i++)
		if (is_word_at(name, i, word, len))
			return true;
	return false;
}

bool ck_rank_name_says_rank(struct ck_str name)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(words); i++)
		if (has_word(name, words[i]))
			return true;
	return false;
}

struct ck_str ck_rank_name_stem(struct ck_str name)
{
	size_t dot = name.len;

	while (dot > 1 && name.p[dot - 1] != '.')
		dot--;
	return dot > 1 ? (struct ck_str){ name.p, dot - 1 } : name;
}
