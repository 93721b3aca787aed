/* SPDX-License-Identifier: MIT */
/*
 * element_reader: reads the elements of a tensor, or of a box of one, in C order from a catalog,
 * without a tree. The bytes and errors are those of raw/. A part of values. One thread for each
 * reader.
 */
#ifndef CKPTFS_ELEMENT_READER_H
#define CKPTFS_ELEMENT_READER_H

#include "ckptfs/format.h"
#include "ckptfs/io.h"

struct ck_element_reader {
	struct ck_locator locator; /* first: the locator is the reader */
	/* Constant, set by the caller, who owns them: */
	struct ck_checkpoint *cp;
	const struct ck_catalog *c;
	/* Private: the open box; or NULL. */
	struct ck_open_slice *opened;
};

/* Opens a box of `bytes` bytes: ndim offsets and ndim sizes; NULL: the whole tensor. Reads no
 * file. Returns 0, or -ENOMEM. Caller calls ck_elements_close() in any case. */
CK_MUST_USE int ck_elements_open(struct ck_element_reader *r, uint32_t tensor,
				 const int64_t *box, uint64_t bytes);
void ck_elements_close(struct ck_element_reader *r);
/* Reads bytes [at, at + len) of the box. route: NULL if all files are local. Returns 0, or an
 * error of ck_read. */
CK_MUST_USE int ck_elements_read(const struct ck_element_reader *r,
				 struct ck_route *route, uint64_t at,
				 uint64_t len, void *to);

#endif
