/* SPDX-License-Identifier: MIT */
/*
 * zip: the container of one torch.save, in the dialect that PyTorch writes
 * (miniz, stored records, 64-byte alignment, zip64 where sizes need it), or as
 * other writers make it that store its records.
 */
#ifndef CKPTFS_ZIP_H
#define CKPTFS_ZIP_H

#include "ckptfs/base.h"

/* Bytes of both ends of an archive that are read first, and often nothing
 * else. */
enum { CK_ZIP_EDGE = 4096 };

/* The message about an archive of torch.jit.save. */
#define CK_ZIP_TORCHSCRIPT                                                     \
	"TorchScript, not read: load it with torch.jit.load and save its "     \
	"state_dict()"

/* Bytes of one item; ipos counts from its start. */
struct ck_zip_source {
	void *ctx;
	/* Reads all len bytes. Returns 0 or a negative errno. */
	int (*read)(void *ctx, void *buf, size_t len, uint64_t ipos);
	uint64_t len;
};

/* One record, name without the archive's prefix. */
struct ck_zip_record {
	struct ck_str name; /* borrowed from the ck_zip */
	uint64_t ipos;	    /* position of its data */
	uint64_t len;
	uint32_t crc; /* 0: not written */
};

struct ck_zip {
	struct ck_zip_record *records; /* owned; sorted by name */
	uint32_t nrecords;
	struct ck_buf names;	    /* the records' names */
	struct ck_zip_bytes *bytes; /* private: bytes read from the source */
	/* After an error: the archive is compressed or encrypted, not damaged. */
	bool unsupported;
};

/* Reads and checks the directory, every local header and every descriptor.
 * src->ctx must outlive zip. Returns 0, -ENOMEM, -EBADMSG for any other
 * dialect, or the error of the source. After an error *zip needs no ck_zip_fini(). */
CK_MUST_USE int ck_zip_read(const struct ck_zip_source *src, struct ck_zip *zip,
			    struct ck_diag *d);
void ck_zip_fini(struct ck_zip *zip);
/* The record with a name, or NULL. */
const struct ck_zip_record *ck_zip_find(const struct ck_zip *zip,
					struct ck_str name);
/* Copies all data of a record, without a read if ck_zip_read() has read them.
 * Returns 0 or the error of the source. */
CK_MUST_USE int ck_zip_load(const struct ck_zip *zip,
			    const struct ck_zip_record *record, void *buf,
			    struct ck_diag *d);

#endif
