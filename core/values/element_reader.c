/* SPDX-License-Identifier: MIT */
/*
 * element_reader: a slice of one box, and a locator that asks the checkpoint. No state beside the
 * reader.
 */
#include "element_reader.h"

static int locate(struct ck_locator *l, uint32_t tensor, const uint64_t *window,
		  const struct ck_layout **out)
{
	const struct ck_element_reader *r = (const struct ck_element_reader *)l;

	return ck_layout_get(r->cp, r->c, tensor, window, out);
}

static bool is_old(struct ck_locator *l, const struct ck_layout *layout)
{
	return ck_layout_is_old(((const struct ck_element_reader *)l)->cp,
				layout);
}

static void put(struct ck_locator *l, const struct ck_layout *layout)
{
	ck_layout_put(((const struct ck_element_reader *)l)->cp, layout);
}

int ck_elements_open(struct ck_element_reader *r, uint32_t tensor,
		     const int64_t *box, uint64_t bytes)
{
	struct ck_slice_builder b = { 0 };
	struct ck_slice *slice;
	int rc;

	r->locator = (struct ck_locator){
		.get = locate, .put = put, .is_old = is_old, .renew = locate
	};
	ck_slice_add_box(&b, tensor, ck_catalog_tensor(r->c, tensor)->ndim,
			 (const uint64_t *)box, bytes);
	rc = ck_slice_make(&b, &slice);
	if (rc)
		return rc;
	rc = ck_open_slice_make(slice, &r->locator, &r->opened);
	if (rc)
		ck_slice_free(slice);
	return rc;
}

void ck_elements_close(struct ck_element_reader *r)
{
	ck_open_slice_free(r->opened);
	r->opened = NULL;
}

int ck_elements_read(const struct ck_element_reader *r, struct ck_route *route,
		     uint64_t at, uint64_t len, void *to)
{
	struct ck_read what = {
		.from = r->opened,
		.vpos = at,
		.len = len,
		.to = to,
		.is_pass = true,
	};

	return route ? ck_io_read(route, &what)
		     : ck_host_read(r->cp->files, &what);
}
