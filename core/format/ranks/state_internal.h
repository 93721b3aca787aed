/* SPDX-License-Identifier: MIT */
/* What the parts share: optimizers.c (which dicts are some), state.c (what becomes of theirs). */
#ifndef CK_STATE_INTERNAL_H
#define CK_STATE_INTERNAL_H

#include "ranks_flat.h"

/* What an optimizer has, in the order of rows. */
struct ck_rank_tree {
	struct ck_str above; /* the key of what it is all below; may be empty */
	uint64_t numbers;    /* the largest of its state, + 1 */
	bool named;	     /* it has state under a name */
	bool groups;	     /* it has param_groups */
	bool known;	     /* the sidecar says what numbers are: */
	uint32_t optimizer;  /* which of the sidecar's it is */
	bool said;	     /* a line of damage says that some are not used */
};

/* Rows of one path that may be state, and the name that they have without a sidecar. */
struct ck_rank_found {
	uint32_t row; /* the first one; each has the next */
	struct ck_str name;
	bool own; /* local/ alone has it */
};

/* What is known of a number of an optimizer. */
enum { CK_RANK_HAS_CUT = 1, CK_RANK_HAS_ODD = 2 };

struct ck_rank_trees {
	struct ck_rank_tree *all;
	size_t n, cap;
	struct ck_table table;
	struct ck_rank_found *found;
	size_t nfound, found_cap;
	uint8_t *numbers; /* of each of the sidecar's states */
	bool *refused;	  /* units that are of another size than files have */
	const struct ck_torch_row **rows; /* room for those of any */
	uint32_t most;
};

/* Where a path comes to an optimizer. */
struct ck_rank_at {
	uint32_t
		part; /* of the path: "state" or "param_groups"; nparts: nowhere */
	bool is_state; /* and the next part is a number: */
	uint64_t number;
};

struct ck_rank_at ck_rank_at_find(const struct ck_torch_path *path);
/* The key of what an optimizer is below. */
struct ck_str ck_rank_tree_key(const struct ck_torch_path *path,
			       const struct ck_rank_at *at);

#endif
