/* SPDX-License-Identifier: MIT */
/*
 * body: the work of one thread of a block on a tile. nvcc compiles it for the device, and
 * a C compiler for the processor, where tests run the threads one after the other: so
 * no thread waits for another.
 *
 * The threads of a block are divided into groups of `lanes`; group g takes runs g,
 * g + groups, and so on. A thread makes four loads before the first store. `size`, the
 * bytes of a load, is a constant wherever this is inlined.
 *
 * A file that includes this may define CK_TILE_FROM(address, size) and
 * CK_TILE_TO(address, size), which map device addresses to pointers.
 */
#ifndef CK_BODY_H
#define CK_BODY_H

#include "tile.h"

#ifdef __CUDACC__
#define CK_BODY static __device__ __forceinline__
#define CK_MAY_ALIAS
#define CK_UNROLL	      _Pragma("unroll")
#define CK_DO_NOT_UNROLL      _Pragma("unroll 1")
/* Each byte is used once: it need not stay in a cache. */
#define CK_LOAD(type, at)     __ldcs((const type *)(at))
#define CK_STORE(type, at, v) __stcs((type *)(at), (type)(v))
#else
#define CK_BODY	     static inline __attribute__((always_inline))
#define CK_MAY_ALIAS __attribute__((may_alias))
#ifdef __clang__
#define CK_SHIFTS_OUT __attribute__((no_sanitize("integer")))
#endif
#define CK_UNROLL
#define CK_DO_NOT_UNROLL
#define CK_LOAD(type, at)     (*(const type *)(at))
#define CK_STORE(type, at, v) (void)(*(type *)(at) = (type)(v))
#endif
#ifndef CK_SHIFTS_OUT
#define CK_SHIFTS_OUT
#endif
/* Loops of constant length, and of a few iterations. */
#define ck_four_times(k)                                                       \
	CK_UNROLL for (uint32_t k = 0; k < CK_TILE_AT_ONCE; k++)
#define ck_for_each_of(k, n) CK_DO_NOT_UNROLL for (uint32_t k = 0; k < (n); k++)

typedef unsigned char CK_MAY_ALIAS ck_vector1;
typedef unsigned short CK_MAY_ALIAS ck_vector2;
typedef unsigned int CK_MAY_ALIAS ck_vector4;
typedef unsigned long long CK_MAY_ALIAS ck_vector8;

/* The bytes of one load, little-endian, x first. */
struct ck_vector {
	uint64_t x, y;
};

#ifndef CK_TILE_FROM
#define CK_TILE_FROM(address, size) ((const void *)(uintptr_t)(address))
#define CK_TILE_TO(address, size)   ((void *)(uintptr_t)(address))
#endif

enum { CK_TILE_AT_ONCE = 4 };

/* A thread's index in its group, and the index of the group. */
struct ck_lane {
	uint32_t lane, lanes;
	uint32_t group, groups;
};

CK_BODY struct ck_lane ck_lane_of(const struct ck_tile *t, uint32_t thread,
				  uint32_t threads)
{
	struct ck_lane l;

	l.lanes = t->lanes;
	l.lane = thread & (l.lanes - 1);
	l.group = thread / l.lanes;
	l.groups = threads / l.lanes;
	return l;
}

/* --- addresses ------------------------------------------------------------------------ */

/* Addresses of a run. */
struct ck_run {
	uint64_t src, dst;
};

CK_BODY struct ck_run ck_run_at(const struct ck_tile *t,
				const struct ck_nest *nest, uint32_t row)
{
	struct ck_run r;
	uint32_t left = t->row + row;

	r.src = t->src;
	r.dst = t->dst;
	ck_for_each_of(k, nest->nloops) {
		uint32_t around = left / nest->count[k];
		uint32_t i = left - around * nest->count[k];

		r.src += i * nest->src[k];
		r.dst += i * nest->dst[k];
		left = around;
	}
	return r;
}

CK_BODY struct ck_vector ck_vector_load(const void *at)
{
#ifdef __CUDACC__
	ulonglong2 v = __ldcs((const ulonglong2 *)at);
	struct ck_vector out = { v.x, v.y };
#else
	const ck_vector8 *v = (const ck_vector8 *)at;
	struct ck_vector out = { v[0], v[1] };
#endif
	return out;
}

CK_BODY void ck_vector_store(void *at, struct ck_vector v)
{
#ifdef __CUDACC__
	__stcs((ulonglong2 *)at, make_ulonglong2(v.x, v.y));
#else
	((ck_vector8 *)at)[0] = v.x;
	((ck_vector8 *)at)[1] = v.y;
#endif
}

CK_BODY struct ck_vector ck_tile_load(uint64_t address, uint32_t size)
{
	const void *at = CK_TILE_FROM(address, size);
	struct ck_vector v = { 0, 0 };

	switch (size) {
	case 1: v.x = CK_LOAD(ck_vector1, at); break;
	case 2: v.x = CK_LOAD(ck_vector2, at); break;
	case 4: v.x = CK_LOAD(ck_vector4, at); break;
	case 8: v.x = CK_LOAD(ck_vector8, at); break;
	default: v = ck_vector_load(at); break;
	}
	return v;
}

