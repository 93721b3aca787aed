/* SPDX-License-Identifier: MIT */
/*
 * entries: the contents of torch files on the way into the catalog. States of a row: read
 * (points into the pickle of its file), held (copied to the load's arena, so that the pickle
 * can be freed), shown (an entry of the catalog). Used by one thread, that of the load.
 */
#ifndef CK_ENTRIES_H
#define CK_ENTRIES_H

#include "../flat/said.h"
#include "../ranks/ranks.h"
#include "ckptfs/flat.h"
#include "ckptfs/table.h"
#include "own.h"
#include "torch_internal.h"

/* One pickle is in memory at a time. Facts that files have in common are stored once. */

/* A path in the nested state dict, of one or several files. */
struct ck_torch_path {
	struct ck_str key;		  /* the parts, joined by dots */
	const struct ck_path_part *parts; /* nparts, inside `key` */
	uint32_t nparts;
	uint32_t file;	/* number of the last file with it, + 1 */
	uint32_t group; /* of rows in ../ranks/load.c, + 1 */
};

/* The description of a whole tensor. */
struct ck_torch_spec {
	uint8_t kind;  /* enum ck_tensor_kind */
	bool partial;  /* each rank has a summand: there is no whole tensor */
	bool is_known; /* the dtype is */
	uint32_t ndim;
	struct ck_str dtype;	/* without "torch." */
	const int64_t *whole;	/* as one box: ndim zeros, then the shape */
	const int64_t *shape;	/* ndim, the second half of `whole` */
	const int64_t *last_at; /* `at` of the box that was held last */
	const struct ck_sharding *sharding; /* NULL: unknown */
};

/* A stored box of a tensor. */
struct ck_torch_box {
	const int64_t *at; /* ndim offsets, ndim sizes, in elements */
	/* ndim, in bytes; NULL: contiguous. */
	const uint64_t *strides;
	struct ck_item item;
};

/* A value that is not a tensor: a pickle of its own, and the locations of the storages that
 * it refers to. */
struct ck_torch_value {
	struct ck_str pickle;
	const struct ck_item *storages;
	uint32_t nstorages;
};

/* A reason why elements or a value cannot be read. */
struct ck_torch_lost {
	int err; /* positive; ENODATA: the tensor is on the device "meta" */
	const char *what;
	struct ck_torch_lost *next;
};

/* A leaf of the nested state dict of one file. */
struct ck_torch_row {
	struct ck_torch_path *path;
	/* NULL: a value that is not a tensor, or a malformed tensor. */
	const struct ck_torch_spec *spec;

	union {
		const struct ck_torch_box *boxes; /* nboxes */
		/* NULL: it cannot be read. Ranks with equal values share one. */
		const struct ck_torch_value *value;
	};

	struct ck_torch_lost *lost; /* list of losses, or NULL */
	uint32_t nboxes;
	uint32_t file; /* in files[] */
	uint32_t also; /* another file with this key, + 1; 0: only this one */
	uint32_t next; /* next row of its group, + 1; 0: the last one */
	bool is_value;
	bool shown;
	bool piece;  /* of a flat parameter: appears in local/ only */
	bool unread; /* malformed: becomes a line of damage */
};

/* A row of the file whose pickle is in memory. */
struct ck_torch_read {
	const struct ck_pv *value;
	/* One rank's part of a sharded tensor; NULL: not sharded. */
	const struct ck_rank_part *part;
};

/* A table of objects by text, each text once. Zero-initialise. */
struct ck_torch_known {
	struct ck_torch_known_as {
		struct ck_str text;
		void *is;
	} * all;

	size_t n, cap;
	struct ck_table table;
};

/* The owner of a shown name. */
struct ck_torch_shown {
	struct ck_str name;
	const struct ck_torch_row *row;
	uint32_t param; /* tensor made by a sidecar, + 1; 0: not one */
	uint32_t
		tried; /* `<name>~2` to `<name>~<tried>` are taken; 0: untried */
};

/* The bytes of a shown tensor, to find tensors that share them. */
struct ck_torch_bytes {
	struct ck_str what; /* location, dtype, shape and strides, as bytes */
	uint32_t tensor;    /* of the catalog */
};

