/* SPDX-License-Identifier: MIT */
/*
 * rank_list: parses a list of ranks each time that it is used: lists are short. No state.
 */
#include "rank_list.h"

/* Takes a decimal number without sign and leading zeros. */
static bool number_take(const char **at, uint64_t *out)
{
	const char *begin = *at;

	for (*out = 0; **at >= '0' && **at <= '9'; ++*at)
		if (!ck_mul(out, *out, 10) ||
		    !ck_add(out, *out, (uint64_t)(**at - '0')))
			return false;
	return *at > begin && (*begin != '0' || *at == begin + 1);
}

/* Takes a rank or range, and the separator behind it. Returns false at the end, or if the
 * text has another form. */
static bool range_take(const char **at, uint64_t *first, uint64_t *last)
{
	if (**at == '\0' || !number_take(at, first))
		return false;
	*last = *first;
	if (**at == '-') {
		++*at;
		if (!number_take(at, last) || *last < *first)
			return false;
	}
	if (**at == '\0')
		return true;
	return (**at == '+' || **at == ',') && *++*at != '\0';
}

bool ck_rank_list_is_valid(const char *list)
{
	size_t len = strlen(list);
	uint64_t first, last;

	if (len == 0 || list[len - 1] < '0' || list[len - 1] > '9')
		return false;
	while (*list)
		if (!range_take(&list, &first, &last))
			return false;
	return true;
}

bool ck_rank_list_has(const char *list, uint64_t rank)
{
	uint64_t first, last;

	if (!list)
		return true;
	while (range_take(&list, &first, &last))
		if (rank >= first && rank <= last)
			return true;
	return false;
}
