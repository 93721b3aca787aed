/* SPDX-License-Identifier: MIT */
/*
 * gpu: the part that speaks with CUDA, which is a file of its own, ckptfs-gpu.so: the
 * program is not linked with it, and only a mover of GPUs loads it. Made with one version
 * of the program, it is for that one. A part of move.
 */
#ifndef CKPTFS_GPU_H
#define CKPTFS_GPU_H

#include "ckptfs/gatherer.h"
#include "ckptfs/round.h"

enum {
	CK_GPUS_MOST = 64,
	CK_GPU_PARCEL = 8 << 20, /* bytes that one takes */
};

struct ck_gpu_options {
	/* Numbers of the driver's devices; n 0: all that it shows. */
	const uint32_t *devices;
	uint32_t n;
	/* In which all that is gathered lies; pinned while it is open. */
	uint8_t *memory;
	size_t size; /* bytes; 0: nothing is gathered */
	size_t room; /* bytes that one gathering packs, and brings, at most */
};

/* Memory of a device that another process can open. */
struct ck_gpu_memory {
	uint64_t at;	    /* where it is on the device */
	uint64_t size;	    /* bytes of the allocation */
	uint8_t handle[64]; /* a CUipcMemHandle; zeros if there is a file */
	int file;	    /* a descriptor for others to import; -1: none */
	/* Private: */
	uint32_t gpu; /* which device */
	unsigned long long
		mapped; /* what is mapped there, if there is a file */
};

/* A transfer of a round, between this rank and another: so many bytes, from the device or
 * to it. */
struct ck_gpu_transfer {
	uint32_t peer;
	bool sends;
	uint64_t at; /* where it is on the device */
	uint64_t bytes;
};

/* What ck_round.arg is, for the mover that join() makes. */
struct ck_gpu_round {
	/* By ascending peer; those with one peer in the order in which both make them. */
	const struct ck_gpu_transfer *list;
	size_t n;
};

/* Memory of the device from which a rank sends in a round. */
struct ck_gpu_parcel {
	uint64_t at;   /* where it is on the device */
	uint64_t size; /* bytes */
};

/* One gathering, as of ck_gather_slot. All of it stays as it is until it is done. */
struct ck_gpu_work {
	const uint8_t *
		fill; /* NULL, of one that is staged: all of it comes by a round */
	uint8_t *result;
	uint32_t filled, results, ncopies; /* filled and results are not 0 */
	/* Lead from what is filled to the result, with loops of at most CK_MAX_DIMS. */
	const struct ck_gather_desc *copies;
	const struct ck_loop *loops;
	/* Where the result goes, from byte to_at on, a multiple of 16: all its bytes, which
	 * all come by copies. NULL: to `result`. */
	const struct ck_gpu_memory *to;
	uint64_t to_at;
	uint64_t
		staged; /* once it is staged: where byte 0 of `fill` is on the device */
	void *way; /* private */
	int rc; /* once it is done: what it was to proceed with; 0; -EOVERFLOW: too many small copies; -EIO */
	struct ck_gpu_work *next; /* private */
};

/* One thread, in which it was opened. */
struct ck_gpu {
	/* 0: it is on its way. -EAGAIN: there is no room now. */
	int (*start)(struct ck_gpu *g, struct ck_gpu_work *w);
	/* One that is done; NULL: there is none now. Never waits. */
	struct ck_gpu_work *(*done)(struct ck_gpu *g);
	/* NULL: it is well. Else what has become of it for good: all works are done then,
	 * one after the other, and it can only be closed; then the process is to end, for
	 * what devices may write to still is not given back. */
	const char *(*trouble)(const struct ck_gpu *g);
	/* So many bytes, at least 1, on the device of that UUID; with_file: by a
	 * descriptor, else by a handle. -ENODEV: there is none; -ENOSPC: it has no room;
	 * -EIO. */
	int (*allocate)(struct ck_gpu *g, const uint8_t uuid[16],
			uint64_t bytes, bool with_file,
			struct ck_gpu_memory *out);
	/* Nothing is on its way there. */
	void (*release)(struct ck_gpu *g, struct ck_gpu_memory *m);