/* A flat parameter of FSDP1, and the shards that the ranks have. */
struct ck_torch_flat {
	struct ck_str key, dtype;
	const struct ck_torch_path *path;
	uint64_t numel;
	uint32_t nshards;
	struct ck_flat_shard *shards; /* owned; the lowest rank's first */
};

struct ck_torch_load {
	struct ck_checkpoint *cp;
	struct ck_catalog *c;
	struct ck_diag *d;
	struct ck_torch_file *files; /* in their order */
	/* Bytes left of the memory budget that all files share. */
	uint64_t spare;
	size_t nfiles, files_cap;
	struct ck_dir_names paths; /* of each */
	bool by_rank; /* files of ranks: each file's `above` was set */
	bool beside; /* one file beside a checkpoint of another format, `above` as well */
	bool has_index;
	struct ck_index index; /* its files are the first ones of files */
	bool is_union;	       /* names of all files form one state dict */
	struct ck_arena arena;
	struct ck_torch_row *rows;
	size_t nrows, rows_cap;
	struct ck_torch_read *reads; /* of the file that is read */
	size_t nreads, reads_cap;
	struct ck_torch_known known_paths, known_specs, known_values;
	struct ck_buf text; /* scratch: the text of a path in known_paths */
	struct ck_torch_sums **sums; /* of records of files */
	size_t nsums, sums_cap;
	struct ck_torch_shown *shown;
	size_t nshown, shown_cap;
	struct ck_table names; /* numbers in shown */
	struct ck_torch_bytes *bytes;
	size_t nbytes, bytes_cap;
	struct ck_table same; /* numbers in bytes */
	struct ck_torch_flat *flats;
	size_t nflats, flats_cap;
	struct ck_flat_said said; /* the sidecar, with their parameters */
	uint64_t world; /* ranks that share them, from the files; 0: unknown */
	uint64_t given; /* rows of the catalog before this load */
	uint64_t made;	/* rows that the sidecar has added */
	struct ck_rank_trees *trees; /* ../ranks/state.c */
};

/* --- files.c ------------------------------------------------------------------------- */

/* Reads all files and their rows; an unreadable file becomes a line of damage. Returns 0, or:
 * -EBADMSG if no file can be read or one is dangerous; -ENOMEM; other errors of files. */
CK_MUST_USE int ck_torch_files_read(struct ck_torch_load *l);
/* Like ck_torch_files_read(), but without readable files it returns 0. *some: there is one. */
CK_MUST_USE int ck_torch_files_try(struct ck_torch_load *l, bool *some);

/* --- torch.c ---------------------------------------------------------------------------- */

/* Torch files of a directory by name and first bytes, in natural order. brief: only a few
 * names are looked at. Errors of open(2); -ENOMEM. */
CK_MUST_USE int ck_torch_names_find(struct ck_directory dir, bool brief,
				    struct ck_dir_names *out);
/* Adds a file by its name. */
CK_MUST_USE int ck_torch_file_add(struct ck_torch_load *l, const char *path);
/* Adds all of them; or the one file, or pieces of a state dict alone. */
CK_MUST_USE int ck_torch_files_find(struct ck_torch_load *l);
void ck_torch_load_fini(struct ck_torch_load *l);
/* What formats of such files have in common: */
bool ck_torch_is_part(const char *name);
uint64_t ck_torch_head(const struct ck_checkpoint *cp, uint32_t file);

/* --- rows.c -------------------------------------------------------------------------- */

/* Appends what is in a good file. -EBADMSG: nested too deep, or more than its size allows. */
CK_MUST_USE int ck_torch_rows_read(struct ck_torch_load *l, uint32_t file,
				   struct ck_str above, struct ck_diag *d);
/* All that is shown, into the catalog. */
CK_MUST_USE int ck_torch_rows_show(struct ck_torch_load *l);
/* What is in the catalog keeps its name, if that begins so: no row may have it. -ENOMEM. */
CK_MUST_USE int ck_torch_names_reserve(struct ck_torch_load *l,
				       struct ck_str prefix);
void ck_torch_rows_fini(struct ck_torch_load *l);
/* The key of a row, or if another path has it, one that is free. -ENOMEM. */
CK_MUST_USE int ck_torch_name_take(struct ck_torch_load *l,
				   const struct ck_torch_row *row,
				   struct ck_str *name);

