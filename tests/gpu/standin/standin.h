/* SPDX-License-Identifier: MIT */
/*
 * standin: a fake CUDA driver. It implements the functions of the driver that ckptfs uses over
 * host memory, so that code for GPUs is tested on machines without a GPU. It moves the bytes and
 * keeps the order that the driver promises, and no more than that. It is stricter than a GPU: work
 * runs late, new memory contains garbage, and an error that a GPU may ignore aborts the program
 * with a message that names the call.
 *
 * The fake driver cannot show: the machine code of the kernels, the effect of a misaligned
 * address, caches and memory order within a kernel, speed, and memory that processes share
 * through a driver (here they share a memfd). Each process counts its own objects until it
 * releases them, and not those of other processes.
 *
 * Virtual memory is device memory only, without access by another device. Its granularity is
 * 2 MiB. A mapping begins at the first byte of its memory, has access as a whole, and is unmapped
 * as a whole. All calls need a current context, but their objects outlive it. cuda.h documents
 * only some of the errors for an argument; the others are guesses here. Misuse by the program
 * itself aborts it, including a size that is not a multiple of the granularity; invalid data of
 * another process return errors.
 *
 * CKPTFS_STANDIN is text as for standin_control(). CKPTFS_STANDIN_SEED selects delays and
 * garbage. CKPTFS_STANDIN_DELAY_US is the average delay of a stream before each operation (20;
 * some delays are much longer; 0: no delays).
 *
 * The text has words, each of which sets a fault that holds from then on:
 *
 *	devices=N	the number of devices (1); 0: cuInit returns CUDA_ERROR_NO_DEVICE
 *	driver=N	the version, as 12040
 *	memory=BYTES	memory of a device
 *	fail=CALL:N:CODE	the n-th call from now returns CODE; N+: all later calls, too.
 *			CALL may be * for any call, or "operation" for an operation of a
 *			stream, after which the device is lost with that code
 *	lost=CODE	every call returns CODE, and streams run no operations
 *	refuse=fatbin	refuses modules of machine code, or refuse=ptx
 *	run=N		streams run N operations, and then wait
 *	nccl=N		the version of the fake NCCL, as 22809 (nccl_comms.h)
 *	idle=KIND	the first thread of that kernel's blocks has no effect: a bad GPU
 *	short=CALL	copies of the call omit their last byte: a bad GPU
 *	hang=CALL	the call does not return
 *	spills=BYTES	the reported local memory of a thread of any kernel
 *	comm=BYTES	each new communicator allocates so much memory of its device
 *	leaks=abort	the process aborts at its exit if it leaks an object
 *	reset		no faults
 *
 * A code is a number, or a name as ILLEGAL_ADDRESS, or NEVER: the call does not return. Calls that
 * release an object do so even if they return an error. The real driver does the same, as its
 * errors may be those of earlier calls.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All other symbols of the library are hidden. The interface for tests comes first; the fake NCCL
 * uses the rest, since it puts operations into streams. */
#pragma GCC visibility push(default)
#include <cuda.h>

/* Both versions: which of them cuda.h declares depends on its own. */
#undef cuDeviceGetUuid
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
#pragma GCC diagnostic pop

/* The form of version 12.8, which later drivers have besides that of 13.0. Not every cuda.h
 * declares it. */
CUresult standin_copy_batch(CUdeviceptr *to, CUdeviceptr *from, size_t *len,
			    size_t n, const void *attributes, size_t *firsts,
			    size_t nattributes, size_t *failed,
			    CUstream stream) __asm__("cuMemcpyBatchAsync");

/* Returns 0, or -EINVAL if a word is wrong; the words before it hold. */
int standin_control(const char *text);
/* Returns the number of objects that were not released, and prints them: allocations, streams,
 * events, modules, contexts, communicators; and of virtual memory handles, mappings, reserved
 * ranges, and open descriptors that were exported or imported. */
unsigned standin_leaks(void);

enum { STANDIN_DEVICES = 16 };

/* A device and its primary context. */
struct standin_device {
	unsigned retained; /* under the lock, as all of these */
	uint64_t used;	   /* bytes */
	uint64_t created;  /* the part of them that outlives contexts */
};

