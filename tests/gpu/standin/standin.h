/* SPDX-License-Identifier: MIT */
/*
 * standin: those functions of CUDA's driver that ckptfs uses, over the memory of the host, so
 * that what is written for GPUs is tested on machines without one. Test equipment: it
 * moves the bytes and keeps the order that the driver promises, and no more than that.
 * Where a GPU is forgiving it is not: work comes late, memory is full of garbage, and what a
 * GPU may let pass ends the program, with a message that names the call.
 *
 * What it can not show: the code that nvcc or the driver makes of the kernels, what hardware
 * does of an address that is not aligned, caches and the order of memory within a
 * kernel, speed, memory that processes share by way of a driver: here they share a file in
 * memory. Each counts what it made itself, until it gave that back, and not what others keep.
 *
 * Of virtual memory there is that of devices, which no other device may use. Its granularity is
 * 2 MiB; a mapping begins at the first byte of its memory, has access as a whole, and is unmapped
 * as a whole; all calls need a current context, and no context ends what they made. Which error
 * a driver has for an argument is said by cuda.h only in part: those here are guesses where it is
 * silent. What only the program itself can get wrong ends it, a size that is no multiple of the
 * granularity, too; what another process may have sent gives errors.
 *
 * CKPTFS_STANDIN is text as for standin_control(); CKPTFS_STANDIN_SEED chooses delays and
 * garbage; CKPTFS_STANDIN_DELAY_US is how long a stream waits before each operation, about
 * (20; some wait much longer; 0: none does).
 *
 * Text is words, each one a fault that holds from then on:
 *
 *	devices=N	there are so many (1); 0: cuInit gives CUDA_ERROR_NO_DEVICE
 *	driver=N	the version, as 12040
 *	memory=BYTES	that a device has
 *	fail=CALL:N:CODE	the n-th call from now, *: of any, gives it; N+: all since;
 *			"operation" is a call, too: what a stream does, after which the
 *			device is lost with that code
 *	lost=CODE	every call gives it, and streams do nothing any more
 *	refuse=fatbin	modules of machine code, or refuse=ptx
 *	run=N		streams run so many operations, and wait then
 *	nccl=N		the version of NCCL beside it, as 22809 (nccl_comms.h)
 *	idle=KIND	the first thread of that kernel's blocks does nothing: it is a bad GPU
 *	short=CALL	its copies leave out their last byte: it is one, too
 *	hang=CALL	the call does not return
 *	spills=BYTES	a thread of any kernel keeps so many in memory, as it says
 *	comm=BYTES	a communicator takes so many of its device's memory, from now on
 *	leaks=abort	the process ends so if it keeps anything
 *	reset		no faults
 *
 * A code is a number, or a name as ILLEGAL_ADDRESS, or NEVER: the call does not return. What gives something back does so even
 * if it gives an error, as in the driver, whose errors may be those of earlier calls.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All else is hidden, in this project. What is said to tests comes first; the rest is for the
 * stand-in of NCCL, too, which puts operations into streams. */
#pragma GCC visibility push(default)
#include <cuda.h>

/* Both versions: which of them cuda.h declares depends on its own. */
#undef cuDeviceGetUuid
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
#pragma GCC diagnostic pop

/* In the form of version 12.8, which later drivers have beside that of 13.0: not every cuda.h
 * declares it. */
CUresult standin_copy_batch(CUdeviceptr *to, CUdeviceptr *from, size_t *len,
			    size_t n, const void *attributes, size_t *firsts,
			    size_t nattributes, size_t *failed,
			    CUstream stream) __asm__("cuMemcpyBatchAsync");

/* 0, or -EINVAL: a word is wrong, those before it hold. */
int standin_control(const char *text);
/* How many allocations, streams, events, modules, contexts and communicators were not given back,
 * and of virtual memory, handles, mappings, reserved ranges, and descriptors that were exported or
 * imported and are open still; prints what they are. */
unsigned standin_leaks(void);

enum { STANDIN_DEVICES = 16 };

/* A device and its primary context. */
struct standin_device {
	unsigned retained; /* under the lock, as all of these */
	uint64_t used;	   /* bytes */
	uint64_t created;  /* those of them that end with no context */
};

/* --- faults.c: what each call begins with ------------------------------------------- */

struct standin_faults {
	unsigned devices;
	int driver, nccl;
	uint64_t memory;
	CUresult lost; /* CUDA_SUCCESS: it is not */
	bool no_fatbin, no_ptx;
	bool leaks_abort;
	uint64_t may_run;      /* operations; UINT64_MAX: all */
	uint64_t idle;	       /* kernels, by bits, that leave something out */
	unsigned spills;       /* bytes of a thread */
	uint64_t communicator; /* bytes that one takes */
	char shortened[48];    /* the call whose copies do; empty: none */
	char hanging[48];      /* the one that does not return; empty: none */
};

/* One lock guards everything in the library; operations run without it. */
void standin_lock(void);
void standin_unlock(void);
/* Until somebody woke. */
void standin_wait(void);
void standin_wake(void);
/* Under the lock; and a copy, without it. */
extern struct standin_faults standin_faults;
struct standin_faults standin_faults_now(void);
#define STANDIN_NEVER ((CUresult)0x7ffffffe)
/* A call: whether it fails. Stores the device of the current context: if there is none the
 * call can do nothing, and gives what this returns. NULL: it needs none. */
