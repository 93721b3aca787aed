/* SPDX-License-Identifier: MIT */
/*
 * A view to begin with: first/<stem>.txt is the first element of a tensor, as the digits
 * of its bytes. One file for each tensor is what core/view/view_tensors.c has: names,
 * owners, modes and times.
 */
#include "view_example.h"

#include "read_case.h"
#include "view/view_internal.h"

#include <stdio.h>

/* What the view keeps is the checkpoint, of which it reads the bytes. */
static int first_make(const struct ck_view_source *from, const void **state)
{
	*state = from->objects.cp;
	return 0;
}

/* Bytes of the text: two digits for each byte, and the end of the line. */
static uint64_t first_size(const struct ck_catalog *c, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);

	return t->nbytes ? 2 * (uint64_t)ck_dtype_at(t->dtype)->size + 1 : 0;
}

static int first_read(struct ck_checkpoint *cp, const struct ck_tensor *t,
		      uint32_t tensor, uint8_t *to)
{
	uint64_t box[2 * CK_MAX_DIMS] = { 0 };
	struct ck_slice_builder b = { 0 };
	struct ck_slice *slice;
	int rc;

	for (uint32_t d = 0; d < t->ndim; d++)
		box[t->ndim + d] = 1;
	ck_slice_add_box(&b, tensor, t->ndim, box, ck_dtype_at(t->dtype)->size);
	rc = ck_slice_make(&b, &slice);
	return rc ? rc : read_case_slice(cp, slice, NULL, to);
}

/* The text is made when the file is opened. */
static int first_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		       uint32_t tensor, struct ck_slice **out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	uint64_t size = first_size(c, tensor);
	struct ck_slice_builder b = { 0 };
	uint8_t bytes[16]; /* no dtype has more */
	char text[40];
	int rc = 0;

	if (size)
		rc = first_read((void *)(uintptr_t)dir->state, t, tensor,
				bytes);
	for (uint64_t i = 0; rc == 0 && 2 * i + 1 < size; i++)
		snprintf(text + 2 * i, sizeof(text) - 2 * i, "%02x\n",
			 (unsigned)bytes[i]);
	ck_slice_add_bytes(&b, (struct ck_str){ text, size });
	return rc ? rc : ck_slice_make(&b, out);
}

const struct ck_tensor_view view_example = {
	.view = { .top = "first",
		  .make = first_make,
		  .lookup = ck_tensors_lookup,
		  .next = ck_tensors_next,
		  .name = ck_tensors_name,
		  .stat = ck_tensors_stat,
		  .slice = first_slice },
	.suffix = ".txt",
	.is_shown = ck_tensor_is_whole,
	.size = first_size,
};
