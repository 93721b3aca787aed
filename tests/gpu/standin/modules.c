/* SPDX-License-Identifier: MIT */
/*
 * modules: kernels are found by their names. A thread runs the same code of a tile that nvcc
 * compiles. Blocks run in any order, and so do the threads of each.
 */
#include "standin.h"

#include <stdlib.h>
#include <string.h>

#include "ckptfs/base.h"

/* --- loads and stores of a thread ----------------------------------------------------- */

/* The memory of the launch that this thread runs. */
static _Thread_local struct standin_uses *uses;

/* Compares with the last allocation first, since allocations are few and accesses many. */
static inline uint8_t *place(uint64_t at, uint32_t size, bool writes,
			     struct standin_memory **last)
{
	struct standin_memory *m = *last;
	struct standin_range range = { .at = at,
				       .len = size,
				       .writes = writes };

	if (at % size != 0)
		standin_die(uses->call,
			    "%u bytes at an address that is no "
			    "multiple of it",
			    size);
	if (m && at >= m->at && at - m->at < m->size &&
	    size <= m->size - (at - m->at))
		return m->bytes + (at - m->at);
	return standin_use(uses, range, last);
}

static _Thread_local struct standin_memory *last_from, *last_to;

static inline const void *place_from(uint64_t at, uint32_t size)
{
	return place(at, size, false, &last_from);
}

static inline void *place_to(uint64_t at, uint32_t size)
{
	return place(at, size, true, &last_to);
}

#define CK_TILE_FROM place_from
#define CK_TILE_TO   place_to
#include "../../lib/tile_thread.h"

/* --- modules ---------------------------------------------------------------------------- */

static const char *const kernels[CK_TILE_KINDS] = {
	[CK_TILE_1] = "ck_tiles_1",	      [CK_TILE_2] = "ck_tiles_2",
	[CK_TILE_4] = "ck_tiles_4",	      [CK_TILE_8] = "ck_tiles_8",
	[CK_TILE_16] = "ck_tiles_16",	      [CK_TILE_LONG] = "ck_tiles_long",
	[CK_TILE_CHANGE] = "ck_tiles_change",
};

struct standin_module {
	struct standin_module *next;
	uint64_t number;
	struct standin_device *device;
	bool has[CK_TILE_KINDS];
};

static struct standin_module *modules; /* under the lock */
static unsigned ended;		       /* by the end of their context */

unsigned standin_modules_left(const struct standin_device *device, bool end)
{
	struct standin_module **at = &modules;
	unsigned n = 0;

	while (*at) {
		struct standin_module *m = *at;

		if (device && m->device != device) {
			at = &m->next;
			continue;
		}
		n++;
		if (end) {
			*at = m->next;
			free(m);
		} else {
			at = &m->next;
		}
	}
	if (end)
		ended += n;
	return end ? n : n + ended;
}

/* A handle has the number of the module, and of a kernel in it. */
static uint64_t handle(uint64_t number, unsigned kernel)
{
	return STANDIN_TAG | number << 16 | kernel << 8 | 0x30;
}

/* Under the lock. */
static struct standin_module **module_find(const char *call, uint64_t number,
					   const struct standin_device *device)
{
	struct standin_module **at = &modules;

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	if (!*at)
		standin_die(call, "of a module that is no more");
	if ((*at)->device != device)
		standin_die(call, "of a module of another context");
	return at;
}

/* The head of a fatbin, from nvcc's output and fatbinary_section.h of the toolkit. */
struct fatbin {
	uint32_t magic;
	uint16_t version, head;
	uint64_t len;
};

static CUresult read_fatbin(const struct fatbin *f, const void *image,
			    struct standin_module *m)
{
	for (size_t k = 0; k < CK_TILE_KINDS; k++)
		m->has[k] = memmem(image, f->head + f->len, kernels[k],
				   strlen(kernels[k]) + 1) != NULL;
	return standin_faults_now().no_fatbin ? CUDA_ERROR_NO_BINARY_FOR_GPU
					      : CUDA_SUCCESS;
}

static CUresult read_ptx(const char *text, struct standin_module *m)
{
	if (!strstr(text, "\n.version ") || !strstr(text, "\n.target sm_"))
		return CUDA_ERROR_INVALID_IMAGE;
	for (size_t k = 0; k < CK_TILE_KINDS; k++) {
		size_t len = strlen(kernels[k]);
		const char *at = text;

		while ((at = strstr(at, ".entry ")) != NULL) {
			at += strlen(".entry ");
			m->has[k] |= strncmp(at, kernels[k], len) == 0 &&
				     at[len] == '(';
		}
	}
	return standin_faults_now().no_ptx ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
					   : CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_module *m;
	struct fatbin f = { 0 };

	if (code)
		return code;
	m = calloc(1, sizeof(*m));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* PTX text may be shorter than a head. */
	memcpy(&f.magic, image, sizeof(f.magic));
	if (f.magic == 0xba55ed50) {
		memcpy(&f, image, sizeof(f));
		code = read_fatbin(&f, image, m);
	} else {
		code = read_ptx(image, m);
	}
	if (code) {
		free(m);
		return code;
	}
	m->device = device;
	m->number = standin_number();
	standin_lock();
	m->next = modules;
	modules = m;
	standin_unlock();
	*module = (CUmodule)(uintptr_t)handle(m->number, 0xff);
	return CUDA_SUCCESS;
}

