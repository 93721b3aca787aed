/* SPDX-License-Identifier: MIT */
/*
 * object_value: shows an object that is a value of a larger pickle. A pickle of its own was
 * written when the larger one was read. This file wraps it in an archive like one of
 * torch.save. Storages that the value refers to are not copied: the archive has a gap for
 * each, with the location of its bytes. Stateless; any thread may call the functions.
 */
#include "object_value.h"
#include "ckptfs/value.h"
#include "syntax/zipper.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

int ck_value_json(struct ck_str pickle, struct ck_buf *out, struct ck_diag *d)
{
	struct ck_pickle p = { 0 };
	int rc = ck_pickle_read(&p, pickle.p, pickle.len, NULL, d);

	if (rc == 0)
		rc = ck_pickle_json(&p, pickle.len, out, d);
	ck_pickle_fini(&p);
	return rc;
}

/* Adds the headers of data/0, data/1 and so on, and sets the gaps for their bytes. */
static int storages_add(struct ck_zipper *z, const struct ck_object *o,
			struct ck_object_gap *gaps, struct ck_diag *d)
{
	for (uint32_t i = 0; i + 1 < o->nitems; i++) {
		const struct ck_item *s = &o->items[1 + i];
		char name[32];

		if (s->err)
			return ck_fail(d, s->err, "storage %" PRIu32 ": %s", i,
				       strerrordesc_np(s->err));
		(void)snprintf(name, sizeof(name), "data/%" PRIu32, i);
		gaps[i].at = ck_zipper_skip(z, name, s->length, z->out);
		gaps[i].place = (struct ck_object_place){ s->file, s->fpos,
							  s->length };
	}
	return 0;
}

/* True if the storages are big-endian, as in the file: their bytes are not swapped. */
static bool is_big(const struct ck_object *o)
{
	return o->nitems > 1 && o->items[1].change & CK_CHANGE_SWAP;
}

/* Writes the archive without the bytes of the gaps. */
static int archive_make(const struct ck_object *o, struct ck_buf *out,
			struct ck_object_gap *gaps, struct ck_diag *d)
{
	static const char id[] = "0000000000000000000000000000000000000000";
	struct ck_zipper z = { .out = out,
			       .prefix = "checkpoint/",
			       .no_sums = true };
	int rc;

	ck_zipper_add(&z, "data.pkl", o->pickle);
	ck_zipper_add(&z, "byteorder",
		      is_big(o) ? CK_STR("big") : CK_STR("little"));
	rc = storages_add(&z, o, gaps, d);
	ck_zipper_add(&z, "version", CK_STR("3\n"));
	ck_zipper_add(&z, ".data/serialization_id", CK_STR(id));
	ck_zipper_end(&z, 0, NULL);
	if (rc == 0 && out->err)
		rc = ck_fail(d, ENOMEM, "out of memory");
	return rc;
}

int ck_value_archive(const struct ck_object *o, struct ck_buf *out,
		     struct ck_object_gaps *gaps, struct ck_diag *d)
{
	struct ck_buf b = { 0 };
	uint32_t n = o->nitems - 1;
	int rc;

	gaps->list = calloc(n + 1UL, sizeof(*gaps->list));
	if (!gaps->list)
		return ck_fail(d, ENOMEM, "out of memory");
	rc = archive_make(o, &b, gaps->list, d);
	for (uint32_t i = 0; i < n; i++)
		gaps->list[i].at += out->len;
	if (rc == 0) {
		gaps->n = n;
		ck_buf_add(out, b.data, b.len);
	}
	if (rc == 0 && out->err)
		rc = ck_fail(d, ENOMEM, "out of memory");
	ck_buf_fini(&b);
	return rc;
}
