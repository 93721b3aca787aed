/* SPDX-License-Identifier: MIT */
/*
 * workspace: one per thread, made at the first use and freed when the thread ends.
 */
#include "workspace.h"
#include "load.h"

#include <errno.h>

enum { COPIES_KEPT = 8192 };

static void workspace_fini(void *p)
{
	struct ck_workspace *s = p;

	ck_plan_fini(&s->plan);
	ck_pages_fini(&s->filled);
	free(s->used);
	free(s->from);
	free(s->where);
	free(s->block);
}

struct ck_workspace *ck_workspace_get(void)
{
	static _Thread_local struct ck_workspace *mine;

	if (!mine)
		mine = ck_thread_keep(sizeof(*mine), workspace_fini);
	return mine;
}

static int reserve_from(struct ck_workspace *s, size_t n)
{
	const uint8_t **from;

	if (n <= s->from_cap)
		return 0;
	from = reallocarray(s->from, n, sizeof(*from));
	if (!from)
		return -ENOMEM;
	s->from = from;
	s->from_cap = n;
	return 0;
}

static int reserve_where(struct ck_workspace *s, size_t n)
{
	uint32_t *where;

	if (n <= s->where_cap)
		return 0;
	where = calloc(n, sizeof(*where));
	if (!where)
		return -ENOMEM;
	free(s->where);
	s->where = where;
	s->where_cap = n;
	return 0;
}

int ck_workspace_reserve(struct ck_workspace *s, size_t ncopies, size_t nfiles)
{
	int rc = reserve_from(s, ncopies);

	return rc ? rc : reserve_where(s, nfiles);
}

uint8_t *ck_workspace_block(struct ck_workspace *s)
{
	if (!s->block)
		s->block = malloc(CK_LOAD_BLOCK);
	return s->block;
}

void ck_workspace_trim(struct ck_workspace *s)
{
	if (s->plan.copies_cap <= COPIES_KEPT &&
	    s->plan.loops_cap <= COPIES_KEPT)
		return;
	ck_plan_fini(&s->plan);
	free(s->from);
	s->from = NULL;
	s->from_cap = 0;
}
