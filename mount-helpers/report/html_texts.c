/* SPDX-License-Identifier: MIT */
/*
 * html_texts: a table over copies. No state beside the struct.
 */
#include "html_texts.h"

static struct ck_str text_of(const void *arg, uint32_t number)
{
	const struct ck_html_texts *t = arg;

	return t->all[number];
}

int ck_html_text_add(struct ck_html_texts *t, struct ck_str text,
		     uint32_t *number)
{
	int64_t found = ck_table_find(&t->table, text);
	struct ck_str *all;

	*number = (uint32_t)found;
	if (found >= 0)
		return 0;
	all = ck_grow(t->all, &t->cap, t->n, 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	t->all = all;
	all[t->n] = ck_arena_copy(&t->copies, text);
	if (!all[t->n].p)
		return -ENOMEM;
	t->table.key = text_of;
	t->table.arg = t;
	t->n++;
	return ck_table_add(&t->table, all[t->n - 1], t->n - 1, number);
}

void ck_html_texts_fini(struct ck_html_texts *t)
{
	ck_table_fini(&t->table);
	ck_arena_fini(&t->copies);
	free(t->all);
}
