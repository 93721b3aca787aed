/* SPDX-License-Identifier: MIT */
/*
 * model: element types, shown names, and the catalog of a checkpoint. Pure values
 * without I/O; any thread.
 */
#ifndef CKPTFS_MODEL_H
#define CKPTFS_MODEL_H

#include "ckptfs/catalog.h"

/* Most dimensions that numpy can load. A tensor with more dimensions is listed, and
 * its reads return EBADMSG. */
#define CK_MAX_DIMS 64

/* --- dtype -------------------------------------------------------------- */

/* A row of the table of dtypes. Sources of the columns: torch/storage.py and
 * torch/_utils.py, and the numpy format of the header. */
struct ck_dtype {
	const char *name; /* torch's name without "torch." */
	/* `descr` of an npy header; NULL: numpy has no such type */
	const char *npy;
	/* storage class that implies it; NULL: no such class */
	const char *storage;
	uint8_t size; /* bytes per element; 0: not whole bytes */
	/* bytes that are swapped together: half an element if complex, else
	 * `size` */
	uint8_t unit;
	bool is_float;	 /* sign is the top bit of each unit */
	bool is_complex; /* two units: real and imaginary */
	/* name in safetensors; NULL: safetensors has no such type */
	const char *hub;
};

/* Row 0 is the unknown dtype: name "unknown", size 0. */
#define CK_DTYPE_UNKNOWN 0
const struct ck_dtype *ck_dtype_at(uint8_t id);
/* Number of the row of a dtype, by one of its names; CK_DTYPE_UNKNOWN if there is
 * no such row. */
uint8_t ck_dtype_by_name(struct ck_str name);
uint8_t ck_dtype_by_storage(struct ck_str storage_class);
uint8_t ck_dtype_by_hub(struct ck_str name);
/* True if stored numbers become values only with the scale and zero point of their
 * tensor. */
bool ck_dtype_is_quantized(uint8_t id);
/* Number of values in one element: 2 for the packed float4_e2m1fn_x2. */
unsigned ck_dtype_values(uint8_t id);

/* --- names: keys, shown names, stems ------------------------------------  */

/* Appends the key without the components that wrappers insert
 * (_fsdp_wrapped_module, _checkpoint_wrapped_module, _orig_mod, _fpw_module;
 * each only when a dot follows). */
void ck_name_unwrap(struct ck_str key, struct ck_buf *out);
/* True if the last component of a key or name is that of a flat parameter of FSDP1. */
bool ck_name_is_flat(struct ck_str name);
/* Appends the file name of a shown name, without suffix. `nth` is 1, or the n of
 * the `~n` that distinguishes equal long stems. */
void ck_name_stem(struct ck_str name, unsigned nth, struct ck_buf *out);

#endif
