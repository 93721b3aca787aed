/* SPDX-License-Identifier: MIT */
/*
 * zipper: the zip archive around the records that torch.save writes: stored, zip64
 * where it has to be, each record so padded that its data lie at a multiple of 64 of
 * the file. Data may be left out, for who writes them elsewhere, and their CRC-32 with
 * them. One thread at a time.
 */
#ifndef CKPTFS_ZIPPER_H
#define CKPTFS_ZIPPER_H

#include "ckptfs/base.h"

enum {
	CK_ZIPPER_ALIGNMENT = 64,
	CK_ZIPPER_NAME = 48, /* of a record with its prefix, NUL included */
};

struct ck_zipper_record {
	char name[CK_ZIPPER_NAME];
	uint64_t header; /* from here on, positions are of the archive */
	uint64_t len;
	uint32_t crc;
};

/* Set the first four, begin with it, and end it in any case. */
struct ck_zipper {
	struct ck_buf *out; /* borrowed; appended to, and has the error */
	const char *prefix; /* of the names, with its '/' */
	uint64_t fpos;	    /* of the archive in its file */
	bool no_sums; /* of all records, nobody has them: 0 in their place */
	/* private */
	uint64_t before; /* bytes of the archive before those of out */
	struct ck_zipper_record *records;
	size_t n, cap;
};

/* A record with its data. name: without prefix; both together are shorter than
 * CK_ZIPPER_NAME. */
void ck_zipper_add(struct ck_zipper *z, const char *name, struct ck_str data);
/* A record of len bytes that are not in out: gives how long out is where they belong,
 * which is the end of it if `next`, an empty buffer, is to go on; it may also be the
 * same one. */
size_t ck_zipper_skip(struct ck_zipper *z, const char *name, uint64_t len,
		      struct ck_buf *next);
/* The directory. crc_at: where out has the CRC-32 of record `of` in it, from 0 in their
 * order; or NULL. */
void ck_zipper_end(struct ck_zipper *z, size_t of, uint64_t *crc_at);

#endif
