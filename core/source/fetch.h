/* SPDX-License-Identifier: MIT */
/*
 * fetch: bytes of remote files that one request needs. The request runs until
 * it needs bytes that are not local; these are recorded as wanted, and the
 * request fails with -EREMOTE. The caller fetches all wanted bytes at once and
 * runs the request again from its begin; now it finds them here. So code that
 * reads headers is written once, as if all files were local, and no thread
 * blocks. A part of source.
 */
#ifndef CKPTFS_FETCH_H
#define CKPTFS_FETCH_H

#include "ckptfs/base.h"

/* Bytes [fpos, fpos + len) of a file. */
struct ck_fetch_range {
	uint32_t file;
	uint64_t fpos;
	size_t len;
	uint8_t *bytes; /* owned, len bytes; allocated when recorded */
	int rc;		/* of a fetched range: 0 or the error of the fetch */
};

/* Zero-initialise. Belongs to one request, which one thread at a time runs. */
struct ck_fetch {
	struct ck_fetch_range *ranges;
	size_t n, cap;
	/* ranges below are fetched, and sorted; the rest are wanted */
	size_t complete;
	size_t bytes;	 /* of all ranges */
	unsigned rounds; /* number of fetches */
	int err;	 /* 0, or -ENOMEM if a range could not be recorded */
	struct ck_fetch *outer; /* private */
};

/* Between begin and end, reads of remote files by this thread are served from
 * f, or recorded in f. Calls may be nested: the innermost f counts. */
void ck_fetch_begin(struct ck_fetch *f);
void ck_fetch_end(struct ck_fetch *f);
/* The innermost struct ck_fetch of this thread, or NULL. */
struct ck_fetch *ck_fetch_present(void);

/* Records a range as wanted, unless it was fetched or was among the last ones
 * recorded. */
void ck_fetch_add(struct ck_fetch *f, uint32_t file, uint64_t fpos, size_t len);
/* True if a range was fetched, with success or with an error. */
CK_MUST_USE bool ck_fetch_has(const struct ck_fetch *f, uint32_t file,
			      uint64_t fpos, size_t len);

/* True if a range is wanted. */
static inline bool ck_fetch_is_pending(const struct ck_fetch *f)
{
	return f->n > f->complete;
}

/* Copies a fetched range. Returns 0, the error of its fetch, or -EREMOTE if it
 * was not fetched; nothing is recorded. */
CK_MUST_USE int ck_fetch_take(const struct ck_fetch *f, uint32_t file,
			      uint64_t fpos, size_t len, void *to);
/* Marks all wanted ranges as fetched; each has its bytes or its rc. */
void ck_fetch_complete(struct ck_fetch *f);
/* Removes the fetched ranges that have an error. */
void ck_fetch_forget_failed(struct ck_fetch *f);
void ck_fetch_fini(struct ck_fetch *f);

#endif
