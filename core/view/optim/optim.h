/* SPDX-License-Identifier: MIT */
/*
 * optim: the contents of the view optim/, in steps, each of which uses the previous
 * one: the place of one entry in the state dict of an optimizer (optim_find.c); all
 * optimizers of a catalog, with the parameters that their groups list
 * (optim_trees.c); the names of parameters, which separate the parts of a flattened
 * key (optim_names.c); directories and files (optim_map.c); the text of
 * param_groups.json (optim_groups.c). A map is constant; any thread.
 */
#ifndef CK_OPTIM_H
#define CK_OPTIM_H

#include "ckptfs/table.h"
#include "view/view_internal.h"

struct ck_hf_chosen; /* hf.h */

/* --- optim_find.c ------------------------------------------------------------------- */

enum ck_optim_what { CK_OPTIM_STATE, CK_OPTIM_GROUP };

/* The place of an entry in the state dict of an optimizer: a tree. */
struct ck_optim_at {
	uint8_t what; /* enum ck_optim_what */
	/* the tree is the whole checkpoint, which has no name of an optimizer */
	bool is_top;
	/* a flattened tree: one part has a text such as "state.<fqn>.<name>" */
	bool is_flat;
	bool is_empty; /* of state: there is no name behind the parameter */
	/* Parts of the path: of the tree; up to the first one behind "state" or
	 * "param_groups". Of a flattened tree `part` has the text. */
	uint32_t tree, part;
	struct ck_str rest; /* of a flattened tree: the text behind "state." */
	struct ck_str key; /* key of the tree, if the entry has one part only */
};

/* Finds an entry in an optimizer. False if it is in no optimizer. */
bool ck_optim_find(const struct ck_entry *e, struct ck_optim_at *out);
/* Appends the key of its tree. */
void ck_optim_tree_key(const struct ck_entry *e, const struct ck_optim_at *at,
		       struct ck_buf *out);

/* The entry of a number in the listing, if a view of whole entries shows it; or
 * NULL. */
const struct ck_entry *ck_optim_entry(const struct ck_catalog *c, size_t i);

/* A number for each row: files of optim/ have it. */
static inline uint32_t ck_optim_code(struct ck_entry_id e)
{
	return 2 * e.i + e.is_object;
}

static inline struct ck_entry_id ck_optim_id(uint32_t code)
{
	return (struct ck_entry_id){ code / 2, code % 2 };
}

/* --- optim_trees.c ------------------------------------------------------------------ */

/* A parameter in the lists of groups. */
struct ck_optim_param {
	uint64_t id;
	struct ck_str name;
};

struct ck_optim_tree {
	struct ck_str key;
	/* An entry of a group: in groups [group, group + ngroups) of the found. */
	uint32_t group, ngroups;
	bool is_top;
	bool is_flat;		 /* its groups are those of a flattened tree */
	bool is_numbered;	 /* they are, but have numbers, not names */
	bool has_ids, has_names; /* the groups list ids, or names */
	/* Parameters with id and name, if the groups give both: [param, param +
	 * nparams) of the found. */
	uint32_t param, nparams;
	/* It has state, and no by-name/ or no by-id/; set by the map. */
	bool lacks_names, lacks_ids;
};

/* An entry of a group: its index in the listing, and its tree. */
struct ck_optim_row {
	uint32_t entry, tree;
};

/* All optimizers of a catalog. */
struct ck_optim_found {
	const struct ck_catalog *c; /* held */
	struct ck_optim_tree *trees;
	struct ck_optim_row
		*groups; /* by tree, then in the order of the listing */
	struct ck_optim_row *states; /* in the order of the listing */
	struct ck_optim_param *params;
	uint32_t ntrees, ngroups, nstates, nparams;
	/* Private: */
	struct ck_table table; /* of trees */
	size_t trees_cap, groups_cap, states_cap, params_cap;
	struct ck_arena text;
};

/* True if some entry is in an optimizer. Reads nothing. */
bool ck_optim_has_some(const struct ck_catalog *c);
/* Finds all optimizers, and reads the lists `params` and `param_names` of their
 * groups. A list that is damaged counts as absent. Caller must call
 * ck_optim_found_free(). Returns 0, or: -ENOMEM; a transient error. */
CK_MUST_USE int ck_optim_found_make(const struct ck_catalog *c,
				    const struct ck_object_access *objects,
				    struct ck_optim_found **out);
void ck_optim_found_free(struct ck_optim_found *f); /* NULL is allowed */

/* --- optim_names.c ------------------------------------------------------------------ */

/* Names of parameters that are known from the model or from groups. */
struct ck_optim_names {
	struct ck_texts known;
	struct ck_hf_chosen *model; /* owns the names of the model */
};

/* Collects the names. Caller must call ck_optim_names_fini(), also after an error.
 * Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_optim_names_make(const struct ck_optim_found *f,
				    const struct ck_view_options *o,
				    struct ck_optim_names *out);
void ck_optim_names_fini(struct ck_optim_names *names);
/* Separates the name of the parameter and the rest in the text of a flattened tree.
 * Either of them may have no bytes. names may be NULL. */
void ck_optim_split(const struct ck_optim_names *names, struct ck_str text,
		    struct ck_str *fqn, struct ck_str *rest);
/* The same of state, where the keys of Megatron have the parameter last. */
void ck_optim_split_state(const struct ck_optim_names *names,
			  struct ck_str text, struct ck_str *fqn,
			  struct ck_str *rest);

