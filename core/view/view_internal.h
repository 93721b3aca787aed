/* SPDX-License-Identifier: MIT */
/*
 * view_internal: the views, and their common functions.
 */
#ifndef CK_VIEW_INTERNAL_H
#define CK_VIEW_INTERNAL_H

#include "ckptfs/view.h"

extern const struct ck_tensor_view ck_view_full, ck_view_raw, ck_view_f32;
extern const struct ck_view ck_view_local, ck_view_hf, ck_view_torch,
	ck_view_sharded, ck_view_optim;
extern const struct ck_view ck_view_dcp;

/* The functions of struct ck_view (view.h) for views with one file for each tensor. An
 * entry is the number of a tensor. Any thread. */
#define CK_TENSOR_VIEW                                                         \
	.lookup = ck_tensors_lookup, .next = ck_tensors_next,                  \
	.name = ck_tensors_name, .stat = ck_tensors_stat,                      \
	.slice = ck_tensors_slice, .count = ck_tensors_count

int ck_tensors_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
		      struct ck_str name, struct ck_child *out);
int ck_tensors_next(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint64_t *at, struct ck_child *out);
/* ck_tensors_next() of the tensors that pass a test. */
int ck_tensors_next_of(const struct ck_catalog *c,
		       bool (*is_shown)(const struct ck_catalog *, uint64_t),
		       uint64_t *at, struct ck_child *out);
void ck_tensors_name(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_buf *out);
int ck_tensors_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_file_content *out);
int ck_tensors_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_slice **out);
uint64_t ck_tensors_count(const struct ck_catalog *c, const void *state);

/* True if a tensor is a flat parameter of FSDP1, by its kind or by its name. */
bool ck_view_is_flat(const struct ck_catalog *c, uint32_t tensor);
/* True if part of a key is the usual name of an optimizer. */
bool ck_view_is_optimizer(struct ck_str name);
/* True if a name begins with the root and a dot, or the root is empty. */
bool ck_view_is_below(struct ck_str name, const char *root);
/* Returns the text before the first dot. */
struct ck_str ck_view_word(struct ck_str text);
/* True for a text that Python can read from a pickle: UTF-8, in which surrogates have three
 * bytes, as of surrogatepass. */
bool ck_view_is_text(struct ck_str s);
/* Returns why a tensor cannot be in a file of torch.save, a constant text, or NULL. The
 * tensor must be an entry of the listing; torch/ and dcp/ show those with NULL. The items
 * of a shown tensor may still be damaged, and its ranks may turn out to hold different
 * values: then the reads of its bytes fail. */
const char *ck_view_left_out(const struct ck_catalog *c, uint32_t tensor);

/* Entries that a view leaves out. Zero-initialise; free `all`. */
struct ck_left_outs {
	struct ck_left_out *all;
	uint32_t n;
	size_t cap; /* private */
};

/* Appends an entry that is left out. Texts must be valid as long as the list. Returns 0, or
 * -ENOMEM. */
CK_MUST_USE int ck_left_outs_add(struct ck_left_outs *l, struct ck_str name,
				 const char *why);
/* Appends lines of `status`: `<view>: left out: <name>: <why>`. */
void ck_left_outs_print(const struct ck_left_outs *l, const char *view,
			struct ck_buf *out);
/* Appends the value of an object to p->out, which begins empty or with other values; p is
 * restricted. Returns 0, and sets *why to a constant text if the value cannot be in a file
 * of torch.save, or NULL; or: -ENOMEM; -EREMOTE if remote ranges must be fetched first;
 * transient errors of reading. Nothing is appended with *why or an error. */
struct ck_pickler;
CK_MUST_USE int ck_view_object(const struct ck_object_access *objects,
			       uint32_t object, struct ck_pickler *p,
			       const char **why);
/* Appends a line, without its end, about rules of placements= that decide for no tensor; or
 * nothing. */
void ck_view_place_note(const struct ck_view_options *o,
			const struct ck_catalog *c, struct ck_buf *out);
/* Parses the rank in `rank-<r>`. False for another name, or leading zeros. */
bool ck_view_rank_in(struct ck_str name, uint64_t *rank);
/* Parses a number of at most 18 digits, without leading zeros. */
bool ck_view_number(struct ck_str text, uint64_t *number);
/* Parses the number between a prefix and a suffix, which are all of the name but it. */
bool ck_view_number_in(struct ck_str name, struct ck_str prefix,
		       struct ck_str suffix, uint64_t *number);

/* What a view makes of a listing, and keeps for all generations of the catalog that have
 * it: the first member of a plan. Counted; functions that take void * take the plan. */
struct ck_view_plan {
	unsigned refs;		    /* atomic */
	const struct ck_catalog *c; /* held: one that has the listing */
	/* Lowest version of its files: 0 in the first plan of a view, whose files have the
	 * versions of their tensors; later the generation that it was made for. */
	uint64_t born;
	void (*free)(void *plan);
};

/* Begins a plan of the catalog, where `current` is the current one of the view, or NULL.
 * From then on the caller must call ck_view_plan_put(). */
void ck_view_plan_begin(struct ck_view_plan *p,
			const struct ck_view_plan *current,
			const struct ck_catalog *c, void (*free)(void *plan));
void *ck_view_plan_hold(void *plan);
void ck_view_plan_put(void *plan); /* NULL is allowed */
/* Returns the current plan, held, if it is that of the catalog; else NULL. */
void *ck_view_plan_of(struct ck_view_plan *current, const struct ck_catalog *c);
/* Makes a plan the current one, unless that is of a later generation. */
void ck_view_plan_keep(struct ck_view_plan **current, struct ck_view_plan *p);

/* Access rights, time and version of a file of several items. */
struct ck_view_facts {
	mode_t mode;
	struct timespec mtime;
	uint64_t version;
};

/* Adds those of an item, and those of an entry; an object has no version. */
void ck_view_facts_add(struct ck_view_facts *f, mode_t mode,
		       struct timespec mtime, uint64_t version);
void ck_view_facts_of(struct ck_view_facts *f, const struct ck_catalog *c,
		      struct ck_entry_id id);

/* True if the bytes of the tensor can be counted. If not (a dtype without whole
 * bytes per element, or an impossible shape), its files have size 0 and no
 * part, and t->err is the reason. */
bool ck_view_has_bytes(const struct ck_tensor *t);

/* The contents of the file of one tensor, or of one box of it. */
struct ck_view_part {
	struct ck_str literal; /* bytes before the elements; may be empty */
	bool has_tensor;       /* false: no elements can be shown */
	uint32_t tensor;
	uint8_t from;	 /* as in struct ck_part */
	uint64_t nbytes; /* of the elements, as shown */
	/* ndim offsets, then ndim sizes, as in catalog->boxes, within the
	 * tensor; NULL for the whole tensor. */
	const int64_t *box;
	uint32_t ndim;
};

/* The slice of a file whose items are located and checked at open(2). Returns 0
 * or -ENOMEM. */
CK_MUST_USE int ck_view_slice_make(const struct ck_view_part *p,
				   struct ck_slice **out);
/* Completes *out, whose construction returned rc, with the error of the tensor.
 * With inconsistent boxes the open must fail: *out is freed and -t->err
 * returned. A dtype that cannot be shown (EBADMSG) is stored in the slice: the
 * file has size 0, and each read fails. */
CK_MUST_USE int ck_view_slice_checked(const struct ck_tensor *t, int rc,
				      struct ck_slice **out);

#endif
