/* SPDX-License-Identifier: MIT */
/*
 * local_box: cuts a tensor for the ranks of a mesh. Each dimension of the mesh that
 * shards cuts the elements that earlier cuts left. FSDP2 over tensor parallelism
 * (_StridedShard) holds these boxes too: tensor parallelism cuts first. Stateless; any
 * thread.
 */
#include "local_box.h"
#include "ckptfs/model.h"

uint64_t ck_chunk(uint64_t n, uint64_t parts, uint64_t number, uint64_t *begin)
{
	uint64_t size = n / parts + (n % parts != 0);

	if (!ck_mul(begin, size, number) || *begin > n)
		*begin = n;
	return ck_min(size, n - *begin);
}

static bool is_one_of(struct ck_str name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ck_str_is(name, names[i]))
			return true;
	return false;
}

/* True for the dimensions of tensor parallelism, which cut first. */
static bool is_inner(struct ck_str name)
{
	static const char *const names[] = { "tp", "ep", "etp", "sp" };

	return is_one_of(name, names, CK_ARRAY_SIZE(names));
}

static bool is_replicated(struct ck_str name)
{
	static const char *const names[] = { "dp_replicate", "replicate", "ddp",
					     "pp" };

	return is_inner(name) || is_one_of(name, names, CK_ARRAY_SIZE(names));
}

void ck_spec_dims(const struct ck_spec *spec, uint32_t ndim,
		  struct ck_mesh_dim dims[static CK_SPEC_DIMS])
{
	for (uint32_t i = 0; i < spec->ndim; i++) {
		bool whole = ndim == 0 || is_replicated(spec->dims[i].name);

		dims[i] = (struct ck_mesh_dim){
			.name = spec->dims[i].name,
			.size = spec->dims[i].size,
			.placement.type = whole ? CK_PLACE_REPLICATE
						: CK_PLACE_SHARD,
		};
	}
}

static void cut(const struct ck_mesh_dim *m, uint64_t coordinate,
		const int64_t *shape, int64_t *off, int64_t *size)
{
	uint32_t d = m->placement.dim;
	uint64_t begin,
		len = ck_chunk((uint64_t)size[d], m->size, coordinate, &begin);

	size[d] = (int64_t)len;
	off[d] = len ? off[d] + (int64_t)begin : shape[d];
}

/* Sets `order` to the dimensions that shard, in the order in which they cut, and returns
 * their number. */
static uint32_t cuts_of(const struct ck_mesh_dim *dims, uint32_t n,
			uint32_t order[static CK_SPEC_DIMS])
{
	uint32_t ncuts = 0;

	for (int inner = 1; inner >= 0; inner--)
		for (uint32_t i = 0; i < n; i++)
			if (dims[i].placement.type == CK_PLACE_SHARD &&
			    is_inner(dims[i].name) == inner)
				order[ncuts++] = i;
	return ncuts;
}

static void whole(const int64_t *shape, uint32_t ndim, int64_t *box)
{
	for (uint32_t d = 0; d < ndim; d++) {
		box[d] = 0;
		box[ndim + d] = shape[d];
	}
}

void ck_local_box_of(const struct ck_mesh_dim *dims, uint32_t n, uint32_t rank,
		     const int64_t *shape, uint32_t ndim, int64_t *box)
{
	uint64_t coordinate[CK_SPEC_DIMS];
	uint32_t order[CK_SPEC_DIMS], ncuts = cuts_of(dims, n, order);

	for (uint32_t i = n; i > 0; i--) {
		coordinate[i - 1] = rank % dims[i - 1].size;
		rank /= (uint32_t)dims[i - 1].size;
	}
	whole(shape, ndim, box);
	for (uint32_t k = 0; k < ncuts; k++)
		cut(&dims[order[k]], coordinate[order[k]], shape, box,
		    box + ndim);
}

/* --- boxes of all ranks ------------------------------------------------------------- */

bool ck_local_box_is_first(const struct ck_mesh_dim *dims, uint32_t n,
			   uint32_t rank)
{
	for (uint32_t i = n; i > 0; i--) {
		if (dims[i - 1].placement.type != CK_PLACE_SHARD &&
		    rank % dims[i - 1].size)
			return false;
		rank /= (uint32_t)dims[i - 1].size;
	}
	return true;
}

/* Sets the end of each coordinate: from there on all boxes are empty, since the part that
 * the dimension cuts has at most as many elements as that of coordinate 0. */
void ck_box_walk_begin(struct ck_box_walk *w)
{
	int64_t box[2 * CK_MAX_DIMS];

	w->ended = false;
	w->ncuts = cuts_of(w->dims, w->n, w->order);
	for (uint32_t i = 0; i < w->n; i++) {
		w->at[i] = 0;
		w->ends[i] = 1;
	}
	whole(w->shape, w->ndim, box);
	for (uint32_t k = 0; k < w->ncuts; k++) {
		const struct ck_mesh_dim *m = &w->dims[w->order[k]];
		int64_t size = box[w->ndim + m->placement.dim];

		w->ends[w->order[k]] = ck_min(m->size, (uint64_t)size);
		cut(m, 0, w->shape, box, box + w->ndim);
	}
}

static void step(struct ck_box_walk *w)
{
	uint32_t i = w->n;

	while (i > 0 && ++w->at[i - 1] == w->ends[i - 1])
		w->at[--i] = 0;
	w->ended = i == 0;
}

bool ck_box_walk_next(struct ck_box_walk *w, uint32_t *rank, int64_t *box)
{
	bool empty = true;

	while (empty && !w->ended) {
		*rank = 0;
		for (uint32_t i = 0; i < w->n; i++)
			*rank = *rank * (uint32_t)w->dims[i].size +
				(uint32_t)w->at[i];
		whole(w->shape, w->ndim, box);
		for (uint32_t k = 0; k < w->ncuts; k++)
			cut(&w->dims[w->order[k]], w->at[w->order[k]], w->shape,
			    box, box + w->ndim);
		empty = ck_dims_have_zero(box + w->ndim, w->ndim);
		step(w);
	}
	return !empty;
}
