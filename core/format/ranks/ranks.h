/* SPDX-License-Identifier: MIT */
/*
 * ranks: reads a pickled DTensor or ShardedTensor: the rank of the process that pickled it, and
 * the boxes of the whole tensor that the local tensor contains. Also parses the names of
 * per-rank files. Works on values of pickle.h; reads no files, executes nothing. Stateless: one
 * thread at a time may use a pickle and its arena.
 *
 * Source: torch/distributed/tensor/_dtensor_spec.py, torch/distributed/device_mesh.py,
 * torch/distributed/_shard/sharded_tensor/api.py, releases 2.1 to 2.15.
 */
#ifndef CK_RANKS_H
#define CK_RANKS_H

#include "ckptfs/model.h"
#include "ckptfs/pickle.h"

enum {
	CK_RANK_MESH_DIMS = 16,	 /* most dimensions of a mesh */
	CK_RANK_BOXES = 1 << 16, /* most boxes of one local tensor */
	CK_RANK_MAX = 1 << 30,	 /* largest rank, and number of ranks */
	CK_RANK_NO_FAMILY = -1,
};

/* Cache of the mesh that was read last: usually all values of a file have the same one. For one
 * pickle and its arena. Zero-initialise. */
struct ck_rank_seen {
	const struct ck_pcall *value;
	const struct ck_rank_mesh *mesh;
};

/* Reads the storages of a pickle. The ranks of a mesh of release 2.1 are in a storage. */
struct ck_rank_storages {
	void *ctx;
	/* Copies bytes [at, at + len) of a storage. Returns 0, or errors of reading
	 * the file. */
	int (*read)(void *ctx, struct ck_str key, void *buf, size_t len,
		    uint64_t at, struct ck_diag *d);
	bool big;		   /* storages are big-endian */
	struct ck_rank_seen *seen; /* NULL: meshes are not cached */
};

/* The rank of the process that pickled a value, or of all values of a file. */
struct ck_rank_answer {
	uint64_t rank; /* CK_NO_RANK: unknown */
	/* Number of ranks of the mesh or group that contains the rank; 0: unknown. */
	uint64_t ranks;
	/* Largest number of ranks of a mesh, group or rank map; 0: unknown. */
	uint64_t world;
};

/* A local tensor, and its boxes in the whole tensor. */
struct ck_rank_piece {
	struct ck_pv tensor; /* the pickled call that builds a plain tensor */
	const int64_t *size; /* ndim: sizes that the local tensor must have */
	/* 3 * ndim for each box, in elements: offsets in the whole tensor, sizes,
	 * offsets in the local tensor. Boxes are disjoint, and inside both tensors.
	 * There is at least one, which may be empty. */
	const int64_t *boxes;
	uint32_t nboxes;
};

/* The part that a rank has of one tensor. The pickle and the arena own all pointers. */
struct ck_rank_part {
	uint8_t kind; /* CK_KIND_DTENSOR, CK_KIND_SHARDED_TENSOR */
	bool outside; /* this rank is not in the mesh: it has no part */
	/* Why there is no whole tensor; NULL: there is one. For example each rank
	 * has a summand. */
	const char *fault;
	/* Why the elements of this rank must not be read; NULL: they may be. */
	const char *bad;
	struct ck_str dtype; /* torch's name without "torch." */
	uint32_t ndim;
	const int64_t *shape;		    /* of the whole tensor */
	const struct ck_sharding *sharding; /* NULL for a ShardedTensor */
	struct ck_rank_answer answer;
	/* One for a DTensor, unless `outside`. For a ShardedTensor its local shards,
	 * except those that lie outside of the whole tensor. */
	struct ck_rank_piece *pieces;
	uint32_t npieces;
};

/* True if v is a call that builds a DTensor or ShardedTensor. It may be malformed. */
bool ck_rank_is_part(const struct ck_pickle *p, const struct ck_pv *v);
/* True if the root of a pickle contains a DTensor whose local tensor is only a part of it, or a
 * summand. The search is bounded. False also if memory is short. */
bool ck_rank_holds_part(const struct ck_pickle *p);
/* Reads a DTensor or ShardedTensor. Memory is taken from the arena, and from the budget of the
 * pickle. `storages` may be NULL: a mesh of release 2.1 then has no rank. Returns 1 if v is such
 * a value; 0 if it is another one; or: -EBADMSG if it is malformed or exceeds the budget, d has
 * the details; -ENOMEM; errors of storages->read(). */
CK_MUST_USE int ck_rank_part_read(struct ck_pickle *p, const struct ck_pv *v,
				  const struct ck_rank_storages *storages,
				  struct ck_arena *arena,
				  struct ck_rank_part *out, struct ck_diag *d);
/* Compares a local tensor with its piece: dtype, and ndim sizes in elements. Returns 0, or -EIO
 * if they differ. */
CK_MUST_USE int ck_rank_piece_check(const struct ck_rank_part *part,
				    const struct ck_rank_piece *piece,
				    struct ck_str dtype, uint32_t ndim,
				    const int64_t *size, struct ck_diag *d);
/* Adds the answer of one more value to that of its file, which begins as { CK_NO_RANK, 0, 0 }.
 * If ranks differ, the value with the largest mesh or group decides. */
void ck_rank_answer_join(struct ck_rank_answer *file,
			 const struct ck_rank_answer *value);

/* --- boxes -------------------------------------------------------------------- */

/* A tensor on a mesh, as seen by one rank. */
struct ck_rank_place {
	uint32_t ndim;
	const int64_t *shape; /* of the whole tensor */
	uint32_t nmesh;
	const struct ck_mesh_dim *mesh;
	const uint64_t *coordinate; /* of the rank: nmesh, below the sizes */
	/* Mesh dimensions that shard the tensor, each once, in the order of their
	 * cuts; NULL: the order follows from their placements. */
	const uint32_t *order;
	uint32_t norder;
};

/* Computes size and boxes of a piece; leaves its tensor. Memory is taken from the arena, and
 * from the budget of the pickle. Returns 0, or: -EBADMSG if a placement does not fit the
 * tensor, or there are too many boxes; -ENOMEM. */
CK_MUST_USE int ck_rank_boxes(struct ck_pickle *p,
			      const struct ck_rank_place *place,
			      struct ck_arena *arena, struct ck_rank_piece *out,
			      struct ck_diag *d);

/* --- names of files ----------------------------------------------------------- */

/* A parsed file name. */
struct ck_rank_name {
	int64_t family; /* from 0; CK_RANK_NO_FAMILY */
	/* Value of the run of digits in which names of the family differ; without a
	 * family, of the last run. CK_NO_RANK if there is no run, or it is above
	 * CK_RANK_MAX. */
	uint64_t number;
	uint32_t at, len; /* of that run, in bytes */
};

/* Finds the families among n names of one directory: two or more names that differ in one run
 * of digits only. Fills n rows of `out`. Families are numbered in the order of their first
 * names. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_rank_names(const struct ck_str *names, size_t n,
			      struct ck_rank_name *out, uint32_t *nfamilies);
/* Returns the text before the number, without words such as "rank", digits and separators at
 * its end. It names the family in paths. May be empty. */
struct ck_str ck_rank_name_part(struct ck_str name,
				const struct ck_rank_name *of);
/* Returns the name without its last extension. */
struct ck_str ck_rank_name_stem(struct ck_str name);
/* True if the name contains a word that usually precedes a rank, such as "rank" or "shard". */
bool ck_rank_name_says_rank(struct ck_str name);

#endif
