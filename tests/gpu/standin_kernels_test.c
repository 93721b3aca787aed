/* SPDX-License-Identifier: MIT */
/*
 * standin_kernels: kernels of the fake driver move the right bytes in the right order; a program
 * that omits a wait gets wrong bytes.
 */
#include "gpu/driver/kernels.h"
#include "standin/loaded.h"
#include "tiles_case.h"

/* --- kernels ------------------------------------------------------------------------------ */

static struct kernels {
	CUmodule module;
	CUfunction of[CK_TILE_KINDS];
	CUdeviceptr list, nests; /* of tiles, ordered by kind */
	uint8_t *host;
} kernels;

enum { LIST = 1 << 20 };

static void kernels_load(const struct ck_kernels *image)
{
	must(cu.cuModuleLoadData(&kernels.module, image->bytes));
	for (unsigned k = 0; k < CK_TILE_KINDS; k++)
		must(cu.cuModuleGetFunction(
			&kernels.of[k], kernels.module,
			ck_tile_kernel((enum ck_tile_kind)k)));
	kernels.list = gpu_alloc(LIST);
	kernels.nests = gpu_alloc(LIST);
	kernels.host = gpu_host((size_t)2 * LIST);
}

static void kernels_unload(void)
{
	must(cu.cuMemFree(kernels.list));
	must(cu.cuMemFree(kernels.nests));
	must(cu.cuMemFreeHost(kernels.host));
	must(cu.cuModuleUnload(kernels.module));
}

/* Uploads the lists of tiles, in the stream, after their previous use there. */
static void tiles_upload(const struct ck_tiles *t, CUstream stream)
{
	uint8_t *to = kernels.host;

	for (unsigned k = 0; k < CK_TILE_KINDS; k++)
		for (size_t i = 0; i < t->of[k].n && to < kernels.host + LIST;
		     i++, to += sizeof(struct ck_tile))
			memcpy(to, &t->of[k].list[i], sizeof(struct ck_tile));
	if (to - kernels.host > LIST || t->nnests * sizeof(*t->nests) > LIST)
		abort();
	memcpy(kernels.host + LIST, t->nests, t->nnests * sizeof(*t->nests));
	must(cu.cuMemcpyHtoDAsync(kernels.list, kernels.host,
				  (size_t)(to - kernels.host), stream));
	must(cu.cuMemcpyHtoDAsync(kernels.nests, kernels.host + LIST,
				  t->nnests * sizeof(*t->nests), stream));
}

static void tiles_launch(const struct ck_tiles *t, CUstream stream)
{
	CUdeviceptr list = kernels.list, nests = kernels.nests;

	for (unsigned k = 0; k < CK_TILE_KINDS; k++) {
		if (!t->of[k].n)
			continue;
		must(gpu_launch(kernels.of[k], t->of[k].n, &list, &nests,
				stream));
		list += t->of[k].n * sizeof(struct ck_tile);
	}
	/* The launch has copied its arguments. */
	list = nests = 0;
}

/* AREA bytes each. */
static struct areas {
	CUdeviceptr src, dst;
	uint8_t *host, *want;
} areas;

