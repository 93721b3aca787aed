/* SPDX-License-Identifier: MIT */
/*
 * open_slice: an open slice. Its parts are located when they are touched, each by
 * itself, so that a file of 100,000 tensors opens none of them. A layout that was
 * given out stays until the slice is closed, since others may be reading from
 * it: one that takes its place is chained before it. One takes its place only if
 * more could be read by it, so that retries during an outage cost nothing.
 */
#include "ckptfs/io.h"

#include <errno.h>

/* A layout of one part. */
struct touched {
	const struct ck_layout *layout;
	struct touched *older; /* which had errors of the moment */
};

struct ck_open_slice {
	/* Constant: */
	struct ck_slice *slice;
	struct ck_locator *locator;
	/* Atomic: of each part, NULL: not touched. */
	struct touched *parts[];
};

int ck_open_slice_make(struct ck_slice *slice, struct ck_locator *locator,
		       struct ck_open_slice **out)
{
	struct ck_open_slice *o = calloc(
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

void ck_open_slice_free(struct ck_open_slice *o)
{
	if (!o)
		return;
	for (uint32_t i = 0; i < o->slice->nparts; i++)
		touched_free(o->locator, o->parts[i]);
	ck_slice_free(o->slice);
	free(o);
}

const struct ck_slice *ck_open_slice_slice(const struct ck_open_slice *o)
{
	return o->slice;
}

static struct touched *present(const struct ck_open_slice *o, uint32_t i)
{
	return __atomic_load_n(&o->parts[i], __ATOMIC_ACQUIRE);
}

const struct ck_layout *ck_open_slice_known(const struct ck_open_slice *o,
					    uint32_t i)
{
	const struct touched *t = present(o, i);

	return t ? t->layout : NULL;
}

void ck_open_slice_guess(const struct ck_open_slice *o, uint32_t i,
			 uint64_t begin, uint64_t end, ck_range_use *each,
			 void *arg)
{
	struct ck_part part = ck_slice_part(o->slice, i);

	if (o->locator->guess)
		o->locator->guess(o->locator, part.number, part.at.box, begin,
				  end, each, arg);
}

static int ask(struct ck_open_slice *o, uint32_t i,
	       const struct ck_layout **out)
{
	struct ck_part part = ck_slice_part(o->slice, i);

	return o->locator->get(o->locator, part.number, part.at.box, out);
}

/* Enters a layout where `old` is; false: another thread was first, or there is no
 * memory. */
static bool enter(struct ck_open_slice *o, uint32_t i, struct touched *old,
		  const struct ck_layout *layout)
{
	struct touched *mine = malloc(sizeof(*mine));

	if (!mine)
		return false;
	*mine = (struct touched){ layout, old };
	if (__atomic_compare_exchange_n(&o->parts[i], &old, mine, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return true;
	free(mine);
	return false;
}

int ck_open_slice_layout(struct ck_open_slice *o, uint32_t i,
			 const struct ck_layout **out)
{
	const struct touched *first = present(o, i);
	const struct ck_layout *layout;
	int rc;

	if (!first) {
		rc = ask(o, i, &layout);
		if (rc)
			return rc;
		if (!enter(o, i, NULL, layout))
			o->locator->put(o->locator, layout);
		first = present(o, i);
	}
	*out = first ? first->layout : NULL;
	return first ? 0 : -ENOMEM;
}

int ck_open_slice_again(struct ck_open_slice *o, uint32_t i,
			const struct ck_layout *failed, ck_open_slice_use *use,
			void *arg)
{
	struct touched *old = present(o, i);
	const struct ck_layout *layout;
	int rc;

	if (old->layout != failed) /* another thread has retried */
		return use(old->layout, arg);
	rc = ask(o, i, &layout);
	if (rc)
		return rc;
	rc = use(layout, arg);
	if ((rc && layout->transient) || !enter(o, i, old, layout))
		o->locator->put(o->locator, layout);
	return rc;
}

bool ck_open_slice_is_old(const struct ck_open_slice *o,
			  const struct ck_layout *layout)
{
	return o->locator->is_old && o->locator->is_old(o->locator, layout);
}

int ck_open_slice_renew(struct ck_open_slice *o, uint32_t i,
			const struct ck_layout *old, ck_open_slice_use *use,
			void *arg)
{
	struct touched *first = present(o, i);
	struct ck_part part = ck_slice_part(o->slice, i);
	const struct ck_layout *layout;
	int rc;

	if (first->layout != old) /* another thread has renewed it */
		return use(first->layout, arg);
	rc = o->locator->renew(o->locator, part.number, part.at.box, &layout);
	if (rc)
		return rc;
	if (layout != old && ck_layout_is_same(old, layout))
		ck_layout_renew(old, ck_layout_touches(layout));
	else if (layout != old && enter(o, i, first, layout))
		return use(layout, arg);
	o->locator->put(o->locator, layout);
	return use(present(o, i)->layout, arg);
}

int ck_open_slice_locate(struct ck_open_slice *o)
{
	const struct ck_layout *layout;
	bool waits = false;
	int rc = 0;

	for (uint32_t i = 0; i < o->slice->nparts && rc == 0; i++) {
		if (ck_slice_part(o->slice, i).kind != CK_PART_BOX)
			continue;
		rc = ck_open_slice_layout(o, i, &layout);
		waits |= rc == -EREMOTE;
		if (rc == -EREMOTE)
			rc = 0;
	}
	return rc == 0 && waits ? -EREMOTE : rc;
}
