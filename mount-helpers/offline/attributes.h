/* SPDX-License-Identifier: MIT */
/*
 * attributes: the extended attributes of a node of the tree as JSON. No state.
 */
#ifndef CKPTFS_ATTRIBUTES_H
#define CKPTFS_ATTRIBUTES_H

#include "ckptfs/tree.h"

/* Appends a JSON object with the extended attributes that listxattr(2) of the mount lists.
 * With `faults` the items of the node are verified, and the object has the attribute `error`
 * if one is damaged. Returns 0, or: -ENOMEM; a transient errno of reading an item. */
CK_MUST_USE int ck_attributes_json(const struct ck_node *n, bool faults,
				   struct ck_buf *out);

#endif
