/* SPDX-License-Identifier: MIT */
/*
 * manifest: the tensors that a user expects in a checkpoint, from a JSON text, and their
 * differences to a catalog. The text is
 *
 *	{"tensors":{"<name>":{"shape":[4,3],"dtype":"float32"}}}
 *
 * or the output of `ckptfs inspect --json`, where "tensors" is a list of objects with
 * "fqn". Other members are ignored. Without "shape" or "dtype" any is right. A part of
 * report.
 */
#ifndef CKPTFS_MANIFEST_H
#define CKPTFS_MANIFEST_H

#include "ckptfs/model.h"

enum { CK_MANIFEST_MOST = 1 << 29 }; /* bytes of a text */

struct ck_manifest; /* constant; any thread */

/* Owns the text, which is empty then, also after an error. Caller must call
 * ck_manifest_free(). Returns 0, or: -EBADMSG if the text has another form; -ENOMEM. */
CK_MUST_USE int ck_manifest_parse(struct ck_buf *text, struct ck_manifest **out,
				  struct ck_diag *d);
void ck_manifest_free(struct ck_manifest *m); /* NULL is allowed */

enum ck_strict_kind {
	CK_STRICT_MISSING,    /* the catalog lacks a tensor of the manifest */
	CK_STRICT_UNEXPECTED, /* the manifest lacks a tensor of the catalog */
	CK_STRICT_MISMATCHED, /* dtype or shape differ */
};

/* A difference. */
struct ck_strict_row {
	struct ck_str name; /* valid as long as manifest and catalog */
	enum ck_strict_kind kind;
	uint32_t expected; /* row of the manifest, unless UNEXPECTED */
	uint32_t tensor;   /* of the catalog, unless MISSING */
};

struct ck_strict {
	struct ck_strict_row *rows; /* in natural order of names; for free() */
	size_t n, cap;
};

/* Compares the tensors with a whole. Names that options only= and exclude= hide are in no
 * row. Returns 0, or -ENOMEM. Caller frees out->rows, also after an error. */
CK_MUST_USE int ck_strict_find(const struct ck_catalog *c,
			       const struct ck_manifest *m,
			       struct ck_strict *out);
/* Returns 0 if there are no differences, or: -EBADMSG, d counts them and has the first name;
 * -ENOMEM. */
CK_MUST_USE int ck_strict_require(const struct ck_catalog *c,
				  const struct ck_manifest *m,
				  struct ck_diag *d);
/* Append dtype and shape of a mismatch as JSON: {"dtype":"float32","shape":[4,3]}. */
void ck_strict_print_expected(const struct ck_manifest *m, uint32_t row,
			      struct ck_buf *out);
void ck_strict_print_found(const struct ck_catalog *c, uint32_t tensor,
			   struct ck_buf *out);
/* Appends strict.json. */
void ck_strict_report(const struct ck_catalog *c, const struct ck_manifest *m,
		      struct ck_buf *out);

#endif
