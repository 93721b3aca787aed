/* SPDX-License-Identifier: MIT */
/*
 * streams: each stream is a thread that runs its operations one after the other, with a delay
 * before each. Operations of different streams are not ordered. A position in a stream is an
 * operation that only marks that it was reached.
 */
#include "standin.h"

#include <pthread.h>
#include <stdlib.h>

struct standin_stream {
	struct standin_stream *next;
	CUstream handle;
	struct standin_device *device;
	pthread_t thread;
	uint64_t random; /* of its thread */
	uint64_t delay;	 /* constant */
	/* Under the lock. */
	struct standin_op *first, *last;
	uint64_t submitted, done;
	bool ending; /* destroyed: the submitted operations still run */
	bool over;   /* the thread uses no data any more */
};

static struct standin_stream *streams; /* under the lock */
static unsigned ended;		       /* by the end of their context */

/* --- running -------------------------------------------------------------------------- */

/* Under the lock, which is released during the delay and the operation. */
static void run(struct standin_stream *s, struct standin_op *op)
{
	bool runs;

	standin_unlock();
	standin_pause(&s->random, s->delay);
	standin_lock();
	while ((op->before && !op->before->reached) || !standin_may_run())
		standin_wait();
	runs = op->run && standin_enter_operation();
	standin_unlock();
	if (runs)
		op->run(op);
	else if (op->drop)
		op->drop(op);
	standin_lock();
	if (op->behind)
		op->behind->reached = true;
}

static void *stream_main(void *arg)
{
	struct standin_stream *s = arg;

	standin_lock();
	for (;;) {
		struct standin_op *op;

		while (!s->first && !s->ending)
			standin_wait();
		op = s->first;
		if (!op)
			break;
		run(s, op);
		s->first = op->next;
		s->done++;
		if (op->before)
			standin_moment_put(op->before);
		if (op->behind)
			standin_moment_put(op->behind);
		free(op);
		standin_wake();
	}
	s->over = true;
	standin_wake();
	standin_unlock();
	return NULL;
}

/* --- ending ----------------------------------------------------------------------------- */

/* Joins the threads of ended streams. Under the lock. */
static void reap(void)
{
	for (struct standin_stream **at = &streams; *at;) {
		struct standin_stream *s = *at;

		if (!s->over) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		pthread_join(s->thread, NULL);
		free(s);
	}
}

/* Under the lock. */
static bool some_run(const struct standin_device *device)
{
	for (struct standin_stream *s = streams; s; s = s->next)
		if (!s->over && (!device || s->device == device))
			return true;
	return false;
}

unsigned standin_streams_end(const struct standin_device *device)
{
	unsigned n = 0;

	standin_lock();
	for (struct standin_stream *s = streams; s; s = s->next)
		if (!device || s->device == device) {
			n += !s->ending;
			s->ending = true;
		}
	ended += n;
	standin_faults.may_run = UINT64_MAX;
	standin_wake();
	while (some_run(device))
		standin_wait();
	reap();
	standin_unlock();
	return n;
}

unsigned standin_streams_left(void)
{
	unsigned n;

	standin_lock();
	n = ended;
	for (struct standin_stream *s = streams; s; s = s->next)
		n += !s->ending;
	standin_unlock();
	return n;
}

/* Under the lock. */
static bool some_have(const struct standin_device *device)
{
	for (struct standin_stream *s = streams; s; s = s->next)
		if (s->device == device && s->first)
			return true;
	return false;
}

/* --- calls -------------------------------------------------------------------------------- */

/* Under the lock. */
static struct standin_stream *stream_find(const char *call, CUstream handle)
{
	struct standin_stream *s = streams;

	if (!handle || handle == CU_STREAM_LEGACY ||
	    handle == CU_STREAM_PER_THREAD)
		standin_die(call, "a stream that was not created");
	while (s && (s->handle != handle || s->ending))
		s = s->next;
	if (!s)
		standin_die(call, "a stream that is no more");
	return s;
}

CUresult standin_submit(CUstream stream, const struct standin_op *op)
{
	struct standin_op *own = malloc(sizeof(*own));
	struct standin_stream *s;

	if (!own)
		standin_die(op->call, "no memory for the stand-in");
	*own = *op;
	standin_lock();
	s = stream_find(op->call, stream);
	if (s->device != op->device)
		standin_die(op->call, "a stream of another context");
	if (own->before)
		own->before->refs++;
	if (own->behind)
		own->behind->refs++;
	if (s->first)
		s->last->next = own;
	else
		s->first = own;
	s->last = own;
	s->submitted++;
	standin_wake();
	standin_unlock();
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_stream *s;
	uint64_t number;

	if (code)
		return code;
	if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	number = standin_number();
	s->handle = (CUstream)(uintptr_t)(STANDIN_TAG | number << 8 | 0x51);
	s->device = device;
	s->random = standin_seed() + number;
	s->delay = standin_delay();
	if (pthread_create(&s->thread, NULL, stream_main, s)) {
		free(s);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	standin_lock();
	reap();
	s->next = streams;
	streams = s;
	standin_unlock();
	*stream = s->handle;
	return CUDA_SUCCESS;
}

/* Returns at once; the thread runs the submitted operations. */
CUresult cuStreamDestroy(CUstream stream)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);

	if (!device)
		return code;
	standin_lock();
	stream_find(__func__, stream)->ending = true;
	standin_wake();
	standin_unlock();
	return code;
}

CUresult cuStreamQuery(CUstream stream)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);

	if (code)
		return code;
	standin_lock();
	if (stream_find(__func__, stream)->first)
		code = CUDA_ERROR_NOT_READY;
	standin_unlock();
	return code;
}

/* Returns the error of an operation that ran in the meantime. */
CUresult cuCtxSynchronize(void)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);

	if (code)
		return code;
	standin_lock();
	while (some_have(device))
		standin_wait();
	code = standin_faults.lost;
	standin_unlock();
	return code;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_stream *s;
	uint64_t until;

	if (code)
		return code;
	standin_lock();
	s = stream_find(__func__, stream);
	until = s->submitted;
	while (s->done < until) {
		standin_wait();
		s = stream_find(__func__, stream);
	}
	code = standin_faults.lost;
	standin_unlock();
	return code;
}
