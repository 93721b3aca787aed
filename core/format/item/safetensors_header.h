/* SPDX-License-Identifier: MIT */
/*
 * safetensors_header: parses the JSON at the beginning of a safetensors file, or of a
 * piece of one, which lists its tensors and their bytes. The result is a value,
 * constant after it was read.
 *
 * Source: huggingface/safetensors, safetensors/src/tensor.rs, 0.8. Headers that the
 * library rejects are rejected here. Rejected as well are duplicate keys, numbers from
 * 2^63 on, an odd number of values of half a byte, and entries that are arrays. A file
 * that is only too short is accepted.
 */
#ifndef CK_SAFETENSORS_HEADER_H
#define CK_SAFETENSORS_HEADER_H

#include "ckptfs/model.h"
#include "syntax/json_reader.h"

enum {
	CK_SAFETENSORS_MOST = 100000000, /* bytes of a header */
	CK_SAFETENSORS_BEGIN = 8, /* bytes before the header, with its length */
};

/* One entry: bytes [begin, end) behind the header. */
struct ck_safetensor {
	struct ck_str name;
	/* name in torch, or as spelled in the file if torch lacks it */
	struct ck_str dtype;
	uint32_t ndim;
	/* first of ndim in ck_safetensors.shapes, in elements of torch */
	uint32_t shape;
	uint64_t begin, end;
	size_t at; /* offset in the JSON */
};

/* A pair of __metadata__. */
struct ck_safetensors_note {
	struct ck_str key, value;
};

/* Texts point into the JSON, or into `texts`. */
struct ck_safetensors {
	struct ck_safetensor *tensors; /* sorted by begin, then end */
	size_t n;
	int64_t *shapes;		   /* nshapes sizes */
	struct ck_safetensors_note *notes; /* in their order */
	size_t nnotes;
	uint64_t end; /* bytes that the file must have behind the header */
	/* private */
	size_t nshapes, cap, shapes_cap, notes_cap;
	struct ck_arena texts;
	struct ck_json_reader *json; /* while it is being read */
};

/* Parses a header. json: all its bytes, which must outlive *s. end: number of bytes
 * behind the header. Caller calls ck_safetensors_fini(), also after an error. Returns
 * 0, or: -EBADMSG if it is malformed, or entries overlap or leave gaps; -ENOMEM. */
CK_MUST_USE int ck_safetensors_read(struct ck_safetensors *s,
				    struct ck_str json, uint64_t end,
				    struct ck_diag *d);
void ck_safetensors_fini(struct ck_safetensors *s);
/* Returns the value of a pair of __metadata__; its p is NULL if there is no such
 * pair. */
struct ck_str ck_safetensors_note(const struct ck_safetensors *s,
				  const char *key);

#endif
