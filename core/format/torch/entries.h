/* SPDX-License-Identifier: MIT */
/*
 * entries: the contents of torch files on the way into the catalog. States of a row:
 * read (points into the pickle of its file), held (copied to the arena of the load, so
 * that the pickle can be freed), shown (an entry of the catalog). Used by one thread,
 * that of the load.
 *
 * Functions that return int return 0, or: -ENOMEM; their comments name further errors.
 * One pickle is in memory at a time. Facts that several files share are stored once.
 */
#ifndef CK_ENTRIES_H
#define CK_ENTRIES_H

#include "ckptfs/table.h"
#include "format/flat/sidecar_source.h"
#include "format/ranks/ranks.h"
#include "model/catalog/flat.h"
#include "torch_internal.h"
#include "torch_state.h"

/* A path in the nested state dict, of one or several files. */
struct ck_torch_path {
	struct ck_str key;		  /* the parts, joined by dots */
	const struct ck_path_part *parts; /* nparts, inside `key` */
	uint32_t nparts;
	uint32_t file;	/* number of its last file, + 1; or 0 */
	uint32_t group; /* number of its group of rows in ranks_load.c, + 1 */
};

/* The description of a whole tensor. */
struct ck_torch_spec {
	uint8_t kind;  /* enum ck_tensor_kind */
	bool is_known; /* the dtype is known */
	const char
		*fault; /* why there is no whole tensor; NULL: there is one */
	uint32_t ndim;
	struct ck_str dtype;	/* without "torch." */
	const int64_t *whole;	/* as a box: ndim zeros, then the shape */
	const int64_t *shape;	/* ndim, the second half of `whole` */
	const int64_t *last_at; /* `at` of the box that was held last */
	const struct ck_sharding *sharding; /* NULL if unknown */
};

/* A stored box of a tensor. */
struct ck_torch_box {
	const int64_t *at; /* ndim offsets, ndim sizes, in elements */
	/* ndim strides, in bytes; NULL if contiguous. Equal ones are stored once. */
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
	/* NULL for a value that is not a tensor, and for a malformed tensor. */
	const struct ck_torch_spec *spec;

	union {
		const struct ck_torch_box *boxes; /* nboxes */
		/* NULL if it cannot be read. Ranks with equal values share one. */
		const struct ck_torch_value *value;
	};

	struct ck_torch_lost *lost; /* list of losses, or NULL */
	uint32_t nboxes;
	uint32_t file; /* in files[] */
	uint32_t also; /* another file with this key, + 1; 0 without one */
	uint32_t next; /* next row of its group, + 1; 0 at the last one */
	bool is_value;
	bool shown;
	bool piece;  /* of a flat parameter: appears in local/ only */
	bool unread; /* malformed: becomes a line of damage */
};

/* A row of the file whose pickle is in memory. */
struct ck_torch_read {
	const struct ck_pv *value;
	/* One rank's part of a sharded tensor; NULL if it is not sharded. */
	const struct ck_rank_part *part;
};

/* A map from texts to objects. Zero-initialise. */
struct ck_torch_intern {
	struct ck_torch_interned {
		struct ck_str text;
		void *is;
	} * all;

	size_t n, cap;
	struct ck_table table;
};

/* A name in the catalog, and the row that it belongs to. */
struct ck_torch_shown {
	struct ck_str name;
	const struct ck_torch_row *row;
	uint32_t param; /* tensor made by a sidecar, + 1; 0 for a row */
	/* `<name>~2` to `<name>~<tried>` are taken; 0 if not tried */
	uint32_t tried;
};

/* The bytes of a shown tensor, to find tensors that share them. */
struct ck_torch_bytes {
	const struct ck_torch_box *box;
	uint32_t tensor; /* of the catalog */
};

/* A flat parameter of FSDP1, and the shards that the ranks have. */
struct ck_torch_flat {
	struct ck_str key, dtype;
	const struct ck_torch_path *path;
	uint64_t numel;
	uint32_t nshards;
	struct ck_flat_shard *shards; /* owned; in the order of ranks */
};

