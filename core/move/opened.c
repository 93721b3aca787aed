/* SPDX-License-Identifier: MIT */
/*
 * opened: an open slice. Its parts are located when they are touched, each by
 * itself, so that a file of 100,000 tensors opens none of them. A layout that was
 * given out stays until the slice is closed, since others may be reading from
 * it: one that takes its place is chained before it.
 */
#include "ckptfs/move.h"

#include <errno.h>

/* A layout of one part. */
struct touched {
	const struct ck_layout *layout;
	struct touched *older; /* which had errors of the moment */
};

struct ck_opened {
	/* Constant: */
	struct ck_slice *slice;
	struct ck_locator *locator;
	/* Atomic: of each part, NULL: not touched. */
	struct touched *parts[];
};

int ck_opened_make(struct ck_slice *slice, struct ck_locator *locator,
		   struct ck_opened **out)
{
	struct ck_opened *o = calloc(
		1, sizeof(*o) + slice->nparts * sizeof(struct touched *));

	if (!o)
		return -ENOMEM;
	o->slice = slice;
	o->locator = locator;
	*out = o;
	return 0;
}

static void touched_free(struct ck_locator *locator, struct touched *t)
{
	while (t) {
		struct touched *older = t->older;

		locator->put(locator, t->layout);
		free(t);
		t = older;
	}
}

void ck_opened_free(struct ck_opened *o)
{
	if (!o)
		return;
	for (uint32_t i = 0; i < o->slice->nparts; i++)
		touched_free(o->locator, o->parts[i]);
	ck_slice_free(o->slice);
	free(o);
}

const struct ck_slice *ck_opened_slice(const struct ck_opened *o)
{
	return o->slice;
}

static struct touched *present(const struct ck_opened *o, uint32_t i)
{
	return __atomic_load_n(&o->parts[i], __ATOMIC_ACQUIRE);
}

const struct ck_layout *ck_opened_known(const struct ck_opened *o, uint32_t i)
{
	const struct touched *t = present(o, i);

	return t ? t->layout : NULL;
}

/* Enters what was found, or lets it go for what another thread found. */
static const struct ck_layout *enter(struct ck_opened *o, uint32_t i,
				     struct touched *mine)
{
	struct touched *first = mine->older;

	if (__atomic_compare_exchange_n(&o->parts[i], &first, mine, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return mine->layout;
	mine->older = NULL;
	touched_free(o->locator, mine);
	return first->layout;
}

int ck_opened_layout(struct ck_opened *o, uint32_t i,
		     const struct ck_layout *again,
		     const struct ck_layout **out)
{
	struct touched *old = present(o, i);
	struct ck_part part;
	struct touched *mine;
	int rc;

	if (old && old->layout != again) {
		*out = old->layout;
		return 0;
	}
	mine = malloc(sizeof(*mine));
	if (!mine)
		return -ENOMEM;
	part = ck_slice_part(o->slice, i);
	mine->older = old;
	rc = o->locator->get(o->locator, part.number, part.at.box,
			     &mine->layout);
	if (rc) {
		free(mine);
		return rc;
	}
	*out = enter(o, i, mine);
	return 0;
}

int ck_opened_locate(struct ck_opened *o)
{
	const struct ck_layout *layout;
	int rc = 0;

	for (uint32_t i = 0; i < o->slice->nparts && rc == 0; i++)
		if (ck_slice_part(o->slice, i).kind == CK_PART_BOX)
			rc = ck_opened_layout(o, i, NULL, &layout);
	return rc;
}
