/* SPDX-License-Identifier: MIT */
/*
 * item: the bytes of one item. Most items are a torch.save archive with one tensor:
 * finds its elements, verifies that it is the tensor of the metadata, prints it, checks
 * its CRC-32. Stateless; any thread may call all functions.
 */
#ifndef CK_ITEM_H
#define CK_ITEM_H

#include "ckptfs/layout.h"
#include "ckptfs/pickle.h"
#include "remarks.h"
#include "syntax/zip.h"

/* The tensor that an item must contain. */
struct ck_item_want {
	uint8_t dtype; /* ck_dtype_at() */
	uint32_t ndim;
	const int64_t *size;	    /* ndim; sizes of the box, in elements */
	struct ck_remarks *remarks; /* receives its unknown classes; or NULL */
	struct ck_buf *quantizer;   /* receives its scale as text; or NULL */
};

/* Returns the bytes of its elements. The catalog has checked that the product does not
 * overflow. */
uint64_t ck_item_bytes(const struct ck_item_want *want);

/* Finds the tensor in an item. Sets *ipos to the offset of its first element in the
 * item, strides[ndim] in bytes, and *change (enum ck_change). Returns 0, or: -EIO if it
 * has another shape or dtype, or its storage is too small; -EBADMSG if it is malformed,
 * names a dangerous global, or is not a known tensor; -ENOMEM; errors of the source. */
CK_MUST_USE int ck_item_locate(const struct ck_zip_source *src,
			       const struct ck_item_want *want, uint64_t *ipos,
			       uint64_t *strides, uint16_t *change,
			       struct ck_diag *d);

/* Upper limit of data.pkl in bytes, far above the size of any real one. */
enum { CK_PICKLE_MAX = 1 << 30 };

/* Reads data.pkl of an archive, of at most `limit` bytes. Caller owns *bytes, which
 * must outlive p, and calls ck_pickle_fini(), also after an error. Returns 0, or:
 * -EBADMSG if the archive is not of torch.save or its pickle is malformed; -ENOMEM;
 * errors of the source. */
CK_MUST_USE int ck_item_pickle(const struct ck_zip *zip, uint64_t limit,
			       struct ck_pickle *p, void **bytes, size_t *len,
			       struct ck_diag *d);
/* Sets *r to the record of a storage, or to NULL if there is no such record. Returns 0,
 * or: -ENOMEM. */
CK_MUST_USE int ck_item_storage(const struct ck_zip *zip, struct ck_str key,
				const struct ck_zip_record **r,
				struct ck_diag *d);
/* Sets *big if its values are big-endian. Returns 0, or: -EBADMSG if the byte order is
 * unknown; errors of the source. */
CK_MUST_USE int ck_item_byteorder(const struct ck_zip *zip, bool *big,
				  struct ck_diag *d);

/* Receives a pickle that was read. */
struct ck_pickle_taker {
	void (*take)(void *arg, const struct ck_pickle *p);
	void *arg;
};

/* Appends the value of an archive as JSON. `taker` may be NULL. Errors of
 * ck_zip_read(), ck_item_pickle() and ck_pickle_json(). */
CK_MUST_USE int ck_item_json(const struct ck_zip_source *src,
			     const struct ck_pickle_taker *taker,
			     struct ck_buf *out, struct ck_diag *d);
/* ck_item_locate() in an archive whose zip directory was read. */
CK_MUST_USE int ck_item_locate_in(const struct ck_zip *zip,
				  const struct ck_item_want *want,
				  uint64_t *ipos, uint64_t *strides,
				  uint16_t *change, struct ck_diag *d);

/* Undoes the stream transforms of an item in memory. descriptors: joined by ',', in the
 * order in which they were applied. Caller owns *out, of at most `limit` bytes. Returns
 * 0, or: -EBADMSG if a transform is unknown, or the stream is malformed or longer than
 * the limit; -ENOMEM. */
CK_MUST_USE int ck_transform_undo(struct ck_str descriptors, struct ck_str in,
				  uint64_t limit, void **out, size_t *len,
				  struct ck_diag *d);

struct ck_crc_buffer {
	void *bytes;
	size_t len;
};

/* Computes the CRC-32 of len bytes from ipos on, through a buffer. Returns 0 or an
 * error of the source. */
CK_MUST_USE int ck_crc_take(const struct ck_zip_source *src, uint64_t ipos,
			    uint64_t len, const struct ck_crc_buffer *b,
			    uint32_t *crc);

/* Compares the CRC-32 of every record with that of the zip directory, through a buffer.
 * Calls fault() for each that differs, with the offset of the data of the record. */
struct ck_crc_check {
	const struct ck_zip_source *src;
	const struct ck_zip *zip;
	struct ck_crc_buffer buffer;
	void (*fault)(void *ctx, uint64_t ipos, const struct ck_diag *d);
	void *ctx;
};

/* Returns 0, also if records differ, or an error of the source, which is transient. */
CK_MUST_USE int ck_crc_check(const struct ck_crc_check *check,
			     struct ck_diag *d);

#endif