struct ck_torch_load {
	struct ck_checkpoint *cp;
	struct ck_catalog *c;
	struct ck_diag *d;
	struct ck_torch_file *files; /* in their order */
	uint64_t spare; /* bytes left of the memory budget of all files */
	size_t nfiles, files_cap;
	struct ck_dir_names paths; /* of each */
	bool by_rank; /* the files are of ranks, and `above` of each is set */
	bool beside;  /* files beside a checkpoint, torch_beside.h */
	const struct ck_torch_layout *layout; /* torch_listed.h; or NULL */
	bool has_index;
	struct ck_index index; /* its files are the first ones in files */
	bool is_union;	       /* names of all files form one state dict */
	struct ck_arena arena;
	struct ck_torch_row *rows;
	size_t nrows, rows_cap;
	struct ck_torch_read *reads; /* of the file that is being read */
	size_t nreads, reads_cap;
	/* While files are read: */
	struct ck_torch_intern known_paths, known_specs, known_strides,
		known_values;
	struct ck_buf text; /* scratch: the text of a path in known_paths */
	struct ck_torch_sums **sums; /* of zip records, one for each file */
	size_t nsums, sums_cap;
	struct ck_torch_shown *shown;
	size_t nshown, shown_cap;
	struct ck_table names; /* numbers in shown */
	struct ck_torch_bytes *bytes;
	size_t nbytes, bytes_cap;
	struct ck_table same; /* numbers in bytes */
	struct ck_torch_flat *flats;
	size_t nflats, flats_cap;
	struct ck_sidecar_source source; /* the sidecar of their parameters */
	uint64_t world; /* number of ranks, from the files; 0 if unknown */
	uint64_t given; /* rows of the catalog before this load */
	uint64_t made;	/* rows that the sidecar added */
	struct ck_rank_trees *trees; /* ../ranks/state.c */
};

/* --- torch_files.c ---------------------------------------------------------------- */

/* Lists the torch files of a directory that `called` accepts, by name and first
 * bytes, in natural order. If `by_search`, reads only the first entries. Caller
 * frees `out`. Errors of open(2). */
CK_MUST_USE int ck_torch_names_find(struct ck_directory dir,
				    bool (*called)(const char *name),
				    bool by_search, struct ck_dir_names *out);
/* Adds a file by its name, relative to the checkpoint. */
CK_MUST_USE int ck_torch_file_add(struct ck_torch_load *l, const char *path);
void ck_torch_load_fini(struct ck_torch_load *l);
/* Reads all files and their rows; an unreadable file becomes a line of damage. -EBADMSG
 * if no file can be read or one is dangerous; transient errors of files. */
CK_MUST_USE int ck_torch_files_read(struct ck_torch_load *l);
/* Like ck_torch_files_read(), but returns 0 if no file can be read. Sets *some if a
 * file could be read. */
CK_MUST_USE int ck_torch_files_try(struct ck_torch_load *l, bool *some);
/* Adds all rows that were read to the catalog. */
CK_MUST_USE int ck_torch_entries_add(struct ck_torch_load *l);

/* --- torch.c ---------------------------------------------------------------------------- */

/* Adds the one file of the checkpoint, or the pieces of one state dict (is_union is
 * set), or else all torch files of the directory. Errors of ck_torch_names_find(). */
CK_MUST_USE int ck_torch_files_find(struct ck_torch_load *l);

/* --- torch_rows.c ----------------------------------------------------------------- */

/* Appends the rows of a file that was read; `above` is the prefix of all paths. Appends
 * no rows after an error: -EBADMSG if it is nested too deep, needs more memory than its
 * size allows, or has a path twice; transient errors of files. */
CK_MUST_USE int ck_torch_rows_read(struct ck_torch_load *l, uint32_t file,
				   struct ck_str above, struct ck_diag *d);
/* Adds the rows to the catalog: those that the index names, or without an index all
 * except for pieces of flat parameters. */
CK_MUST_USE int ck_torch_rows_show(struct ck_torch_load *l);
/* Reserves the names of all entries of the catalog: no row gets one. */
CK_MUST_USE int ck_torch_names_reserve(struct ck_torch_load *l);
void ck_torch_rows_fini(struct ck_torch_load *l);
/* Gives a row a name: its key, or `<key>~<n>` if another row has that name. */
CK_MUST_USE int ck_torch_name_take(struct ck_torch_load *l,
				   const struct ck_torch_row *row,
				   struct ck_str *name);

