/* SPDX-License-Identifier: MIT */
/*
 * place_rules: the placements of tensors on the dimensions of meshes, as the user wrote
 * them. An immutable value. A line of the text is
 *
 *	GLOB DIM=PLACE [DIM=PLACE]...
 *
 * with spaces or tabs between the words. GLOB is compared with the whole shown name by
 * fnmatch(3). PLACE is R, or S(d) for dimension d of the tensor, where a negative d
 * counts from the end. `#` begins a comment. A part of model.
 */
#ifndef CKPTFS_PLACE_RULES_H
#define CKPTFS_PLACE_RULES_H

#include "model/sharding.h"

enum { CK_PLACE_RULES_MOST = 1 << 20 }; /* bytes of a text */

struct ck_place_rules;

/* Parses a text and copies it. Caller must call ck_place_rules_free(). Returns 0, or:
 * -EBADMSG if a line has another form; -ENOMEM. */
CK_MUST_USE int ck_place_rules_parse(struct ck_str text,
				     struct ck_place_rules **out,
				     struct ck_diag *d);
void ck_place_rules_free(struct ck_place_rules *r); /* NULL is allowed */
/* Number of lines with a rule. r: NULL has no lines. */
uint32_t ck_place_rules_count(const struct ck_place_rules *r);
/* The glob of a rule, valid as long as r. *line: its number in the text, from 1 on. */
const char *ck_place_rules_at(const struct ck_place_rules *r, uint32_t rule,
			      uint32_t *line);
/* Sets *rule to the one that decides for a tensor, see ck_place_rules_apply(), or to the
 * number of rules. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_place_rules_find(const struct ck_place_rules *r,
				    struct ck_str name, uint32_t ndim,
				    uint32_t *rule);
/* Sets the placements of a tensor of ndim dimensions. The first line that matches its
 * name, and whose every d exists in the tensor, decides for the dimensions of the mesh
 * that the line names. r: NULL has no lines. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_place_rules_apply(const struct ck_place_rules *r,
				     struct ck_str name, uint32_t ndim,
				     struct ck_mesh_dim *dims, uint32_t n);

#endif
