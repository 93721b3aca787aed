/* SPDX-License-Identifier: MIT */
/*
 * layout: where the boxes of one tensor lie. A format finds it, a mover reads
 * from it.
 */
#ifndef CKPTFS_LAYOUT_H
#define CKPTFS_LAYOUT_H

#include "ckptfs/model.h"

/* --- layout: where the boxes of one tensor lie ----------------------------- */

/* Values must be changed on the way: bits of ck_extent.change. */
enum ck_change {
	CK_CHANGE_SWAP = 1, /* bytes of each unit reversed */
	CK_CHANGE_CONJ = 2, /* imaginary unit negated */
	CK_CHANGE_NEG = 4,  /* each unit negated */
};

/* Where the elements of one box are: element i (an index in the box) starts
 * at pos + sum(i[d] * stride[d]). */
struct ck_extent {
	uint64_t pos;	       /* bytes, in the file or in memory */
	const uint8_t *memory; /* owned by the layout: the item after its
				* stream transforms; NULL: in the file */
	uint32_t file;	       /* number in catalog->files */
	uint16_t err;	       /* 0, or positive errno: this box cannot be
				* served */
	uint8_t change;	       /* enum ck_change */
	bool passing; /* err is of the moment: whoever asks again may know
				* more */
};

/* Complete without a catalog. Constant but for `touches`, and shared by all readers. */
struct ck_layout {
	uint32_t tensor;
	uint32_t n;	  /* boxes: all of the tensor's, or those of a window */
	uint64_t version; /* the tensor's, which it belongs to */
	uint32_t ndim;
	uint8_t dtype; /* ck_dtype_at() */
	bool faulty;   /* some box has err that is not passing, or some elements
			* are in no box */
	bool passing;  /* some extent is passing */
	uint16_t err;  /* 0, or the positive errno that every read answers; then
			* there are no boxes */
	uint16_t hole; /* positive errno of what is in no box; 0: ENODATA */
	uint16_t change; /* union of the extents' */
	/* Changes of ctime up to this one do not concern it, see ck_files_touches(). Atomic. */
	uint64_t touches;
	const uint64_t *shape;	   /* ndim, of the tensor */
	const int64_t *boxes;	   /* 2 * ndim for each: offsets, sizes; inside
				    * the tensor and disjoint */
	const uint32_t *order;	   /* numbers of boxes, sorted by offsets */
	const uint32_t *chunks;	   /* which of the tensor's each box is; NULL:
				    * box k is chunk k */
	struct ck_extent *extents; /* one for each box */
	uint64_t *strides; /* ndim for each box, bytes; NULL: elements of
				    * each are in C order without gaps */
	struct ck_box_fault **faults; /* what was found in the items: one for
				       * each box, each may be NULL; NULL: none */
};

/* Which chunk of its tensor a box of a layout is. */
static inline uint32_t ck_layout_chunk(const struct ck_layout *layout,
				       uint32_t box)
{
	return layout->chunks ? layout->chunks[box] : box;
}

/* Whether two layouts of the same boxes have all elements at the same places, with the same
 * bytes where they are in memory, and no faults. */
CK_MUST_USE bool ck_layout_is_same(const struct ck_layout *a,
				   const struct ck_layout *b);
/* Changes of ctime up to this one do not concern it either. Any thread. */
void ck_layout_renew(const struct ck_layout *layout, uint64_t touches);

static inline uint64_t ck_layout_touches(const struct ck_layout *layout)
{
	return __atomic_load_n(&layout->touches, __ATOMIC_ACQUIRE);
}

/* Whether a box of a layout has no elements. */
static inline bool ck_layout_box_is_empty(const struct ck_layout *layout,
					  uint32_t box)
{
	return ck_dims_have_zero(layout->boxes +
					 (2 * (size_t)box + 1) * layout->ndim,
				 layout->ndim);
}

/* Which box of a layout a chunk of its tensor is; false: none. */
CK_MUST_USE bool ck_layout_find(const struct ck_layout *layout, uint32_t chunk,
				uint32_t *box);

/* --- locator: where movers ask for layouts ----------------------------------- */

/* A range of a data file, len bytes. */
typedef void ck_range_use(void *arg, uint32_t file, uint64_t fpos,
			  uint64_t len);

struct ck_locator {
	/* Finds the boxes of a tensor that a window of it touches: ndim offsets,
	 * ndim sizes in elements; NULL: all. What is wrong with single boxes
	 * is in the layout, an error concerns all of them: -ESTALE (the tensor
	 * has another version by now), shortages of this process, -EREMOTE (it
	 * needs bytes of remote files: see ck_files_read()). Holds no lock while
	 * it reads files; may block on the source. Any thread. */
	int (*get)(struct ck_locator *l, uint32_t tensor,
		   const uint64_t *window, const struct ck_layout **out);
	void (*put)(struct ck_locator *l, const struct ck_layout *layout);
	/* Has `each` know from which ranges of data files bytes [begin, end) of such a
	 * window will be read, as far as can be said without a look at them: files
	 * may be read ahead by this, and nothing else. May be NULL. Any thread. */
	void (*guess)(struct ck_locator *l, uint32_t tensor,
		      const uint64_t *window, uint64_t begin, uint64_t end,
		      ck_range_use *each, void *arg);
	/* Whether the ctime of a file of the layout changed since the layout was found.
	 * Reads nothing. NULL: never. Any thread. */
	bool (*is_old)(struct ck_locator *l, const struct ck_layout *layout);
	/* As get, in place of such a layout, which the caller still has. NULL if is_old
	 * is. */
	int (*renew)(struct ck_locator *l, uint32_t tensor,
		     const uint64_t *window, const struct ck_layout **out);
};

#endif
