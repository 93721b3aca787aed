/* SPDX-License-Identifier: MIT */
/*
 * side: two boxes that are compared, see replicas_internal.h. Bytes are compared as elements in C
 * order, as a reader gets them, so that the layout in the file of each rank does not matter.
 */
#include "replicas_internal.h"

#include <errno.h>

int ck_side_open(struct ck_side *s, uint32_t tensor, const int64_t *box,
		 uint64_t bytes)
{
	if (!s->bytes)
		s->bytes = malloc(CK_SIDE_BYTES);
	return s->bytes ? ck_elements_open(&s->reader, tensor, box, bytes)
			: -ENOMEM;
}

void ck_side_close(struct ck_side *s)
{
	ck_elements_close(&s->reader);
}

static int side_read(const struct ck_comparing *k, const struct ck_side *s,
		     uint64_t at, uint64_t len)
{
	return ck_elements_read(&s->reader, k->route, at, len, s->bytes);
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
