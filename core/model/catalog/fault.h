/* SPDX-License-Identifier: MIT */
/*
 * fault: what is wrong with a checkpoint, in the same words for all who tell
 * of it.
 */
#ifndef CKPTFS_FAULT_H
#define CKPTFS_FAULT_H

#include "ckptfs/model.h"

/* One fault. What does not apply is NULL or has p NULL. */
struct ck_fault {
	struct ck_str name; /* shown name of the tensor or other entry */
	const int64_t *box; /* ndim offsets, then sizes: of one box */
	uint32_t ndim;
	struct ck_str file; /* relative path */
	uint64_t pos;	    /* bytes, in the file; without a file nothing */
	bool has_pos;
	const char
		*host; /* on which the file is; NULL: there are not several */
	int err; /* positive errno; 0: nothing is lost, but ranks differ */
	bool is_warning;    /* nothing is damaged */
	const char *kind;   /* of a finding that is no damage; or NULL */
	struct ck_str what; /* these three are escaped already */
	const char *expected, *found;
};

/* What an item is not as it should be; owned by the layout. */
struct ck_box_fault {
	struct ck_str what;
	const char *expected, *found; /* NULL: no difference */
};

/* Says what d does, at that byte of the file; d must outlive f. */
void ck_fault_set(struct ck_fault *f, uint64_t pos, const struct ck_diag *d);
/* Appends one line without its end: "NAME: EIO: box [0] [4]: WHAT; FILE at
 * POS on host HOST; expected X, found Y". `name`: with the name. */
void ck_fault_print(const struct ck_fault *f, bool name, struct ck_buf *out);
/* The fault of a tensor as a whole (not of single boxes), as far as the
 * catalog knows. Fields are valid until other text is shown. */
CK_MUST_USE bool ck_catalog_tensor_has_fault(const struct ck_catalog *c,
					     const struct ck_tensor *t,
					     struct ck_fault *out);
/* The fault of one box of a tensor. */
CK_MUST_USE bool ck_catalog_box_has_fault(const struct ck_catalog *c,
					  const struct ck_tensor *t, uint32_t i,
					  struct ck_fault *out);
/* The same of another item that has its elements. */
CK_MUST_USE bool ck_catalog_replica_has_fault(const struct ck_catalog *c,
					      const struct ck_replica *r,
					      struct ck_fault *out);
/* The fault of the item of another entry. */
CK_MUST_USE bool ck_catalog_object_has_fault(const struct ck_catalog *c,
					     const struct ck_object *o,
					     struct ck_fault *out);
CK_MUST_USE bool ck_catalog_file_has_fault(const struct ck_catalog *c,
					   uint32_t file, struct ck_fault *out);
/* What belongs to nothing that is shown. */
void ck_catalog_loss_fault(const struct ck_catalog *c,
			   const struct ck_loss *loss, struct ck_fault *out);
/* Says in *f where an item is. */
void ck_catalog_place_fault(const struct ck_catalog *c,
			    const struct ck_item *item, struct ck_fault *f);
/* Names the other entry in *out, and where its item is; err 0. */
void ck_catalog_object_fault_init(const struct ck_catalog *c,
				  const struct ck_object *o,
				  struct ck_fault *out);
/* The same of tensor t's box i. */
void ck_catalog_box_fault_init(const struct ck_catalog *c,
			       const struct ck_tensor *t, uint32_t i,
			       struct ck_fault *out);
/* Has it a dimension of size 0? Then it holds nothing and needs no item. */
bool ck_tensor_box_is_empty(const struct ck_tensor *t, uint32_t i);
/* Bytes of a box; 0 if they cannot be counted. */
uint64_t ck_tensor_box_bytes(const struct ck_tensor *t, uint32_t i);
/* Whether an item can be looked at: it is inside of a file that can. */
bool ck_catalog_item_is_there(const struct ck_catalog *c,
			      const struct ck_item *item);

#endif