/* --- torch_intern.c ------------------------------------------------------- */

/* Finds or adds the row of a text. (*as)->is of a new one is NULL; caller sets it. */
CK_MUST_USE int ck_torch_intern_find(struct ck_torch_intern *k,
				     struct ck_arena *arena, struct ck_str text,
				     struct ck_torch_interned **as);
void ck_torch_intern_fini(struct ck_torch_intern *k);
/* Frees the maps and arrays that are needed while files are read only. */
void ck_torch_known_free(struct ck_torch_load *l);
/* Replaces row->path by the load's copy of an equal path. Sets *twice if the file
 * already has a row with it. */
CK_MUST_USE int ck_torch_path_know(struct ck_torch_load *l,
				   struct ck_torch_row *row, bool *twice);
/* Fails with -EBADMSG: two entries have one path. */
int ck_torch_twice(const struct ck_torch_path *path, struct ck_diag *d);
/* Replaces the paths of rows from `first` on by those of the load. Two rows get the
 * same path if key, parts and types of parts are equal. -EBADMSG if a file has a path
 * twice. */
CK_MUST_USE int ck_torch_paths_know(struct ck_torch_load *l, size_t first,
				    struct ck_diag *d);

/* --- torch_copy.c --------------------------------------------------------- */

/* Copies the rows of a file, from `first` on, from its pickle to the arena of the
 * load. */
CK_MUST_USE int ck_torch_rows_hold(struct ck_torch_load *l, size_t first,
				   struct ck_diag *d);

/* Appends a loss to a row. `err` is a positive errno; `what` is copied. */
CK_MUST_USE int ck_torch_lost_add(struct ck_torch_load *l,
				  struct ck_torch_row *row, int err,
				  struct ck_str what);

/* --- entries.c ---------------------------------------------------------------------- */

/* Adds an entry of this key to the catalog. A malformed row becomes a line of
 * damage. */
CK_MUST_USE int ck_torch_entry_add(struct ck_torch_load *l,
				   const struct ck_torch_row *row,
				   struct ck_str key);
/* Adds a tensor with dtype, shape and path of its row, but without boxes. */
CK_MUST_USE int ck_torch_tensor_begin(struct ck_torch_load *l,
				      const struct ck_torch_row *row,
				      struct ck_str key);
/* Adds a line of damage in place of an entry. */
CK_MUST_USE int ck_torch_row_lose(const struct ck_torch_load *l,
				  struct ck_str key,
				  const struct ck_torch_row *row,
				  struct ck_str what);
/* Adds the path of a row to the last entry of the catalog, whose key must begin with
 * the key of the row. */
CK_MUST_USE int ck_torch_path_add(const struct ck_torch_load *l,
				  const struct ck_torch_row *row);

/* --- ../ranks/ranks_join.c -------------------------------------------------------- */

/* Joins rows of one path, each of another rank, sorted by rank, into one entry. Lost
 * data of a row become a line of damage. */
CK_MUST_USE int ck_rank_rows_join(struct ck_torch_load *l,
				  const struct ck_torch_row *const *rows,
				  uint32_t n, struct ck_str key);
/* The same for pieces of flat parameters, which are shown in local/ only. named: the
 * entry whose name they get; NULL if they get a name of their own. */
CK_MUST_USE int ck_rank_pieces_join(struct ck_torch_load *l,
				    const struct ck_torch_row *const *rows,
				    uint32_t n, struct ck_str key,
				    const struct ck_entry_id *named);

/* --- torch_values.c --------------------------------------------------------------- */

/* Copies a value to the arena of the load, as a pickle of its own. A value that is too
 * large becomes a loss. Transient errors of files. */
CK_MUST_USE int ck_torch_value_hold(struct ck_torch_load *l,
				    struct ck_torch_row *row,
				    const struct ck_pv *v);
/* ck_torch_entry_add() for a value that is not a tensor. */
CK_MUST_USE int ck_torch_value_add(struct ck_torch_load *l,
				   const struct ck_torch_row *row,
				   struct ck_str key);
/* The same for a value of one rank under the name of entry `of`, in local/ only. */
CK_MUST_USE int ck_torch_value_own(struct ck_torch_load *l,
				   const struct ck_torch_row *row,
				   struct ck_str key, struct ck_entry_id of);

#endif