/* --- faults.c: the lock, and the begin of each call --------------------------------- */

struct standin_faults {
	unsigned devices;
	int driver, nccl;
	uint64_t memory;
	CUresult lost; /* CUDA_SUCCESS if the device is not lost */
	bool no_fatbin, no_ptx;
	bool leaks_abort;
	uint64_t may_run;      /* operations; UINT64_MAX: all */
	uint64_t idle;	       /* bit mask of kernels with an idle thread */
	unsigned spills;       /* bytes of a thread */
	uint64_t communicator; /* bytes of each communicator */
	char shortened[48];    /* the call with short copies, or empty */
	char hanging[48];      /* the call that does not return, or empty */
};

/* One lock guards all data of the library; operations run without it. */
void standin_lock(void);
void standin_unlock(void);
/* Waits for standin_wake(). */
void standin_wait(void);
void standin_wake(void);
/* Under the lock; and a copy, without it. */
extern struct standin_faults standin_faults;
struct standin_faults standin_faults_now(void);
#define STANDIN_NEVER ((CUresult)0x7ffffffe)
/* Begins a call: returns its fault, or CUDA_SUCCESS. Stores the device of the current context,
 * or NULL; the call must then return the result of this function. `current` is NULL if the call
 * needs no context. */
CUresult standin_enter(const char *call, struct standin_device **current);
/* Under the lock: an operation of a stream may begin, or must wait. */
bool standin_may_run(void);
/* True if copies of this call omit their last byte. */
bool standin_is_short(const char *call);
/* Begins an operation of a stream; false if it fails. */
bool standin_enter_operation(void);
/* Aborts the program. */
_Noreturn void standin_die(const char *call, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
uint64_t standin_random(uint64_t *state);
uint64_t standin_seed(void);
/* Microseconds. */
uint64_t standin_delay(void);
/* Sleeps for about `delay`: mostly shorter, one in 16 times much longer. */
void standin_pause(uint64_t *random, uint64_t delay);
/* Adds to the number of live communicators on a device. */
void standin_communicators(struct standin_device *device, int more);
/* A unique number for handles, which are not pointers. */
uint64_t standin_number(void);

/* --- errors.c --------------------------------------------------------------------------- */

/* Parses a number or a name. Returns 0, or -EINVAL. */
int standin_code(const char *text, CUresult *code);

/* --- devices.c -------------------------------------------------------------------------- */

/* The device of the current context; NULL if no retained context is current. Under the lock. */
struct standin_device *standin_current(CUresult *why);
/* Ends all retained contexts and returns their number. Under the lock. */
unsigned standin_devices_leaked(void);
unsigned standin_device_number(const struct standin_device *device);
/* Under the lock. NULL if there is no such device. */
struct standin_device *standin_device_at(int number);
bool standin_is_initialized(void);

/* --- memory.c --------------------------------------------------------------------------- */

/* Device addresses are never valid host addresses, so that host access to them gets SIGSEGV. */
#define STANDIN_TAG UINT64_C(0x00d0000000000000)

struct standin_memory {
	struct standin_memory *next;

	enum {
		STANDIN_DEVICE,
		STANDIN_OPENED, /* another process's */
		STANDIN_MAPPED, /* in a reserved range */
		STANDIN_HOST,
		STANDIN_REGISTERED
	} kind;
	const struct standin_device *device; /* of its context */
	uint64_t at, size;		     /* the program's address */
	uint8_t *bytes;			     /* host address of the bytes */
	uint8_t *mapped;
	size_t mapped_size;
	int fd;		/* or -1 */
	unsigned users; /* running operations */
	bool freed;	/* addresses of a device are not used again */

	/* For STANDIN_MAPPED: CUmemAccess_flags, and the mapped memory. */
	unsigned access;
	struct vmm_memory *of;
};

/* A range of memory in a call. */
struct standin_range {
	uint64_t at, len;
	bool on_host;
	bool writes; /* otherwise the call reads */
};

/* Memory that an operation uses while it runs. Zero-initialise. */
struct standin_uses {
	const char *call;
	const struct standin_device *device;
	struct standin_memory **list;
	size_t n, cap;
};

/* The allocation with the whole range; aborts the program if there is no such one. If the range
 * spans adjacent mappings, the first one. Under the lock. */
struct standin_memory *standin_find(const char *call,
				    const struct standin_device *device,
				    struct standin_range range);
/* The same check, without the lock. */
void standin_check(const char *call, const struct standin_device *device,
		   struct standin_range range);
/* Finds the range, and pins its allocation until the operation has run. Stores the allocation. */
uint8_t *standin_use(struct standin_uses *uses, struct standin_range range,
		     struct standin_memory **memory);
void standin_uses_end(struct standin_uses *uses);
/* Maps a memfd with guards around it; a new one if fd is -1. NULL if that fails. Under the lock. */
struct standin_memory *standin_memory_map(int kind, uint64_t size, int fd);
void standin_memory_free(const char *call, struct standin_memory *memory);
/* The number of live allocations of the device, or of all devices if NULL; with `end` they are
 * freed. Under the lock. */
unsigned standin_memory_left(const struct standin_device *device, bool end);

/* An allocation with any of these device addresses, or NULL. Under the lock, as the next ones. */
struct standin_memory *standin_memory_at(uint64_t at, uint64_t len);
void standin_memory_add(struct standin_memory *memory);
/* Removes the allocation from the list and frees it. */
void standin_memory_forget(struct standin_memory *memory);
/* A new address after all others, aligned to `alignment`, a power of two, and not to more. */
uint64_t standin_address(uint64_t size, uint64_t alignment);
/* Fills new memory with unpredictable bytes. */
void standin_garbage(uint8_t *bytes, uint64_t size);

enum { STANDIN_GUARD = 4096 }; /* bytes before and, at least, behind memory */

/* --- vmm.c, ranges.c ----------------------------------------------------------------------- */

enum { STANDIN_VMM_KINDS = 4 };

/* The numbers of live handles, mappings, ranges and descriptors. Under the lock. */
void standin_vmm_left(unsigned left[STANDIN_VMM_KINDS]);
/* Aborts the program if the address is in a range that was freed, or has no mapping there. Under
 * the lock. */
void standin_range_failed(const char *call, uint64_t at);

/* --- streams.c, events.c ------------------------------------------------------------------ */

/* A position in a stream. Reference-counted. */
struct standin_moment {
	unsigned refs; /* under the lock */
	bool reached;
};

struct standin_copy {
	struct standin_range from, to; /* of all rows, and between them */
	uint64_t from_pitch, to_pitch;
	uint64_t width, rows;
};

struct standin_set {
	struct standin_range to;
	uint8_t value; /* of each byte */
};

struct standin_launch {
	uint64_t module; /* number */
	unsigned kind;	 /* enum ck_tile_kind */
	unsigned blocks;
	uint64_t tiles, nests;
};

struct standin_op {
	struct standin_op *next;
	const char *call;
	struct standin_device *device;
	void (*run)(struct standin_op *op); /* or NULL */
	/* Called instead if the operation does not run; or NULL. */
	void (*drop)(struct standin_op *op);
	/* Reference-counted, or NULL. The operation waits for `before`, and reaches `behind`. */
	struct standin_moment *before, *behind;

	union {
		struct standin_copy copy;
		struct standin_set set;
		struct standin_launch launch;
		void *data;
	};
};

/* Puts a copy of the operation at the end of a stream. */
CUresult standin_submit(CUstream stream, const struct standin_op *op);
/* Runs all operations of the streams of the device, or of all devices if NULL, and ends the
 * streams; returns their number. */
unsigned standin_streams_end(const struct standin_device *device);
unsigned standin_streams_left(void);
/* Under the lock. */
void standin_moment_put(struct standin_moment *moment);
unsigned standin_events_left(const struct standin_device *device, bool end);

/* --- modules.c ---------------------------------------------------------------------------- */

unsigned standin_modules_left(const struct standin_device *device, bool end);
#pragma GCC visibility pop

#endif