/* --- zero.c -------------------------------------------------------------------------- */

/* Hides the empty tensors in files of DeepSpeed's ZeRO, and adds a note about them.
 * -ENOMEM. */
CK_MUST_USE int ck_torch_zero_note(struct ck_torch_load *l);

/* --- known.c ------------------------------------------------------------------------ */

/* Finds or adds the row of a text. (*as)->is of a new one is NULL; caller sets it. Returns 0,
 * or: -ENOMEM. */
CK_MUST_USE int ck_torch_known_find(struct ck_torch_known *k,
				    struct ck_arena *arena, struct ck_str text,
				    struct ck_torch_known_as **as);
void ck_torch_known_fini(struct ck_torch_known *k);
/* Replaces row->path by the load's copy of an equal path. *twice: the file already has a row
 * with it. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_torch_path_know(struct ck_torch_load *l,
				   struct ck_torch_row *row, bool *twice);
/* Fails with -EBADMSG: two entries have one path. */
int ck_torch_twice(const struct ck_torch_path *path, struct ck_diag *d);
/* The paths of rows from `first` on, each once: equal for equal paths only, with the types
 * of their parts. -EBADMSG: one file has two of them; -ENOMEM. */
CK_MUST_USE int ck_torch_paths_know(struct ck_torch_load *l, size_t first,
				    struct ck_diag *d);

/* --- hold.c ------------------------------------------------------------------------- */

/* What rows of a file are, from `first` on, so that its pickle can go. -ENOMEM. */
CK_MUST_USE int ck_torch_rows_hold(struct ck_torch_load *l, size_t first,
				   struct ck_diag *d);
CK_MUST_USE int ck_torch_lost_add(struct ck_torch_load *l,
				  struct ck_torch_row *row, int err,
				  struct ck_str what);

/* --- entries.c ---------------------------------------------------------------------- */

/* A row becomes an entry of this key. Malformed ones become a line of damage. -ENOMEM. */
CK_MUST_USE int ck_torch_entry_add(struct ck_torch_load *l,
				   const struct ck_torch_row *row,
				   struct ck_str key);
/* Begins a tensor that is what its row says. -ENOMEM. */
CK_MUST_USE int ck_torch_tensor_begin(struct ck_torch_load *l,
				      const struct ck_torch_row *row,
				      struct ck_str key);
/* A line of damage in place of an entry. */
CK_MUST_USE int ck_torch_row_lose(const struct ck_torch_load *l,
				  struct ck_str key,
				  const struct ck_torch_row *row,
				  struct ck_str what);
/* The path of the entry that was added last, whose key begins with the row's. */
CK_MUST_USE int ck_torch_path_add(const struct ck_torch_load *l,
				  const struct ck_torch_row *row);

/* --- ../ranks/join.c ------------------------------------------------------------ */

/* Rows of one path, each of another rank, the lowest first, become one entry. What one of
 * them lacks is a line of damage. -ENOMEM. */
CK_MUST_USE int ck_rank_rows_join(struct ck_torch_load *l,
				  const struct ck_torch_row *const *rows,
				  uint32_t n, struct ck_str key);
/* The same of pieces, which are no whole. named: the entry whose name they have; NULL: none
 * has it. -ENOMEM. */
CK_MUST_USE int ck_rank_pieces_join(struct ck_torch_load *l,
				    const struct ck_torch_row *const *rows,
				    uint32_t n, struct ck_str key,
				    const struct ck_entry_id *named);

/* --- values.c ----------------------------------------------------------------------- */

/* A value of a file, to keep. -ENOMEM. */
CK_MUST_USE int ck_torch_value_hold(struct ck_torch_load *l,
				    struct ck_torch_row *row,
				    const struct ck_pv *v);
/* ck_torch_entry_add() of what is no tensor. */
CK_MUST_USE int ck_torch_value_add(struct ck_torch_load *l,
				   const struct ck_torch_row *row,
				   struct ck_str key);
/* The same of what one rank has alone of the entry `of`, whose name it has. */
CK_MUST_USE int ck_torch_value_own(struct ck_torch_load *l,
				   const struct ck_torch_row *row,
				   struct ck_str key, struct ck_entry_id of);

#endif
