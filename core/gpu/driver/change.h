/* SPDX-License-Identifier: MIT */
/*
 * change: copies of body.h that change values, unit by unit.
 */
#ifndef CK_CHANGE_H
#define CK_CHANGE_H

#include "body.h"

/* A little-endian number of `unit` bytes at any address. */
CK_BODY uint64_t ck_unit_load(uint64_t at, uint32_t unit)
{
	uint64_t value = 0;

	if (at % unit == 0)
		return ck_tile_load(at, unit).x;
	for (uint32_t i = 0; i < unit; i++)
		value |= ck_tile_load(at + i, 1).x << 8 * i;
	return value;
}

CK_BODY void ck_unit_store(uint64_t at, uint64_t value, uint32_t unit)
{
	struct ck_vector v;

	v.y = 0;
	v.x = value;
	if (at % unit == 0) {
		ck_tile_store(at, v, unit);
		return;
	}
	for (uint32_t i = 0; i < unit; i++) {
		v.x = value >> 8 * i & 255;
		ck_tile_store(at + i, v, 1);
	}
}

/* Its bytes in reverse. */
CK_BODY uint64_t ck_unit_swapped(uint64_t v, uint32_t unit)
{
	v = (v >> 8 & 0x00ff00ff00ff00ffu) | (v & 0x00ff00ff00ff00ffu) << 8;
	v = (v >> 16 & 0x0000ffff0000ffffu) | (v & 0x0000ffff0000ffffu) << 16;
	v = v >> 32 | (v & 0xffffffffu) << 32;
	return v >> (64 - 8 * unit);
}

/* Negates: the sign of a float is its top bit, integers have a two's complement. */
CK_BODY uint64_t ck_unit_negated(uint64_t v, uint32_t unit, uint32_t how)
{
	uint64_t sign = (uint64_t)1 << (8 * unit - 1);

	if (how & CK_TILE_FLOAT)
		return v ^ sign;
	return v ? ~(v - 1) & (sign | (sign - 1)) : 0;
}

/* Unit i of a run, which begins with an element. */
CK_BODY uint64_t ck_unit_changed(uint64_t v, uint32_t i, uint32_t unit,
				 uint32_t how)
{
	if (how & CK_TILE_SWAP)
		v = ck_unit_swapped(v, unit);
	if (how & CK_TILE_NEG)
		v = ck_unit_negated(v, unit, how);
	if (how & CK_TILE_CONJ && i & 1)
		v = ck_unit_negated(v, unit, how);
	return v;
}

CK_BODY void ck_tile_units(const struct ck_tile *t, const struct ck_nest *nest,
			   uint32_t thread, uint32_t threads, uint32_t unit)
{
	struct ck_lane l = ck_lane_of(t, thread, threads);

	for (uint32_t row = l.group; row < t->rows; row += l.groups) {
		struct ck_run r = ck_run_at(t, nest, row);

		for (uint32_t i = l.lane; i < t->run / unit; i += l.lanes) {
			uint64_t v = ck_unit_load(r.src + i * unit, unit);

			v = ck_unit_changed(v, i, unit, nest->how);
			ck_unit_store(r.dst + i * unit, v, unit);
		}
	}
}

CK_BODY void ck_tile_change(const struct ck_tile *t, const struct ck_nest *nest,
			    uint32_t thread, uint32_t threads)
{
	switch (nest->unit) {
	case 1: ck_tile_units(t, nest, thread, threads, 1); break;
	case 2: ck_tile_units(t, nest, thread, threads, 2); break;
	case 4: ck_tile_units(t, nest, thread, threads, 4); break;
	default: ck_tile_units(t, nest, thread, threads, 8); break;
	}
}

#endif
