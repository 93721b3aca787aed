/* SPDX-License-Identifier: MIT */
/*
 * io: the I/O engine, from a byte range of a slice to bytes in memory. A plan
 * turns a box of a tensor and a byte range of that box into copies. Copies from
 * local files run in the calling thread; the others are sent by the route to
 * the backend that can reach their files.
 *
 * A read is planned, may wait for a header fetch, waits for its descriptors,
 * may be gathered on a GPU, and completes. It continues in the thread in which
 * the backend completes; no thread blocks on another host.
 */
#ifndef CKPTFS_IO_H
#define CKPTFS_IO_H

#include "ckptfs/backend.h"
#include "ckptfs/device.h"
#include "ckptfs/layout.h"
#include "ckptfs/slice.h"
#include "ckptfs/source.h"
#include "source/fetch.h"

#include <pthread.h>

/* --- plan ------------------------------------------------------------------- */

/* Input of the planner: bytes [begin, end) of a box in C order, and the stored boxes. */
struct ck_request {
	uint32_t ndim; /* at most CK_MAX_DIMS */
	uint32_t item; /* bytes per element, >= 1 */
	/* offsets of the box in the tensor: ndim, in elements */
	const uint64_t *off;
	const uint64_t *size; /* sizes of the box: ndim, in elements */
	uint64_t begin, end;  /* bytes in the C order of the box */
	uint32_t nchunks;
	/* for each chunk ndim offsets and ndim sizes, in elements; inside the
	 * tensor, and disjoint */
	const int64_t *boxes;
	/* for each chunk ndim strides, in bytes. NULL if the elements of each chunk
	 * are in C order without gaps. */
	const uint64_t *strides;
	const uint32_t *order; /* indexes of the chunks, sorted by offsets */
};

/* A loop nest over runs of contiguous bytes: outermost loop first. */
struct ck_plan_op {
	uint64_t dst; /* destination of the first run: bytes from `begin` */
	/* source of the first run: bytes from the first element of the chunk */
	uint64_t src;
	uint64_t run;	/* bytes */
	uint32_t chunk; /* index of the chunk in the tensor */
	uint32_t nloops;
	size_t loop; /* index of its first loop in plan->loops */
};

/* Zero-initialise. ck_plan_make() may be called again on a used plan and reuses its
 * memory. */
struct ck_plan {
	struct ck_plan_op *copies;
	struct ck_loop *loops;
	size_t ncopies, nloops, copies_cap, loops_cap;
	uint64_t runs; /* number of runs, over all copies */
	/* Bytes that the copies fill. If fewer than requested, the rest is in no
	 * box. */
	uint64_t covered;
	/* bytes of the shortest run; UINT64_MAX if there are no copies */
	uint64_t shortest;
};

/* Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_plan_make(const struct ck_request *r, struct ck_plan *plan);
/* Makes a plan of one run of `bytes` bytes, from chunk 0. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_plan_run(struct ck_plan *plan, uint64_t bytes);
void ck_plan_fini(struct ck_plan *plan);

/* --- slices that are open ----------------------------------------------------- */

/* A slice, and the layouts of those of its parts that were read so far. All reads
 * of one open file share it. Any thread. */
struct ck_open_slice;

/* Does no I/O, however many parts the slice has. Returns 0, or -ENOMEM. The open
 * slice owns `slice` if 0 is returned. Caller owns the locator, which must outlive
 * the open slice. */
CK_MUST_USE int ck_open_slice_make(struct ck_slice *slice,
				   struct ck_locator *locator,
				   struct ck_open_slice **out);
void ck_open_slice_free(struct ck_open_slice *o); /* NULL is allowed */
const struct ck_slice *ck_open_slice_slice(const struct ck_open_slice *o);
/* Locates all boxes of the slice now. Returns 0, or an error of ck_locator.get. If
 * -EREMOTE, the ranges that all boxes need are recorded in the ck_fetch of the
 * thread. */
CK_MUST_USE int ck_open_slice_locate(struct ck_open_slice *o);
/* Sets *out to the layout of part i, which must be a CK_PART_BOX. The first call
 * locates the part. *out is valid as long as `o`. Returns 0, or: errors of
 * ck_locator.get; -ENOMEM. */
CK_MUST_USE int ck_open_slice_layout(struct ck_open_slice *o, uint32_t i,
				     const struct ck_layout **out);
/* Uses a layout, which is valid until the function returns. */
typedef int ck_open_slice_use(const struct ck_layout *layout, void *arg);
/* Retries part i after the layout `failed` had transient errors: locates the part
 * again and calls `use` with the new layout. Keeps the new layout for the part
 * unless `use` failed and the layout has transient errors. Returns 0, or an error
 * of ck_locator.get or of `use`. */
