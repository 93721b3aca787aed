/* SPDX-License-Identifier: MIT */
/* `.metadata` that no torch writes: what is damage of one tensor, what of the
 * whole, and what is none. */
#include "dcp.h"
#include "tap.h"

#include "dcp_cases.h"

static int one_file(void *ctx, struct ck_str path, uint32_t *number)
{
	struct ck_catalog *c = ctx;
	struct ck_data_file file = { .size = 1000 };

	(void)path;
	*number = 0;
	return c->nfiles ? 0 : ck_catalog_file_add(c, &file);
}

static int read_case(const void *bytes, size_t len, struct ck_buf *dump,
		     struct ck_diag *d)
{
	struct ck_catalog *c = ck_catalog_make("dcp");
	int rc = ck_dcp_parse(c, bytes, len, one_file, c, d);

	if (rc == 0)
		rc = ck_catalog_finish(c, d);
	if (rc == 0)
		ck_catalog_dump(c, dump);
	ck_catalog_free(c);
	return rc;
}

static void test_cases(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(dcp_cases); i++) {
		struct ck_buf dump = { 0 };
		struct ck_diag d = { 0 };
		int rc = read_case(dcp_cases[i].bytes, dcp_cases[i].len, &dump,
				   &d);
		const char *text = rc ? d.text : dump.data;

		eq_err(rc, dcp_cases[i].is_error ? -EBADMSG : 0);
		ok(text && strstr(text, dcp_cases[i].want));
		printf("# %s, want %s\n", dcp_cases[i].name, dcp_cases[i].want);
		if (!text || !strstr(text, dcp_cases[i].want))
			printf("# got %s\n", text ? text : "nothing");
		ck_buf_fini(&dump);
	}
}

static void test_every_truncation_is_refused(void)
{
	size_t accepted = 0;

	for (size_t len = 0; len < dcp_cases[0].len; len++) {
		char *copy = malloc(len + 1);
		struct ck_buf dump = { 0 };

		memcpy(copy, dcp_cases[0].bytes, len);
		accepted += read_case(copy, len, &dump, NULL) == 0;
		ck_buf_fini(&dump);
		free(copy);
	}
	eq_u64(accepted, 0);
}

int main(void)
{
	test_cases();
	test_every_truncation_is_refused();
	return tap_done();
}
