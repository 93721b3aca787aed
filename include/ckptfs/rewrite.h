/* SPDX-License-Identifier: MIT */
/*
 * rewrite: format, the other way. The archive around the bytes of one box, and
 * a checkpoint's metadata with new places for some of its boxes.
 */
#ifndef CKPTFS_REWRITE_H
#define CKPTFS_REWRITE_H

#include "ckptfs/catalog_edit.h"
#include "ckptfs/format.h"

/* --- item: what torch.save writes around one contiguous tensor ------------ */

struct ck_item_form {
	struct ck_buf head; /* before the elements */
	struct ck_buf tail; /* behind them; length known from the beginning */
	uint64_t data_len;  /* bytes of the elements */
	uint64_t crc_at[2]; /* private: where tail has the CRC-32 */
};

/* Is there an item of this dtype at all? */
CK_MUST_USE bool ck_item_form_has(uint8_t dtype);
/* An item of this dtype and shape (C order, little-endian, numbers of
 * elements) that will begin at fpos of its file; elements lie at a multiple
 * of 64 of the file. Any release from 1.13 on reads it, also with
 * weights_only=True. -EOPNOTSUPP: ck_item_form_has() is false;
 * -EINVAL: a size below 0; -EOVERFLOW; -ENOMEM. */
CK_MUST_USE int ck_item_form_make(struct ck_item_form *f, uint8_t dtype,
				  uint32_t ndim, const int64_t *size,
				  uint64_t fpos);
/* Puts the CRC-32 of the elements into the tail. */
void ck_item_form_crc(struct ck_item_form *f, uint32_t crc);
/* The same, of the elements at fpos of a file. Errors of read(2), -ENOMEM. */
CK_MUST_USE int ck_item_form_sum(struct ck_item_form *f, int fd, uint64_t fpos);
void ck_item_form_fini(struct ck_item_form *f);

/* --- names of the files that a commit makes ---------------------------------- */

/* The longest name, with both numbers of 20 digits. */
#define CK_NAME_LEN 80
#define CK_TEMP	    ".ckptfs-" /* of metadata without its name: and 16 digits */

/* That of a data file: what it says is known from no other. A generation is at least
 * 1. hex: 16 digits. */
void ck_shard_name(const struct ck_checkpoint *cp, char out[static CK_NAME_LEN],
		   uint64_t rank, uint64_t generation, const char *hex);
/* Is it a name that was made so (its generation then), or that of metadata
 * not yet renamed (0)? */
bool ck_name_is_ours(const struct ck_checkpoint *cp, const char *name,
		     uint64_t *generation);

/* --- metadata -------------------------------------------------------------- */

/* Where the item of a box lies from now on; without stream transforms. */
struct ck_change_of_place {
	uint32_t chunk;	    /* of the catalog */
	struct ck_str path; /* relative_path of the file */
	uint64_t fpos, length;
};

/* Can this metadata be rewritten at all, and without carrying on globals that
 * are unknown? 0, -EOPNOTSUPP, -EPERM (names one), -EINVAL (it was not opened
 * for writing). */
CK_MUST_USE int ck_metadata_writable(const struct ck_checkpoint *cp,
				     bool keep_unknown, struct ck_diag *d);

/* Can ck_metadata_write() give this box of a writable one another place?
 * -EOPNOTSUPP, and says of which tensor. Any thread. */
CK_MUST_USE int ck_metadata_movable(const struct ck_checkpoint *cp,
				    uint32_t chunk, struct ck_diag *d);

/* Writes into fd, from its beginning, the metadata that was read or switched
 * to, with the changes (sorted by chunk, each once) and not otherwise changed:
 * unknown fields, order, arity, classes stay. What fd has then is read again
 * and compared with what was wanted. Does not sync, and does not cut what was
 * longer. One thread at a time. -ESTALE: .metadata is not the file that was
 * read; -EOPNOTSUPP: a change that cannot be expressed; -EIO: what was written
 * is not what was wanted; errors of write(2). */
CK_MUST_USE int ck_metadata_write(struct ck_checkpoint *cp,
				  const struct ck_change_of_place *changes,
				  uint32_t n, int fd, struct ck_diag *d);

/* Before bytes of boxes [first, first + n) of a tensor are carried into new items, with
 * new sums: reads the items that have them, and compares with their sums. -EIO and others:
 * the first fault, of which d names the file; errors of reading. Any thread. */
CK_MUST_USE int ck_boxes_verify(struct ck_checkpoint *cp, uint32_t tensor,
				uint32_t first, uint32_t n, struct ck_diag *d);

/* --- the catalog --------------------------------------------------------------- */

/* Makes the catalog that is to be the next one, with the new places, so that
 * nothing is left to fail when the metadata has its name: looks at the files that
 * the changes name. One thread at a time. Switch to it, or put it back. -ENOMEM;
 * what is wrong with a file. */
CK_MUST_USE int ck_checkpoint_prepare(struct ck_checkpoint *cp,
				      const struct ck_change_of_place *changes,
				      uint32_t n, struct ck_catalog **next);
/* The catalog that was prepared, which it takes, is the present one from now on,
 * and `metadata`, which ck_metadata_write() wrote last, is what
 * ck_checkpoint_same() compares with. Whoever has the one before keeps it. */
void ck_checkpoint_switch(struct ck_checkpoint *cp, struct ck_catalog *next,
			  const struct stat *metadata,
			  const struct ck_change_of_place *changes, uint32_t n);

#endif
