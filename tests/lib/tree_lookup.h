/* SPDX-License-Identifier: MIT */
/*
 * tree_lookup: a lookup as the mount makes it, with the attributes of the node.
 */
#ifndef CK_TREE_LOOKUP_H
#define CK_TREE_LOOKUP_H

#include "ckptfs/tree.h"

/* Uses the node once more. Errors of ck_tree_name(), ck_tree_use(), ck_tree_stat(). */
static inline int tree_lookup(struct ck_tree *t, uint64_t in,
			      struct ck_str name, struct ck_node_stat *out)
{
	struct ck_node n;
	int rc = ck_tree_name(t, in, name, &n);

	if (rc == 0)
		rc = ck_tree_use(t, &n);
	if (rc)
		return rc;
	rc = ck_tree_stat(&n, out);
	if (rc)
		ck_tree_forget(t, n.number, 1);
	return rc;
}

#endif
