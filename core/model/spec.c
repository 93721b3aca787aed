/* SPDX-License-Identifier: MIT */
/*
 * spec: parses the name of a directory that describes a mesh of ranks: `8` or
 * `dp=2,tp=4`. Stateless; any thread.
 */
#include "spec.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Reads a number from 1 to CK_SPEC_RANKS without leading zeros, and moves *text behind
 * it. */
static bool size_take(struct ck_str *text, uint32_t *size)
{
	const char *p = text->p, *end = p + text->len;

	*size = 0;
	if (p == end || *p == '0')
		return false;
	for (; p < end && is_digit(*p); p++) {
		*size = *size * 10 + (uint32_t)(*p - '0');
		if (*size > CK_SPEC_RANKS)
			return false;
	}
	*text = (struct ck_str){ p, (size_t)(end - p) };
	return *size > 0;
}

bool ck_spec_name_take(struct ck_str *text, struct ck_str *name)
{
	size_t n = 0;

	while (n < text->len &&
	       (is_letter(text->p[n]) || (n && is_digit(text->p[n]))))
		n++;
	if (n == 0 || n > CK_SPEC_NAME || n == text->len || text->p[n] != '=')
		return false;
	*name = (struct ck_str){ text->p, n };
	*text = (struct ck_str){ text->p + n + 1, text->len - n - 1 };
	return true;
}

static bool has_name(const struct ck_spec *spec, struct ck_str name)
{
	for (uint32_t d = 0; d < spec->ndim; d++)
		if (ck_str_eq(spec->dims[d].name, name))
			return true;
	return false;
}

static bool dim_add(struct ck_spec *spec, struct ck_str name, uint32_t size)
{
	uint64_t ranks = (uint64_t)spec->ranks * size;

	if (spec->ndim == CK_SPEC_DIMS || has_name(spec, name) ||
	    ranks > CK_SPEC_RANKS)
		return false;
	spec->dims[spec->ndim].name = name;
	spec->dims[spec->ndim++].size = size;
	spec->ranks = (uint32_t)ranks;
	return true;
}

bool ck_spec_parse(struct ck_str text, struct ck_spec *out)
{
	bool plain = text.len && is_digit(*text.p);
	struct ck_str name = { text.p, 0 };
	uint32_t size;

	*out = (struct ck_spec){ .ranks = 1 };
	for (;;) {
		if ((!plain && !ck_spec_name_take(&text, &name)) ||
		    !size_take(&text, &size) || !dim_add(out, name, size))
			return false;
		if (text.len == 0)
			return true;
		if (plain || *text.p != ',')
			return false;
		text = (struct ck_str){ text.p + 1, text.len - 1 };
	}
}