/* --- optim_shared.c ----------------------------------------------------------------- */

/* A name of a tensor of the model that has several. */
struct ck_optim_same {
	struct ck_str name;
	uint32_t of, at; /* the first tensor; position in the model */
	uint32_t begin;	 /* index of the first name of the tensor */
	uint32_t mark;	 /* of the first name: 1 + tree in which it was found */
};

struct ck_optim_shared {
	struct ck_optim_same *all; /* names of one tensor behind each other */
	uint32_t n;
	uint32_t left; /* names that may still be found in all: a limit */
	struct ck_table table;
	/* Names that the groups of the present tree list. */
	struct ck_texts listed;
};

/* True if any tensor has several names. */
bool ck_optim_some_are_shared(const struct ck_catalog *c);
/* Collects the names of shared tensors. model: NULL if it has none. Caller must call
 * ck_optim_shared_fini(), also after an error. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_optim_shared_make(const struct ck_catalog *c,
				     const struct ck_hf_chosen *model,
				     struct ck_optim_shared *out);
void ck_optim_shared_fini(struct ck_optim_shared *s);
/* Sets s->listed to the names that the groups of a tree list, nested or flattened. Returns 0, or
 * -ENOMEM. */
CK_MUST_USE int ck_optim_shared_list(struct ck_optim_shared *s,
				     const struct ck_optim_found *f,
				     uint32_t tree,
				     const struct ck_optim_names *names);
/* The *n names of the tensor of a name; NULL if it is the only one, or if they were
 * found before in this tree. */
const struct ck_optim_same *ck_optim_shared_find(struct ck_optim_shared *s,
						 struct ck_str name,
						 uint32_t tree, uint32_t *n);

/* --- optim_keys.c ------------------------------------------------------------------- */

enum { CK_OPTIM_NONE = UINT32_MAX };

struct ck_optim_file {
	uint32_t code; /* ck_optim_code() */
	uint32_t name; /* index in names */
};

/* A parameter that has state: a key of the dict "state". */
struct ck_optim_key {
	struct ck_str text;
	struct ck_str name; /* of the parameter, if has_name */
	uint64_t number;    /* text as a number; the id, if has_id */
	uint32_t tree;
	uint32_t file, nfiles; /* its files: [file, file + nfiles) */
	bool is_int;	       /* the key is an int of Python */
	bool is_number, has_id, has_name;
};

/* All state: keys, and a file for each entry. Files of one key are in the order of the
 * checkpoint. */
struct ck_optim_keys {
	struct ck_optim_key *all; /* in the order of the checkpoint */
	struct ck_optim_file *files;
	/* the indexes of each key's files, sorted by code, and by name */
	uint32_t *by_code, *by_name;
	struct ck_texts names; /* of files */
	uint32_t n, nfiles;
	size_t cap; /* private */
};

/* Makes keys and files of the states of `f`. names may be NULL. Caller must call
 * ck_optim_keys_fini(), also after an error. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_optim_keys_make(const struct ck_optim_found *f,
				   const struct ck_optim_names *names,
				   struct ck_optim_keys *out);
void ck_optim_keys_fini(struct ck_optim_keys *k);
/* The index of a file among [file, file + n); CK_OPTIM_NONE if none has that name, or
 * that code. */
uint32_t ck_optim_file_named(const struct ck_optim_keys *k, uint32_t file,
			     uint32_t n, struct ck_str name);
uint32_t ck_optim_file_of(const struct ck_optim_keys *k, uint32_t file,
			  uint32_t n, uint32_t code);

/* --- optim_map.c -------------------------------------------------------------------- */

/* A directory. Its children are [first, first + n) in the directories, or, of a
 * parameter, in the files. */
struct ck_optim_dir {
	uint32_t number; /* of its path */
	uint32_t parent;
	uint32_t first, n;
	uint32_t tree; /* whose param_groups.json it has; or CK_OPTIM_NONE */
	bool has_files;
};

/* The directories and files of one listing. */
struct ck_optim_map {
	struct ck_optim_found *found;
	struct ck_optim_keys keys;
	struct ck_optim_dir *dirs; /* the first is optim/ */
	uint32_t *of_number;	   /* directory of a path; or CK_OPTIM_NONE */
	uint32_t ndirs, nnumbers;
	size_t dirs_cap, numbers_cap; /* private */
};

/* Makes the map of the optimizers, and adds its paths below optim/, which is number 0. Takes `found`, also after an
 * error. Returns 0, or: -ENOMEM. Caller must call ck_optim_map_free(). */
CK_MUST_USE int ck_optim_map_make(struct ck_optim_found *found,
				  const struct ck_view_options *o,
				  struct ck_texts *paths,
				  struct ck_optim_map **out);
void ck_optim_map_free(struct ck_optim_map *m); /* NULL is allowed */
/* Appends lines of `status`: which directories are absent, and why. */
void ck_optim_map_status(const struct ck_optim_map *m, struct ck_buf *out);

/* --- optim_groups.c ----------------------------------------------------------------- */

/* Appends the text of param_groups.json. Returns 0, or: -ENOMEM; errors of reading
 * the values. */
CK_MUST_USE int ck_optim_groups_print(const struct ck_optim_found *f,
				      const struct ck_optim_tree *t,
				      const struct ck_view_options *o,
				      const struct ck_object_access *objects,
				      struct ck_buf *out, bool *transient);

#endif
