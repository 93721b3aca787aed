/* SPDX-License-Identifier: MIT */
/*
 * dcp_names: parses and makes names of metadata and data files. PyTorch names data
 * files after the rank that saved them. Files of a commit are recognised by their
 * names: such a file that no metadata references may be removed. Stateless.
 */
#include "dcp_internal.h"

#include <stdio.h>

enum { HEX = 16 };

static bool take(struct ck_str *s, const char *text)
{
	struct ck_str prefix = ck_str_from(text);

	if (!ck_str_starts(*s, prefix))
		return false;
	*s = (struct ck_str){ s->p + prefix.len, s->len - prefix.len };
	return true;
}

/* Takes a decimal in the form of printf(3); other spellings are not from a commit. */
static bool take_number(struct ck_str *s, uint64_t *out)
{
	size_t n = 0;

	*out = 0;
	for (; n < s->len && s->p[n] >= '0' && s->p[n] <= '9'; n++)
		if (!ck_mul(out, *out, 10) ||
		    !ck_add(out, *out, (uint64_t)(s->p[n] - '0')))
			return false;
	if (n == 0 || (n > 1 && s->p[0] == '0'))
		return false;
	*s = (struct ck_str){ s->p + n, s->len - n };
	return true;
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

uint64_t ck_dcp_rank(struct ck_str path)
{
	struct ck_str prefix = CK_STR("__");
	uint64_t rank = 0;
	size_t i = prefix.len;

	if (!ck_str_starts(path, prefix) || memchr(path.p, '/', path.len))
		return CK_NO_RANK;
	for (; i < path.len && path.p[i] >= '0' && path.p[i] <= '9'; i++)
		rank = rank * 10 + (uint64_t)(path.p[i] - '0');
	if (i == prefix.len || i > prefix.len + 18 || i == path.len ||
	    path.p[i] != '_' ||
	    (path.p[prefix.len] == '0' && i > prefix.len + 1))
		return CK_NO_RANK;
	return rank;
}

uint64_t ck_dcp_metadata_rank(const char *name)
{
	struct ck_str s = ck_str_from(name);
	uint64_t rank;

	if (!take(&s, "__") || !take_number(&s, &rank) || rank == CK_NO_RANK)
		return CK_NO_RANK;
	return ck_str_is(s, CK_DCP_METADATA_NAME) ? rank : CK_NO_RANK;
}

void ck_dcp_shard_name(char out[static CK_NAME_LEN], uint64_t rank,
		       uint64_t generation, const char *hex)
{
	char text[24] = "";

	if (rank != CK_NO_RANK)
		snprintf(text, sizeof(text), "%ju_", (uintmax_t)rank);
	snprintf(out, CK_NAME_LEN, "__%sckptfs-%ju-%.16s.distcp", text,
		 (uintmax_t)generation, hex);
}

bool ck_dcp_is_ours(const char *name, uint64_t *generation)
{
	struct ck_str s = ck_str_from(name);
	uint64_t rank;

	*generation = 0;
	if (take(&s, CK_DCP_METADATA_NAME CK_TEMP))
		return take_hex(&s) && s.len == 0;
	if (!take(&s, "__"))
		return false;
	if (ck_dcp_rank(ck_str_from(name)) != CK_NO_RANK &&
	    (!take_number(&s, &rank) || !take(&s, "_")))
		return false;
	return take(&s, "ckptfs-") && take_number(&s, generation) &&
	       *generation && take(&s, "-") && take_hex(&s) &&
	       take(&s, ".distcp") && s.len == 0;
}