CUresult standin_enter(const char *call, struct standin_device **current);
/* Under the lock: an operation of a stream may begin, or must wait. */
bool standin_may_run(void);
/* Copies of this call leave something out. */
bool standin_is_short(const char *call);
/* And whether it does what it should. */
bool standin_enter_operation(void);
/* Ends the program. */
_Noreturn void standin_die(const char *call, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
uint64_t standin_random(uint64_t *state);
uint64_t standin_seed(void);
/* Microseconds. */
uint64_t standin_delay(void);
/* So long, about: mostly shorter, one in 16 much longer. */
void standin_pause(uint64_t *random, uint64_t delay);
/* There are so many more of them on a device that are not given back. */
void standin_communicators(struct standin_device *device, int more);
/* Never the same; in handles, which are no pointers. */
uint64_t standin_number(void);

/* --- errors.c --------------------------------------------------------------------------- */

/* A number or a name; -EINVAL if it is none. */
int standin_code(const char *text, CUresult *code);

/* --- devices.c -------------------------------------------------------------------------- */

/* Under the lock, both. Of the current context; NULL: there is none that is retained. */
struct standin_device *standin_current(CUresult *why);
/* How many contexts are retained; ends those. */
unsigned standin_devices_leaked(void);
unsigned standin_device_number(const struct standin_device *device);
/* Under the lock. NULL: there is none. */
struct standin_device *standin_device_at(int number);
bool standin_is_initialized(void);

/* --- memory.c --------------------------------------------------------------------------- */

/* Of those addresses no host has one, so that one who uses them as such gets SIGSEGV. */
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
	const struct standin_device *device; /* whose context */
	uint64_t at, size;		     /* as the program knows it */
	uint8_t *bytes;			     /* where they are */
	uint8_t *mapped;
	size_t mapped_size;
	int fd;		/* -1: none */
	unsigned users; /* operations that run */
	bool freed;	/* addresses of a device are not used again */

	/* What is mapped has these: CUmemAccess_flags, and whose it is. */
	unsigned access;
	struct vmm_memory *of;
};

/* A range of memory in a call. */
struct standin_range {
	uint64_t at, len;
	bool on_host;
	bool writes; /* what is to be done there */
};

/* Memory that an operation uses while it runs. Zero-initialise. */
struct standin_uses {
	const char *call;
	const struct standin_device *device;
	struct standin_memory **list;
	size_t n, cap;
};

/* The allocation in which the whole range is; ends the program if there is none. A range may
 * be in several that are mapped side by side: the first. Under the lock. */
struct standin_memory *standin_find(const char *call,
				    const struct standin_device *device,
				    struct standin_range range);
/* The same at once. */
void standin_check(const char *call, const struct standin_device *device,
		   struct standin_range range);
/* And nobody may free it until the operation has run. Stores the allocation. */
uint8_t *standin_use(struct standin_uses *uses, struct standin_range range,
		     struct standin_memory **memory);
void standin_uses_end(struct standin_uses *uses);
/* Under the lock. Memory of a memfd with guards around it: its own, if fd is -1. NULL. */
struct standin_memory *standin_memory_map(int kind, uint64_t size, int fd);
void standin_memory_free(const char *call, struct standin_memory *memory);
/* Of the device, or all of it: NULL. How much there is; with `end` it is freed. Under the
 * lock. */
unsigned standin_memory_left(const struct standin_device *device, bool end);

/* Under the lock, these. Something that has any of these addresses of a device; NULL. */
struct standin_memory *standin_memory_at(uint64_t at, uint64_t len);
void standin_memory_add(struct standin_memory *memory);
/* It is not known any more, and no more. */
void standin_memory_forget(struct standin_memory *memory);
/* Of a multiple of `alignment`, a power of two, and of no more; behind all others. */
uint64_t standin_address(uint64_t size, uint64_t alignment);
/* What is in new memory: nothing that one could rely on. */
void standin_garbage(uint8_t *bytes, uint64_t size);

enum { STANDIN_GUARD = 4096 }; /* bytes before and, at least, behind memory */

/* --- vmm.c, ranges.c ----------------------------------------------------------------------- */

enum { STANDIN_VMM_KINDS = 4 };

/* Handles, mappings, ranges, descriptors: how many there are. Under the lock. */
void standin_vmm_left(unsigned left[STANDIN_VMM_KINDS]);
/* Ends the program if the address is of a range in which nothing is mapped there, or that was
 * freed. Under the lock. */
void standin_range_failed(const char *call, uint64_t at);

/* --- streams.c, events.c ------------------------------------------------------------------ */

/* A place in a stream. Counted. */
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
	void (*run)(struct standin_op *op); /* NULL: nothing */
	/* Instead, where it does not run; NULL: nothing. */
	void (*drop)(struct standin_op *op);
	/* Counted. Waited for before it, reached behind it; NULL. */
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
/* Streams of the device, or all, have run what they have; how many were left. */
unsigned standin_streams_end(const struct standin_device *device);
unsigned standin_streams_left(void);
/* Under the lock. */
void standin_moment_put(struct standin_moment *moment);
unsigned standin_events_left(const struct standin_device *device, bool end);

/* --- modules.c ---------------------------------------------------------------------------- */

unsigned standin_modules_left(const struct standin_device *device, bool end);
#pragma GCC visibility pop

#endif
