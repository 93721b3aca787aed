/* SPDX-License-Identifier: MIT */
/*
 * endpoint: what a rank of a job has on its first device: rooms for gatherings of which bytes come
 * by a round, parcels that it sends from, and the mover of rounds; see join() in gpu.h. All of
 * it is apart from what gatherings that need no round have, so that a round that hangs stops
 * none of them.
 */
#ifndef CK_ENDPOINT_H
#define CK_ENDPOINT_H

#include "ckptfs/gpu.h"
#include "device.h"

struct ck_endpoint; /* opaque; one thread */

struct ck_endpoint_options {
	uint32_t rank;
	uint8_t *memory;    /* that parcels are filled from */
	size_t size;	    /* of it; 0: none */
	size_t slot, tiles; /* as of ck_pipe_sizes */
};

/* The device's context is current, as in all that follow. As of ck_gpu.join. */
CK_MUST_USE int ck_endpoint_make(struct ck_device *g,
				 const struct ck_endpoint_options *options,
				 struct ck_endpoint **out, struct ck_diag *d);
/* Nothing is being run. False: NCCL does not return, and all of it stays as it is for as long as
 * the process lives. */
CK_MUST_USE bool ck_endpoint_free(struct ck_endpoint *m);
struct ck_round_mover *ck_endpoint_mover(struct ck_endpoint *m);
const char *ck_endpoint_nccl(const struct ck_endpoint *m);
/* The device is lost, or does what it must not: it is not used any more. */
CK_MUST_USE bool ck_endpoint_is_broken(const struct ck_endpoint *m);

/* See gpu.h. */
CK_MUST_USE int ck_endpoint_is_up(struct ck_endpoint *m);
CK_MUST_USE int ck_endpoint_stage(struct ck_endpoint *m, struct ck_gpu_work *w);
CK_MUST_USE int ck_endpoint_is_staged(struct ck_endpoint *m,
				      struct ck_gpu_work *w);
void ck_endpoint_proceed(struct ck_endpoint *m, struct ck_gpu_work *w, int rc);
/* One that has proceeded, and is done; NULL: there is none now. broken: whatever the device
 * says of it. */
struct ck_gpu_work *ck_endpoint_done(struct ck_endpoint *m, bool broken);
CK_MUST_USE int ck_endpoint_pack(struct ck_endpoint *m, const uint8_t *from,
				 uint64_t bytes, struct ck_gpu_parcel **out);
CK_MUST_USE int ck_endpoint_is_packed(struct ck_endpoint *m,
				      struct ck_gpu_parcel *p);
void ck_endpoint_unpack(struct ck_gpu_parcel *p);

#endif
