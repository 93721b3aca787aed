/* SPDX-License-Identifier: MIT */
/*
 * spec: the ranks for which a checkpoint is shown, as the name of a directory: `8`, or
 * the dimensions of a device mesh, `fsdp=4,tp=2`. A part of model.
 */
#ifndef CKPTFS_SPEC_H
#define CKPTFS_SPEC_H

#include "ckptfs/base.h"

enum {
	CK_SPEC_DIMS = 8,
	CK_SPEC_NAME = 32, /* bytes of a dimension's name */
	CK_SPEC_RANKS = 1000000,
};

struct ck_spec {
	uint32_t ndim;	/* of the mesh; 1 of a plain number */
	uint32_t ranks; /* product of all sizes; rank = coordinates in row-major
			 * order */

	struct {
		struct ck_str name; /* in the text; empty of a plain number */
		uint32_t size;
	} dims[CK_SPEC_DIMS];
};

/* A number from 1 to CK_SPEC_RANKS without leading zeros, or NAME=SIZE separated by
 * commas: names [A-Za-z_][A-Za-z0-9_]*, each once, sizes as the number, and so is
 * their product. Each text is another spec. False: it is none. */
CK_MUST_USE bool ck_spec_parse(struct ck_str text, struct ck_spec *out);
/* Reads the name of a dimension and `=`, and moves *text behind them. False if there is
 * no such name. */
CK_MUST_USE bool ck_spec_name_take(struct ck_str *text, struct ck_str *name);

#endif