CK_MUST_USE int ck_open_slice_again(struct ck_open_slice *o, uint32_t i,
				    const struct ck_layout *failed,
				    ck_open_slice_use *use, void *arg);
/* True if the ctime of a file changed after this layout of a part was found. */
CK_MUST_USE bool ck_open_slice_is_old(const struct ck_open_slice *o,
				      const struct ck_layout *layout);
/* Locates part i again from the headers of its items, since `old` is outdated,
 * keeps the new layout for the part and calls `use` with it. Returns 0, or an error
 * of ck_locator.renew or of `use`. */
CK_MUST_USE int ck_open_slice_renew(struct ck_open_slice *o, uint32_t i,
				    const struct ck_layout *old,
				    ck_open_slice_use *use, void *arg);
/* Layout of part i, or NULL if it was not located yet. Does no I/O. */
const struct ck_layout *ck_open_slice_known(const struct ck_open_slice *o,
					    uint32_t i);
/* Calls ck_locator.guess for part i, which was not located yet. */
void ck_open_slice_guess(const struct ck_open_slice *o, uint32_t i,
			 uint64_t begin, uint64_t end, ck_range_use *each,
			 void *arg);

/* --- reads ---------------------------------------------------------------------- */

/* A caller that waits for remote bytes and may cancel. Zero-initialise. */
struct ck_waiter {
	/* Private, protected by ck_route.lock: */
	bool cancelled;
	struct ck_copy_batch *batch; /* in flight; or NULL */
	struct ck_gather_slot *slot; /* in flight; or NULL */
};

/* A read of the bytes [vpos, vpos + len) of an open slice into `to`. Either all
 * bytes are read, or: -ENODATA if no file has a byte; -EIO; -EBADMSG if a box
 * cannot be served; -ESTALE if a file or the tensor has changed; -EINVAL if the
 * range is not within the slice; -EINTR if interrupted; -ENOMEM. After an error the
 * contents of `to` are undefined. Caller owns `to`. */
struct ck_read {
	struct ck_open_slice *from;
	/* the files of the slice; NULL: those of the route */
	struct ck_files *files;
	uint64_t vpos, len;
	void *to;
	/* Device memory that receives the bytes instead of `to`, from byte `at`
	 * on, a multiple of 16. NULL: `to` does. Requires the gather engine of
	 * the route, and a range of one box whose elements are whole. Then
	 * also: -EAGAIN if the gather engine has no free slot; -EIO if the
	 * bytes cannot be written to the device. */
	struct ck_gather_memory *memory;
	uint64_t at;
	bool short_deadline; /* as in ck_copy_batch */
	bool ahead;	     /* a prefetch: no reader waits for it */
	bool is_pass;	     /* read once, forward: long runs are not mapped */
	/* set by ck_io_read() and ck_route_read(): some bytes were remote */
	bool remote;
	/* Called once if the read did not complete at once, by any thread that
	 * holds no lock that ck_route_interrupt() takes. The read and `to` belong
	 * to the caller again. rc: 0 or an error. */
	void (*done)(struct ck_read *r, int rc);
	void *arg;
	struct ck_waiter waiter;
};

struct ck_remote_batch;
struct ck_packing;
/* Copies local bytes, and records descriptors of remote bytes in `remote`. The
 * read is complete when ck_remote_finish() was called after these descriptors.
 * packing, which must be empty: bytes of boxes are packed into its slot; NULL:
 * they are copied to r->to. Blocks on local files only. Any thread. Does not
 * call done(). Returns 0, or: -EREMOTE if headers must be fetched first (see
 * ck_files_read()), or if `remote` is NULL and some bytes are remote, r->to is
 * undefined then; -E2BIG if the slot is too small; errors of ck_read. */
CK_MUST_USE int ck_read_slice(struct ck_files *files, const struct ck_read *r,
			      struct ck_remote_batch *remote,
			      struct ck_packing *packing);

/* Reads bytes that are all in local files. */
#define ck_host_read(files, r) ck_read_slice(files, r, NULL, NULL)

/* --- route: to the backend that reaches a file --------------------------------  */

/* Where reads of one mount are sent. Any thread. */
struct ck_route {
	/* Constant: */
	struct ck_files *files;
	/* backend of remote files; NULL if all files are local */
	struct ck_backend *remote;
	/* Gathers bytes on a GPU; NULL: in this process, as are reads for which
	 * it has no slot, or which fail there. Set before the first use. */
	struct ck_gather_engine *gather_engine;
	/* Use it only for bytes that peers send in NCCL rounds. */
	bool rounds_only;

