/* SPDX-License-Identifier: MIT */
/*
 * model: what a checkpoint is. Element types, the names shown for keys and the
 * catalog. Pure values: no files, no threads.
 */
#ifndef CKPTFS_MODEL_H
#define CKPTFS_MODEL_H

#include "ckptfs/catalog.h"

/* More dimensions than any tensor that numpy can load. A tensor with more is
 * listed and answers EBADMSG. */
#define CK_MAX_DIMS 64

/* --- dtype -------------------------------------------------------------- */

/* Source of every column: torch's own tables (torch/storage.py,
 * torch/_utils.py) and numpy's format for the header. */
struct ck_dtype {
	const char *name;    /* torch's name without "torch." */
	const char *npy;     /* `descr` of an npy header; NULL: none */
	const char *storage; /* storage class that implies it, NULL: none */
	uint8_t size;	     /* bytes per element; 0: not whole bytes */
	uint8_t unit;	     /* bytes swapped together, one number: half an
			      * element for complex, else size */
	bool is_float;	     /* sign is the top bit of each unit */
	bool is_complex;     /* two units: real, imaginary */
	const char *hub;     /* its name in safetensors; NULL: it has none */
};

/* Row 0 is the unknown dtype: name "unknown", size 0. */
#define CK_DTYPE_UNKNOWN 0
const struct ck_dtype *ck_dtype_at(uint8_t id);
/* 0 (unknown) when there is no such row. */
uint8_t ck_dtype_by_name(struct ck_str name);
uint8_t ck_dtype_by_storage(struct ck_str storage_class);
uint8_t ck_dtype_by_hub(struct ck_str name);
/* Its numbers are values only with the scale and zero point of their tensor. */
bool ck_dtype_is_quantized(uint8_t id);
/* Values in one element: two are packed into one of float4_e2m1fn_x2. */
unsigned ck_dtype_values(uint8_t id);

/* --- names: keys, shown names, stems (the contract's section 2) ---------- */

/* Appends the key without the components that wrappers insert
 * (_fsdp_wrapped_module, _checkpoint_wrapped_module, _orig_mod, _fpw_module;
 * each only when a dot follows). */
void ck_name_unwrap(struct ck_str key, struct ck_buf *out);
/* Appends the file name, without suffix, for a shown name. `nth` is 1, or
 * the n of the `~n` that tells equal long stems apart. */
void ck_name_stem(struct ck_str name, unsigned nth, struct ck_buf *out);

#endif
