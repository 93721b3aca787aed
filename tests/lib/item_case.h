/* SPDX-License-Identifier: MIT */
/* item_case: shared by tests of items: an archive with one tensor, and its
 * position according to ck_item_locate().
 */
#ifndef CK_ITEM_CASE_H
#define CK_ITEM_CASE_H

#include "format/item/item.h"
#include "item_writer.h"

struct got {
	uint64_t ipos;
	uint64_t strides[CK_MAX_DIMS];
	uint16_t change;
};

static const char zeros[4096]; /* content of storages */

static inline uint8_t dtype_of(const struct iw_tensor *t)
{
	return t->dtype ? ck_dtype_by_name(ck_str_from(t->dtype))
			: ck_dtype_by_storage(ck_str_from(t->storage));
}

static inline size_t storage_len(const struct iw_tensor *t)
{
	bool untyped = strcmp(t->storage, "UntypedStorage") == 0;
	size_t item = ck_dtype_at(dtype_of(t))->size;
	size_t len = (size_t)t->numel * (untyped ? 1 : item);

	return ck_min(len, sizeof(zeros));
}

static inline int locate(struct iw *w, const struct iw_tensor *t,
			 struct got *got, struct ck_diag *d)
{
	struct ck_zip_source src = { w, iw_read, iw_len(w) };
	struct ck_item_want want = { .dtype = dtype_of(t),
				     .ndim = t->ndim,
				     .size = t->size };

	*got = (struct got){ 0 };
	w->reads = 0;
	return ck_item_locate(&src, &want, &got->ipos, got->strides,
			      &got->change, d);
}

/* An item with this pickle, which is freed, and t's storage. */
static inline struct iw *item_with(struct pk *p, const struct iw_tensor *t)
{
	struct iw *w = iw_make();

	iw_item(w, pk_end(p), "little",
		(struct ck_str){ zeros, storage_len(t) });
	ck_buf_fini(&p->b);
	return w;
}

static inline struct iw *item(const struct iw_tensor *t)
{
	struct pk p;

	pk_begin(&p);
	pk_tensor(&p, t, true);
	return item_with(&p, t);
}

/* Locates t in an item of its own, or in one with that pickle. */
static inline CK_WRAPS int try_item(struct iw *w, const struct iw_tensor *t,
				    struct got *got)
{
	int rc = locate(w, t, got, NULL);

	if (w->n > 4)
		got->ipos -= w->at[4].data; /* relative to the storage */
	iw_free(w);
	return rc;
}

static inline int try_tensor(const struct iw_tensor *t, struct got *got)
{
	return try_item(item(t), t, got);
}

#endif
