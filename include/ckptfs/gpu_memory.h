/* SPDX-License-Identifier: MIT */
/*
 * gpu_memory: for programs that want the tensors of a mount in the memory of a GPU. Plain C; it
 * needs no library, and no other header of ckptfs.
 *
 *	int fd = open("/mnt/ck/raw/model.w", O_RDONLY);
 *	struct ckptfs_gpu gpu = { .version = CKPTFS_GPU_VERSION };
 *
 *	memcpy(gpu.uuid, uuid.bytes, 16); // of cuDeviceGetUuid(): which device
 *	if (ioctl(fd, CKPTFS_IOC_GPU, &gpu) == 0)
 *		cuIpcOpenMemHandle(&at, *(CUipcMemHandle *)gpu.handle,
 *				   CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
 *
 * The tensor lies at at + gpu.offset: all of its elements in C order, without gaps, in the
 * byte order of this machine, whole when ioctl(2) has returned 0. A file of full/ gives the
 * tensor without its header; one of local/ the box of a rank. The memory is there until the
 * file is closed, by all who have the descriptor; programs that ask for the same tensor
 * have the same memory, and do not write to it, unless they ask for one of their own.
 */
#ifndef CKPTFS_GPU_MEMORY_H
#define CKPTFS_GPU_MEMORY_H

#include <stdint.h>
#include <sys/ioctl.h>

#define CKPTFS_GPU_VERSION 1

/* Flags of the request. */
#define CKPTFS_GPU_FD	   1u /* a descriptor in place of an IPC handle */
/* Memory of its own, which may be written; a new one for each request. */
#define CKPTFS_GPU_PRIVATE 2u

/* Kinds of handles. */
#define CKPTFS_GPU_KIND_IPC 1u /* `handle` is a CUipcMemHandle */
/* A descriptor of cuMemExportToShareableHandle(): connect to the stream socket
 * `socket` in Linux's abstract space, send the `token`, and receive one byte with
 * the descriptor (SCM_RIGHTS). Map all of `size` bytes. */
#define CKPTFS_GPU_KIND_FD  2u

#define CKPTFS_GPU_DIMS 16

struct ckptfs_gpu {
	/* In: */
	uint32_t version; /* CKPTFS_GPU_VERSION */
	uint32_t flags;
	uint8_t uuid[16]; /* of the device, as the driver gives it */
	/* Out: */
	uint32_t kind;
	uint32_t ndim;
	uint8_t handle[64];
	/* Bytes of the allocation. Bytes outside the tensor are undefined. */
	uint64_t size;
	uint64_t offset; /* of the tensor in it: a multiple of 256 */
	uint64_t bytes;	 /* of the tensor; 0: no memory and no handle */
	uint64_t shape[CKPTFS_GPU_DIMS];
	uint64_t generation; /* of the checkpoint: commits that it is behind */
	char dtype[32];	     /* as torch names it: "bfloat16" */
	char socket[64];     /* the name without the first byte, which is NUL */
	uint8_t token[16];
};

/*
 * Returns 0, or -1 with errno:
 * EOPNOTSUPP if the mount uses no GPU, or has lost it;
 * ENODEV if there is no such device; ENOSPC if it has no memory left;
 * EBUSY if other programs have the tensor as the other kind of handle
 *   (CKPTFS_GPU_PRIVATE succeeds);
 * EPERM for other users than that of the mount and root;
 * ENOTTY if the file is not a tensor; EOVERFLOW if the tensor has more than
 *   CKPTFS_GPU_DIMS dimensions;
 * EINVAL if version or flags are unknown, or the file is not open for reading;
 * EINTR at any signal with a handler: the next request starts again, so block
 *   those of timers;
 * EAGAIN if too many requests are in flight;
 * EIO, ENODATA, EBADMSG, ESTALE as read(2) of the whole tensor.
 */
#define CKPTFS_IOC_GPU _IOWR('k', 3, struct ckptfs_gpu)

#endif
