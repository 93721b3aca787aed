/* SPDX-License-Identifier: MIT */
/*
 * gpu: the GPUs of a worker process. Only the worker opens them, and only then the
 * driver is loaded: the module does not link to CUDA.
 *
 * A work is a gather request: started, or staged until its round has completed,
 * then done. All calls come from the thread that opened the GPUs.
 */
#ifndef CK_GPU_H
#define CK_GPU_H

#include "ckptfs/device.h"
#include "dist/round/rounds.h"

enum {
	CK_GPUS_MOST = 64,
	CK_GPU_PARCEL = 8 << 20, /* bytes of a parcel */
};

struct ck_gpu_options {
	/* Device numbers of the driver; n 0: all devices it shows. */
	const uint32_t *devices;
	uint32_t n;
	/* Memory of all gather requests; pinned while the GPUs are open. */
	uint8_t *memory;
	size_t size; /* bytes; 0: no gather requests */
	size_t room; /* most bytes of `fill` and of the result of one request */
};

/* Device memory that another process can open. */
struct ck_gpu_memory {
	uint64_t at;	    /* device address */
	uint64_t size;	    /* bytes of the allocation */
	uint8_t handle[64]; /* a CUipcMemHandle; zeros if `file` is set */
	int file;	    /* a descriptor that others import; -1: by handle */
	/* Private. Index of the device: */
	uint32_t gpu;
	unsigned long long mapped; /* the mapping, if `file` is set */
};

/* A transfer of a round from or to another rank, in device memory. */
struct ck_gpu_transfer {
	uint32_t peer;
	bool sends;
	uint64_t at; /* device address */
	uint64_t bytes;
};

/* Type of ck_round.arg for the round mover that join() makes. */
struct ck_gpu_round {
	/* By ascending peer; transfers with one peer in the order that both ranks
	 * have. */
	const struct ck_gpu_transfer *list;
	size_t n;
};

/* Device memory from which a rank sends in a round. */
struct ck_gpu_parcel {
	uint64_t at;   /* device address */
	uint64_t size; /* bytes */
};

/* A gather request, as in ck_gather_slot. The caller must not change it until it is
 * done. */
struct ck_gpu_work {
	const uint8_t *fill; /* NULL, if staged: all bytes come from a round */
	uint8_t *result;
	/* filled and results must not be 0 */
	uint32_t filled, results, ncopies;
	/* From `fill` to the result; at most CK_MAX_DIMS loops each. */
	const struct ck_gather_desc *copies;
	const struct ck_loop *loops;
	/* Device memory that receives the result, from byte to_at on, a multiple of
	 * 16. The copies must write all its bytes. NULL: `result` receives it. */
	const struct ck_gpu_memory *to;
	uint64_t to_at;
	/* set when staged: device address of byte 0 of `fill` */
	uint64_t staged;
	void *private_data; /* private */
	/* Set when done: the rc of proceed(); 0; -EOVERFLOW if there are too many
	 * small copies; -EIO. */
	int rc;
	struct ck_gpu_work *next; /* private */
};

/* All calls must come from the thread that opened it. */
struct ck_gpu {
	/* Starts a request. Returns 0 if it is in flight, or -EAGAIN if there is no
	 * free buffer. */
	int (*start)(struct ck_gpu *g, struct ck_gpu_work *w);
	/* Removes a request that is done; NULL if no request is. Never
	 * blocks. */
	struct ck_gpu_work *(*done)(struct ck_gpu *g);
	/* NULL, or the permanent failure of the GPUs. After a failure all
	 * requests become done, and only close() is allowed. The process must then
	 * exit, since memory that devices may still write is not freed. */
	const char *(*trouble)(const struct ck_gpu *g);
	/* Allocates at least `bytes` (at least 1) on the device with that UUID;
	 * with_file: shared by descriptor, otherwise by handle. Returns 0, or:
	 * -ENODEV if there is no such device; -ENOSPC if it has no memory; -EIO. */
	int (*allocate)(struct ck_gpu *g, const uint8_t uuid[16],
			uint64_t bytes, bool with_file,
			struct ck_gpu_memory *out);
	/* Frees memory to which no transfer is in flight. */
	void (*release)(struct ck_gpu *g, struct ck_gpu_memory *m);

	/* Joins a job as one of its ranks: *out runs rounds with NCCL on the first
	 * device, until leave(). memory: source of parcels; pinned meanwhile. Sets
	 * `nccl`. Returns 0, or: -ENOENT, -ENOEXEC or -ENOSYS if NCCL cannot be
	 * used; -ENOSPC; -EIO; -ENOMEM. */
	int (*join)(struct ck_gpu *g, uint32_t rank, uint8_t *memory,
		    size_t size, struct ck_round_backend **out,
		    struct ck_diag *d);
	/* Leaves the job. No round may run. Discards staged requests and parcels;
	 * done() still returns those that have proceeded. No effect if not joined.
	 * Returns false if NCCL hangs, which is a permanent failure. */
	bool (*leave)(struct ck_gpu *g);
	/* Returns 1 if rounds can run; 0 if not yet in this epoch; -EIO if not in
	 * this epoch any more. */
	int (*is_up)(struct ck_gpu *g);
	/* As start(), for a request of which bytes come from a round: allocates its
	 * buffer on the first device, and copies `fill` to it. The caller then
	 * polls is_staged() and calls proceed() once. Returns 0, or: -EAGAIN if
	 * there is no free buffer; -ENODEV if `to` is on another device; -E2BIG if
	 * it exceeds a buffer; -EIO. After an error the
	 * request is not used. */
	int (*stage)(struct ck_gpu *g, struct ck_gpu_work *w);
	/* Returns 1 if `fill` is on the device, and a round may write its ranges; 0
	 * if not yet; -EIO if no round can run. */
	int (*is_staged)(struct ck_gpu *g, struct ck_gpu_work *w);
	/* rc 0: all bytes have arrived, and the request continues as after start().
	 * Otherwise it is done with that rc. */
	void (*proceed)(struct ck_gpu *g, struct ck_gpu_work *w, int rc);
	/* Fills a parcel with bytes of `memory`, which must not change until
	 * is_packed(). from NULL: zeros. Returns 0, or: -EAGAIN if there is no free
	 * parcel; -E2BIG if `bytes` exceed a parcel; -EIO. */
	int (*pack)(struct ck_gpu *g, const uint8_t *from, uint64_t bytes,
		    struct ck_gpu_parcel **out);
	/* Returns 1 if a round can send it; 0 if not yet; -EIO if no round can
	 * run. */
	int (*is_packed)(struct ck_gpu *g, struct ck_gpu_parcel *p);
	/* Frees a parcel that no round uses. May be called before is_packed(); its
	 * content is undefined then. */
	void (*unpack)(struct ck_gpu *g, struct ck_gpu_parcel *p);

	char nccl[512]; /* set by join(): version and file of NCCL */
	void (*close)(struct ck_gpu *g);
	/* Constant. Number of devices: */
	uint32_t n;
	char devices[512]; /* their names, for messages */
};

/* Opens devices; once in a process. Returns 0, or: -ENOENT if there is no driver;
 * -ENODEV; -ENOSPC if a device has no memory, or memory cannot be pinned; -ENOSYS;
 * -EIO; -ENOMEM. d has the reason. */
CK_MUST_USE int ck_gpu_open(const struct ck_gpu_options *options,
			    struct ck_gpu **out, struct ck_diag *d);

#endif
