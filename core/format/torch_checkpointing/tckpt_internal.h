/* SPDX-License-Identifier: MIT */
/*
 * tckpt_internal: shared by the files of the format torch_checkpointing. tckpt.c detects and
 * loads a checkpoint, tckpt_metadata.c reads metadata.pkl, tckpt_part.c computes the part that a
 * rank has of a tensor, tckpt_items.c reads files that are not torch files, tckpt_absent.c reports
 * tensors that are not in the files.
 *
 * An item is a value that the job saved under a name, such as "model". Each rank writes each
 * item to a file of its own. metadata.pkl lists the items that can be loaded by another number
 * of ranks: their files, and for each tensor mesh and placements, or boxes.
 *
 * Source: torch_checkpointing 0.1.0 and 0.1.1, distributed_metadata.py, dtensor_metadata.py,
 * default_metadata.py, checkpoint_layout.py. Used by one thread, that of the load.
 */
#ifndef CK_TCKPT_INTERNAL_H
#define CK_TCKPT_INTERNAL_H

#include "ckptfs/table.h"
#include "format/current/current_metadata.h"
#include "format/torch/torch_listed.h"

#define CK_TCKPT_METADATA "metadata.pkl"

/* Upper limit of the size of metadata.pkl, in bytes. */
#define CK_TCKPT_METADATA_MOST (UINT64_C(4) << 30)

/* How a file has its item. */
enum ck_tckpt_encoding {
	CK_TCKPT_TORCH,
	CK_TCKPT_SAFETENSORS,
	CK_TCKPT_JSON,
	CK_TCKPT_RAW,
	CK_TCKPT_UNKNOWN,
};

/* The file that a rank wrote for an item. */
struct ck_tckpt_file {
	struct ck_str name; /* empty: the default name */
	struct ck_str type; /* name of the encoding, for messages */
	enum ck_tckpt_encoding encoding;
};

struct ck_tckpt_item {
	struct ck_str name;
	struct ck_tckpt_file *files; /* one for each rank */
	/* Ranks that a path of the item lists: one bit for each rank. The package names
	 * a file for all ranks, whichever have the item. */
	uint8_t *promised;
	bool has_paths; /* else all ranks are promised */
};

/* A tensor that metadata.pkl lists. */
struct ck_tckpt_path {
	struct ck_str exact; /* its parts, each with its length */
	/* Its item with its length, and the parts below it joined by dots. */
	struct ck_str inner;
	struct ck_torch_path path;
	struct ck_pv groups; /* a sequence of { ranks, sharding_metadata } */
	/* The ranks whose files have it, as far as they were read: one bit for each
	 * rank. */
	uint8_t *have;
};

/* The contents of metadata.pkl. Zero-initialise. Constant after it was read, except for `have` of
 * its paths. */
struct ck_tckpt_metadata {
	struct ck_pickle pickle;
	struct ck_arena arena;
	uint64_t world; /* number of ranks */
	struct ck_tckpt_item *items;
	size_t nitems, items_cap;
	struct ck_tckpt_path *paths;
	size_t npaths, paths_cap;
	struct ck_table by_exact, by_inner; /* numbers of paths */
	struct ck_table by_item;	    /* numbers of items */
	struct ck_buf text; /* scratch: the exact text of a path */
};

/* --- tckpt_metadata.c ------------------------------------------------------------ */

/* Returns 1 if a pickle is that of a metadata.pkl of the package, of any version; else 0. */
int ck_tckpt_is_metadata(const struct ck_pickle *p);
/* Reads metadata.pkl, whose bytes must outlive *m. Caller must call ck_tckpt_metadata_fini(), also
 * after an error. Returns 0, or: -EBADMSG if it is malformed, of an unknown version, or names a
 * class or function; -ENOMEM. */
CK_MUST_USE int ck_tckpt_metadata_read(struct ck_tckpt_metadata *m,
				       struct ck_str bytes, struct ck_diag *d);
void ck_tckpt_metadata_fini(struct ck_tckpt_metadata *m);
/* Writes the first n parts of a path to m->text so that different paths give different texts.
 * The text is valid until the next call; m->text.err is set if memory is short. */
struct ck_str ck_tckpt_exact(struct ck_tckpt_metadata *m,
			     const struct ck_path_part *parts, uint32_t n);
/* Finds a path with all its parts. NULL if metadata.pkl has no such path, or memory is short. */
struct ck_tckpt_path *ck_tckpt_path_find(struct ck_tckpt_metadata *m,
					 const struct ck_torch_path *path);
/* Finds a path of an item by its parts below the item, joined by dots. NULL if there is no such
 * path, or memory is short. */
