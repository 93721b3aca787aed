/* SPDX-License-Identifier: MIT */
/*
 * nested: ranks of data files in subdirectories. Object stores with one prefix for each
 * rank leave such names: `0000000000/epoch_5/__0_0.distcp`. The last component names
 * the rank if all files of that rank are in one directory. Otherwise copies of a
 * checkpoint in subdirectories would be mixed. Files of a commit are in the top
 * directory and do not count.
 */
#include "nested.h"
#include "dcp_internal.h"

#include <errno.h>

static struct ck_str last_component(struct ck_str path, struct ck_str *dir)
{
	const char *slash = memrchr(path.p, '/', path.len);

	*dir = (struct ck_str){ path.p, slash ? (size_t)(slash - path.p) : 0 };
	if (!slash)
		return path;
	return (struct ck_str){ slash + 1, path.len - dir->len - 1 };
}

/* A file whose name has a rank. */
struct ranked {
	uint64_t rank;
	struct ck_str dir;
};

static int ranked_cmp(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

static bool is_committed(struct ck_str name)
{
	char text[CK_NAME_LEN];
	uint64_t generation;

	if (name.len >= sizeof(text))
		return false;
	memcpy(text, name.p, name.len);
	text[name.len] = '\0';
	return ck_dcp_is_ours(text, &generation);
}

static size_t ranked_list(const struct ck_files *files, struct ranked *list)
{
	size_t n = 0;

	for (uint32_t i = 0; i < ck_files_count(files); i++) {
		struct ck_str dir, path = ck_files_info(files, i)->path;
		struct ck_str name = last_component(path, &dir);
		uint64_t rank = ck_dcp_rank(name);

		if (rank != CK_NO_RANK && (dir.len || !is_committed(name)))
			list[n++] = (struct ranked){ rank, dir };
	}
	return n;
}

/* True if all n files of one rank are in one directory, which is not the top one. */
static bool is_nested(const struct ranked *first, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (!ck_str_eq(first[i].dir, first->dir))
			return false;
	return first->dir.len != 0;
}

int ck_dcp_nested_make(const struct ck_files *files, struct ck_dcp_nested *out)
{
	uint32_t most = ck_files_count(files);
	ck_auto_free struct ranked *list = calloc(most + 1UL, sizeof(*list));
	size_t n, end;

	*out = (struct ck_dcp_nested){ calloc(most + 1UL, sizeof(uint64_t)),
				       0 };
	if (!list || !out->ranks)
		return -ENOMEM;
	n = ranked_list(files, list);
	qsort(list, n, sizeof(*list), ranked_cmp);
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1; end < n && list[end].rank == list[i].rank;)
			end++;
		if (is_nested(list + i, end - i))
			out->ranks[out->n++] = list[i].rank;
	}
	return 0;
}

void ck_dcp_nested_fini(struct ck_dcp_nested *nested)
{
	free(nested->ranks);
	*nested = (struct ck_dcp_nested){ 0 };
}

uint64_t ck_dcp_nested_rank(const struct ck_dcp_nested *nested,
			    struct ck_str path)
{
	struct ck_str dir;
	uint64_t rank = ck_dcp_rank(last_component(path, &dir));
	size_t low = 0, high = nested->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (nested->ranks[middle] < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low < nested->n && nested->ranks[low] == rank ? rank
							     : CK_NO_RANK;
}
