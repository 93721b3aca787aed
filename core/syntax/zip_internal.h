/* SPDX-License-Identifier: MIT */
/*
 * Interface between the parts of the zip reader: zip_end.c (bytes and end
 * records), zip.c (records).
 */
#ifndef CK_ZIP_INTERNAL_H
#define CK_ZIP_INTERNAL_H

#include "zip.h"

#define CK_ZIP_SATURATED UINT32_MAX /* of a 32-bit field: see the zip64 extra */

enum { CK_ZIP_ENTRY_LEN = 46 };

/* --- bytes ----------------------------------------------------------------- */

struct ck_zip_window {
	uint8_t *bytes; /* owned */
	size_t len, cap;
	uint64_t ipos;
};

struct ck_zip_bytes {
	struct ck_zip_source src;
	struct ck_zip_window front, tail; /* the item's edges: kept */
	struct ck_zip_window dir, local;  /* slide forward */
	bool unsupported; /* the last entry is compressed or encrypted */
};

void ck_zip_bytes_free(struct ck_zip_bytes *b);
CK_MUST_USE int ck_zip_bytes_read(const struct ck_zip_bytes *b, void *buf,
				  size_t len, uint64_t ipos, struct ck_diag *d);
/* [ipos, ipos + len) if the edges have it, else NULL. */
const uint8_t *ck_zip_peek(const struct ck_zip_bytes *b, uint64_t ipos,
			   size_t len);
/* A cursor over [ipos, ipos + len): in an edge, or in w, which is moved if
 * needed. Valid until w moves again. len is at most a header with a name and an
 * extra of 64 KiB each. -EBADMSG past the end of the item. */
CK_MUST_USE int ck_zip_fetch(struct ck_zip_bytes *b, struct ck_zip_window *w,
			     uint64_t ipos, size_t len, struct ck_cur *out,
			     struct ck_diag *d);

/* The next field of a structure, little-endian. ck_zip_fetch() has returned the
 * whole structure; past its end the value would be 0. */
static inline uint64_t ck_zip_take(struct ck_cur *c, unsigned bytes)
{
	struct ck_str s;
	uint64_t value = 0;

	if (ck_cur_bytes(c, bytes, &s))
		memcpy(&value, s.p, bytes); /* little-endian hosts only */
	return value;
}

static inline uint16_t ck_zip_u16(struct ck_cur *c)
{
	return (uint16_t)ck_zip_take(c, 2);
}

static inline uint32_t ck_zip_u32(struct ck_cur *c)
{
	return (uint32_t)ck_zip_take(c, 4);
}

static inline uint64_t ck_zip_u64(struct ck_cur *c)
{
	return ck_zip_take(c, 8);
}

/* --- end records ----------------------------------------------------------- */

struct ck_zip_ends {
	uint64_t disks; /* every field that is 0 on a single disk, or-ed */
	uint64_t count, count_here;
	uint64_t dir, dir_len; /* central directory */
	uint16_t comment;
};

/* Reads the edges and the end records. The directory is inside the item,
 * ends where the end records begin, and has room for count entries. */
CK_MUST_USE int ck_zip_ends_read(struct ck_zip_bytes *b, struct ck_zip_ends *e,
				 struct ck_diag *d);

#endif
