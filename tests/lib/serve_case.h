/* SPDX-License-Identifier: MIT */
/* serve_case: measures the memory that a rank uses while it serves, for tests that are
 * linked with these functions wrapped.
 */
#ifndef CK_SERVE_CASE_H
#define CK_SERVE_CASE_H

#include "dist/rpc/link_internal.h"
#include "link_case.h"

/* --- memory in use: replies, and queued messages ------------------------------------------- */

static struct {
	uint64_t now, most; /* bytes of answers; atomic */
	uint64_t payload;   /* the largest */
	uint64_t waiting;   /* most bytes that waited to be sent */
	bool held;	    /* nothing is answered; atomic */
	bool looks_held;    /* no STAT is; atomic */
	unsigned begun, n; /* that were begun, and whose id is in ids; atomic */
	uint64_t ids[4096]; /* in the order in which they were begun; atomic */
} taken;

int __real_ck_file_server_answer(struct ck_file_server *o,
				 const struct ck_message *request,
				 struct ck_answer *out);
int __wrap_ck_file_server_answer(struct ck_file_server *o,
				 const struct ck_message *request,
				 struct ck_answer *out);
bool __real_ck_file_server_answer_now(struct ck_file_server *o,
				      const struct ck_message *request,
				      uint64_t cost, struct ck_answer *out);
bool __wrap_ck_file_server_answer_now(struct ck_file_server *o,
				      const struct ck_message *request,
				      uint64_t cost, struct ck_answer *out);
void __real_ck_answer_fini(struct ck_answer *a);
void __wrap_ck_answer_fini(struct ck_answer *a);
int __real_ck_frames_put(struct ck_frames *f, const struct ck_frame *frame,
			 const struct ck_wire_head *head, struct ck_str body);
int __wrap_ck_frames_put(struct ck_frames *f, const struct ck_frame *frame,
			 const struct ck_wire_head *head, struct ck_str body);

static inline uint64_t noted(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

static inline void note_most(uint64_t *most, uint64_t now)
{
	if (now > __atomic_load_n(most, __ATOMIC_RELAXED))
		__atomic_store_n(most, now, __ATOMIC_RELAXED);
}

static inline void note_begun(const struct ck_message *request)
{
	unsigned at = __atomic_fetch_add(&taken.begun, 1, __ATOMIC_RELAXED);

	if (at < CK_ARRAY_SIZE(taken.ids))
		__atomic_store_n(&taken.ids[at], request->head.id,
				 __ATOMIC_RELAXED);
	__atomic_fetch_add(&taken.n, 1, __ATOMIC_RELEASE);
}

static inline void note_made(const struct ck_answer *a)
{
	uint64_t bytes = a->head.payload + a->head.body;

	note_most(&taken.payload, a->head.payload);
	note_most(&taken.most,
		  __atomic_add_fetch(&taken.now, bytes, __ATOMIC_RELAXED));
}

int __wrap_ck_file_server_answer(struct ck_file_server *o,
				 const struct ck_message *request,
				 struct ck_answer *out)
{
	int rc;

	note_begun(request);
	while (request->head.type == CK_WIRE_STAT &&
	       __atomic_load_n(&taken.looks_held, __ATOMIC_ACQUIRE))
		msec_sleep(5);
	while (__atomic_load_n(&taken.held, __ATOMIC_ACQUIRE))
		msec_sleep(5);
	rc = __real_ck_file_server_answer(o, request, out);
	note_made(out);
	return rc;
}

/* Held requests wait as if their bytes were on a slow disk. */
bool __wrap_ck_file_server_answer_now(struct ck_file_server *o,
				      const struct ck_message *request,
				      uint64_t cost, struct ck_answer *out)
{
	if (__atomic_load_n(&taken.held, __ATOMIC_ACQUIRE) ||
	    !__real_ck_file_server_answer_now(o, request, cost, out))
		return false;
	note_begun(request);
	note_made(out);
	return true;
}

void __wrap_ck_answer_fini(struct ck_answer *a)
{
	__atomic_fetch_sub(
		&taken.now,
		a->payload || a->body.data ? a->head.payload + a->head.body : 0,
		__ATOMIC_RELAXED);
	__real_ck_answer_fini(a);
}

int __wrap_ck_frames_put(struct ck_frames *f, const struct ck_frame *frame,
			 const struct ck_wire_head *head, struct ck_str body)
{
	int rc = __real_ck_frames_put(f, frame, head, body);

	note_most(&taken.waiting, ck_frames_waiting(f));
	return rc;
}

#endif
