/* SPDX-License-Identifier: MIT */
/*
 * sample: plain tensors that all ranks saved with one shape and one dtype. They are replicas only
 * if they are equal in a sample: the first 4 KiB, the last 4 KiB and 64 blocks of 4 KiB between
 * them. A tensor that is not larger is compared whole. A part of tree. Stateless; any thread.
 */
#ifndef CK_SAMPLE_H
#define CK_SAMPLE_H

#include "ckptfs/format.h"

enum { CK_SAMPLE_BLOCK = 4096, CK_SAMPLE_BLOCKS = 66 };

/* Two tensors of CK_ROLE_COPY with different samples, the lower rank first. */
struct ck_sample_pair {
	uint32_t low, high;
};

/* Number of blocks in the sample of `bytes` bytes, which are not 0. */
uint32_t ck_sample_blocks(uint64_t bytes);
/* Offset of block i of the sample; *len: its length. */
uint64_t ck_sample_block(uint64_t bytes, uint32_t i, uint64_t *len);

/* Compares the samples of the copies of a plain tensor that are on this host. Copies that cannot
 * be read are skipped. Blocks on local files. Returns 1 if two of them differ, and sets *out; 0 if
 * all are equal, or the tensor is of another kind; or a shortage of this process. */
CK_MUST_USE int ck_sample_compare(struct ck_checkpoint *cp,
				  const struct ck_catalog *c, uint32_t tensor,
				  struct ck_sample_pair *out);
/* Appends the fault of a tensor with different samples, escaped: cause, and which files of local/
 * have the values. */
void ck_sample_print(const struct ck_catalog *c,
		     const struct ck_sample_pair *pair, struct ck_buf *out);

#endif
