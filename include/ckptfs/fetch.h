/* SPDX-License-Identifier: MIT */
/*
 * fetch: bytes of remote files that one request needs before it can be answered. A
 * request runs until it needs bytes that are not here; these are noted and it is
 * given up with -EREMOTE. Somebody brings them, all at once, and the request runs
 * again from its beginning; what was brought it finds here. So code that reads
 * headers is written once, as if all files were here, and no thread waits.
 * A part of source.
 */
#ifndef CKPTFS_FETCH_H
#define CKPTFS_FETCH_H

#include "ckptfs/base.h"

/* Bytes [fpos, fpos + len) of a file. */
struct ck_piece {
	uint32_t file;
	uint64_t fpos;
	size_t len;
	uint8_t *bytes; /* owned, len; set when it is noted */
	int rc;		/* of one that was brought: 0, or why there are none */
};

/* Zero-initialise. Of one request, which one thread at a time runs. */
struct ck_fetch {
	struct ck_piece *pieces;
	size_t n, cap;
	size_t brought; /* the first ones, sorted by place; those behind them are
			 * wanted */
	size_t bytes;	/* of all pieces */
	unsigned rounds;	/* how often some were brought */
	int err;		/* 0 or -ENOMEM: some could not be noted */
	struct ck_fetch *outer; /* private */
};

/* Until the end, what this thread reads of remote files is taken from it, or noted
 * in it. They may be nested: the inner one counts. */
void ck_fetch_begin(struct ck_fetch *f);
void ck_fetch_end(struct ck_fetch *f);
/* Its thread's; NULL: it has none. */
struct ck_fetch *ck_fetch_present(void);

/* Notes a range as wanted, unless it was brought, or noted just before. */
void ck_fetch_want(struct ck_fetch *f, uint32_t file, uint64_t fpos,
		   size_t len);
/* Whether it was brought, or is why it could not be known. */
CK_MUST_USE bool ck_fetch_has(const struct ck_fetch *f, uint32_t file,
			      uint64_t fpos, size_t len);

/* Whether something has to be brought. */
static inline bool ck_fetch_wants(const struct ck_fetch *f)
{
	return f->n > f->brought;
}

/* Copies a range that was brought: 0, or why it could not be. -EREMOTE: it was not,
 * and nothing is noted. */
CK_MUST_USE int ck_fetch_take(const struct ck_fetch *f, uint32_t file,
			      uint64_t fpos, size_t len, void *to);
/* All that was wanted has its bytes or its rc. */
void ck_fetch_came(struct ck_fetch *f);
/* Those that did not come are as if nobody had asked. */
void ck_fetch_forget_failed(struct ck_fetch *f);
void ck_fetch_fini(struct ck_fetch *f);

#endif
