/* SPDX-License-Identifier: MIT */
/*
 * item_form: the archive that torch.save writes around the elements of one contiguous
 * tensor: the bytes before and behind them. A part of syntax. Stateless; any thread.
 */
#ifndef CKPTFS_ITEM_FORM_H
#define CKPTFS_ITEM_FORM_H

#include "ckptfs/base.h"

struct ck_item_form {
	struct ck_buf head; /* bytes before the elements */
	struct ck_buf tail; /* bytes behind them, of constant length */
	uint64_t data_len;  /* bytes of the elements */
	uint64_t crc_at[2]; /* private: offsets of the CRC-32 in `tail` */
};

/* True if items of this dtype can be written. */
CK_MUST_USE bool ck_item_form_has(uint8_t dtype);
/* Makes an item of this dtype and shape (C order, little-endian; sizes in elements)
 * that begins at fpos of its file. Its elements begin at a multiple of 64 of the
 * file. torch 1.13 and later read it, also with weights_only=True. Returns 0, or:
 * -EOPNOTSUPP if ck_item_form_has() is false; -EINVAL if a size is negative;
 * -EOVERFLOW; -ENOMEM. Caller must call ck_item_form_fini(). */
CK_MUST_USE int ck_item_form_make(struct ck_item_form *f, uint8_t dtype,
				  uint32_t ndim, const int64_t *size,
				  uint64_t fpos);
/* Makes the same item without checksums, for elements that are not read: the CRC-32 of
 * each record and all digits of the id are 0. The data of each record begin at a
 * multiple of 64 of the item, wherever that is in a file. */
CK_MUST_USE int ck_item_form_bare(struct ck_item_form *f, uint8_t dtype,
				  uint32_t ndim, const int64_t *size);
/* Sets the CRC-32 of the elements in the tail. */
void ck_item_form_crc(struct ck_item_form *f, uint32_t crc);
void ck_item_form_fini(struct ck_item_form *f);

#endif
