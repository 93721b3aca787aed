/* SPDX-License-Identifier: MIT */
/*
 * view_internal: the views, and what they share.
 */
#ifndef CK_VIEW_INTERNAL_H
#define CK_VIEW_INTERNAL_H

#include "ckptfs/view.h"

extern const struct ck_view ck_view_full, ck_view_raw;

/* Does the tensor have bytes that can be counted? If not (dtype without whole
 * bytes per element, impossible shape), its files have size 0 and no part;
 * its err says why. */
bool ck_view_has_bytes(const struct ck_tensor *t);

/* A slice of literal bytes (copied; may be none) and a whole tensor. */
CK_MUST_USE int ck_view_slice_make(const struct ck_catalog *c, uint32_t tensor,
				   struct ck_str literal,
				   struct ck_slice **out);

#endif
