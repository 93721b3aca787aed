/* SPDX-License-Identifier: MIT */
/*
 * layout: the location of the boxes of one tensor. A format finds it, the I/O
 * engine reads from it. Needs no catalog. Constant but for `touches`; any
 * thread.
 */
#ifndef CKPTFS_LAYOUT_H
#define CKPTFS_LAYOUT_H

#include "ckptfs/model.h"

/* --- layout: where the boxes of one tensor lie ----------------------------- */

/* Changes of values during a read: bits of ck_extent.change. */
enum ck_change {
	CK_CHANGE_SWAP = 1, /* reverse the bytes of each unit */
	CK_CHANGE_CONJ = 2, /* negate the imaginary unit */
	CK_CHANGE_NEG = 4,  /* negate each unit */
};

/* Location of the elements of one box: element i (an index in the box) starts at
 * pos + sum(i[d] * stride[d]). */
struct ck_extent {
	/* bytes from the begin of the file, or of `memory` */
	uint64_t pos;
	/* the item after its stream transforms, owned by the layout; NULL: elements
	 * are in the file */
	const uint8_t *memory;
	uint32_t file; /* index in catalog->files */
	/* 0, or the positive errno of a box that cannot be served */
	uint16_t err;
	uint8_t change; /* enum ck_change */
	bool transient; /* `err` is transient: locating again may succeed */
};

/* Shared by all readers. Constant but for `touches`. */
struct ck_layout {
	uint32_t tensor;
	uint32_t n;	  /* boxes: all of the tensor, or those in a window */
	uint64_t version; /* version of the tensor */
	uint32_t ndim;
	uint8_t dtype; /* ck_dtype_at() */
	/* a box has a permanent err, or some elements are in no box */
	bool faulty;
	bool transient; /* some extent has a transient err */
	/* 0, or the positive errno of every read; there are no boxes then */
	uint16_t err;
	uint16_t hole;	 /* positive errno of elements in no box; 0: ENODATA */
	uint16_t change; /* union of ck_extent.change */
	/* Atomic: the layout accounts for ctime changes up to this one, see
	 * ck_files_touches(). */
	uint64_t touches;
	const uint64_t *shape; /* shape of the tensor, ndim */
	/* ndim offsets and ndim sizes for each box, in elements; inside the tensor
	 * and disjoint */
	const int64_t *boxes;
	const uint32_t *order; /* indexes of the boxes, sorted by offsets */
	/* index in the tensor for each box; NULL: box k is chunk k */
	const uint32_t *chunks;
	struct ck_extent *extents; /* one for each box */
	/* ndim for each box, in bytes; NULL: elements of each are in C order
	 * without gaps */
	uint64_t *strides;
	/* Faults found in the items, one for each box or NULL; NULL: no faults. */
	struct ck_box_fault **faults;
};

/* Index of a box of a layout in its tensor. */
static inline uint32_t ck_layout_chunk(const struct ck_layout *layout,
				       uint32_t box)
{
	return layout->chunks ? layout->chunks[box] : box;
}

/* True if two layouts of the same boxes have equal locations of all elements, equal
 * bytes in memory, and no faults. */
CK_MUST_USE bool ck_layout_is_same(const struct ck_layout *a,
				   const struct ck_layout *b);
/* Raises `touches`; a lower value has no effect. Any thread. */
void ck_layout_renew(const struct ck_layout *layout, uint64_t touches);

static inline uint64_t ck_layout_touches(const struct ck_layout *layout)
{
	return __atomic_load_n(&layout->touches, __ATOMIC_ACQUIRE);
}

/* True if a box of a layout has no elements. */
static inline bool ck_layout_box_is_empty(const struct ck_layout *layout,
					  uint32_t box)
{
	return ck_dims_have_zero(layout->boxes +
					 (2 * (size_t)box + 1) * layout->ndim,
				 layout->ndim);
}

/* Finds the box of a layout for a chunk of its tensor. Returns false if the
 * layout has no such box. */
CK_MUST_USE bool ck_layout_find(const struct ck_layout *layout, uint32_t chunk,
				uint32_t *box);

/* --- locator: where the I/O engine requests layouts ----------------------- */

/* Receives a range of a data file, in bytes. */
typedef void ck_range_use(void *arg, uint32_t file, uint64_t fpos,
			  uint64_t len);

struct ck_locator {
	/* Locates the boxes of a tensor that a window touches: ndim offsets and
	 * ndim sizes in elements; NULL: the whole tensor. Errors of single boxes
	 * are in the layout. Holds no lock during I/O; may block on local files.
	 * Any thread. Returns 0, or an error of all boxes: -ESTALE if the tensor
	 * has another version; shortages of this process; -EREMOTE if remote ranges
	 * must be fetched first, see ck_files_read(). */
	int (*get)(struct ck_locator *l, uint32_t tensor,
		   const uint64_t *window, const struct ck_layout **out);
	void (*put)(struct ck_locator *l, const struct ck_layout *layout);
	/* Calls `each` for the ranges of data files that bytes [begin, end) of a
	 * window will probably need. Does no I/O; only for read-ahead. May be NULL.
	 * Any thread. */
	void (*guess)(struct ck_locator *l, uint32_t tensor,
		      const uint64_t *window, uint64_t begin, uint64_t end,
		      ck_range_use *each, void *arg);
	/* True if a file of the layout changed its ctime after the layout was
	 * found. Does no I/O. NULL: never. Any thread. */
	bool (*is_old)(struct ck_locator *l, const struct ck_layout *layout);
	/* As get(), for an outdated layout, which the caller keeps. NULL if is_old
	 * is NULL. */
	int (*renew)(struct ck_locator *l, uint32_t tensor,
		     const uint64_t *window, const struct ck_layout **out);
};

#endif