	/* Takes part in a job, as one of its ranks, in rounds that NCCL makes on the first
	 * device: *out moves them, until leave(). memory: that parcels are filled from,
	 * pinned meanwhile. Sets `nccl`. -ENOENT, -ENOEXEC, -ENOSYS: there is no NCCL that
	 * can be used; -ENOSPC, -EIO, -ENOMEM. */
	int (*join)(struct ck_gpu *g, uint32_t rank, uint8_t *memory,
		    size_t size, struct ck_round_mover **out,
		    struct ck_diag *d);
	/* Nothing is being run; works that are staged, and parcels, are given up; done() still
	 * has those that have proceeded. Nothing, if it has not joined. False: NCCL does not
	 * return, which is a trouble. */
	bool (*leave)(struct ck_gpu *g);
	/* 1: rounds can be moved, as it seems; 0: not yet, in this epoch; -EIO: not any more,
	 * or never, in this epoch. */
	int (*is_up)(struct ck_gpu *g);
	/* As start(), of a work of which bytes come by a round: it takes its room on the first
	 * device, and brings up what `fill` has. Then is_staged(), then proceed(), once. With
	 * an error it is not taken. -EAGAIN: there is no room now; -ENODEV: `to` is memory of
	 * another device; -E2BIG: a room has not so many bytes; -EIO. */
	int (*stage)(struct ck_gpu *g, struct ck_gpu_work *w);
	/* 1: what came from `fill` is there, and others may be written now by a round; 0: not
	 * yet; -EIO: no round can be moved. */
	int (*is_staged)(struct ck_gpu *g, struct ck_gpu_work *w);
	/* rc 0: all its bytes are there, and it goes on as one that was started; else
	 * nothing comes of it, and it is done with that. */
	void (*proceed)(struct ck_gpu *g, struct ck_gpu_work *w, int rc);
	/* A parcel, with so many bytes of that memory, which stay as they are until
	 * is_packed(). from NULL: zeros. -EAGAIN: there is none now; -E2BIG: none has so
	 * much room; -EIO. */
	int (*pack)(struct ck_gpu *g, const uint8_t *from, uint64_t bytes,
		    struct ck_gpu_parcel **out);
	/* 1: it can be sent by a round; 0: not yet; -EIO: no round can be moved. */
	int (*is_packed)(struct ck_gpu *g, struct ck_gpu_parcel *p);
	/* No round uses it. If it was not packed yet it is filled with whatever is there. */
	void (*unpack)(struct ck_gpu *g, struct ck_gpu_parcel *p);

	char nccl[512]; /* once it was joined: the version and file of NCCL */
	void (*close)(struct ck_gpu *g);
	/* Constant: */
	uint32_t n;	   /* devices */
	char devices[512]; /* which ones, for a person */
};

/* Loads and opens it. -ENOENT: there is no such file, or no driver; -ELIBACC: it cannot
 * be loaded; -ELIBBAD: it is another version's; -ENODEV: no such device; -ENOSPC: no room
 * there, or memory cannot be pinned; -ENOSYS, -EIO, -ENOMEM. Why is in d. Once in a
 * process. */
CK_MUST_USE int ck_gpu_open(const struct ck_gpu_options *options,
			    struct ck_gpu **out, struct ck_diag *d);

/* --- for the plugin ------------------------------------------------------------------ */

enum { CK_GPU_PLUGIN_VERSION = 1 }; /* of this struct, and of those above */

/* What it exports, by this name, and nothing else. */
#define CK_GPU_PLUGIN_NAME "ckptfs_gpu"

struct ck_gpu_plugin {
	uint32_t version;
	char program[28]; /* CK_VERSION of the program that it is for */
	int (*open)(const struct ck_gpu_options *options, struct ck_gpu **out,
		    struct ck_diag *d);
};

#endif
