/* SPDX-License-Identifier: MIT */
/*
 * What the parts of ranks share: objects of classes whose modules changed over the
 * releases (object.c), meshes (mesh.c), and the two kinds of value.
 */
#ifndef CK_RANKS_INTERNAL_H
#define CK_RANKS_INTERNAL_H

#include "ranks.h"

/* While a value is read. */
struct ck_rank_reader {
	struct ck_pickle *p;
	const struct ck_rank_storages *storages;
	struct ck_arena *arena;
	struct ck_diag *d;
};

/* The pieces of the call by which torch builds a tensor of a class. */
struct ck_rank_typed {
	struct ck_str class; /* last component */
	struct ck_pv dtype, size, state;
};

/* A mesh, as far as it says where this process is. */
struct ck_rank_mesh {
	uint32_t ndim;
	uint64_t sizes[CK_RANK_MESH_DIMS];
	struct ck_str names[CK_RANK_MESH_DIMS]; /* empty: none */
	uint64_t coordinate[CK_RANK_MESH_DIMS];
	bool outside; /* this process is not in it */
	struct ck_rank_answer answer;
};

/* The last component of a class of torch.distributed or torch.fx; empty: of others. */
struct ck_str ck_rank_class(const struct ck_rank_reader *r,
			    const struct ck_pv *class);
/* The arguments of a namedtuple of that class; false: v is none. */
bool ck_rank_tuple(const struct ck_rank_reader *r, const struct ck_pv *v,
		   const char *name, struct ck_pv *args);
/* The attributes of an object, a DICT, whether it has slots or not; false: it has none,
 * or v is no object. Its class is *name. */
bool ck_rank_object(const struct ck_rank_reader *r, const struct ck_pv *v,
		    struct ck_str *name, struct ck_pv *attributes);
/* A dict of attributes, perhaps in (None or dict, dict of slots). */
bool ck_rank_slots(const struct ck_pv *state, struct ck_pv *attributes);
/* _rebuild_from_type_v2 of a wrapper subclass; false: v is none. */
bool ck_rank_typed(const struct ck_rank_reader *r, const struct ck_pv *v,
		   struct ck_rank_typed *out);
/* Numbers from 0 on, at most CK_MAX_DIMS of them. */
bool ck_rank_dims(const struct ck_pv *v, uint32_t *n, int64_t *dims);
bool ck_rank_dtype(const struct ck_rank_reader *r, const struct ck_pv *v,
		   struct ck_str *name);
/* Memory of the arena, which the input has to be worth. */
CK_MUST_USE int ck_rank_alloc(struct ck_rank_reader *r, size_t n, size_t size,
			      void *out);

CK_MUST_USE int ck_rank_mesh_read(struct ck_rank_reader *r,
				  const struct ck_pv *v,
				  struct ck_rank_mesh *out);
CK_MUST_USE int ck_rank_dtensor_read(struct ck_rank_reader *r,
				     const struct ck_rank_typed *t,
				     struct ck_rank_part *out);
CK_MUST_USE int ck_rank_sharded_read(struct ck_rank_reader *r,
				     const struct ck_rank_typed *t,
				     struct ck_rank_part *out);

#endif