static uint64_t number_of(const char *call, uint64_t value, bool kernel)
{
	if ((value & ~UINT64_C(0xffffffffff00)) != (STANDIN_TAG | 0x30) ||
	    ((value >> 8 & 0xff) < CK_TILE_KINDS) != kernel)
		standin_die(call, "neither a module nor a kernel");
	return value >> 16 & 0xffffffff;
}

CUresult cuModuleUnload(CUmodule module)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	uint64_t number = number_of(__func__, (uintptr_t)module, false);
	struct standin_module **at, *m;

	if (!device)
		return code;
	standin_lock();
	at = module_find(__func__, number, device);
	m = *at;
	*at = m->next;
	free(m);
	standin_unlock();
	return code;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
			     const char *name)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	uint64_t number = number_of(__func__, (uintptr_t)module, false);
	unsigned k = 0;

	if (code)
		return code;
	while (k < CK_TILE_KINDS && strcmp(kernels[k], name) != 0)
		k++;
	standin_lock();
	if (k == CK_TILE_KINDS ||
	    !(*module_find(__func__, number, device))->has[k])
		code = CUDA_ERROR_NOT_FOUND;
	standin_unlock();
	if (!code)
		*function = (CUfunction)(uintptr_t)handle(number, k);
	return code;
}

/* The fake kernels use no local memory, unless a fault sets it. */
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
			    CUfunction function)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	uint64_t number = number_of(__func__, (uintptr_t)function, true);

	if (code)
		return code;
	standin_lock();
	(void)module_find(__func__, number, device);
	*value = (int)standin_faults.spills;
	standin_unlock();
	return attribute == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

/* --- launches --------------------------------------------------------------------------- */

/* A pointer to the arguments of a kernel. */
static const void *argument(uint64_t at, uint32_t size)
{
	struct standin_memory *memory;

	if (at % 8 != 0)
		standin_die(uses->call, "tiles that are not aligned");
	return standin_use(
		uses, (struct standin_range){ .at = at, .len = size }, &memory);
}

static void tile_check(const struct ck_tile *t, const struct ck_nest *nest)
{
	if (t->lanes == 0 || (t->lanes & (t->lanes - 1)) ||
	    t->lanes > CK_TILE_THREADS)
		standin_die(uses->call, "a tile of %u lanes", t->lanes);
	if ((uint64_t)t->rows * t->run > CK_TILE_BYTES)
		standin_die(uses->call, "a tile of %llu bytes",
			    (unsigned long long)t->rows * t->run);
	if (nest->nloops > CK_NEST_LOOPS)
		standin_die(uses->call, "a nest of %u loops", nest->nloops);
	for (uint32_t i = 0; i < nest->nloops; i++)
		if (nest->count[i] == 0)
			standin_die(uses->call, "a loop of no steps");
}

static void block_run(const struct standin_launch *l, unsigned block,
		      uint32_t first, bool idle)
{
	struct ck_tile t;
	const struct ck_nest *nest;

	memcpy(&t, argument(l->tiles + block * sizeof(t), sizeof(t)),
	       sizeof(t));
	nest = argument(l->nests + t.nest * sizeof(*nest), sizeof(*nest));
	tile_check(&t, nest);
	for (uint32_t i = 0; i < CK_TILE_THREADS; i++) {
		uint32_t thread = (first + i) % CK_TILE_THREADS;

		if (thread || !idle)
			tile_thread((enum ck_tile_kind)l->kind, &t, nest,
				    thread);
	}
}

/* Checks under the lock that the module still exists, then runs without it. */
static void launch_run(struct standin_op *op)
{
	const struct standin_launch *l = &op->launch;
	struct standin_uses used = { .call = op->call, .device = op->device };
	uint64_t random = standin_seed() + standin_number(), first;
	bool idle;

	standin_lock();
	(void)module_find(op->call, l->module, op->device);
	standin_unlock();
	idle = standin_faults_now().idle >> l->kind & 1;
	uses = &used;
	last_from = last_to = NULL;
	first = standin_random(&random);
	for (unsigned i = 0; i < l->blocks; i++)
		block_run(l, (unsigned)((first + i) % l->blocks),
			  (uint32_t)standin_random(&random) % CK_TILE_THREADS,
			  idle);
	standin_uses_end(&used);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int grid_x, unsigned int grid_y,
			unsigned int grid_z, unsigned int block_x,
			unsigned int block_y, unsigned int block_z,
			unsigned int shared, CUstream stream, void **arguments,
			void **extra)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_op op = { .call = __func__, .run = launch_run };

	if (code)
		return code;
	if (grid_x == 0 || grid_y != 1 || grid_z != 1)
		standin_die(__func__, "a grid of %u, %u, %u", grid_x, grid_y,
			    grid_z);
	if (block_x != CK_TILE_THREADS || block_y != 1 || block_z != 1)
		standin_die(__func__, "a block of %u, %u, %u", block_x, block_y,
			    block_z);
	if (shared || extra || !arguments)
		standin_die(__func__, "shared memory, or arguments in `extra`");
	op.device = device;
	op.launch.module = number_of(__func__, (uintptr_t)f, true);
	op.launch.kind = (uintptr_t)f >> 8 & 0xff;
	op.launch.blocks = grid_x;
	memcpy(&op.launch.tiles, arguments[0], sizeof(uint64_t));
	memcpy(&op.launch.nests, arguments[1], sizeof(uint64_t));
	standin_check(__func__, device,
		      (struct standin_range){ .at = op.launch.tiles,
					      .len = grid_x *
						     sizeof(struct ck_tile) });
	standin_check(
		__func__, device,
		(struct standin_range){ .at = op.launch.nests, .len = 1 });
	return standin_submit(stream, &op);
}
