/* SPDX-License-Identifier: MIT */
/*
 * safetensors_header: parses the JSON at the beginning of a safetensors file, or of a
 * piece of one, which lists its tensors and their bytes.
 *
 * Source: huggingface/safetensors, safetensors/src/tensor.rs, 0.8. What it refuses is
 * refused here, and so are keys that come twice, numbers from 2^63 on, an odd number of
 * values of half a byte, and entries that are arrays. Of a file that is only too short
 * all is known here.
 */
#ifndef CK_SAFETENSORS_HEADER_H
#define CK_SAFETENSORS_HEADER_H

#include "ckptfs/json_reader.h"
#include "ckptfs/model.h"

enum {
	CK_SAFETENSORS_MOST = 100000000, /* bytes of a header */
	CK_SAFETENSORS_BEGIN = 8, /* of the file: how long the header is */
};

/* One entry: bytes [begin, end) behind the header. */
struct ck_safetensor {
	struct ck_str name;
	struct ck_str
		dtype; /* torch's name, or as spelled where torch has none */
	uint32_t ndim;
	uint32_t shape; /* first of ndim in ck_safetensors.shapes, as torch has
			 * it */
	uint64_t begin, end;
	size_t at; /* byte of the JSON: its place among others */
};

/* A pair of __metadata__. */
struct ck_safetensors_note {
	struct ck_str key, value;
};

/* Texts lie in the JSON, or in `texts`. */
struct ck_safetensors {
	struct ck_safetensor *tensors; /* as in the file: by begin, then end */
	size_t n;
	int64_t *shapes;		   /* nshapes */
	struct ck_safetensors_note *notes; /* in their order */
	size_t nnotes;
	uint64_t end; /* bytes behind the header that there must be */
	/* private */
	size_t nshapes, cap, shapes_cap, notes_cap;
	struct ck_arena texts;
	struct ck_json_reader *json; /* while it is read */
};

/* json: all bytes of the header, which outlive it. end: how many bytes there are behind
 * it. -EBADMSG, -ENOMEM; fini in any case. */
CK_MUST_USE int ck_safetensors_read(struct ck_safetensors *s,
				    struct ck_str json, uint64_t end,
				    struct ck_diag *d);
void ck_safetensors_fini(struct ck_safetensors *s);
/* The value of a pair of __metadata__; p is NULL if there is none. */
struct ck_str ck_safetensors_note(const struct ck_safetensors *s,
				  const char *key);

#endif
