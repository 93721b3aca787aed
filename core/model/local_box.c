/* SPDX-License-Identifier: MIT */
/*
 * local_box: cuts a tensor for the ranks of a mesh. Each dimension of the mesh that
 * shards cuts the elements that earlier cuts left. FSDP2 over tensor parallelism
 * (_StridedShard) holds these boxes too: tensor parallelism cuts first. Stateless; any
 * thread.
 */
#include "local_box.h"

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

void ck_local_box_of(const struct ck_mesh_dim *dims, uint32_t n, uint32_t rank,
		     const int64_t *shape, uint32_t ndim, int64_t *box)
{
	uint64_t coordinate[CK_SPEC_DIMS];

	for (uint32_t i = n; i > 0; i--) {
		coordinate[i - 1] = rank % dims[i - 1].size;
		rank /= (uint32_t)dims[i - 1].size;
	}
	for (uint32_t d = 0; d < ndim; d++) {
		box[d] = 0;
		box[ndim + d] = shape[d];
	}
	for (int inner = 1; inner >= 0; inner--)
		for (uint32_t i = 0; i < n; i++)
			if (dims[i].placement.type == CK_PLACE_SHARD &&
			    is_inner(dims[i].name) == inner)
				cut(&dims[i], coordinate[i], shape, box,
				    box + ndim);
}
