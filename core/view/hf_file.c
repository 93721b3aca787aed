/* SPDX-License-Identifier: MIT */
/*
 * hf_file: a safetensors file of many tensors, as sections: the header and the tensors.
 * The header is generated when it is read, in blocks of tensors. A struct maker is
 * constant; any thread.
 *
 * Source: huggingface/safetensors, README.md, "Format", and safetensors/src/tensor.rs,
 * 0.8: the length of the header as u64, the header, padded with spaces, and the data,
 * without gaps.
 */
#include "ckptfs/json.h"
#include "hf.h"

#include <errno.h>
#include <inttypes.h>

enum { BEGIN, NAMES, END, DATA, SECTIONS };

enum {
	BLOCK = 64, /* tensors in one part of the header */
	ALIGN = 64, /* the data begin at a multiple of this */
};

#define OPENING "{\"__metadata__\":{\"format\":\"pt\"}"

struct maker {
	struct ck_sections_maker ops; /* first member */
	const struct ck_catalog *c;   /* held */
	struct ck_hf_chosen names;    /* root and module only */
	uint32_t *tensors;
	uint32_t n;
	uint64_t *blocks; /* bytes of each block of the header */
	uint64_t header;  /* bytes between the braces, both included */
	uint64_t at[];	  /* offset of each tensor in the data */
};

/* --- one tensor ---------------------------------------------------------------------- */

static bool is_half(const struct ck_tensor *t)
{
	return strcmp(ck_dtype_at(t->dtype)->hub, "F4") == 0;
}

uint64_t ck_hf_width(const struct ck_catalog *c, uint32_t tensor)
{
	return ck_dtype_at(ck_catalog_tensor(c, tensor)->dtype)->size;
}

/* torch counts bytes of two values of F4; the file counts values. */
uint64_t ck_hf_values(const struct ck_catalog *c, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	uint64_t elements = t->nbytes / ck_dtype_at(t->dtype)->size;

	return is_half(t) ? 2 * elements : elements;
}

static void print_shape(const struct ck_tensor *t, struct ck_buf *out)
{
	for (uint32_t d = 0; d < t->ndim; d++) {
		uint64_t size = (uint64_t)t->shape[d];

		if (is_half(t) && d + 1 == t->ndim)
			size *= 2;
		ck_buf_printf(out, "%s%" PRIu64, d ? "," : "", size);
	}
}

static void print_entry(const struct maker *m, uint32_t i, struct ck_buf *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(m->c, m->tensors[i]);

	ck_buf_text(out, ",");
	ck_buf_json_str(out, ck_hf_name(&m->names, m->c, m->tensors[i]));
	ck_buf_printf(out, ":{\"dtype\":\"%s\",\"shape\":[",
		      ck_dtype_at(t->dtype)->hub);
	print_shape(t, out);
	ck_buf_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
		      m->at[i], m->at[i] + t->nbytes);
}

/* --- sections ------------------------------------------------------------------------ */

static void print_block(const struct maker *m, uint32_t row, struct ck_buf *out)
{
	uint32_t end = (uint32_t)ck_min(m->n, (row + 1UL) * BLOCK);

	for (uint32_t i = row * BLOCK; i < end; i++)
		print_entry(m, i, out);
}

/* Returns the number of spaces behind the header. */
static uint64_t padding(const struct maker *m)
{
	return (ALIGN - (sizeof(uint64_t) + m->header) % ALIGN) % ALIGN;
}

static int hf_make(const struct ck_sections_maker *ops, struct ck_section_at at,
		   struct ck_buf *out)
{
	const struct maker *m = (const struct maker *)ops;

	if (at.section == NAMES) {
		print_block(m, at.row, out);
	} else if (at.section == BEGIN) {
		ck_buf_u64(out, m->header + padding(m));
		ck_buf_text(out, OPENING);
	} else {
		ck_buf_printf(out, "}%*s", (int)padding(m), "");
	}
	return out->err;
}

static uint64_t block_len(const struct maker *m, uint32_t row)
{
	struct ck_buf text = { 0 };
	uint64_t len;

	print_block(m, row, &text);
	len = text.err ? UINT64_MAX : text.len;
	ck_buf_fini(&text);
	return len;
}

static uint64_t hf_len(const struct ck_sections_maker *ops,
		       struct ck_section_at at)
{
	const struct maker *m = (const struct maker *)ops;

	switch (at.section) {
	case BEGIN: return sizeof(uint64_t) + strlen(OPENING);
	case NAMES: return m->blocks[at.row];
	case END: return 1 + padding(m);
	default: return ck_catalog_tensor(m->c, m->tensors[at.row])->nbytes;
	}
}

static struct ck_part hf_part(const struct ck_sections_maker *ops,
			      struct ck_section_at at)
{
	const struct maker *m = (const struct maker *)ops;

	if (at.section != DATA)
		return (struct ck_part){ .kind = CK_PART_MADE };
	return (struct ck_part){ .kind = CK_PART_BOX,
				 .number = m->tensors[at.row] };
}

static void hf_free(struct ck_sections_maker *ops)
{
	struct maker *m = (struct maker *)ops;

	ck_catalog_put(m->c);
	free(m->names.root);
	free(m->tensors);
	free(m->blocks);
	free(m);
}

static uint32_t blocks_of(uint32_t n)
{
	return n / BLOCK + (n % BLOCK != 0);
}

/* Computes the offsets of tensors and the lengths of the header and its blocks, once,
 * because it takes as long as generating them. Returns 0, or: -ENOMEM; -EOVERFLOW. */
static int measure(struct maker *m)
{
	uint64_t at = 0;

	m->blocks = malloc((blocks_of(m->n) + 1UL) * sizeof(*m->blocks));
	if (!m->blocks)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->n; i++) {
		m->at[i] = at;
		if (!ck_add(&at, at,
			    ck_catalog_tensor(m->c, m->tensors[i])->nbytes))
			return -EOVERFLOW;
	}
	m->header = strlen(OPENING) + 1;
	for (uint32_t row = 0; row < blocks_of(m->n); row++) {
		m->blocks[row] = block_len(m, row);
		if (m->blocks[row] == UINT64_MAX)
			return -ENOMEM;
		m->header += m->blocks[row];
	}
	return 0;
}

int ck_hf_file_make(const struct ck_catalog *c,
		    const struct ck_hf_chosen *chosen, uint32_t *tensors,
		    uint32_t n, struct ck_sections **out)
{
	struct maker *m = malloc(sizeof(*m) + n * sizeof(*m->at));
	const struct ck_section sections[SECTIONS] = {
		[BEGIN] = { 1, 1 },
		[NAMES] = { blocks_of(n), 1 },
		[END] = { 1, 1 },
		[DATA] = { n, 1 },
	};
	int rc;

	if (!m) {
		free(tensors);
		return -ENOMEM;
	}
	*m = (struct maker){ .ops = { hf_len, hf_part, hf_make, hf_free },
			     .c = ck_catalog_hold(c),
			     .names = { .root = strdup(chosen->root),
					.by_path = chosen->by_path,
					.module = chosen->module },
			     .tensors = tensors,
			     .n = n };
	rc = m->names.root ? measure(m) : -ENOMEM;
	if (rc == 0)
		return ck_sections_make(sections, SECTIONS, &m->ops, out);
	hf_free(&m->ops);
	return rc;
}
