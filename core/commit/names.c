/* SPDX-License-Identifier: MIT */
/*
 * names: of the files that a commit makes. Whoever finds one that no metadata
 * has knows by its name that it may be removed.
 */
#include "commit_internal.h"

enum { HEX = 16 };

static bool take(struct ck_str *s, const char *text)
{
	struct ck_str prefix = ck_str_from(text);

	if (!ck_str_starts(*s, prefix))
		return false;
	*s = (struct ck_str){ s->p + prefix.len, s->len - prefix.len };
	return true;
}

static bool take_number(struct ck_str *s, uint64_t *out)
{
	size_t n = 0;

	*out = 0;
	for (; n < s->len && n < 18 && s->p[n] >= '0' && s->p[n] <= '9'; n++)
		*out = *out * 10 + (uint64_t)(s->p[n] - '0');
	*s = (struct ck_str){ s->p + n, s->len - n };
	return n > 0;
}

static bool take_hex(struct ck_str *s)
{
	if (s->len < HEX)
		return false;
	for (size_t i = 0; i < HEX; i++)
		if (!strchr("0123456789abcdef", s->p[i]) || !s->p[i])
			return false;
	*s = (struct ck_str){ s->p + HEX, s->len - HEX };
	return true;
}

bool ck_name_is_ours(const char *name, uint64_t *generation)
{
	struct ck_str s = ck_str_from(name);
	uint64_t rank;

	*generation = 0;
	if (take(&s, CK_METADATA_TEMP))
		return take_hex(&s) && s.len == 0;
	if (!take(&s, "__"))
		return false;
	if (take_number(&s, &rank) && !take(&s, "_"))
		return false;
	return take(&s, "ckptfs-") && take_number(&s, generation) &&
	       take(&s, "-") && take_hex(&s) && take(&s, ".distcp") &&
	       s.len == 0;
}
