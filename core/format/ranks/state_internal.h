/* SPDX-License-Identifier: MIT */
/*
 * state_internal: the optimizers of a load, shared by optimizers.c, which finds
 * them, and optimizer_state.c, which shows their state. Used by the thread that
 * loads the checkpoint.
 */
#ifndef CK_STATE_INTERNAL_H
#define CK_STATE_INTERNAL_H

#include "ranks_flat.h"

/* A dict that may be the state dict of an optimizer. */
struct ck_rank_tree {
	struct ck_str above; /* key of the dict; may be empty */
	uint64_t numbers; /* largest number under "state", + 1; 0: no numbers */
	bool named;	  /* it has state under names */
	bool groups;	  /* it has param_groups */
	bool known;	  /* the sidecar describes its numbers: */
	uint32_t optimizer; /* index of it in the sidecar's optimizers */
	bool reported;	    /* a line of damage was added by number_refuse() */
};

/* State of one path under a number, and its name without a sidecar. */
struct ck_rank_found {
	uint32_t row; /* the first row; the others are linked by `next` */
	struct ck_str name;
	bool own; /* state of parameters was made: only local/ shows the rows */
};

/* Kinds of state of one number. CUT: a tensor that is split among ranks. ODD: a tensor that
 * could be split, but does not have the length of a part. */
enum { CK_RANK_HAS_CUT = 1, CK_RANK_HAS_ODD = 2 };

struct ck_rank_trees {
	struct ck_rank_tree *all;
	size_t n, cap;
	struct ck_table table; /* indexes in `all` by key */
	struct ck_rank_found *found;
	size_t nfound, found_cap;
	/* For each state of the sidecar, union of CK_RANK_HAS_CUT and _ODD. */
	uint8_t *numbers;
	/* For each unit of the sidecar: the files have a flat parameter of its name,
	 * but with other sizes. */
	bool *refused;
	const struct ck_torch_row **rows; /* buffer for the rows of one found */
	uint32_t most;			  /* its size: most rows of one found */
};

/* The place in a path where the state dict of an optimizer begins. */
struct ck_rank_at {
	/* Index of the part "state" or "param_groups"; nparts: there is neither. */
	uint32_t part;
	bool is_state; /* the part is "state", and the next one a number: */
	uint64_t number;
};

/* Finds the first "param_groups", or "state" before a number, of a path. */
struct ck_rank_at ck_rank_at_find(const struct ck_torch_path *path);
/* Returns the key of the dict that has the part `at`, as in ck_rank_tree.above. */
struct ck_str ck_rank_tree_key(const struct ck_torch_path *path,
			       const struct ck_rank_at *at);

#endif