CK_BODY void ck_tile_store(uint64_t address, struct ck_vector v, uint32_t size)
{
	void *at = CK_TILE_TO(address, size);

	switch (size) {
	case 1: CK_STORE(ck_vector1, at, v.x); break;
	case 2: CK_STORE(ck_vector2, at, v.x); break;
	case 4: CK_STORE(ck_vector4, at, v.x); break;
	case 8: CK_STORE(ck_vector8, at, v.x); break;
	default: ck_vector_store(at, v); break;
	}
}

/* --- runs of vectors ------------------------------------------------------------------ */

/* n vectors of one run. */
CK_BODY void ck_tile_run(struct ck_run r, uint32_t n, struct ck_lane l,
			 uint32_t size)
{
	for (uint32_t i = l.lane; i < n; i += CK_TILE_AT_ONCE * l.lanes) {
		struct ck_vector v[CK_TILE_AT_ONCE];

		ck_four_times(k)
			if (i + k * l.lanes < n)
				v[k] = ck_tile_load(
					r.src + (i + k * l.lanes) * size, size);
		ck_four_times(k)
			if (i + k * l.lanes < n)
				ck_tile_store(r.dst + (i + k * l.lanes) * size,
					      v[k], size);
	}
}

/* One vector each of four runs. */
CK_BODY void ck_tile_runs(const struct ck_tile *t, const struct ck_nest *nest,
			  uint32_t row, struct ck_lane l, uint32_t size)
{
	struct ck_vector v[CK_TILE_AT_ONCE];
	uint64_t dst[CK_TILE_AT_ONCE];

	ck_four_times(k)
		if (row + k * l.groups < t->rows) {
			struct ck_run r = ck_run_at(t, nest,
						    row + k * l.groups);

			dst[k] = r.dst + l.lane * size;
			v[k] = ck_tile_load(r.src + l.lane * size, size);
		}
	ck_four_times(k)
		if (row + k * l.groups < t->rows)
			ck_tile_store(dst[k], v[k], size);
}

CK_BODY void ck_tile_vectors(const struct ck_tile *t,
			     const struct ck_nest *nest, uint32_t thread,
			     uint32_t threads, uint32_t size)
{
	struct ck_lane l = ck_lane_of(t, thread, threads);
	uint32_t n = t->run / size, row = l.group;

	if (n > l.lanes)
		for (; row < t->rows; row += l.groups)
			ck_tile_run(ck_run_at(t, nest, row), n, l, size);
	else if (l.lane < n)
		for (; row < t->rows; row += CK_TILE_AT_ONCE * l.groups)
			ck_tile_runs(t, nest, row, l, size);
}

/* --- long runs, unaligned ----------------------------------------------------------------- */

/* 16 bytes of two vectors, from byte `by` on, 1 to 15. */
CK_BODY CK_SHIFTS_OUT struct ck_vector ck_tile_shifted(struct ck_vector a,
						       struct ck_vector b,
						       uint32_t by)
{
	uint32_t bits = 8 * (by & 7);
	struct ck_vector v;

	if (by >= 8) {
		a.x = a.y;
		a.y = b.x;
		b.x = b.y;
	}
	/* In two steps: a shift by 64 is undefined. */
	v.x = a.x >> bits | a.y << 1 << (63 - bits);
	v.y = a.y >> bits | b.x << 1 << (63 - bits);
	return v;
}

/* Copies n vectors from an unaligned source to an aligned destination. For each vector
 * the two aligned vectors that overlap it are loaded. */
CK_BODY void ck_tile_run_shifted(struct ck_run r, uint32_t n, struct ck_lane l)
{
	uint32_t by = r.src & 15;
	uint64_t src = r.src - by;

	for (uint32_t i = l.lane; i < n; i += 2 * l.lanes) {
		uint32_t next = i + l.lanes < n ? i + l.lanes : i;
		struct ck_vector a = ck_tile_load(src + i * 16, 16);
		struct ck_vector b = ck_tile_load(src + i * 16 + 16, 16);
		struct ck_vector c = ck_tile_load(src + next * 16, 16);
		struct ck_vector d = ck_tile_load(src + next * 16 + 16, 16);

		ck_tile_store(r.dst + i * 16, ck_tile_shifted(a, b, by), 16);
		if (next != i)
			ck_tile_store(r.dst + next * 16,
				      ck_tile_shifted(c, d, by), 16);
	}
}

/* Copies bytes up to an aligned destination, then vectors, then the rest. */
CK_BODY void ck_tile_long_run(struct ck_run r, uint32_t run, struct ck_lane l)
{
	uint32_t head = (16 - (r.dst & 15)) & 15;
	uint32_t n, tail;
	struct ck_run end;

	head = head < run ? head : run;
	n = (run - head) / 16;
	tail = (run - head) % 16;
	ck_tile_run(r, head, l, 1);
	r.src += head;
	r.dst += head;
	end.src = r.src + n * 16;
	end.dst = r.dst + n * 16;
	if (r.src & 15)
		ck_tile_run_shifted(r, n, l);
	else
		ck_tile_run(r, n, l, 16);
	ck_tile_run(end, tail, l, 1);
}

CK_BODY void ck_tile_long(const struct ck_tile *t, const struct ck_nest *nest,
			  uint32_t thread, uint32_t threads)
{
	struct ck_lane l = ck_lane_of(t, thread, threads);

	for (uint32_t row = l.group; row < t->rows; row += l.groups)
		ck_tile_long_run(ck_run_at(t, nest, row), t->run, l);
}

#endif
