/* SPDX-License-Identifier: MIT */
/*
 * zipper: writes the headers, descriptors and directory of a zip archive into a
 * buffer. Records are written one after the other; the directory ends the
 * archive. One thread at a time.
 */
#include "zipper.h"

#include <isa-l/crc.h>
#include <stdio.h>

enum {
	FLAG_LATER = 8,	    /* sizes and CRC in a descriptor behind the data */
	FLAG_UTF8 = 0x0800, /* names */
};

/* The value of a 32-bit field that is replaced by a zip64 field. */
static const uint64_t full = UINT32_MAX;

/* Appends a number; the host is little-endian. */
static void put(struct ck_buf *b, uint64_t value, unsigned bytes)
{
	ck_buf_add(b, &value, bytes);
}

/* --- records -------------------------------------------------------------------- */

static uint64_t here(const struct ck_zipper *z)
{
	return z->before + z->out->len;
}

static uint32_t capped(uint64_t value)
{
	return (uint32_t)ck_min(value, full);
}

/* Bytes of the zip64 extra field without its header; 0 if the field is not
 * needed. */
static unsigned zip64_len(const struct ck_zipper_record *r)
{
	return (r->len >= full ? 16u : 0) + (r->header >= full ? 8u : 0);
}

/* packed: the compressed size, which torch writes as 0 in the local header. */
static void put_zip64(struct ck_buf *b, const struct ck_zipper_record *r,
		      uint64_t packed)
{
	unsigned len = zip64_len(r);

	if (len == 0)
		return;
	put(b, 1, 2);
	put(b, len, 2);
	if (r->len >= full) {
		put(b, r->len, 8);
		put(b, packed, 8);
	}
	if (r->header >= full)
		put(b, r->header, 8);
}

/* Appends the common fields of local header and directory entry: flags to
 * length of the name. */
static void put_shared(struct ck_buf *b, const struct ck_zipper_record *r,
		       uint32_t crc, uint32_t len)
{
	put(b, r->len ? FLAG_UTF8 | FLAG_LATER : FLAG_UTF8, 2);
	put(b, 0, 2 + 4); /* stored; no time */
	put(b, crc, 4);
	put(b, len, 4);
	put(b, len, 4);
	put(b, strlen(r->name), 2);
}

/* Appends a row for a record. NULL when out of memory. */
static struct ck_zipper_record *record_make(struct ck_zipper *z,
					    const char *name, uint64_t len)
{
	struct ck_zipper_record *rows = ck_grow(z->records, &z->cap, z->n, 1,
						sizeof(*rows));
	struct ck_zipper_record *r;

	if (!rows) {
		z->out->err = -ENOMEM;
		return NULL;
	}
	z->records = rows;
	r = &rows[z->n++];
	*r = (struct ck_zipper_record){ .header = here(z), .len = len };
	(void)snprintf(r->name, sizeof(r->name), "%s%s", z->prefix, name);
	return r;
}

/* Appends the local header, padded so that the data are aligned. */
static struct ck_zipper_record *record_begin(struct ck_zipper *z,
					     const char *name, uint64_t len)
{
	struct ck_zipper_record *r = record_make(z, name, len);
	unsigned zip64, pad;
	uint64_t data;

	if (!r)
		return NULL;
	zip64 = zip64_len(r) ? zip64_len(r) + 4 : 0;
	data = z->fpos + r->header + 30 + strlen(r->name) + zip64 + 4;
	pad = (unsigned)((CK_ZIPPER_ALIGNMENT - data % CK_ZIPPER_ALIGNMENT) %
			 CK_ZIPPER_ALIGNMENT);
	put(z->out, 0x04034b50, 4);
	put(z->out, 0, 2);
	put_shared(z->out, r, 0, 0);
	put(z->out, zip64 + 4 + pad, 2);
	ck_buf_text(z->out, r->name);
	put_zip64(z->out, r, 0);
	ck_buf_text(z->out, "FB");
	put(z->out, pad, 2);
	for (unsigned i = 0; i < pad; i++)
		put(z->out, 'Z', 1);
	return r;
}

/* Appends the descriptor, except for an empty record, as torch does. */
static void record_end(struct ck_zipper *z, const struct ck_zipper_record *r)
{
	unsigned width = zip64_len(r) ? 8 : 4;

	if (r->len == 0)
		return;
	put(z->out, 0x08074b50, 4);
	put(z->out, r->crc, 4);
	put(z->out, r->len, width);
	put(z->out, r->len, width);
}

void ck_zipper_add(struct ck_zipper *z, const char *name, struct ck_str data)
{
	struct ck_zipper_record *r = record_begin(z, name, data.len);

	if (!r)
		return;
	if (!z->no_sums)
		r->crc = crc32_gzip_refl(0, (const uint8_t *)data.p, data.len);
	ck_buf_str(z->out, data);
	record_end(z, r);
}

size_t ck_zipper_skip(struct ck_zipper *z, const char *name, uint64_t len,
		      struct ck_buf *next)
{
	const struct ck_zipper_record *r = record_begin(z, name, len);
	size_t at = z->out->len;

	z->before += len;
	if (next != z->out) {
		z->before += at;
		next->err = z->out->err;
		z->out = next;
	}
	if (r)
		record_end(z, r);
	return at;
}

/* --- directory -------------------------------------------------------------------- */

/* Appends a directory entry, and returns the position of its CRC-32 in the
 * buffer. */
static uint64_t put_entry(struct ck_buf *b, const struct ck_zipper_record *r)
{
	unsigned zip64 = zip64_len(r);
	uint64_t crc_at = b->len + 16;

	put(b, 0x02014b50, 4);
	put(b, 0, 4);
	put_shared(b, r, r->crc, capped(r->len));
	put(b, zip64 ? zip64 + 4 : 0, 2);
	put(b, 0, 8); /* comment, disk, attributes */
	put(b, 0, 2);
	put(b, capped(r->header), 4);
	ck_buf_text(b, r->name);
	put_zip64(b, r, r->len);
	return crc_at;
}

/* Appends all three end records, always, as torch does. */
static void put_ends(struct ck_zipper *z, uint64_t dir)
{
	uint64_t end = here(z), len = end - dir;
	struct ck_buf *b = z->out;
	uint64_t n = z->n, few = ck_min(n, UINT16_MAX);

	put(b, 0x06064b50, 4);
	put(b, 44, 8);
	put(b, 0x002d031e, 4);
	put(b, 0, 8);
	put(b, n, 8);
	put(b, n, 8);
	put(b, len, 8);
	put(b, dir, 8);
	put(b, 0x07064b50, 4); /* locator */
	put(b, 0, 4);
	put(b, end, 8);
	put(b, 1, 4);
	put(b, 0x06054b50, 4);
	put(b, 0, 4);
	put(b, few, 2);
	put(b, few, 2);
	put(b, capped(len), 4);
	put(b, capped(dir), 4);
	put(b, 0, 2);
}

void ck_zipper_end(struct ck_zipper *z, size_t of, uint64_t *crc_at)
{
	uint64_t dir = here(z);

	for (size_t i = 0; i < z->n; i++) {
		uint64_t at = put_entry(z->out, &z->records[i]);

		if (crc_at && i == of)
			*crc_at = at;
	}
	put_ends(z, dir);
	free(z->records);
	z->records = NULL;
	z->n = z->cap = 0;
}
