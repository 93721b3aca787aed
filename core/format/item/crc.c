/* SPDX-License-Identifier: MIT */
/*
 * crc: verifies the bytes of an item by the CRC-32 of each record in the zip directory.
 * torch can omit those of the data (skip_data) or all (set_crc32_options(False)); an
 * omitted CRC-32 is 0 and is not checked. Stateless; any thread.
 */
#include "format/rewrite.h"
#include "item.h"

#include <errno.h>
#include <inttypes.h>
#include <isa-l/crc.h>

int ck_crc_take(const struct ck_zip_source *src, uint64_t ipos, uint64_t len,
		const struct ck_crc_buffer *b, uint32_t *crc)
{
	*crc = 0;
	for (uint64_t at = 0; at < len;) {
		size_t n = (size_t)ck_min(b->len, len - at);
		int rc = src->read(src->ctx, b->bytes, n, ipos + at);

		if (rc)
			return rc;
		*crc = crc32_gzip_refl(*crc, b->bytes, n);
		at += n;
	}
	return 0;
}

/* True if the CRC-32 of a record was written. torch omits all of them, or (skip_data)
 * those of data. `any`: some record of the archive has one. */
static bool has_crc(const struct ck_zip_record *r, bool any)
{
	return r->crc || (any && !ck_str_starts(r->name, CK_STR("data/")));
}

static bool any_crc(const struct ck_zip *zip)
{
	for (uint32_t i = 0; i < zip->nrecords; i++)
		if (zip->records[i].crc)
			return true;
	return false;
}

int ck_crc_check(const struct ck_crc_check *check, struct ck_diag *d)
{
	bool any = any_crc(check->zip);

	for (uint32_t i = 0; i < check->zip->nrecords; i++) {
		const struct ck_zip_record *r = &check->zip->records[i];
		struct ck_diag found;
		uint32_t crc = r->crc;
		int rc = has_crc(r, any)
				 ? ck_crc_take(check->src, r->ipos, r->len,
					       &check->buffer, &crc)
				 : 0;
		if (rc)
			return ck_fail_transient(d, -rc, "record %s: %s",
						 ck_show(r->name),
						 strerrordesc_np(-rc));
		if (crc == r->crc)
			continue;
		(void)ck_differs(&found, EIO, ck_shown("%08" PRIx32, r->crc),
				 ck_shown("%08" PRIx32, crc),
				 "record %s has another CRC-32",
				 ck_show(r->name));
		check->fault(check->ctx, r->ipos, &found);
	}
	return 0;
}

int ck_item_form_sum(struct ck_item_form *f, int fd, uint64_t fpos)
{
	enum { BLOCK = 256 << 10 };

	ck_auto_free void *block = malloc(BLOCK);
	uint32_t crc = 0;

	if (!block)
		return -ENOMEM;
	for (uint64_t at = 0; at < f->data_len;) {
		size_t len = (size_t)ck_min(BLOCK, f->data_len - at);
		int rc = ck_pread_full(fd, block, len, fpos + at);

		if (rc)
			return rc;
		crc = crc32_gzip_refl(crc, block, len);
		at += len;
	}
	ck_item_form_crc(f, crc);
	return 0;
}
