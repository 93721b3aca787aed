/* SPDX-License-Identifier: MIT */
/*
 * tensor_pass: reads whole tensors once, by several threads, and passes their bytes to a
 * consumer: a digest, a comparison of two checkpoints, statistics. A part of values.
 *
 * Each row is read by one thread, from its first byte to its last one, in blocks. Rows are taken in
 * the order in which their tensors lie in the data files of the first source. A long tensor can be
 * several rows, one for each of its ranges, so that several threads read it. A thread has one
 * block for each source, and a workspace of the I/O engine: less than 64 MiB.
 *
 * With two sources the same range of both is passed at once: both tensors have the same number of
 * bytes.
 */
#ifndef CKPTFS_TENSOR_PASS_H
#define CKPTFS_TENSOR_PASS_H

#include "ckptfs/format.h"
#include "ckptfs/io.h"

enum { CK_PASS_SOURCES = 2, CK_PASS_THREADS = 16, CK_PASS_RANGES = 16 };

/* A checkpoint that is read. Caller owns all, and keeps them until the pass has ended. */
struct ck_pass_source {
	struct ck_checkpoint *cp;
	const struct ck_catalog *c;
	struct ck_route *route; /* NULL: all files are on this host */
};

/* A tensor to read: its row in the catalog of each source. */
struct ck_pass_row {
	uint32_t tensor[CK_PASS_SOURCES];
	uint64_t begin, end; /* bytes of it; end 0: to its end */
};

/* Bytes [at, at + len) of a tensor. Blocks begin and end with whole elements. */
struct ck_pass_block {
	size_t row; /* index in ck_pass.rows */
	uint64_t at;
	size_t len;
	const uint8_t *bytes[CK_PASS_SOURCES];
};

/* The callbacks are called by the threads, for one row by one thread at a time and in this order:
 * begin, take for each block, end. */
struct ck_pass {
	struct ck_pass_source from[CK_PASS_SOURCES];
	unsigned nfrom; /* 1 or 2 */
	const struct ck_pass_row *rows;
	size_t n;
	/* Number of threads; 0: one for each processor. At most CK_PASS_THREADS. */
	unsigned threads;
	/* May be NULL. Returns 0; 1 if the tensor is not needed: it is not read, and end() is not
	 * called; or a negative errno, which ends the pass. */
	int (*begin)(void *arg, size_t row);
	/* Returns 0; 1 if the rest of the tensor is not needed; or a negative errno, which
	 * ends the pass. */
	int (*take)(void *arg, const struct ck_pass_block *b);
	/* rc: 0 if all bytes that take() wanted were passed; or the negative errno of reading
	 * source `from`, as read(2) of raw/ returns it. */
	void (*end)(void *arg, size_t row, unsigned from, int rc);
	void *arg;
	/* May be NULL. bytes: read from each source since the last call. Any thread. */
	void (*progress)(void *progress_arg, uint64_t bytes);
	void *progress_arg;
};

/* Reads all rows. A tensor that cannot be read does not end the pass. Returns 0, or: shortages of
 * this process; an error of begin() or take(). */
CK_MUST_USE int ck_pass_run(const struct ck_pass *p);
/* Bytes that a pass reads of a tensor, for progress: 0 if it cannot be read. */
uint64_t ck_pass_tensor_bytes(const struct ck_catalog *c, uint32_t tensor);
/* Number of ranges into which a tensor of `bytes` bytes is cut: 1 to CK_PASS_RANGES. It depends on
 * nothing else, so that figures that are merged in the order of ranges are the same at each run. */
size_t ck_pass_ranges(uint64_t bytes);
/* Writes a row for each range of a tensor; `row` has the tensors. Returns their number. */
size_t ck_pass_rows_make(const struct ck_pass_row *row, uint64_t bytes,
			 struct ck_pass_row *out);

#endif