	/* protects all ck_waiter: which descriptors are in flight */
	pthread_mutex_t lock;
};

void ck_route_init(struct ck_route *route, struct ck_files *files,
		   struct ck_backend *remote);
void ck_route_fini(struct ck_route *route);

/* True if reads go to the gather engine even if all their files are local. */
static inline bool ck_route_gathers(const struct ck_route *r)
{
	return r->gather_engine && !r->rounds_only;
}

/* Starts a read that ck_host_read() refused with -EREMOTE, or that the gather
 * engine may run. Returns 0 if it is complete, -EINPROGRESS if done() is
 * called, possibly before this returns, or an error of ck_read. */
CK_MUST_USE int ck_route_read(struct ck_route *route, struct ck_read *r);
/* Runs a read, local or remote, and blocks until it is complete. Ignores r->done
 * and r->arg. Returns 0, or an error of ck_read. */
CK_MUST_USE int ck_io_read(struct ck_route *route, struct ck_read *r);

/* Fetches the remote ranges recorded in `fetch` by a call that returned -EREMOTE,
 * usually headers of items. Can be sent again after it is complete. */
struct ck_header_fetch {
	struct ck_fetch fetch;
	bool short_deadline; /* as in ck_copy_batch */
	/* As in ck_read. rc: 0; -EINTR; -ENOMEM; -EIO if no range was recorded.
	 * Errors of single ranges are in fetch.ranges. */
	void (*done)(struct ck_header_fetch *e, int rc);
	void *arg;
	struct ck_waiter waiter;
	/* Private: */
	struct ck_route *route;
	struct ck_waiter *sender;
	struct ck_copy_batch batch;
	uint64_t begun;
};

/* Returns 0 if all ranges are complete, -EINPROGRESS if done() is called, possibly
 * before this returns, or an error as of done(). */
CK_MUST_USE int ck_route_fetch(struct ck_route *route,
			       struct ck_header_fetch *e);
/* As ck_route_fetch(), but blocks until complete. Ignores e->done and
 * e->arg. */
CK_MUST_USE int ck_io_header_fetch(struct ck_route *route,
				   struct ck_header_fetch *e);
void ck_header_fetch_fini(struct ck_header_fetch *e);

/* Cancels a read or header fetch: it ends soon, with -EINTR unless its bytes have
 * arrived. Does not call done(). May be called from before the start until done()
 * has returned. */
void ck_route_interrupt(struct ck_route *route, struct ck_waiter *w);

/* --- local backend: writes ----------------------------------------------- */

/* An output file that boxes are written into. */
struct ck_target {
	int fd; /* open for reading and writing */
	uint64_t size;
	uint8_t *map; /* private mapping, made on demand; NULL at first */
};

/* Output location of the first element of a chunk. */
struct ck_place {
	struct ck_target *target;
	uint64_t fpos;
};

/* Writes bytes [begin, end) of the request into the files of its chunks, in which
 * elements have the strides of the request. Caller owns `bytes`, which are not
 * changed. Any thread, but one at a time for a target. Returns 0, or: -ENODATA if
 * some bytes belong to no chunk; -EINVAL if a chunk is not within its file;
 * -ENOMEM; errors of write(2). */
CK_MUST_USE int ck_host_scatter(const struct ck_request *r,
				const struct ck_place *places,
				const void *bytes);
/* Reads back the bytes that ck_host_scatter() wrote. Same threads and errors, with
 * those of mmap(2); also -EIO if a file became shorter. */
CK_MUST_USE int ck_host_collect(const struct ck_request *r,
				const struct ck_place *places, void *bytes);
void ck_target_unmap(struct ck_target *t);

/* --- read-ahead on data files ---------------------------------------------------- */

struct ck_ahead; /* worker threads and their queues; one for each mount */

/* The position of one reader of a slice. Zero-initialise. Protected by the lock of
 * the ck_ahead. */
struct ck_ahead_stream {
	uint64_t next;	/* vpos behind the last read */
	uint64_t read;	/* bytes read sequentially */
	uint64_t asked; /* vpos up to which data was queued */
};

/* Starts the threads, so that it must not be called before the last fork(2). NULL
 * if out of memory. */
struct ck_ahead *ck_ahead_make(struct ck_files *files);
void ck_ahead_free(struct ck_ahead *a); /* joins the threads */
/* Records that the stream does this read. If the stream is sequential, queues the
 * data that follows in parts that are located. Never blocks, never fails. a: NULL
 * is allowed. */
void ck_ahead_note(struct ck_ahead *a, struct ck_ahead_stream *s,
		   const struct ck_read *r);

#endif
