/* SPDX-License-Identifier: MIT */
/*
 * endpoint: the part of a rank in rounds, on the first device of the process:
 * memory for gather requests whose bytes arrive by a round, parcels to send
 * from, and the round backend. Its slots and streams are separate from those of
 * other gather requests, so that a hung round does not block them. Implements
 * join() and the functions for rounds of struct ck_gpu (gpu.h).
 */
#ifndef CK_ENDPOINT_H
#define CK_ENDPOINT_H

#include "gpu/driver/cuda_device.h"
#include "gpu/gpu.h"

struct ck_endpoint; /* opaque; one thread */

struct ck_endpoint_options {
	uint32_t rank;
	uint8_t *memory;    /* source of parcels */
	size_t size;	    /* its size; 0 if there is no such memory */
	size_t slot, tiles; /* as in ck_pipe_sizes */
};

/* The device's context must be current, as in all functions below. Returns as
 * ck_gpu.join. */
CK_MUST_USE int ck_endpoint_make(struct ck_device *g,
				 const struct ck_endpoint_options *options,
				 struct ck_endpoint **out, struct ck_diag *d);
/* Frees the endpoint; no round may be running. False if NCCL does not return:
 * then everything stays allocated until the process ends. */
CK_MUST_USE bool ck_endpoint_free(struct ck_endpoint *m);
/* The backend of rounds; valid until ck_endpoint_free(). */
struct ck_round_backend *ck_endpoint_backend(struct ck_endpoint *m);
/* Version and file of NCCL, as text; valid until ck_endpoint_free(). */
const char *ck_endpoint_nccl(const struct ck_endpoint *m);
/* True if the device has failed: it must not be used any more. */
CK_MUST_USE bool ck_endpoint_is_broken(const struct ck_endpoint *m);

/* These implement the functions of struct ck_gpu of the same names. */
CK_MUST_USE int ck_endpoint_is_up(struct ck_endpoint *m);
CK_MUST_USE int ck_endpoint_stage(struct ck_endpoint *m, struct ck_gpu_work *w);
CK_MUST_USE int ck_endpoint_is_staged(struct ck_endpoint *m,
				      struct ck_gpu_work *w);
void ck_endpoint_proceed(struct ck_endpoint *m, struct ck_gpu_work *w, int rc);
/* Returns a completed request that has proceeded; NULL if no request has.
 * broken: complete it with -EIO without asking the device. */
struct ck_gpu_work *ck_endpoint_done(struct ck_endpoint *m, bool broken);
CK_MUST_USE int ck_endpoint_pack(struct ck_endpoint *m, const uint8_t *from,
				 uint64_t bytes, struct ck_gpu_parcel **out);
CK_MUST_USE int ck_endpoint_is_packed(struct ck_endpoint *m,
				      struct ck_gpu_parcel *p);
void ck_endpoint_unpack(struct ck_gpu_parcel *p);

#endif
