/* SPDX-License-Identifier: MIT */
/*
 * Numbers from standard input, each as a line of JSON: 'f' and the 8 bytes of
 * a double, or 'i', a 4-byte length and that many bytes of two's complement.
 */
#include "ckptfs/base.h"
#include "ckptfs/json.h"

#include <stdio.h>

static bool take(void *to, size_t len)
{
	return fread(to, 1, len, stdin) == len;
}

static bool int_print(struct ck_buf *out)
{
	uint64_t steps = UINT64_C(1) << 40;
	ck_auto_free char *bytes = NULL;
	uint32_t len;

	if (!take(&len, sizeof(len)))
		return false;
	bytes = malloc(len + 1UL);
	return bytes && take(bytes, len) &&
	       ck_buf_json_int(out, (struct ck_str){ bytes, len }, &steps);
}

int main(void)
{
	struct ck_buf out = { 0 };
	int kind;

	while ((kind = getchar()) != EOF) {
		double f;

		out.len = 0;
		if (kind == 'f' && take(&f, sizeof(f)))
			ck_buf_json_float(&out, f);
		else if (kind != 'i' || !int_print(&out))
			return 2;
		ck_buf_text(&out, "\n");
		fwrite(out.data, 1, out.len, stdout);
	}
	ck_buf_fini(&out);
	return 0;
}
