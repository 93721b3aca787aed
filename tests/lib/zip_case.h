/* SPDX-License-Identifier: MIT */
/*
 * zip_case: what tests of zips share: an archive, and whether it is read.
 */
#ifndef CK_ZIP_CASE_H
#define CK_ZIP_CASE_H

#include "item_writer.h"
#include "syntax/zip.h"

enum { MANY = 3000 }; /* records */

static const float six[] = { 0, 1, 2, 3, 4, 5 };
static const struct ck_str storage = { (const char *)six, sizeof(six) };

static inline int read_zip(struct iw *w, struct ck_zip *zip)
{
	struct ck_zip_source src = { w, iw_read, iw_len(w) };

	w->reads = 0;
	return ck_zip_read(&src, zip, NULL);
}

/* Only whether it is read. */
static inline int try_zip(struct iw *w)
{
	struct ck_zip zip;
	int rc = read_zip(w, &zip);

	if (rc == 0)
		ck_zip_fini(&zip);
	return rc;
}

/* Tries and frees. */
static inline int take_zip(struct iw *w)
{
	int rc = try_zip(w);

	iw_free(w);
	return rc;
}

/* The item of formats.md 2.4 with the given storage. */
static inline struct iw *item(struct ck_str data)
{
	struct iw_tensor t = iw_tensor_default();
	struct iw *w = iw_make();
	struct pk p;

	pk_begin(&p);
	pk_tensor(&p, &t, true);
	iw_item(w, pk_end(&p), "little", data);
	ck_buf_fini(&p.b);
	return w;
}

#endif
