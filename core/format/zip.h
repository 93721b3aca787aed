/* SPDX-License-Identifier: MIT */
/*
 * zip: the container of one torch.save, in the dialect that PyTorch writes
 * (miniz, stored records, 64-byte alignment, zip64 where sizes need it) and
 * no other.
 */
#ifndef CK_FORMAT_ZIP_H
#define CK_FORMAT_ZIP_H

#include "ckptfs/base.h"

/* Bytes of one item; ipos counts from its start. */
struct ck_zip_source {
	void *ctx;
	/* Whole read or negative errno. */
	int (*read)(void *ctx, void *buf, size_t len, uint64_t ipos);
	uint64_t len;
};

/* One record, name without the archive's prefix. */
struct ck_zip_record {
	struct ck_str name; /* borrowed from the ck_zip */
	uint64_t ipos;	    /* of its data */
	uint64_t len;
	uint32_t crc; /* 0: none was written */
};

struct ck_zip {
	struct ck_zip_record *records; /* owned */
	uint32_t nrecords;
	char *names; /* owned: the central directory */
};

/* Reads and checks the directory and every local header. -EBADMSG for any
 * other dialect; errors of the source as they are. */
CK_MUST_USE int ck_zip_read(const struct ck_zip_source *src, struct ck_zip *zip,
			    struct ck_diag *d);
void ck_zip_fini(struct ck_zip *zip);
/* NULL if there is no record of this name. */
const struct ck_zip_record *ck_zip_find(const struct ck_zip *zip,
					struct ck_str name);

#endif
