/* SPDX-License-Identifier: MIT */
/*
 * side: two boxes that are compared, see replicas_internal.h. Bytes are compared as elements in C
 * order, as a reader gets them, so that the layout in the file of each rank does not matter.
 */
#include "replicas_internal.h"

#include <errno.h>

static int side_locate(struct ck_locator *l, uint32_t tensor,
		       const uint64_t *window, const struct ck_layout **out)
{
	const struct ck_side *s = (const struct ck_side *)l;

	return ck_layout_get(s->cp, s->c, tensor, window, out);
}

static bool side_is_old(struct ck_locator *l, const struct ck_layout *layout)
{
	return ck_layout_is_old(((const struct ck_side *)l)->cp, layout);
}

static void side_put(struct ck_locator *l, const struct ck_layout *layout)
{
	ck_layout_put(((const struct ck_side *)l)->cp, layout);
}

int ck_side_open(struct ck_side *s, uint32_t tensor, const int64_t *box,
		 uint64_t bytes)
{
	struct ck_slice_builder b = { 0 };
	struct ck_slice *slice;
	int rc;

	s->locator = (struct ck_locator){ .get = side_locate,
					  .put = side_put,
					  .is_old = side_is_old,
					  .renew = side_locate };
	if (!s->bytes)
		s->bytes = malloc(CK_SIDE_BYTES);
	if (!s->bytes)
		return -ENOMEM;
	ck_slice_add_box(&b, tensor, ck_catalog_tensor(s->c, tensor)->ndim,
			 (const uint64_t *)box, bytes);
	rc = ck_slice_make(&b, &slice);
	if (rc)
		return rc;
	rc = ck_open_slice_make(slice, &s->locator, &s->opened);
	if (rc)
		ck_slice_free(slice);
	return rc;
}

void ck_side_close(struct ck_side *s)
{
	ck_open_slice_free(s->opened);
	s->opened = NULL;
}

static int side_read(const struct ck_comparing *k, const struct ck_side *s,
		     uint64_t at, uint64_t len)
{
	struct ck_read what = {
		.from = s->opened, .vpos = at, .len = len, .to = s->bytes
	};

	return k->route ? ck_io_read(k->route, &what)
			: ck_host_read(s->cp->files, &what);
}

int ck_differing_add(struct ck_comparing *k, uint32_t file)
{
	uint32_t *files = ck_grow(k->files, &k->cap, k->n, 1, sizeof(*files));

	if (!files)
		return -ENOMEM;
	k->files = files;
	files[k->n++] = file;
	return 0;
}

bool ck_is_stopped(const struct ck_comparing *k)
{
	return k->stop && k->stop->asked(k->stop->arg);
}

int ck_bytes_compare(struct ck_comparing *k, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += CK_SIDE_BYTES) {
		uint64_t len = ck_min((uint64_t)CK_SIDE_BYTES, bytes - at);
		int rc = ck_is_stopped(k) ? -EINTR
					  : side_read(k, &k->shown, at, len);

		if (rc)
			return rc;
		rc = side_read(k, &k->other, at, len);
		if (rc == -EREMOTE || ck_is_shortage(rc))
			return rc;
		if (rc)
			return 0;
		if (memcmp(k->shown.bytes, k->other.bytes, len) != 0)
			return 1;
	}
	return 0;
}

const struct ck_tensor *ck_copy_at(const struct ck_catalog *c,
				   const struct ck_same_name *same)
{
	const struct ck_tensor *t;

	if (same->id.is_object)
		return NULL;
	t = ck_catalog_tensor(c, same->id.i);
	return t->entry.role == CK_ROLE_COPY ? t : NULL;
}
