/* SPDX-License-Identifier: MIT */
/*
 * gpu_ioctl_args: arguments and results of CKPTFS_IOC_GPU. No state, no locks.
 */
#include "gpu_ioctl_args.h"

#include <errno.h>
#include <stdio.h>

struct ckptfs_gpu ck_gpu_ioctl_take(const void *in)
{
	struct ckptfs_gpu in_args, out;

	memcpy(&in_args, in, sizeof(in_args));
	out = (struct ckptfs_gpu){ .version = in_args.version,
				   .flags = in_args.flags };
	memcpy(out.uuid, in_args.uuid, sizeof(out.uuid));
	return out;
}

static bool elements_of(const struct ck_tree_file *f, struct ck_elements *out)
{
	return f->catalog && ck_tree_elements(f->catalog, &f->node, out);
}

int ck_gpu_ioctl_check(const struct ck_tree_file *f,
		       const struct ckptfs_gpu *gpu)
{
	struct ck_elements e;

	if (gpu->version != CKPTFS_GPU_VERSION ||
	    gpu->flags & ~(CKPTFS_GPU_FD | CKPTFS_GPU_PRIVATE))
		return -EINVAL;
	return elements_of(f, &e) ? 0 : -ENOTTY;
}

int ck_gpu_ioctl_describe(const struct ck_tree_file *f, struct ckptfs_gpu *gpu)
{
	struct ck_elements e;

	if (f->err)
		return -f->err;
	if (!elements_of(f, &e))
		return -ENOTTY;
	if (e.ndim > CKPTFS_GPU_DIMS)
		return -EOVERFLOW;
	gpu->ndim = e.ndim;
	for (uint32_t i = 0; i < e.ndim; i++)
		gpu->shape[i] = (uint64_t)e.shape[i];
	gpu->generation = f->catalog->generation;
	(void)snprintf(gpu->dtype, sizeof(gpu->dtype), "%.*s",
		       (int)ck_min(e.dtype.len, sizeof(gpu->dtype) - 1),
		       e.dtype.p);
	return 0;
}

/* The elements of a tensor are one part of the slice, behind a header. */
bool ck_gpu_ioctl_wish(const struct ck_tree_file *f,
		       const struct ckptfs_gpu *gpu,
		       struct ck_export_request *out)
{
	const struct ck_slice *slice = ck_open_slice_slice(f->opened);

	*out = (struct ck_export_request){
		.from = f->opened,
		.files = ck_root_checkpoint(f->node.dir.root)->files,
		.slice = f->node.number,
		.own = gpu->flags & CKPTFS_GPU_PRIVATE,
		.with_file = gpu->flags & CKPTFS_GPU_FD,
	};
	memcpy(out->uuid, gpu->uuid, sizeof(out->uuid));
	for (uint32_t i = 0; i < slice->nparts; i++) {
		if (ck_slice_part(slice, i).kind != CK_PART_BOX)
			continue;
		out->vpos = ck_slice_begin(slice, i);
		out->len = ck_slice_part_len(slice, i);
		return out->len > 0;
	}
	return false;
}

void ck_gpu_ioctl_fill(struct ckptfs_gpu *gpu, const struct ck_export *e)
{
	const struct ck_gather_memory *m = e->memory;

	gpu->kind = e->with_file ? CKPTFS_GPU_KIND_FD : CKPTFS_GPU_KIND_IPC;
	gpu->bytes = e->bytes;
	gpu->size = m->size;
	gpu->offset = e->at;
	memcpy(gpu->handle, m->handle, sizeof(gpu->handle));
	memcpy(gpu->socket, m->socket, sizeof(gpu->socket));
	memcpy(gpu->token, m->token, sizeof(gpu->token));
}
