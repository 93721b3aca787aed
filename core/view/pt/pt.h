/* SPDX-License-Identifier: MIT */
/*
 * pt: the file torch/checkpoint.pt, in steps, each of which uses the previous ones: its
 * entries and their paths (pt_paths.c), sorted as the nested state dict (pt_tree.c), its objects as pickles
 * (pt_objects.c), data.pkl (pt_pickle.c), the archive (pt_file.c). Everything is made at
 * the first lookup, without tensor data, and constant from then on; any thread.
 */
#ifndef CK_PT_H
#define CK_PT_H

#include "model/sections.h"
#include "view/view_internal.h"

/* --- pt_paths.c, pt_tree.c ---------------------------------------------------------------------- */

/* A value of the file. */
struct ck_pt_entry {
	struct ck_entry_id id;
	/* of a tensor its storage, of an object its number in ck_pt_objects */
	uint32_t n;
	/* Not 0: no entry of the checkpoint, but a value with a path of so many parts: the
	 * null at the end of a list whose last entries are left out, or the empty dict
	 * `state` beside the groups of an optimizer. The path is that of `id`, except for
	 * the part `state`. */
	uint16_t empty;
	bool is_null;
	/* Not 0: the key at level as_int - 1 is text, but is written as an int. */
	uint16_t as_int;
};

/* An optimizer of DCP: entries from `begin` on, as far as their paths have the first
 * `levels` parts in common. */
struct ck_pt_optimizer {
	uint32_t begin;
	uint32_t levels;
};

/* The entries as a tree: entries with a common path are adjacent. */
struct ck_pt_tree {
	const struct ck_catalog *c; /* held */
	char *root; /* names begin with it and a dot; "": all are shown */
	bool flat;  /* one dict with whole keys instead of paths */
	struct ck_pt_entry *entries;
	uint32_t n;
	struct ck_pt_optimizer *optimizers;
	uint32_t noptimizers;
	struct ck_left_outs left_out;	    /* names are of the listing */
	size_t entries_cap, optimizers_cap; /* private */
};

/* Chooses and sorts the entries. Caller must call ck_pt_tree_fini(), also after an error.
 * Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_pt_tree_make(struct ck_pt_tree *t,
				const struct ck_catalog *c,
				const struct ck_view_options *o);
void ck_pt_tree_fini(struct ck_pt_tree *t);
/* True if there would be any entry. Reads no object, allocates no memory. */
bool ck_pt_has_some(const struct ck_catalog *c,
		    const struct ck_view_options *o);
/* Returns why an entry of the listing cannot be in the file, a constant text, or NULL. Reads
 * no object. */
const char *ck_pt_refused(const struct ck_catalog *c, struct ck_entry_id id);
/* True if a root selects an entry, by its shown name. */
bool ck_pt_is_meant(const struct ck_catalog *c, const char *root,
		    struct ck_entry_id id);
/* Number of parts of the path of an entry in the file, and one of them. */
uint32_t ck_pt_levels(const struct ck_pt_tree *t, const struct ck_pt_entry *e);
struct ck_path_part ck_pt_part(const struct ck_pt_tree *t,
			       const struct ck_pt_entry *e, uint32_t level);
/* Number of leading parts that two paths have in common. */
uint32_t ck_pt_common(const struct ck_pt_tree *t, const struct ck_pt_entry *a,
		      const struct ck_pt_entry *b);

static inline bool ck_pt_is_same(const struct ck_path_part *a,
				 const struct ck_path_part *b)
{
	return a->type == b->type &&
	       ck_str_eq(ck_part_text(a), ck_part_text(b));
}

/* Value of the text of an index in a list. False above 2^31. */
bool ck_pt_index(const struct ck_path_part *part, uint32_t *out);
/* Value of the text of a key that is an int. False above 64 bits. */
bool ck_pt_int(const struct ck_path_part *part, int64_t *out);

/* --- pt_objects.c ------------------------------------------------------------------- */

/* The values of objects as parts of data.pkl. */
struct ck_pt_objects {
	struct ck_buf bytes;
	uint64_t *ends; /* in bytes */
	uint32_t n;
	uint32_t memo; /* the next memo number */
	size_t cap;    /* private */
};

/* Reads all objects of the tree; those that cannot be in the file become left out. Keys of
 * state become ints where parameters of an optimizer are. Caller must call
 * ck_pt_objects_fini(), also after an error. Returns 0, or: -ENOMEM; -EREMOTE if remote
 * ranges must be fetched first; transient errors of reading. */
CK_MUST_USE int ck_pt_objects_make(struct ck_pt_objects *o,
				   struct ck_pt_tree *t,
				   const struct ck_object_access *objects);
void ck_pt_objects_fini(struct ck_pt_objects *o);
struct ck_str ck_pt_object(const struct ck_pt_objects *o, uint32_t n);

/* --- pt_pickle.c -------------------------------------------------------------------- */

/* Names that data.pkl spells once: memo numbers below CK_PT_NAMES. */
enum { CK_PT_NAMES = 128 };

/* data.pkl: blocks that are generated, each with the value of an object behind it, or
 * nothing. */
struct ck_pt_pickle {
	const struct ck_pt_tree *tree;
	const struct ck_pt_objects *objects;
	uint32_t *firsts; /* of nblocks - 1 blocks the first entry; then n */
	uint64_t *lens;	  /* bytes of each block */
	uint32_t nblocks;
	uint32_t first[CK_PT_NAMES]; /* entry that spells a name */
	uint64_t len;		     /* bytes, with all objects */
};

/* Computes the blocks. Caller must call ck_pt_pickle_fini(), also after an error. Returns
 * 0, or: -ENOMEM. */
CK_MUST_USE int ck_pt_pickle_make(struct ck_pt_pickle *p,
				  const struct ck_pt_tree *tree,
				  const struct ck_pt_objects *objects);
void ck_pt_pickle_fini(struct ck_pt_pickle *p);
/* Appends a block. */
void ck_pt_block(const struct ck_pt_pickle *p, uint32_t block,
		 struct ck_buf *out);
/* Value behind a block; empty if there is no object. */
struct ck_str ck_pt_block_object(const struct ck_pt_pickle *p, uint32_t block);

/* --- pt_file.c ---------------------------------------------------------------------- */

/* The file of a listing. Constant. */
struct ck_pt_file {
	struct ck_sections_maker ops; /* first member */
	struct ck_pt_tree tree;
	struct ck_pt_objects objects;
	struct ck_pt_pickle pickle;
	uint32_t *tensors;  /* of the tree, in its order */
	uint32_t *shown;    /* objects, in its order */
	uint32_t *storages; /* of each storage a tensor that has its bytes */
	uint64_t *headers;  /* of each storage the position of its header */
	uint32_t ntensors, nshown, nstorages;
	uint64_t end; /* position behind the storages */
	uint64_t dir; /* position of the directory */
	uint64_t dir_end;
};

/* Makes the file. *sections owns *out. Caller must call ck_sections_put(). Returns 0, or:
 * errors of ck_pt_objects_make(); -EOVERFLOW. */
CK_MUST_USE int ck_pt_file_make(const struct ck_catalog *c,
				const struct ck_view_source *from,
				struct ck_pt_file **out,
				struct ck_sections **sections);

#endif
