/* SPDX-License-Identifier: MIT */
/*
 * item: one torch.save archive that holds one tensor: where are its elements,
 * and is it the tensor that the metadata promised.
 */
#ifndef CK_ITEM_H
#define CK_ITEM_H

#include "ckptfs/layout.h"
#include "ckptfs/pickle.h"
#include "ckptfs/zip.h"
#include "remarks.h"

/* What an item must hold. */
struct ck_item_want {
	uint8_t dtype; /* ck_dtype_at() */
	uint32_t ndim;
	const int64_t *size;	    /* the box's sizes, elements */
	struct ck_remarks *remarks; /* get its unknown classes; or NULL */
	struct ck_buf *quantizer;   /* gets its scale in words; or NULL */
};

/* Bytes of its elements; the catalog has checked that they can be counted. */
uint64_t ck_item_bytes(const struct ck_item_want *want);

/* Finds the tensor in an item. Sets *ipos to the byte of its first element,
 * strides[ndim] (bytes) and *change (enum ck_change).
 * -EIO: it is not the tensor wanted (shape, dtype, storage too small).
 * -EBADMSG: malformed, or a global that is dangerous, or no known tensor.
 * Errors of the source as they are. */
CK_MUST_USE int ck_item_locate(const struct ck_zip_source *src,
			       const struct ck_item_want *want, uint64_t *ipos,
			       uint64_t *strides, uint16_t *change,
			       struct ck_diag *d);

/* Bytes of data.pkl: far above what anybody keeps beside tensors. */
enum { CK_PICKLE_MAX = 1 << 30 };

/* Reads data.pkl of an archive, of at most so many bytes. *bytes is owned by
 * the caller and must outlive p. */
CK_MUST_USE int ck_item_pickle(const struct ck_zip *zip, uint64_t limit,
			       struct ck_pickle *p, void **bytes, size_t *len,
			       struct ck_diag *d);
/* The record of a storage; *r is NULL if there is none. */
CK_MUST_USE int ck_item_storage(const struct ck_zip *zip, struct ck_str key,
				const struct ck_zip_record **r,
				struct ck_diag *d);
/* Whether its values are big-endian. */
CK_MUST_USE int ck_item_byteorder(const struct ck_zip *zip, bool *big,
				  struct ck_diag *d);

/* Called with a pickle that was read. */
struct ck_pickle_taker {
	void (*take)(void *arg, const struct ck_pickle *p);
	void *arg;
};

/* Appends the value of an archive as JSON. taker may be NULL. Errors of ck_zip_read() and
 * ck_pickle_json(). */
CK_MUST_USE int ck_item_json(const struct ck_zip_source *src,
			     const struct ck_pickle_taker *taker,
			     struct ck_buf *out, struct ck_diag *d);
/* ck_item_locate() in an archive whose directory was read. */
CK_MUST_USE int ck_item_locate_in(const struct ck_zip *zip,
				  const struct ck_item_want *want,
				  uint64_t *ipos, uint64_t *strides,
				  uint16_t *change, struct ck_diag *d);

/* Undoes the stream transforms (descriptors joined by ',', applied in order)
 * of an item held in memory. *out is owned by the caller. limit: most bytes
 * of output. -EBADMSG: unknown transform, malformed or longer than limit. */
CK_MUST_USE int ck_transform_undo(struct ck_str descriptors, struct ck_str in,
				  uint64_t limit, void **out, size_t *len,
				  struct ck_diag *d);

struct ck_crc_buffer {
	void *bytes;
	size_t len;
};

/* The CRC-32 of some bytes, through a buffer. Errors of the source. */
CK_MUST_USE int ck_crc_take(const struct ck_zip_source *src, uint64_t ipos,
			    uint64_t len, const struct ck_crc_buffer *b,
			    uint32_t *crc);

/* Compares the CRC-32 of every record with the directory's, through a buffer.
 * Calls fault for each that differs, at the record's data. */
struct ck_crc_check {
	const struct ck_zip_source *src;
	const struct ck_zip *zip;
	struct ck_crc_buffer buffer;
	void (*fault)(void *ctx, uint64_t ipos, const struct ck_diag *d);
	void *ctx;
};

/* Errors of the source. */
CK_MUST_USE int ck_crc_check(const struct ck_crc_check *check,
			     struct ck_diag *d);

#endif
