/* SPDX-License-Identifier: MIT */
/*
 * ranks_flat: flat parameters of FSDP1 in files of torch.save. A flat parameter
 * is a one-dimensional tensor that contains several parameters, and is split
 * among ranks. A sidecar describes the parameters. Each rank may also have
 * pieces: its elements of each parameter. ranks_flat.c shows parameters and
 * pieces, optimizers.c and optimizer_state.c the state that an optimizer has of
 * each parameter.
 *
 * All functions work on a struct ck_torch_load, and are called by the thread
 * that loads the checkpoint, in the order of show() in ranks_load.c.
 */
#ifndef CK_RANKS_FLAT_H
#define CK_RANKS_FLAT_H

#include "format/torch/entries.h"

/* --- ranks_flat.c ------------------------------------------------------------------- */

/* Adds a zeroed row to l->flats with memory for `shards` shards; the caller fills it. The
 * pointer is valid until the next call. NULL if memory is short. */
struct ck_torch_flat *ck_rank_flat_begin(struct ck_torch_load *l,
					 size_t shards);
/* Marks the pieces of flat parameters among the rows of the file that is read, which begin with
 * row `first`. A piece is a plain tensor of one dimension in the storage of a flat parameter;
 * or an empty one in the same dict. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_rank_pieces_find(struct ck_torch_load *l, size_t first);
/* Adds n pieces of one path, each of another file, which only local/ shows. They get the name
 * of the parameter that the sidecar adds for this path, or a free name. Call after
 * ck_rank_params_add(). Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_rank_pieces_show(struct ck_torch_load *l,
				    const struct ck_torch_row *const *rows,
				    uint32_t n);
/* Adds the parameters that the sidecar describes for the rows of l->flats. A flat parameter
 * that does not fit the sidecar becomes a line of damage; a note counts those without a
 * description. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_rank_params_add(struct ck_torch_load *l);
/* Limits the rows that a sidecar adds, since a small sidecar could add very many. Charges the
 * rows that were added since ck_rank_rows() returned `before`, weighted by the dimensions of the
 * last tensor, and the length of a name. Returns 1 if more rows may be added; 0 if the limit is
 * exceeded, the first time with a line of damage; or -ENOMEM. */
CK_MUST_USE int ck_rank_made(struct ck_torch_load *l, uint64_t before,
			     struct ck_str name);
/* True if the limit is exceeded. */
bool ck_rank_made_all(const struct ck_torch_load *l);
/* Number of tensors, objects, chunks and replicas in the catalog. */
uint64_t ck_rank_rows(const struct ck_torch_load *l);

/* --- optimizers.c, optimizer_state.c -------------------------------------- */

/* Finds the optimizers in the files, and assigns each to one of the sidecar. Sets l->trees; NULL
 * if the sidecar has no optimizers. An optimizer that the sidecar does not fit becomes a line of
 * damage. Call when all rows were read. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_rank_trees_find(struct ck_torch_load *l);
void ck_rank_trees_free(struct ck_rank_trees *trees); /* NULL is allowed */
/* Takes n rows of one path, each of another file and linked by `next`, the lowest rank first.
 * Returns 1 if they are state under a number that the sidecar has: ck_rank_states_show() shows
 * them, the caller must not; 0 if they are not; or -ENOMEM. */
CK_MUST_USE int ck_rank_state_take(struct ck_torch_load *l,
				   const struct ck_torch_row *const *rows,
				   uint32_t n);
/* Shows all rows that ck_rank_state_take() took, as the state of each parameter; only local/
 * then shows the rows themselves. Rows from which no such state can be made are shown as without
 * a sidecar. Call when all other entries of the files have their names. Returns 0, or
 * -ENOMEM. */
CK_MUST_USE int ck_rank_states_show(struct ck_torch_load *l);

#endif
