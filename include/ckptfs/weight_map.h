/* SPDX-License-Identifier: MIT */
/*
 * weight_map: an index of safetensors or torch files, as transformers writes it, which
 * says in which file each tensor is:
 * {"metadata": {...}, "weight_map": {"<name>": "<file>", ...}}. A part of syntax.
 */
#ifndef CKPTFS_WEIGHT_MAP_H
#define CKPTFS_WEIGHT_MAP_H

#include "ckptfs/json_reader.h"

struct ck_weight_row {
	struct ck_str name; /* as long as the map and its text */
	uint32_t file;	    /* in files */
};

struct ck_weight_map {
	char **files; /* each once, as they are met */
	size_t nfiles, files_cap;
	struct ck_weight_row *rows; /* in the order of the index */
	size_t nrows, rows_cap;
	/* private */
	struct ck_json_reader json;
};

/* Reads the text of an index, which stays the caller's, as long as the map. *out begins as
 * { 0 }, and is the caller's also after an error: -EBADMSG, -ENOMEM. */
CK_MUST_USE int ck_weight_map_parse(struct ck_str text,
				    struct ck_weight_map *out,
				    struct ck_diag *d);
void ck_weight_map_fini(struct ck_weight_map *map);

#endif
