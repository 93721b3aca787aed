/* SPDX-License-Identifier: MIT */
/*
 * sample: see sample.h. The first copy that can be read is the reference: its sample stays in
 * memory, and each other copy is compared with it.
 */
#include "sample.h"

#include "replicas_internal.h"

#include <inttypes.h>

static const uint64_t sample_bytes = (uint64_t)CK_SAMPLE_BLOCK *
				     CK_SAMPLE_BLOCKS;

_Static_assert(CK_SAMPLE_BLOCK *CK_SAMPLE_BLOCKS <= CK_SIDE_BYTES,
	       "a side has room for a sample");

uint32_t ck_sample_blocks(uint64_t bytes)
{
	return bytes > sample_bytes ? CK_SAMPLE_BLOCKS : 1;
}

uint64_t ck_sample_block(uint64_t bytes, uint32_t i, uint64_t *len)
{
	uint64_t last = bytes - CK_SAMPLE_BLOCK, steps = CK_SAMPLE_BLOCKS - 1;

	*len = bytes > sample_bytes ? CK_SAMPLE_BLOCK : bytes;
	return bytes > sample_bytes
		       ? last / steps * i + last % steps * i / steps
		       : 0;
}

/* Reads the sample of a copy into s->bytes. *len: its bytes. */
static int sample_read(struct ck_side *s, const struct ck_tensor *copy,
		       uint64_t *len)
{
	uint64_t bytes = ck_tensor_box_bytes(copy, 0), n;
	int rc = ck_side_open(s, copy->entry.number, ck_tensor_box(copy, 0),
			      bytes);

	*len = 0;
	for (uint32_t i = 0; i < ck_sample_blocks(bytes) && rc == 0; i++) {
		uint64_t at = ck_sample_block(bytes, i, &n);

		rc = ck_elements_read(&s->reader, NULL, at, n, s->bytes + *len);
		*len += n;
	}
	ck_side_close(s);
	return rc;
}

/* True if the copies of a tensor must have equal samples. In files of torch_checkpointing a plain
 * tensor can be listed as a DTensor that each rank has whole. */
static bool is_sampled(const struct ck_catalog *c, const struct ck_tensor *t)
{
	bool of_ranks = strcmp(c->kind, "ranks") == 0 &&
			t->kind == CK_KIND_TENSOR;
	bool listed = strcmp(c->kind, "torch_checkpointing") == 0;

	return t->entry.role == CK_ROLE_WHOLE && t->apart && !t->err &&
	       t->nchunks == 1 && (of_ranks || listed) &&
	       ck_tensor_box_bytes(t, 0) > 0;
}

static bool can_be_read(const struct ck_checkpoint *cp,
			const struct ck_catalog *c,
			const struct ck_tensor *copy)
{
	const struct ck_item *item = ck_catalog_item(c, copy->chunk);

	return !copy->err && copy->nchunks == 1 && !item->err &&
	       item->file != CK_NO_FILE &&
	       !ck_files_is_remote(cp->files, item->file);
}

/* Compares a copy with the reference, *low, or makes it the reference if that is NULL. Returns as
 * ck_sample_compare(). */
static int copy_compare(struct ck_side *reference, struct ck_side *other,
			const struct ck_tensor **low,
			const struct ck_tensor *copy)
{
	uint64_t len;
	int rc = sample_read(*low ? other : reference, copy, &len);

	if (rc)
		return ck_is_shortage(rc) ? rc : 0;
	if (*low)
		return memcmp(reference->bytes, other->bytes, len) != 0;
	*low = copy;
	return 0;
}

int ck_sample_compare(struct ck_checkpoint *cp, const struct ck_catalog *c,
		      uint32_t tensor, struct ck_sample_pair *out)
{
	struct ck_side reference = { .reader.cp = cp, .reader.c = c };
	struct ck_side other = reference;
	const struct ck_tensor *low = NULL, *copy;
	const struct ck_same_name *same;
	uint32_t n;
	int rc = 0;

	if (!is_sampled(c, ck_catalog_tensor(c, tensor)))
		return 0;
	same = ck_listing_same_of(c->listing,
				  (struct ck_entry_id){ tensor, false }, &n);
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		copy = ck_copy_at(c, &same[i]);
		if (!copy || !can_be_read(cp, c, copy))
			continue;
		rc = copy_compare(&reference, &other, &low, copy);
		if (rc > 0)
			*out = (struct ck_sample_pair){ low->entry.number,
							copy->entry.number };
	}
	free(reference.bytes);
	free(other.bytes);
	return rc;
}

/* --- in words ------------------------------------------------------------------ */

/* The file of local/ that has a copy. */
static void print_path(const struct ck_catalog *c, uint32_t copy,
		       struct ck_buf *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, copy);
	const struct ck_item *item = ck_catalog_item(c, t->chunk);

	ck_buf_printf(out, "local/rank-%" PRIu64 "/",
		      ck_catalog_file(c, item->file)->rank);
	ck_buf_escaped(out, ck_tensor_names(c, copy).stem);
	ck_buf_text(out, ".npy");
}

void ck_sample_print(const struct ck_catalog *c,
		     const struct ck_sample_pair *pair, struct ck_buf *out)
{
	ck_buf_text(out, "no whole tensor: the ranks hold different values of "
			 "equal shape, so that reading it in full/ or hf/ "
			 "fails; read ");
	print_path(c, pair->low, out);
	ck_buf_text(out, " and ");
	print_path(c, pair->high, out);
}
