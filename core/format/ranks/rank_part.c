/* SPDX-License-Identifier: MIT */
/*
 * rank_part: reads a pickled value as the part that its rank has of a tensor,
 * and compares a local tensor with it. Also combines the ranks that the values
 * of a file have. Stateless.
 */
#include "ranks_internal.h"

#include <errno.h>

bool ck_rank_is_part(const struct ck_pickle *p, const struct ck_pv *v)
{
	const struct ck_rank_reader r = {
		.p = (struct ck_pickle *)(uintptr_t)p
	};
	struct ck_rank_typed t;

	return ck_rank_typed(&r, v, &t) &&
	       (ck_str_is(t.class, "DTensor") ||
		ck_str_is(t.class, "ShardedTensor"));
}

int ck_rank_part_read(struct ck_pickle *p, const struct ck_pv *v,
		      const struct ck_rank_storages *storages,
		      struct ck_arena *arena, struct ck_rank_part *out,
		      struct ck_diag *d)
{
	struct ck_rank_reader r = { p, storages, arena, d };
	struct ck_rank_typed t;
	int rc;

	*out = (struct ck_rank_part){ .answer = { CK_NO_RANK, 0, 0 } };
	if (!ck_rank_typed(&r, v, &t))
		return 0;
	if (ck_str_is(t.class, "DTensor"))
		rc = ck_rank_dtensor_read(&r, &t, out);
	else if (ck_str_is(t.class, "ShardedTensor"))
		rc = ck_rank_sharded_read(&r, &t, out);
	else
		return 0;
	return rc ? rc : 1;
}

int ck_rank_piece_check(const struct ck_rank_part *part,
			const struct ck_rank_piece *piece, struct ck_str dtype,
			uint32_t ndim, const int64_t *size, struct ck_diag *d)
{
	struct ck_buf expected = { 0 }, found = { 0 };
	int rc;

	if (!ck_str_eq(part->dtype, dtype))
		return ck_differs(d, EIO, ck_show(part->dtype), ck_show(dtype),
				  "its local tensor has another dtype");
	if (ndim == part->ndim &&
	    (ndim == 0 || memcmp(size, piece->size, ndim * sizeof(*size)) == 0))
		return 0;
	ck_dims_print(&expected, piece->size, part->ndim);
	ck_dims_print(&found, size, ndim);
	rc = ck_differs(d, EIO, expected.data ? expected.data : "its box's",
			found.data ? found.data : "another",
			"its local tensor has another shape");
	ck_buf_fini(&expected);
	ck_buf_fini(&found);
	return rc;
}

void ck_rank_answer_join(struct ck_rank_answer *file,
			 const struct ck_rank_answer *value)
{
	file->world = ck_max(file->world, value->world);
	if (value->rank == CK_NO_RANK ||
	    (file->rank != CK_NO_RANK && value->ranks <= file->ranks))
		return;
	file->rank = value->rank;
	file->ranks = value->ranks;
}
