/* SPDX-License-Identifier: MIT */
/*
 * Says of headers of safetensors files whether they are taken. Standard input has each
 * after its length and the count of bytes behind it, four bytes each, little-endian;
 * standard output a line: "taken" or why not.
 */
#include "format/item/safetensors_header.h"

#include <stdio.h>

int main(void)
{
	uint32_t head[2];

	while (fread(head, sizeof(head), 1, stdin) == 1) {
		char *json = malloc(head[0] + !head[0]);
		struct ck_safetensors s;
		struct ck_diag d = { 0 };

		if (!json || fread(json, 1, head[0], stdin) != head[0])
			return 1;
		if (ck_safetensors_read(&s, (struct ck_str){ json, head[0] },
					head[1], &d))
			puts(d.text);
		else
			puts("taken");
		ck_safetensors_fini(&s);
		free(json);
	}
	return fflush(stdout) ? 1 : 0;
}
