/* SPDX-License-Identifier: MIT */
/*
 * dcp_view: the contents of the view dcp/, in steps, each of which uses the previous one:
 * which entries it has (dcp_plan.c); the boxes of each rank of a layout, and from them the
 * sizes of all files (dcp_layout.c); the bytes of the file of a rank (dcp_file.c); the
 * bytes of `.metadata` (dcp_pickle.c), which are kept (dcp_texts.c). Plans and layouts are counted and constant; any
 * thread.
 */
#ifndef CK_DCP_VIEW_H
#define CK_DCP_VIEW_H

#include "model/local_box.h"
#include "model/place_rules.h"
#include "view/view_internal.h"

/* --- dcp_plan.c -------------------------------------------------------------------- */

/* A tensor or object of all layouts. */
struct ck_dcp_shown {
	uint32_t i; /* number of the tensor or object */
	/* Of a tensor with the same bytes as an earlier one: index of that entry, whose
	 * items it has; else CK_DCP_OWN. Of an object: index of its first piece. */
	uint32_t other;
	bool is_object;
	bool is_shared; /* a later tensor has its items */
};

#define CK_DCP_OWN UINT32_MAX

/* Consecutive bytes of an object. */
struct ck_dcp_piece {
	uint32_t object;
	/* Index of the part in the slice of the record, see ck_object_access.record;
	 * CK_DCP_IN_FILE: of a data file; CK_DCP_LOST: reads return `err`. */
	uint32_t part;
	uint32_t file;
	int err;
	uint64_t fpos;
	uint64_t len;
};

#define CK_DCP_IN_FILE UINT32_MAX
#define CK_DCP_LOST    (UINT32_MAX - 1)

/* The entries of one listing, which several generations of a catalog may have. */
struct ck_dcp_plan {
	struct ck_view_plan base;
	struct ck_dcp_shown *entries; /* in the order of the checkpoint */
	uint32_t n, nobjects;
	struct ck_dcp_piece *pieces; /* of the objects, in this order */
	uint32_t npieces;
	uint64_t objects; /* bytes of all pieces */
	struct ck_left_outs left_out;
	bool has_loss;	/* a piece is lost */
	bool has_paths; /* some entry has a path in the nested state dict */
	struct ck_object_access access; /* of the view */
	size_t piece_cap;		/* private */
};

/* Makes a plan, where `current` is the current one, or NULL. Of a DCP checkpoint it reads
 * only objects with stream transforms. Caller must call ck_view_plan_put(). Returns 0, or: -ENOMEM; -EOVERFLOW;
 * transient errors; -EREMOTE after the remote ranges of all objects were recorded. */
CK_MUST_USE int ck_dcp_plan_make(const struct ck_catalog *c,
				 const struct ck_object_access *access,
				 const struct ck_view_plan *current,
				 struct ck_dcp_plan **out);
/* True if a plan of the catalog may have entries. Does no I/O. */
bool ck_dcp_plan_has_some(const struct ck_catalog *c);
/* The key of an entry. */
struct ck_str ck_dcp_key(const struct ck_dcp_plan *p, uint32_t entry);
/* The bytes of an object. */
uint64_t ck_dcp_object_len(const struct ck_dcp_plan *p, uint32_t entry);

/* --- dcp_layout.c ------------------------------------------------------------------- */

/* The file of a rank. */
struct ck_dcp_file {
	uint64_t size;
	struct ck_view_facts facts;
};

/* A plan for the ranks of a spec, and facts of its files in one generation. */
struct ck_dcp_layout {
	unsigned refs; /* atomic */
	struct ck_dcp_plan *plan;
	const struct ck_catalog *c;
	uint32_t number; /* of the spec */
	struct ck_spec spec;
	const struct ck_place_rules *rules; /* or NULL */
	struct ck_dcp_lens *lens;	    /* private */
	uint64_t nboxes;
	struct ck_dcp_file metadata; /* its size is 0 */
	struct ck_dcp_file files[];  /* spec.ranks */
};

/* Most boxes of a layout: its `.metadata` would be larger than CK_DCP_METADATA_MOST, and a
 * spec of a million ranks must not occupy a thread for minutes. */
enum { CK_DCP_BOXES_MOST = 1 << 22 };

/* Makes a layout, which holds plan and catalog. Returns 0, or: -EFBIG if it has more than
 * CK_DCP_BOXES_MOST boxes; -ENOMEM; -EOVERFLOW. Caller must call ck_dcp_layout_put(). */
