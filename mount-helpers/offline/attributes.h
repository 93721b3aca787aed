/* SPDX-License-Identifier: MIT */
/*
 * attributes: what the tree says of a node, as JSON.
 */
#ifndef CKPTFS_ATTRIBUTES_H
#define CKPTFS_ATTRIBUTES_H

#include "ckptfs/tree.h"

/* Appends an object of the extended attributes of a node, those that listxattr(2) of
 * the mount names; faults: and `error` if its items, which are looked at then, have a
 * fault. Errors of the moment. */
CK_MUST_USE int ck_attributes_json(const struct ck_node *n, bool faults,
				   struct ck_buf *out);

#endif
