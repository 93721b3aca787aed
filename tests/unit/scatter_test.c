/* SPDX-License-Identifier: MIT */
/*
 * scatter: bytes of a random box of a random sharded tensor, written piece by
 * piece, are found where the tensor's boxes say, one element at a time; no
 * other byte of the files changes.
 */
#include "boxes.h"
#include "ckptfs/io.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILE_BYTES = 64 << 10, ROUNDS = 20000 };

static uint8_t *file;
static struct ck_target target;

/* Items that can be written: no two elements share bytes. */
static void only_distinct(struct boxes *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		const int64_t *size = boxes_at(b, i) + b->ndim;
		uint64_t *stride = b->strides + (size_t)i * b->ndim;
		uint64_t next = b->item;
		bool shared = false;

		for (uint32_t d = 0; d < b->ndim; d++)
			shared |= size[d] > 1 && stride[d] == 0;
		for (uint32_t d = b->ndim; shared && d > 0 && d--;) {
			stride[d] = next;
			if (size[d] && size[d] < 9) /* else it has nothing */
				next *= (uint64_t)size[d];
		}
		if (shared)
			b->span[i] = next;
	}
}

struct trial {
	struct boxes b;
	uint64_t off[BOXES_DIMS], size[BOXES_DIMS];
	struct ck_place places[BOXES_MAX];
	uint8_t expect[FILE_BYTES];
	uint8_t bytes[BOXES_ELEMENTS * 16];
	uint64_t nbytes;
};

static bool trial_make(struct trial *t, uint64_t *random)
{
	static const uint32_t items[] = { 1, 2, 4, 8, 16 };
	uint64_t at = boxes_below(random, 100);

	boxes_make(&t->b, items[boxes_below(random, 5)], random);
	only_distinct(&t->b);
	for (uint32_t i = 0; i < t->b.n; i++) {
		t->places[i] = (struct ck_place){ &target, at };
		at += t->b.span[i] + boxes_below(random, 70);
	}
	if (at > FILE_BYTES)
		return false;
	boxes_window(&t->b, t->off, t->size, random);
	t->nbytes = boxes_volume(t->size, t->b.ndim) * t->b.item;
	for (uint64_t i = 0; i < t->nbytes; i++)
		t->bytes[i] = (uint8_t)tap_random(random);
	return true;
}

/* The place of a byte of the window; -1: in no box. */
static int64_t place_of(struct trial *t, uint64_t pos)
{
	uint64_t index[BOXES_DIMS] = { 0 }, src;
	int64_t chunk;

	boxes_index(t->b.ndim, t->off, t->size, pos / t->b.item, index);
	chunk = boxes_find(&t->b, index, &src);
	return chunk < 0 ? -1
			 : (int64_t)(t->places[chunk].fpos + src +
				     pos % t->b.item);
}

/* One piece, by one call and by hand. */
static bool write_piece(struct trial *t, uint64_t begin, uint64_t end)
{
	struct ck_request r = {
		.ndim = t->b.ndim,
		.item = t->b.item,
		.off = t->off,
		.size = t->size,
		.begin = begin,
		.end = end,
		.nchunks = t->b.n,
		.boxes = t->b.box,
		.strides = t->b.strides,
		.order = t->b.order,
	};
	bool hole = false;
	int rc = ck_host_scatter(&r, t->places, t->bytes + begin);

	for (uint64_t pos = begin; pos < end; pos++)
		hole |= place_of(t, pos) < 0;
	for (uint64_t pos = begin; pos < end && !hole; pos++)
		t->expect[place_of(t, pos)] = t->bytes[pos];
	return rc == (hole ? -ENODATA : 0);
}

static bool trial_run(struct trial *t, uint64_t *random)
{
	memset(file, 0xEE, FILE_BYTES);
	memset(t->expect, 0xEE, FILE_BYTES);
	for (uint64_t begin = 0; begin < t->nbytes;) {
		uint64_t n = 1 + boxes_below(random, t->nbytes - begin);

		if (!write_piece(t, begin, begin + n))
			return false;
		begin += n;
	}
	return memcmp(file, t->expect, FILE_BYTES) == 0;
}

static void test_random(void)
{
	static struct trial t;
	uint64_t random = 20;
	unsigned wrong = 0, done = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		if (!trial_make(&t, &random))
			continue;
		done++;
		wrong += !trial_run(&t, &random);
	}
	eq_i64(wrong, 0);
	ok(done > ROUNDS / 2);
	/* what is compared is compared: one byte elsewhere is seen */
	file[1]++;
	ok(memcmp(file, t.expect, FILE_BYTES) != 0);
}

/* Long runs, runs that fill a range, and rows the other way round. */
static void test_ways(void)
{
	enum { SIDE = 512 };

	static uint32_t bytes[SIDE * SIDE], want[SIDE * SIDE];
	const uint64_t off[2] = { 0 }, size[2] = { SIDE, SIDE };
	const int64_t box[4] = { 0, 0, SIDE, SIDE };
	const uint32_t order[1] = { 0 };
	int fd = memfd_create("scatter", MFD_CLOEXEC);
	struct ck_target big = { .fd = fd, .size = sizeof(want) };
	struct ck_place place = { &big, 0 };
	const uint64_t strides[2] = { 4, 4 * SIDE };
	struct ck_request r = { .ndim = 2,
				.item = 4,
				.off = off,
				.size = size,
				.end = sizeof(bytes),
				.nchunks = 1,
				.boxes = box,
				.strides = strides,
				.order = order };

	ok(fd >= 0 && ftruncate(fd, sizeof(want)) == 0);
	for (uint32_t i = 0; i < SIDE * SIDE; i++) {
		bytes[i] = (uint32_t)(i * UINT64_C(2654435761));
		want[i % SIDE * SIDE + i / SIDE] = bytes[i];
	}
	eq_err(ck_host_scatter(&r, &place, bytes), 0);
	r.end = sizeof(bytes) / 2; /* part of each row */
	eq_err(ck_host_scatter(&r, &place, bytes), 0);
	ck_target_unmap(&big);
	ok(pread(fd, bytes, sizeof(bytes), 0) == sizeof(bytes));
	ok(memcmp(bytes, want, sizeof(want)) == 0);
	r.end = sizeof(bytes);
	place.fpos = 4; /* beyond the end */
	eq_err(ck_host_scatter(&r, &place, bytes), -EINVAL);
	close(fd);
}

int main(void)
{
	int fd = memfd_create("scatter", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, FILE_BYTES) || ck_sigbus_install())
		return 2;
	file = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    0);
	if (file == MAP_FAILED)
		return 2;
	target = (struct ck_target){ .fd = fd, .size = FILE_BYTES };
	test_random();
	test_ways();
	return tap_done();
}
