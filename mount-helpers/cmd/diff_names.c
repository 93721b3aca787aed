/* SPDX-License-Identifier: MIT */
/*
 * diff_names: finds the prefix that the names of one checkpoint lack, as those of a copy of hf/
 * do. No state.
 */
#include "diff_names.h"
#include "cli.h"

static struct ck_str name_at(const struct ck_picked_source *s, size_t i)
{
	return ck_tensor_names(s->from.c, s->picked.tensors[i]).name;
}

static bool has_name(const struct ck_picked_source *s, struct ck_str name)
{
	size_t from = 0, to = s->picked.ntensors;

	while (from < to) {
		size_t middle = from + (to - from) / 2;
		int order = ck_str_natural_cmp(name, name_at(s, middle));

		if (order == 0)
			return true;
		if (order < 0)
			to = middle;
		else
			from = middle + 1;
	}
	return false;
}

/* True if each name of `in`, behind the prefix, is a name of `of`. */
static bool are_all_below(const struct ck_picked_source *in,
			  const struct ck_picked_source *of,
			  struct ck_str prefix)
{
	struct ck_buf name = { 0 };
	bool all = true;

	for (size_t i = 0; i < in->picked.ntensors && all; i++) {
		name.len = 0;
		ck_buf_str(&name, prefix);
		ck_buf_str(&name, name_at(in, i));
		all = !name.err &&
		      has_name(of, (struct ck_str){ name.data, name.len });
	}
	ck_buf_fini(&name);
	return all;
}

/* Sets *prefix, with its dot; it is valid as long as the catalog. */
static bool find_prefix(const struct ck_picked_source *in,
			const struct ck_picked_source *of,
			struct ck_str *prefix)
{
	struct ck_str first = name_at(in, 0);

	for (size_t i = 0; i < of->picked.ntensors; i++) {
		struct ck_str name = name_at(of, i);
		size_t len = name.len - first.len;

		if (name.len <= first.len + 1 || name.p[len - 1] != '.' ||
		    memcmp(name.p + len, first.p, first.len) != 0)
			continue;
		*prefix = (struct ck_str){ name.p, len };
		if (are_all_below(in, of, *prefix))
			return true;
	}
	return false;
}

/* Returns the first part, with its dot, that all names outside of the prefix share; empty if there
 * is none. */
static struct ck_str find_others(const struct ck_picked_source *of,
				 struct ck_str prefix)
{
	struct ck_str others = { 0 };

	for (size_t i = 0; i < of->picked.ntensors; i++) {
		struct ck_str name = name_at(of, i);
		const char *dot = memchr(name.p, '.', name.len);

		if (ck_str_starts(name, prefix) ||
		    (others.len && ck_str_starts(name, others)))
			continue;
		if (others.len || !dot)
			return (struct ck_str){ 0 };
		others = (struct ck_str){ name.p, (size_t)(dot + 1 - name.p) };
	}
	return others;
}

/* True if the line was printed. */
static bool hint(const struct ck_picked_source *in, const char *in_path,
		 const struct ck_picked_source *of, const char *of_path)
{
	struct ck_str prefix, others;

	if (in->picked.ntensors == 0 || !find_prefix(in, of, &prefix))
		return false;
	others = find_others(of, prefix);
	(void)ck_trouble("all %zu names of %s are names of %s below %s: try "
			 "-o rename=NAMES%s%s%s, where the file NAMES has the "
			 "line %s*<TAB>*",
			 in->picked.ntensors, ck_show(ck_str_from(in_path)),
			 ck_show(ck_str_from(of_path)), ck_show(prefix),
			 others.len ? ",exclude='" : "", ck_show(others),
			 others.len ? "*'" : "", ck_show(prefix));
	return true;
}

void ck_diff_names_hint(const struct ck_picked_source sources[2],
			const char *const paths[2])
{
	if (!hint(&sources[0], paths[0], &sources[1], paths[1]))
		(void)hint(&sources[1], paths[1], &sources[0], paths[0]);
}
