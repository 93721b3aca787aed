/* SPDX-License-Identifier: MIT */
/*
 * safetensors: any bytes as the header of a safetensors file. It is refused, or its tensors fill
 * the bytes behind it without a gap, each as many as its shape needs. The bytes are also parsed as
 * JSON: a valid text stays valid when it is read value by value.
 */
#include "format/item/safetensors_header.h"
#include "must.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const struct ck_safetensors *s, uint64_t end)
{
	uint64_t at = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct ck_safetensor *t = &s->tensors[i];

		must(t->begin == at && t->end >= t->begin);
		at = t->end;
		must(ck_utf8_valid(t->name) && t->dtype.len > 0);
		for (uint32_t d = 0; d < t->ndim; d++)
			must(s->shapes[t->shape + d] >= 0);
		for (size_t k = 0; k < i && i < 64; k++)
			must(!ck_str_eq(s->tensors[k].name, t->name));
	}
	must(at == s->end && at >= end);
}

/* The first two bytes are the number of bytes behind the header. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_safetensors s;
	struct ck_diag d = { 0 };
	uint16_t end;
	int rc;

	if (size < sizeof(end))
		return 0;
	memcpy(&end, data, sizeof(end));
	rc = ck_safetensors_read(
		&s, (struct ck_str){ (const char *)data + 2, size - 2 }, end,
		&d);
	must(rc == 0 || (rc == -EBADMSG && d.err == EBADMSG && *d.text));
	if (rc == 0)
		look(&s, end);
	ck_safetensors_fini(&s);
	return 0;
}