static void areas_begin(uint64_t *random)
{
	areas = (struct areas){ gpu_alloc(AREA), gpu_alloc(AREA),
				gpu_host(AREA), malloc(AREA) };
	area_make(random);
	memcpy(areas.host, area.src, AREA);
	must(cu.cuMemcpyHtoDAsync(areas.src, areas.host, AREA, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
}

static void areas_end(void)
{
	must(cu.cuMemFree(areas.src));
	must(cu.cuMemFree(areas.dst));
	must(cu.cuMemFreeHost(areas.host));
	free(areas.want);
	area_free();
}

/* True if the destination of a copy and the bytes around it are right. */
static bool kernels_right(struct random_copy *r, struct ck_tiles *t)
{
	uint64_t at = r->copy.dst - (uintptr_t)area.dst - MARGIN;
	size_t len = r->dst_size + (size_t)2 * MARGIN;

	memset(areas.host, 0xa5, len);
	memset(areas.want, 0xa5, len);
	copy_defined(r, areas.want + MARGIN);
	must(cu.cuMemcpyHtoDAsync(areas.dst + at, areas.host, len, gpu.a));
	r->copy.src = areas.src + (r->copy.src - (uintptr_t)area.src);
	r->copy.dst = areas.dst + (r->copy.dst - (uintptr_t)area.dst);
	ck_tiles_clear(t);
	if (ck_tiles_add(t, &r->copy))
		return false;
	tiles_upload(t, gpu.a);
	tiles_launch(t, gpu.a);
	must(cu.cuMemcpyDtoHAsync(areas.host, areas.dst + at, len, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
	return memcmp(areas.host, areas.want, len) == 0;
}

/* Random copies by all kernels, compared with the definition of a copy. */
static void test_kernels(void)
{
	uint64_t random = tap_seed(3) | 1;
	unsigned all = 0, cases = 0, right = 0;
	struct ck_tiles t = { 0 };

	kernels_load(&ck_kernels_ptx);
	areas_begin(&random);
	while (cases < 10000 &&
	       (cases < 100 || all != (1 << CK_TILE_KINDS) - 1)) {
		struct random_copy r;

		cases++;
		copy_random(&r, &random);
		right += kernels_right(&r, &t);
		for (unsigned k = 0; k < CK_TILE_KINDS; k++)
			all |= (unsigned)(t.of[k].n > 0) << k;
	}
	printf("# %u copies\n", cases);
	eq_u64(right, cases);
	eq_u64(all, (1 << CK_TILE_KINDS) - 1);
	ck_tiles_fini(&t);
	areas_end();
	kernels_unload();
}

static void test_modules(void)
{
	static const char *const bad[] = { "\n.version 7.0\n", "ELF",
					   "\n.target sm_80\n" };
	struct ck_kernels images[] = { ck_kernels_ptx, ck_kernels_fatbin };
	const char *const refuse[] = { "refuse=ptx", "refuse=fatbin" };
	const CUresult codes[] = { CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
				   CUDA_ERROR_NO_BINARY_FOR_GPU };
	CUmodule module;
	CUfunction f;

	for (unsigned i = 0; i < 3; i++)
		eq_i64(cu.cuModuleLoadData(&module, bad[i]),
		       CUDA_ERROR_INVALID_IMAGE);
	for (unsigned i = 0; i < 2; i++) {
		if (!images[i].len)
			continue;
		kernels_load(&images[i]);
		eq_i64(cu.cuModuleGetFunction(&f, kernels.module, "ck_tiles"),
		       CUDA_ERROR_NOT_FOUND);
		kernels_unload();
		eq_err(cu.standin_control(refuse[i]), 0);
		eq_i64(cu.cuModuleLoadData(&module, images[i].bytes), codes[i]);
		eq_err(cu.standin_control("reset"), 0);
	}
	must(cu.cuModuleLoadData(&module, "//\n.version 7.0\n.target sm_80\n"
					  ".visible .entry ck_tiles_16("));
	eq_i64(cu.cuModuleGetFunction(&f, module, "ck_tiles_16"), 0);
	eq_i64(cu.cuModuleGetFunction(&f, module, "ck_tiles_1"),
	       CUDA_ERROR_NOT_FOUND);
	must(cu.cuModuleUnload(module));
}

/* The arguments are copied at the launch. Tiles are read when the kernel runs: earlier operations
 * of the stream have an effect, later ones do not. */
static void test_arguments(void)
{
	CUdeviceptr list, nests, data = gpu_alloc(4096);
	uint8_t *host = gpu_host(4096);
	unsigned right = 0;
	struct ck_tile t = { .rows = 1, .run = 16, .lanes = 1 };

	kernels_load(&ck_kernels_ptx);
	memset(host + 1024, 0, sizeof(struct ck_nest));
	for (unsigned i = 0; i < 20; i++) {
		for (unsigned k = 0; k < 48; k++)
			host[k] = (uint8_t)(i + k);
		must(cu.cuMemcpyHtoDAsync(data, host, 48, gpu.a));
		for (unsigned k = 0; k < 2; k++) {
			t.src = data + 16ULL * k;
			t.dst = data + 256 + 16ULL * k;
			memcpy(host + 512 + 64 * k, &t, sizeof(t));
		}
		must(cu.cuMemcpyHtoDAsync(kernels.nests, host + 1024,
					  sizeof(struct ck_nest), gpu.a));
		for (unsigned k = 0; k < 2; k++) {
			must(cu.cuMemcpyHtoDAsync(kernels.list,
						  host + 512 + (size_t)64 * k,
						  sizeof(t), gpu.a));
			list = kernels.list;
			nests = kernels.nests;
			must(gpu_launch(kernels.of[CK_TILE_16], 1, &list,
					&nests, gpu.a));
			list = nests = 0;
		}
		must(cu.cuMemcpyDtoHAsync(host + 2048, data + 256, 32, gpu.a));
		must(cu.cuStreamSynchronize(gpu.a));
		right += memcmp(host, host + 2048, 32) == 0;
	}
	eq_u64(right, 20);
	kernels_unload();
	must(cu.cuMemFree(data));
	must(cu.cuMemFreeHost(host));
}

/* --- a pipeline --------------------------------------------------------------------------- */

enum { PIECE = 4096, PIECES = 6, SLOTS = 2 };

/* The wait that a program omits. */
enum forgets { NOTHING, FILLED, EMPTIED, COPIED };

static struct pipeline {
	CUdeviceptr staging[SLOTS], out[SLOTS];
	CUevent filled[SLOTS], emptied[SLOTS];
	uint8_t *from, *to;
	struct ck_tiles tiles[SLOTS];
} line;

static void pipeline_begin(void)
{
	kernels_load(&ck_kernels_ptx);
	line.from = gpu_host((size_t)PIECE * PIECES);
	line.to = gpu_host((size_t)PIECE * PIECES);
	for (unsigned i = 0; i < SLOTS; i++) {
		line.staging[i] = gpu_alloc(PIECE);
		line.out[i] = gpu_alloc(PIECE);
		line.filled[i] = gpu_event();
		line.emptied[i] = gpu_event();
	}
}

static void pipeline_end(void)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		must(cu.cuMemFree(line.staging[i]));
		must(cu.cuMemFree(line.out[i]));
		must(cu.cuEventDestroy(line.filled[i]));
		must(cu.cuEventDestroy(line.emptied[i]));
	}
	must(cu.cuMemFreeHost(line.from));
	must(cu.cuMemFreeHost(line.to));
	kernels_unload();
}

/* One stream copies the segment to the device, another one moves it and copies it back. */
static void pipeline_piece(unsigned piece, enum forgets forgets)
{
	unsigned slot = piece % SLOTS;
	CUdeviceptr list = kernels.list + slot * sizeof(struct ck_tile);
	size_t at = (size_t)piece * PIECE;

	if (forgets != EMPTIED)
		must(cu.cuStreamWaitEvent(gpu.a, line.emptied[slot], 0));
	must(cu.cuMemcpyHtoDAsync(line.staging[slot], line.from + at, PIECE,
				  gpu.a));
	must(cu.cuEventRecord(line.filled[slot], gpu.a));
	if (forgets != FILLED)
		must(cu.cuStreamWaitEvent(gpu.b, line.filled[slot], 0));
	must(gpu_launch(kernels.of[CK_TILE_16], 1, &list, &kernels.nests,
			gpu.b));
	must(cu.cuEventRecord(line.emptied[slot], gpu.b));
	must(cu.cuMemcpyDtoHAsync(line.to + at, line.out[slot], PIECE, gpu.b));
}

static bool pipeline_right(uint64_t *random, enum forgets forgets)
{
	struct ck_tile t = { .rows = 1, .run = PIECE, .lanes = 256 };
	bool right;

	for (unsigned i = 0; i < SLOTS; i++) {
		t.src = line.staging[i];
		t.dst = line.out[i];
		memcpy(kernels.host + i * sizeof(t), &t, sizeof(t));
	}
	memset(kernels.host + LIST, 0, sizeof(struct ck_nest));
	for (unsigned i = 0; i < PIECE * PIECES; i++)
		line.from[i] = (uint8_t)tap_random(random);
	must(cu.cuMemcpyHtoDAsync(kernels.list, kernels.host, SLOTS * sizeof(t),
				  gpu.b));
	must(cu.cuMemcpyHtoDAsync(kernels.nests, kernels.host + LIST,
				  sizeof(struct ck_nest), gpu.b));
	must(cu.cuStreamSynchronize(gpu.b));
	for (unsigned piece = 0; piece < PIECES; piece++)
		pipeline_piece(piece, forgets);
	if (forgets != COPIED)
		must(cu.cuStreamSynchronize(gpu.b));
	right = memcmp(line.from, line.to, (size_t)PIECE * PIECES) == 0;
	must(cu.cuStreamSynchronize(gpu.a));
	must(cu.cuStreamSynchronize(gpu.b));
	return right;
}

static void test_pipeline(void)
{
	enum { RUNS = 40 };

	uint64_t random = tap_seed(11) | 1;
	unsigned right[4] = { 0 };

	pipeline_begin();
	for (unsigned i = 0; i < 5 * RUNS; i++)
		right[NOTHING] += pipeline_right(&random, NOTHING);
	/* TSan reports omitted waits as races and aborts. */
	for (unsigned i = 0; !TAP_THREADS && i < RUNS; i++)
		for (unsigned f = FILLED; f <= COPIED; f++)
			right[f] += pipeline_right(&random, (enum forgets)f);
	pipeline_end();
	eq_u64(right[NOTHING], 5U * RUNS);
	for (unsigned f = FILLED; !TAP_THREADS && f <= COPIED; f++) {
		printf("# right without a wait: %u of %u\n", right[f],
		       (unsigned)RUNS);
		ok(right[f] < RUNS / 2);
	}
}

int main(int argc, char **argv)
{
	const char *lacks = argc == 2 ? driver_load(argv[1]) : "an argument";

	eq_text(lacks ? lacks : "", "");
	if (lacks)
		return tap_done();
	gpu_begin();
	test_kernels();
	test_modules();
	test_arguments();
	test_pipeline();
	gpu_end();
	eq_u64(cu.standin_leaks(), 0);
	return tap_done();
}
