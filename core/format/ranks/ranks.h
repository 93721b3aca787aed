/* SPDX-License-Identifier: MIT */
/*
 * ranks: what one rank has of a tensor, from the DTensor or ShardedTensor that its
 * process pickled: where its local tensor lies in the whole one, and which rank it
 * was. Works on values of pickle.h; reads no files, runs nothing. Where the facts come
 * from: torch/distributed/tensor/_dtensor_spec.py, torch/distributed/device_mesh.py,
 * torch/distributed/_shard/sharded_tensor/api.py, releases 2.1 to 2.15.
 */
#ifndef CK_RANKS_H
#define CK_RANKS_H

#include "ckptfs/model.h"
#include "ckptfs/pickle.h"

enum {
	CK_RANK_MESH_DIMS = 16,	 /* at most */
	CK_RANK_BOXES = 1 << 16, /* at most, of one local tensor */
	CK_RANK_MAX = 1 << 30,	 /* largest number of a rank */
	CK_RANK_NO_FAMILY = -1,
};

/* The mesh that was read last: mostly all values of a file have one. Zero-initialise, for each
 * pickle with its arena. */
struct ck_rank_seen {
	const struct ck_pcall *value;
	const struct ck_rank_mesh *mesh;
};

/* The bytes of a pickle's storages. A mesh of release 2.1 is in one. */
struct ck_rank_storages {
	void *ctx;
	/* Copies bytes [at, at + len) of a storage; the errors of the file. */
	int (*read)(void *ctx, struct ck_str key, void *buf, size_t len,
		    uint64_t at, struct ck_diag *d);
	bool big;		   /* numbers in it are big-endian */
	struct ck_rank_seen *seen; /* NULL: nothing is remembered */
};

/* Who a value says that its process was. */
struct ck_rank_answer {
	uint64_t rank;	/* CK_NO_RANK: it does not say */
	uint64_t ranks; /* of the mesh or group that says so; 0: none */
	uint64_t
		world; /* the most ranks that a map of ranks in it has; 0: none */
};

/* A local tensor, and where it lies. */
struct ck_rank_piece {
	struct ck_pv tensor; /* as pickled, by a call that builds a plain one */
	const int64_t *size; /* ndim: what it must have */
	const int64_t
		*boxes; /* 3 * ndim for each, elements: offsets in the whole
			       * tensor, sizes, offsets in the local tensor. Inside
			       * of both; disjoint. One at least, also if it has no
			       * elements */
	uint32_t nboxes;
};

/* What a rank has of one tensor. Everything lies in the pickle and the arena that were
 * given. */
struct ck_rank_part {
	uint8_t kind; /* CK_KIND_DTENSOR, CK_KIND_SHARDED_TENSOR */
	bool partial; /* each rank has a summand: there is no whole tensor */
	bool outside; /* this rank is not in the mesh: it has no part */
	struct ck_str dtype; /* torch's name without "torch." */
	uint32_t ndim;
	const int64_t *shape;		    /* of the whole tensor */
	const struct ck_sharding *sharding; /* NULL: of a ShardedTensor */
	struct ck_rank_answer answer;
	struct ck_rank_piece
		*pieces; /* of a DTensor one, of a ShardedTensor its
				       * local shards that have elements in it */
	uint32_t npieces;
};

/* Is v called so? It may be malformed. */
bool ck_rank_is_part(const struct ck_pickle *p, const struct ck_pv *v);
/* Whether its value holds a DTensor of which it has one rank's part only, as far as a bounded
 * walk finds it. */
bool ck_rank_holds_part(const struct ck_pickle *p);
/* 1: v is such a value, *out is filled; 0: it is none; -EBADMSG: it is malformed,
 * d says what was expected and found; -ENOMEM; errors of the storages. Memory is bounded
 * as for the pickle itself. `storages` may be NULL: then a mesh of 2.1 has no rank. */
CK_MUST_USE int ck_rank_part_read(struct ck_pickle *p, const struct ck_pv *v,
				  const struct ck_rank_storages *storages,
				  struct ck_arena *arena,
				  struct ck_rank_part *out, struct ck_diag *d);
/* The local tensor that is there must be the one that the boxes are for: -EIO. */
CK_MUST_USE int ck_rank_piece_check(const struct ck_rank_part *part,
				    const struct ck_rank_piece *piece,
				    struct ck_str dtype, uint32_t ndim,
				    const int64_t *size, struct ck_diag *d);
/* The answer of a file, { CK_NO_RANK, 0, 0 } at first, with that of one more of its
 * values: of differing ones that of the largest mesh counts. */
void ck_rank_answer_join(struct ck_rank_answer *file,
			 const struct ck_rank_answer *value);

/* --- boxes -------------------------------------------------------------------- */

/* A tensor on a mesh. */
struct ck_rank_place {
	uint32_t ndim;
	const int64_t *shape;
	uint32_t nmesh;
	const struct ck_mesh_dim *mesh;
	const uint64_t *coordinate; /* nmesh, below the sizes */
	/* In which order the dimensions of the mesh cut: numbers of those that do,
	 * each once; NULL: as their placements have it. */
	const uint32_t *order;
	uint32_t norder;
};

/* Sets size and boxes of a piece. Memory is taken from what the input of p is worth.
 * -EBADMSG: a placement that the tensor cannot have, or too many boxes; -ENOMEM. */
CK_MUST_USE int ck_rank_boxes(struct ck_pickle *p,
			      const struct ck_rank_place *place,
			      struct ck_arena *arena, struct ck_rank_piece *out,
			      struct ck_diag *d);

/* --- names of files ----------------------------------------------------------- */

/* What the name of a file says. */
struct ck_rank_name {
	int64_t family; /* from 0; CK_RANK_NO_FAMILY */
	uint64_t
		number; /* of the run of digits in which the family differs; without
			  * one the last in the name; CK_NO_RANK: none, or too large */
	uint32_t at, len; /* of that run */
};

/* Finds the families among names of one directory: two or more that differ in one run of
 * digits only. Families are numbered by their first names in the given order. -ENOMEM. */
CK_MUST_USE int ck_rank_names(const struct ck_str *names, size_t n,
			      struct ck_rank_name *out, uint32_t *nfamilies);
/* The path part of a family: what stands before the number, without what only says that
 * it is one. May be empty. */
struct ck_str ck_rank_name_part(struct ck_str name,
				const struct ck_rank_name *of);
/* The name without its last extension. */
struct ck_str ck_rank_name_stem(struct ck_str name);
/* Is there a word in it that numbers of ranks have beside them? */
bool ck_rank_name_says_rank(struct ck_str name);

#endif
