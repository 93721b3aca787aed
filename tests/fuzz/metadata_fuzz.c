/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a `.metadata`: parsed, finished, printed, and each entry found
 * again under its stem. The data files are as large as anything may ask for
 * if the first byte of the input is even, and missing if it is odd; the rest
 * of the input is the `.metadata`.
 */
#include "ckptfs/model.h"
#include "dcp.h"
#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct target {
	struct ck_catalog *c;
	int err;
	uint32_t nfiles;
};

static int file_add(void *ctx, struct ck_str path, uint32_t *number)
{
	struct target *t = ctx;
	struct ck_data_file file = {
		.size = UINT64_C(1) << 62,
		.attr = { .mode = 0100444 },
		.err = t->err,
	};
	int rc = ck_catalog_text_add(t->c, path, &file.path);

	if (rc)
		return rc;
	*number = t->nfiles++;
	return ck_catalog_file_add(t->c, &file);
}

static void find_all(const struct ck_catalog *c)
{
	for (uint32_t i = 0; i < c->nentries; i++) {
		const struct ck_names *n = ck_catalog_names(c, c->entries[i]);

		if (ck_catalog_find(c, ck_catalog_str(c, n->stem)) != i)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target t = { .c = ck_catalog_make("dcp") };
	struct ck_buf text = { 0 };
	struct ck_diag d = { 0 };

	if (!t.c || size == 0) {
		ck_catalog_free(t.c);
		return 0;
	}
	t.err = data[0] % 2 ? ENODATA : 0;
	if (ck_dcp_parse(t.c, data + 1, size - 1, file_add, &t, &d) == 0 &&
	    ck_catalog_finish(t.c, &d) == 0) {
		find_all(t.c);
		ck_catalog_dump(t.c, &text);
	}
	ck_buf_fini(&text);
	ck_catalog_free(t.c);
	return 0;
}