CK_MUST_USE int ck_dcp_layout_make(struct ck_dcp_plan *plan,
				   const struct ck_catalog *c, uint32_t number,
				   const struct ck_spec *spec,
				   const struct ck_place_rules *rules,
				   struct ck_dcp_layout **out);
struct ck_dcp_layout *ck_dcp_layout_hold(struct ck_dcp_layout *l);
void ck_dcp_layout_put(struct ck_dcp_layout *l); /* NULL is allowed */

/* A walk over the stored boxes of a tensor: by ascending rank, each once. */
struct ck_dcp_boxes {
	/* After ck_dcp_boxes_next(): */
	uint32_t rank;
	int64_t box[2 * CK_MAX_DIMS]; /* ndim offsets, then ndim sizes */
	/* Private: */
	struct ck_mesh_dim dims[CK_SPEC_DIMS];
	struct ck_box_walk walk;
	bool is_single; /* one box, of a tensor without elements */
};

/* Begins a walk. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_dcp_boxes_begin(const struct ck_dcp_layout *l,
				   uint32_t entry, struct ck_dcp_boxes *b);
CK_MUST_USE bool ck_dcp_boxes_next(struct ck_dcp_boxes *b);
/* Sets *has if the file of a rank has a box of a tensor, which is then b->box. Returns 0, or
 * -ENOMEM. */
CK_MUST_USE int ck_dcp_box_of(const struct ck_dcp_layout *l, uint32_t entry,
			      uint32_t rank, struct ck_dcp_boxes *b, bool *has);

/* Bytes of the archive of a box, before and behind its elements, and of these. */
struct ck_dcp_len {
	uint32_t head, tail;
	uint64_t data;
};

/* Lengths of archives that were made before, by dtype and shape. One thread at a time. */
struct ck_dcp_lens;
struct ck_dcp_lens *ck_dcp_lens_make(void); /* NULL: out of memory */
/* Returns 0, or: -ENOMEM; -EOVERFLOW. */
CK_MUST_USE int ck_dcp_len_of(struct ck_dcp_lens *lens, uint8_t dtype,
			      uint32_t ndim, const int64_t *size,
			      struct ck_dcp_len *out);

static inline uint64_t ck_dcp_len_sum(const struct ck_dcp_len *len)
{
	return len->head + len->data + len->tail;
}

/* --- dcp_file.c ------------------------------------------------------------------------ */

/* Makes the slice of the file of a rank. Returns 0, or: -ENOMEM; -EOVERFLOW. Caller must
 * call ck_slice_free(). */
CK_MUST_USE int ck_dcp_file_slice(const struct ck_dcp_layout *l, uint32_t rank,
				  struct ck_slice **out);

/* --- dcp_pickle.c ---------------------------------------------------------------------- */

/* Appends the bytes of `.metadata`. Returns 0, or: -EFBIG if they are more than `most`;
 * -ENOMEM; -EOVERFLOW. */
CK_MUST_USE int ck_dcp_metadata_print(const struct ck_dcp_layout *l,
				      uint64_t most, struct ck_buf *out);

/* --- dcp_texts.c ----------------------------------------------------------------------- */

/* Bytes of a `.metadata`, and of all that are kept. */
enum { CK_DCP_METADATA_MOST = 256 << 20 };

/* The bytes of a `.metadata`. Counted, constant. */
struct ck_dcp_text;

/* Texts that are kept: those in use, and of the others the last used ones, together up to
 * `most` bytes. Zero-initialise and set `most`. One thread at a time. */
struct ck_dcp_texts {
	uint64_t most;
	struct ck_dcp_text *first; /* private: the last used one */
};

void ck_dcp_texts_fini(struct ck_dcp_texts *s);
/* Finds or makes the text of a layout. Drops those of other plans that are not in use.
 * Caller must call ck_dcp_text_put(). Returns 0, or errors of ck_dcp_metadata_print(). */
CK_MUST_USE int ck_dcp_text_get(struct ck_dcp_texts *s,
				const struct ck_dcp_layout *l,
				struct ck_dcp_text **out);
void ck_dcp_text_put(struct ck_dcp_text *t); /* any thread */
uint64_t ck_dcp_text_len(const struct ck_dcp_text *t);
/* Makes a slice, which is a use. Takes the use of the caller, also on error. Returns 0, or
 * -ENOMEM. */
CK_MUST_USE int ck_dcp_text_slice(struct ck_dcp_text *t, struct ck_slice **out);

#endif
