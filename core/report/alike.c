/* SPDX-License-Identifier: MIT */
/*
 * alike: groups of names that are different on Linux, and equal on a file
 * system that folds case or normalises Unicode. A copy of the tree to such a
 * file system would lose all but one file of each group. No state; any thread.
 */
#include "ckptfs/report.h"

#include <errno.h>
#include <utf8proc.h>

struct folded {
	utf8proc_uint8_t *text; /* owned */
	uint32_t entry;
};

static int folded_cmp(const void *a, const void *b)
{
	const struct folded *x = a, *y = b;
	int order = strcmp((const char *)x->text, (const char *)y->text);

	return order ? order : (x->entry > y->entry) - (x->entry < y->entry);
}

/* Folds the stem of an entry. Stems are UTF-8 without NUL. */
static int fold(const struct ck_catalog *c, uint32_t entry, struct folded *out)
{
	struct ck_str stem = ck_entry_names(c, entry).stem;

	out->entry = entry;
	return utf8proc_map((const utf8proc_uint8_t *)stem.p,
			    (utf8proc_ssize_t)stem.len, &out->text,
			    (utf8proc_option_t)(UTF8PROC_STABLE |
						UTF8PROC_DECOMPOSE |
						UTF8PROC_CASEFOLD)) < 0
		       ? -ENOMEM
		       : 0;
}

static bool is_alike(const struct folded *a, const struct folded *b)
{
	return strcmp((const char *)a->text, (const char *)b->text) == 0;
}

/* Collects those of n sorted names that equal a neighbour. */
static void collect(const struct folded *all, size_t n, struct ck_alike *out)
{
	for (size_t i = 0; i < n; i++) {
		bool before = i > 0 && is_alike(&all[i - 1], &all[i]);
		bool behind = i + 1 < n && is_alike(&all[i], &all[i + 1]);

		if (!before && !behind)
			continue;
		out->rows[out->n++] = (struct ck_alike_row){
			.entry = all[i].entry,
			.first = !before,
		};
	}
}

int ck_alike_find(const struct ck_catalog *c, struct ck_alike *out)
{
	struct folded *all = calloc(c->listing->n + 1, sizeof(*all));
	size_t n = 0;
	int rc = 0;

	*out = (struct ck_alike){
		.rows = calloc(c->listing->n + 1, sizeof(*out->rows)),
	};
	if (!all || !out->rows)
		rc = -ENOMEM;
	for (; rc == 0 && n < c->listing->n; n++)
		rc = fold(c, (uint32_t)n, &all[n]);
	if (rc == 0) {
		qsort(all, n, sizeof(*all), folded_cmp);
		collect(all, n, out);
	}
	for (size_t i = 0; i < n; i++)
		free(all[i].text);
	free(all);
	if (rc)
		ck_alike_fini(out);
	return rc;
}

void ck_alike_fini(struct ck_alike *a)
{
	free(a->rows);
	*a = (struct ck_alike){ 0 };
}
