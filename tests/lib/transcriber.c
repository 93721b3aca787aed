/* SPDX-License-Identifier: MIT */
/* transcriber: rewrites pickles as protocol 2. Standard input has pickles, each after its
 * length in four bytes, little-endian; standard output has the same form. For a refused
 * pickle it has an error line instead, with the top bit of the length set.
 */
#include "syntax/pickle/pickler.h"

#include <stdio.h>

static int transcribe(const void *bytes, uint32_t len, struct ck_buf *out,
		      struct ck_diag *d)
{
	struct ck_pickler p = { .out = out };
	struct ck_pickle from = { 0 };
	int rc = ck_pickle_read(&from, bytes, len, NULL, d);

	if (rc)
		return rc;
	ck_pickler_begin(&p);
	rc = ck_pickler_value(&p, &from, &from.root, NULL, SIZE_MAX, d);
	ck_pickler_end(&p);
	ck_pickle_fini(&from);
	return rc;
}

static int answer(const void *bytes, uint32_t len)
{
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };
	uint32_t head;
	int rc = transcribe(bytes, len, &out, &d);

	if (rc) {
		out.len = 0;
		ck_buf_text(&out, d.text);
	}
	head = (uint32_t)out.len | (rc ? 1U << 31 : 0);
	fwrite(&head, sizeof(head), 1, stdout);
	fwrite(out.data, 1, out.len, stdout);
	ck_buf_fini(&out);
	return fflush(stdout);
}

int main(void)
{
	uint32_t len;

	while (fread(&len, sizeof(len), 1, stdin) == 1) {
		char *bytes = malloc(len + !len);

		if (!bytes || fread(bytes, 1, len, stdin) != len ||
		    answer(bytes, len))
			return 1;
		free(bytes);
	}
	return 0;
}
