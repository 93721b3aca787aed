/* SPDX-License-Identifier: MIT */
/*
 * ranks_flat: flat parameters of FSDP1 in files of torch: their pieces, and with a sidecar the
 * parameters that they are made of (flat.c), and what an optimizer has of each of these
 * (optimizers.c, state.c).
 */
#ifndef CK_RANKS_FLAT_H
#define CK_RANKS_FLAT_H

#include "../torch/entries.h"

/* --- flat.c ------------------------------------------------------------------------- */

/* Is the key that of a flat parameter? */
bool ck_rank_is_flat(struct ck_str key);
/* One more in l->flats, with room for so many shards: the rest is the caller's to fill. NULL: out
 * of memory. Good until the next one. */
struct ck_torch_flat *ck_rank_flat_begin(struct ck_torch_load *l,
					 size_t shards);
/* Marks plain tensors of a file, whose rows begin with `first` and were read, that are pieces
 * of its flat parameters. -ENOMEM. */
CK_MUST_USE int ck_rank_pieces_find(struct ck_torch_load *l, size_t first);
/* Pieces of one path, each of another file: they have the name of the parameter that a sidecar
 * makes of them, or a free one. After those are added. -ENOMEM. */
CK_MUST_USE int ck_rank_pieces_show(struct ck_torch_load *l,
				    const struct ck_torch_row *const *rows,
				    uint32_t n);
/* The parameters that flat ones are made of, if a sidecar says it. -ENOMEM. */
CK_MUST_USE int ck_rank_params_add(struct ck_torch_load *l);
/* What a sidecar makes, a large one might without end. Takes what was added to the catalog
 * since its rows were so many, of the tensor added last, and an entry's name, off what may be. 1: more may be made; 0: no
 * more, and a line of damage says that first; -ENOMEM. */
CK_MUST_USE int ck_rank_made(struct ck_torch_load *l, uint64_t before,
			     struct ck_str name);
/* Has it made all that it may? */
bool ck_rank_made_all(const struct ck_torch_load *l);
uint64_t ck_rank_rows(const struct ck_torch_load *l);

/* --- optimizers.c, state.c ------------------------------------------------------------------------- */

/* Finds what optimizers have, of which the sidecar says what its numbers mean. Once all rows
 * have been read. -ENOMEM. */
CK_MUST_USE int ck_rank_trees_find(struct ck_torch_load *l);
void ck_rank_trees_free(struct ck_rank_trees *trees);
/* Rows of one path, each of another file and with the next one, the lowest rank's first.
 * 1: they may be state of a flat parameter, or of pieces, and wait; 0: they are something else.
 * -ENOMEM. */
CK_MUST_USE int ck_rank_state_take(struct ck_torch_load *l,
				   const struct ck_torch_row *const *rows,
				   uint32_t n);
/* What waits, once all else in files has its name: the state of each parameter in its place,
 * and local/ alone has it then; or it is shown as without a sidecar. -ENOMEM. */
CK_MUST_USE int ck_rank_states_show(struct ck_torch_load *l);

#endif
