/* SPDX-License-Identifier: MIT */
/*
 * weight_map: an index of safetensors or torch files, as transformers writes
 * it. It maps the name of each tensor to a file: {"metadata": {...},
 * "weight_map": {"<name>": "<file>", ...}}. A part of syntax. Constant once
 * parsed.
 */
#ifndef CKPTFS_WEIGHT_MAP_H
#define CKPTFS_WEIGHT_MAP_H

#include "json_reader.h"

struct ck_weight_row {
	struct ck_str name; /* valid as long as the map and its text */
	uint32_t file;	    /* index in files */
};

struct ck_weight_map {
	char **files; /* without duplicates, in the order of occurrence */
	size_t nfiles, files_cap;
	struct ck_weight_row *rows; /* in the order of the index */
	size_t nrows, rows_cap;
	/* private */
	struct ck_json_reader json;
};

/* Reads an index. The caller owns `text`, which must outlive the map. *out must
 * be { 0 }; the caller frees it, also after an error. Returns 0, -EBADMSG or
 * -ENOMEM. */
CK_MUST_USE int ck_weight_map_parse(struct ck_str text,
				    struct ck_weight_map *out,
				    struct ck_diag *d);
void ck_weight_map_fini(struct ck_weight_map *map);

#endif