struct ck_tckpt_path *ck_tckpt_inner_find(struct ck_tckpt_metadata *m,
					  struct ck_str item,
					  struct ck_str below);
/* Returns the number of an item, or -1. */
int64_t ck_tckpt_item_find(const struct ck_tckpt_metadata *m,
			   struct ck_str name);

/* --- tckpt_groups.c -------------------------------------------------------------- */

/* Reads group i of a path. False if it is malformed. */
CK_MUST_USE bool ck_tckpt_group_take(const struct ck_tckpt_path *path,
				     uint32_t i, struct ck_pv *ranks,
				     struct ck_pv *sharding);
/* Returns the number of groups of a path that have a mesh. */
uint32_t ck_tckpt_meshes(const struct ck_tckpt_path *path);
/* Calls each() for the ranks of all groups of a path, until it returns a value other than 0, which is
 * returned. A malformed rank is INT64_MAX. for_all: the group has the record of a plain tensor, which
 * the package writes for all ranks, whichever have the tensor. */
int ck_tckpt_ranks_each(const struct ck_tckpt_path *path,
			int (*each)(void *arg, uint64_t rank, bool for_all),
			void *arg);
/* Sets ck_tckpt_item.promised of all items. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_tckpt_promised_find(struct ck_tckpt_metadata *m);

/* --- tckpt_part.c ---------------------------------------------------------------- */

/* A tensor as a file has it. */
struct ck_tckpt_local {
	const struct ck_pv *value; /* in a pickle; NULL for another file */
	/* The part in the value itself; NULL for a plain tensor. */
	const struct ck_rank_part *own;
	bool is_plain; /* it is not a DTensor; false if that is not known */
	struct ck_str dtype;
	uint32_t ndim;
	const int64_t *size;
};

/* Mesh and ranks that were found last: usually all tensors have the same ones. Zero-initialise. */
struct ck_tckpt_seen {
	const void *ranks, *mesh, *shape; /* identities of values */
	uint64_t rank;			  /* of both */
	bool has;			  /* the ranks contain it */
	bool inside;			  /* the mesh contains it, at: */
	uint64_t coordinate[CK_RANK_MESH_DIMS];
};

/* Sets *out to the part that a rank has of a tensor by metadata.pkl; NULL if it does not list the
 * tensor for this rank. budget: a pickle whose budget is charged. A description that does not fit
 * the tensor becomes out->fault or out->bad. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_tckpt_part(const struct ck_tckpt_path *path, uint64_t rank,
			      const struct ck_tckpt_local *local,
			      struct ck_tckpt_seen *seen,
			      struct ck_pickle *budget, struct ck_arena *arena,
			      const struct ck_rank_part **out);
/* Sets *out to a part that is a whole plain tensor. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_tckpt_whole(const struct ck_tckpt_local *local,
			       struct ck_pickle *budget, struct ck_arena *arena,
			       const struct ck_rank_part **out);

/* --- tckpt_items.c --------------------------------------------------------------- */

/* A file of `torch`: its item, and the rank that wrote it. */
struct ck_tckpt_of {
	uint32_t item; /* number; numbers behind metadata's are not listed */
	uint64_t rank;
	enum ck_tckpt_encoding encoding;
	struct ck_str type; /* as in ck_tckpt_file */
};

/* A file that metadata.pkl names. */
struct ck_tckpt_listed {
	struct ck_tckpt_of of;
	struct ck_str name; /* terminated */
};

/* The load of a checkpoint. */
struct ck_tckpt_load {
	struct ck_torch_load torch; /* rows of all files */
	struct ck_tckpt_metadata metadata;
	struct ck_metadata_text text; /* of metadata.pkl */
	struct ck_torch_layout layout;
	struct ck_tckpt_seen seen;
	struct ck_tckpt_of *files; /* for each file of `torch` */
	size_t nfiles, files_cap;
	struct ck_tckpt_listed *listed;
	size_t nlisted, listed_cap;
	struct ck_dir_names found; /* torch files with default names */
	struct ck_str *items;	   /* names; listed ones are the first */
	size_t nitems, items_cap;
	struct ck_arena names; /* of files and items */
};

/* Reads file i, which is not a torch file. A file that cannot be read becomes a line of damage.
 * Returns 0, or: -ENOMEM; transient errors of files. */
CK_MUST_USE int ck_tckpt_item_read(struct ck_tckpt_load *t, uint32_t i);

/* --- tckpt_absent.c -------------------------------------------------------------- */

/* Adds a line of damage for each tensor that metadata.pkl lists and a file lacks, after all files
 * were read. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_tckpt_absent_report(struct ck_tckpt_load *t);

#endif
