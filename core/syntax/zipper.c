/* SPDX-License-Identifier: MIT */
/*
 * zipper: writes the headers, descriptors and directory of a zip archive into a
 * buffer. Records are written one after the other; the directory ends the
 * archive. A struct ck_zipper is used by one thread at a time; the functions for
 * single parts have no state.
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

/* Bytes of the zip64 extra field with its header; 0 if the field is not needed. */
static unsigned zip64_field(const struct ck_zipper_record *r)
{
	return zip64_len(r) ? zip64_len(r) + 4 : 0;
}

/* Bytes that move the data to a multiple of the alignment. */
static unsigned padding(const struct ck_zipper_record *r, uint64_t fpos)
{
	uint64_t data = fpos + r->header + 30 + strlen(r->name) +
			zip64_field(r) + 4;

	return r->gap +
	       (unsigned)((CK_ZIPPER_ALIGNMENT - data % CK_ZIPPER_ALIGNMENT) %
			  CK_ZIPPER_ALIGNMENT);
}

uint64_t ck_zipper_header_len(const struct ck_zipper_record *r, uint64_t fpos)
{
	return 30 + strlen(r->name) + zip64_field(r) + 4 + padding(r, fpos);
}

void ck_zipper_header(struct ck_buf *b, const struct ck_zipper_record *r,
		      uint64_t fpos)
{
	unsigned pad = padding(r, fpos);

	put(b, 0x04034b50, 4);
	put(b, 0, 2);
	put_shared(b, r, 0, 0);
	put(b, zip64_field(r) + 4 + pad, 2);
	ck_buf_text(b, r->name);
	put_zip64(b, r, 0);
	ck_buf_text(b, "FB");
	put(b, pad, 2);
	for (unsigned i = 0; i < pad; i++)
		put(b, 'Z', 1);
}

/* Begins a record: its row, and the local header. */
static struct ck_zipper_record *record_begin(struct ck_zipper *z,
					     const char *name, uint64_t len)
{
	struct ck_zipper_record *r = record_make(z, name, len);

	if (r)
		ck_zipper_header(z->out, r, z->fpos);
	return r;
}

uint64_t ck_zipper_descriptor_len(const struct ck_zipper_record *r)
{
	if (r->len == 0)
		return 0;
	return zip64_len(r) ? 24 : 16;
}

/* An empty record has no descriptor, as in torch. */
void ck_zipper_descriptor(struct ck_buf *b, const struct ck_zipper_record *r)
{
	unsigned width = zip64_len(r) ? 8 : 4;

	if (r->len == 0)
		return;
	put(b, 0x08074b50, 4);
	put(b, r->crc, 4);
	put(b, r->len, width);
	put(b, r->len, width);
}

void ck_zipper_add(struct ck_zipper *z, const char *name, struct ck_str data)
{
	struct ck_zipper_record *r = record_begin(z, name, data.len);

	if (!r)
		return;
	if (!z->no_sums)
		r->crc = crc32_gzip_refl(0, (const uint8_t *)data.p, data.len);
	ck_buf_str(z->out, data);
	ck_zipper_descriptor(z->out, r);
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
		ck_zipper_descriptor(z->out, r);
	return at;
}

/* --- directory -------------------------------------------------------------------- */

uint64_t ck_zipper_entry_len(const struct ck_zipper_record *r)
{
	return 46 + strlen(r->name) + zip64_field(r);
}

uint64_t ck_zipper_entry(struct ck_buf *b, const struct ck_zipper_record *r)
{
	uint64_t crc_at = b->len + 16;

	put(b, 0x02014b50, 4);
	put(b, 0, 4);
	put_shared(b, r, r->crc, capped(r->len));
	put(b, zip64_field(r), 2);
	put(b, 0, 8); /* comment, disk, attributes */
	put(b, 0, 2);
	put(b, capped(r->header), 4);
	ck_buf_text(b, r->name);
	put_zip64(b, r, r->len);
	return crc_at;
}

/* All three end records, always, as torch does. */
void ck_zipper_ends(struct ck_buf *b, uint64_t n, uint64_t dir, uint64_t end)
{
	uint64_t len = end - dir, few = ck_min(n, UINT16_MAX);

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
		uint64_t at = ck_zipper_entry(z->out, &z->records[i]);

		if (crc_at && i == of)
			*crc_at = at;
	}
	ck_zipper_ends(z->out, z->n, dir, here(z));
	free(z->records);
	z->records = NULL;
	z->n = z->cap = 0;
}
