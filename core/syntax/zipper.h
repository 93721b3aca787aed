/* SPDX-License-Identifier: MIT */
/*
 * zipper: writes the zip archive around the records of torch.save: stored,
 * zip64 where sizes need it, each record padded so that its data lie at a
 * multiple of 64 of the file. A caller may write data, and their CRC-32,
 * separately. One thread at a time.
 */
#ifndef CKPTFS_ZIPPER_H
#define CKPTFS_ZIPPER_H

#include "ckptfs/base.h"

enum {
	CK_ZIPPER_ALIGNMENT = 64,
	CK_ZIPPER_NAME = 48, /* bytes of a name with prefix and NUL */
};

struct ck_zipper_record {
	char name[CK_ZIPPER_NAME];
	uint64_t header; /* position of the local header in the archive */
	uint64_t len;
	uint32_t crc;
	uint32_t
		gap; /* more padding before the data: a multiple of CK_ZIPPER_ALIGNMENT */
};

/* Zero-initialise and set the first four fields. ck_zipper_end() must be called
 * in any case. */
struct ck_zipper {
	struct ck_buf *out; /* borrowed; appended to, and has the error */
	const char *prefix; /* of the names, with its '/' */
	uint64_t fpos;	    /* position of the archive in its file */
	bool no_sums;	    /* write 0 as the CRC-32 of all records */
	/* private */
	uint64_t before; /* bytes of the archive before the begin of out */
	struct ck_zipper_record *records;
	size_t n, cap;
};

/* Appends a record with its data. name has no prefix; prefix and name together
 * must be shorter than CK_ZIPPER_NAME. */
void ck_zipper_add(struct ck_zipper *z, const char *name, struct ck_str data);
/* Appends a record whose len bytes of data are not in the buffer. Returns the
 * length of the buffer at the position of the data. Output continues in `next`,
 * which is an empty buffer or the present one. */
size_t ck_zipper_skip(struct ck_zipper *z, const char *name, uint64_t len,
		      struct ck_buf *next);
/* Appends the directory. *crc_at becomes the position in the buffer of the
 * CRC-32 of record `of`, which counts from 0; NULL is allowed. */
void ck_zipper_end(struct ck_zipper *z, size_t of, uint64_t *crc_at);

/* --- parts of an archive that is never in memory ------------------------------- */

/* Each function computes one part from a record, whose `header` and `len` are set.
 * Record and archive may have any size up to 2^63. */

/* Bytes of the end records behind the directory. */
enum { CK_ZIPPER_ENDS = 98 };

/* Appends the local header of a record, behind which its data begin at a multiple of
 * CK_ZIPPER_ALIGNMENT. fpos: of the archive. */
void ck_zipper_header(struct ck_buf *b, const struct ck_zipper_record *r,
		      uint64_t fpos);
uint64_t ck_zipper_header_len(const struct ck_zipper_record *r, uint64_t fpos);
/* Appends the descriptor behind the data; nothing for an empty record. */
void ck_zipper_descriptor(struct ck_buf *b, const struct ck_zipper_record *r);
uint64_t ck_zipper_descriptor_len(const struct ck_zipper_record *r);
/* Appends the entry of a record in the directory. Returns the position of its CRC-32 in
 * the buffer. */
uint64_t ck_zipper_entry(struct ck_buf *b, const struct ck_zipper_record *r);
uint64_t ck_zipper_entry_len(const struct ck_zipper_record *r);
/* Appends the end records of n records. The directory is [dir, end) of the archive. */
void ck_zipper_ends(struct ck_buf *b, uint64_t n, uint64_t dir, uint64_t end);

#endif
