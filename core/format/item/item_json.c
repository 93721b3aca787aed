/* SPDX-License-Identifier: MIT */
/*
 * item_json: prints the value of an archive as JSON. Contents of tensors inside it are
 * in other records and are not read. Stateless; any thread.
 */
#include "ckptfs/value.h"
#include "item.h"

int ck_item_json(const struct ck_zip_source *src,
		 const struct ck_pickle_taker *taker, struct ck_buf *out,
		 struct ck_diag *d)
{
	ck_auto_free void *bytes = NULL;
	struct ck_pickle p = { 0 };
	struct ck_zip zip;
	size_t len;
	int rc = ck_zip_read(src, &zip, d);

	if (rc)
		return rc;
	rc = ck_item_pickle(&zip, CK_PICKLE_MAX, &p, &bytes, &len, d);
	if (rc == 0 && taker)
		taker->take(taker->arg, &p);
	if (rc == 0)
		rc = ck_pickle_json(&p, len, out, d);
	ck_pickle_fini(&p);
	ck_zip_fini(&zip);
	return rc;
}
