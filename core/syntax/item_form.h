/* SPDX-License-Identifier: MIT */
/*
 * item_form: the archive that torch.save writes around the elements of one contiguous
 * tensor: the bytes before and behind them. A part of syntax. Stateless; any thread.
 */
#ifndef CKPTFS_ITEM_FORM_H
#define CKPTFS_ITEM_FORM_H

#include "ckptfs/base.h"

struct ck_pickler;

struct ck_item_form {
	struct ck_buf head; /* bytes before the elements */
	struct ck_buf tail; /* bytes behind them, of constant length */
	uint64_t data_len;  /* bytes of the elements */
	uint64_t crc_at[2]; /* private: offsets of the CRC-32 in `tail` */
};

/* Numbers of the names in the pickle of a tensor. */
enum {
	CK_ITEM_STORAGE,
	CK_ITEM_CPU,
	CK_ITEM_REBUILD_2,
	CK_ITEM_REBUILD_3,
	CK_ITEM_HOOKS,
	CK_ITEM_UNTYPED,
	CK_ITEM_CLASSES, /* + number of the dtype: its class of storages */
	CK_ITEM_DTYPES = CK_ITEM_CLASSES + 56,
};

/* A contiguous tensor in C order, as a value of a pickle. */
struct ck_item_pickle {
	uint8_t dtype;
	uint32_t ndim;
	const int64_t *size;
	uint64_t bytes;	     /* of the elements */
	const char *storage; /* key of its storage */
	/* Of each name the entry that spells it; others refer to its number in the memo.
	 * NULL: each tensor spells its names. */
	const uint32_t *first;
	uint32_t entry;
};

void ck_item_pickle_write(const struct ck_item_pickle *t, struct ck_pickler *p);
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
