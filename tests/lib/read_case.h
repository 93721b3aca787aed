/* SPDX-License-Identifier: MIT */
/*
 * read_case: all bytes of a tensor of a checkpoint, as a mount would read them.
 */
#ifndef CK_READ_CASE_H
#define CK_READ_CASE_H

#include "ckptfs/format.h"
#include "ckptfs/io.h"
#include "ckptfs/view.h"

/* Gives out a layout that the test has, or gets one. */
struct read_case {
	struct ck_locator locator;
	struct ck_checkpoint *cp;
	const struct ck_layout *layout; /* or NULL */
};

static inline int read_case_get(struct ck_locator *l, uint32_t tensor,
				const uint64_t *window,
				const struct ck_layout **out)
{
	const struct read_case *r = (const struct read_case *)l;

	if (!r->layout)
		return ck_layout_get(r->cp, r->cp->catalog, tensor, window,
				     out);
	*out = r->layout;
	return 0;
}

static inline void read_case_put(struct ck_locator *l,
				 const struct ck_layout *layout)
{
	const struct read_case *r = (const struct read_case *)l;

	if (!r->layout)
		ck_layout_put(r->cp, layout);
}

static inline bool read_case_is_old(struct ck_locator *l,
				    const struct ck_layout *layout)
{
	const struct read_case *r = (const struct read_case *)l;

	return !r->layout && ck_layout_is_old(r->cp, layout);
}

/* All bytes of a slice, which is taken, into `to`. layout: NULL, or the one to read
 * by. Errors as of opening and reading it. */
static inline int read_case_slice(struct ck_checkpoint *cp,
				  struct ck_slice *slice,
				  const struct ck_layout *layout, void *to)
{
	struct read_case c = { { .get = read_case_get,
				 .put = read_case_put,
				 .is_old = read_case_is_old,
				 .renew = read_case_get },
			       cp,
			       layout };
	struct ck_open_slice *opened;
	struct ck_read r;
	int rc = ck_open_slice_make(slice, &c.locator, &opened);

	if (rc) {
		ck_slice_free(slice);
		return rc;
	}
	r = (struct ck_read){ .from = opened, .len = slice->size, .to = to };
	rc = ck_host_read(cp->files, &r);
	ck_open_slice_free(opened);
	return rc;
}

/* Of a tensor: `to` has room for all of raw/. */
static inline int read_case(struct ck_checkpoint *cp, uint32_t tensor,
			    const struct ck_layout *layout, void *to)
{
	struct ck_slice *slice;
	int rc = ck_tensor_views[1]->slice(cp->catalog, tensor, &slice);

	return rc ? rc : read_case_slice(cp, slice, layout, to);
}

#endif
