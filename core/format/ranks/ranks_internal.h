/* SPDX-License-Identifier: MIT */
/*
 * ranks_internal: functions that the files of ranks share: objects of classes whose modules
 * changed between releases (ranks_object.c), meshes (mesh.c), DTensors (dtensor.c) and
 * ShardedTensors (sharded_tensor.c). Stateless; one thread at a time may use a reader.
 */
#ifndef CK_RANKS_INTERNAL_H
#define CK_RANKS_INTERNAL_H

#include "ranks.h"

/* Context of reading a value. Members after p may be NULL for functions that return bool. */
struct ck_rank_reader {
	struct ck_pickle *p;
	const struct ck_rank_storages *storages;
	struct ck_arena *arena;
	struct ck_diag *d;
};

/* The arguments of the call by which torch builds a tensor of a wrapper subclass. */
struct ck_rank_typed {
	struct ck_str class; /* see ck_rank_class() */
	struct ck_pv dtype, size, state;
};

/* A DeviceMesh, and the place of this process in it. */
struct ck_rank_mesh {
	uint32_t ndim;
	uint64_t sizes[CK_RANK_MESH_DIMS];	/* in ranks */
	struct ck_str names[CK_RANK_MESH_DIMS]; /* empty: no name */
	uint64_t coordinate[CK_RANK_MESH_DIMS]; /* unless outside */
	bool outside; /* this process is not in the mesh */
	struct ck_rank_answer answer;
};

/* Returns the last component of the name of a class of torch.distributed or torch.fx; empty if
 * `class` is another value. */
struct ck_str ck_rank_class(const struct ck_rank_reader *r,
			    const struct ck_pv *class);
/* True if v is a namedtuple of that class: sets *args to its members. */
bool ck_rank_tuple(const struct ck_rank_reader *r, const struct ck_pv *v,
		   const char *name, struct ck_pv *args);
/* True if v is an object with attributes, in a dict or in slots: sets *attributes to a dict, and
 * *name to its class. If v is an object without attributes, sets only *name. */
bool ck_rank_object(const struct ck_rank_reader *r, const struct ck_pv *v,
		    struct ck_str *name, struct ck_pv *attributes);
/* True if `state` is a dict of attributes, or a pair with a dict of slots: sets *attributes, which
 * changes in any case. */
bool ck_rank_slots(const struct ck_pv *state, struct ck_pv *attributes);
/* True if v is a call of _rebuild_from_type_v2() for a wrapper subclass: fills *out. */
bool ck_rank_typed(const struct ck_rank_reader *r, const struct ck_pv *v,
		   struct ck_rank_typed *out);
/* True if v is a sequence of at most CK_MAX_DIMS numbers of 0 or more: fills *n and dims. */
bool ck_rank_dims(const struct ck_pv *v, uint32_t *n, int64_t *dims);
/* Takes `dim` of a Shard, one of ndim; a negative one counts from the end, as in Python. False if it
 * is malformed. */
bool ck_rank_dim_take(const struct ck_pv *v, uint32_t ndim, uint32_t *dim);
/* Takes `split_factor` of a _StridedShard. False if it is malformed. */
bool ck_rank_split_take(const struct ck_pv *v, uint64_t *split);
/* True if v is a global of torch: sets *name to its name without "torch.". */
bool ck_rank_dtype(const struct ck_rank_reader *r, const struct ck_pv *v,
		   struct ck_str *name);
/* Sets the pointer at `out` to memory of the arena for n * size bytes, and charges it to the
 * budget of the pickle. Returns 0, or: -EBADMSG if the budget is exceeded; -ENOMEM. */
CK_MUST_USE int ck_rank_alloc(struct ck_rank_reader *r, size_t n, size_t size,
			      void *out);

/* Reads a DeviceMesh, or copies the cached one. Returns 0, or: -EBADMSG if it is malformed; errors
 * of ck_rank_storages.read(). */
CK_MUST_USE int ck_rank_mesh_read(struct ck_rank_reader *r,
				  const struct ck_pv *v,
				  struct ck_rank_mesh *out);
/* Fill *out from a DTensor or ShardedTensor. *out must be initialised as by ck_rank_part_read().
 * Return 0, or the errors of that function. */
CK_MUST_USE int ck_rank_dtensor_read(struct ck_rank_reader *r,
				     const struct ck_rank_typed *t,
				     struct ck_rank_part *out);
CK_MUST_USE int ck_rank_sharded_read(struct ck_rank_reader *r,
				     const struct ck_rank_typed *t,
				     struct ck_rank_part *out);

#endif
