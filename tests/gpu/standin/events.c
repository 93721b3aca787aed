/* SPDX-License-Identifier: MIT */
/* events: each refers to the position in a stream of its last record. */
#include "standin.h"

#include <stdlib.h>

struct standin_event {
	struct standin_event *next;
	CUevent handle;
	struct standin_device *device;
	struct standin_moment
		*moment; /* under the lock; NULL: never recorded */
};

static struct standin_event *events; /* under the lock */
static unsigned ended;		     /* by the end of their context */

void standin_moment_put(struct standin_moment *moment)
{
	if (--moment->refs == 0)
		free(moment);
}

/* Under the lock. */
static struct standin_event **event_find(const char *call, CUevent handle,
					 const struct standin_device *device)
{
	struct standin_event **at = &events;

	while (*at && (*at)->handle != handle)
		at = &(*at)->next;
	if (!*at)
		standin_die(call, "an invalid event");
	if ((*at)->device != device)
		standin_die(call, "an event of another context");
	return at;
}

/* Under the lock. */
static void event_free(struct standin_event **at)
{
	struct standin_event *e = *at;

	*at = e->next;
	if (e->moment)
		standin_moment_put(e->moment);
	free(e);
}

unsigned standin_events_left(const struct standin_device *device, bool end)
{
	struct standin_event **at = &events;
	unsigned n = 0;

	while (*at) {
		bool counts = !device || (*at)->device == device;

		n += counts;
		if (counts && end)
			event_free(at);
		else
			at = &(*at)->next;
	}
	if (end)
		ended += n;
	return end ? n : n + ended;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_event *e;

	(void)flags;
	if (code)
		return code;
	e = calloc(1, sizeof(*e));
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->device = device;
	e->handle = (CUevent)(uintptr_t)(STANDIN_TAG | standin_number() << 8 |
					 0xe7);
	standin_lock();
	e->next = events;
	events = e;
	standin_unlock();
	*event = e->handle;
	return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);

	if (!device)
		return code;
	standin_lock();
	event_free(event_find(__func__, event, device));
	standin_unlock();
	return code;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_op op = { .call = __func__ };
	struct standin_moment *before;
	struct standin_event *e;

	if (code)
		return code;
	op.device = device;
	op.behind = calloc(1, sizeof(*op.behind));
	if (!op.behind)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op.behind->refs = 1;
	code = standin_submit(stream, &op);
	standin_lock();
	e = *event_find(__func__, event, device);
	before = e->moment;
	e->moment = op.behind;
	if (before)
		standin_moment_put(before);
	standin_unlock();
	return code;
}

/* Waits for the last record before this call, if there is one. */
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_op op = { .call = __func__ };

	if (code)
		return code;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	op.device = device;
	standin_lock();
	op.before = (*event_find(__func__, event, device))->moment;
	if (op.before)
		op.before->refs++;
	standin_unlock();
	code = standin_submit(stream, &op);
	standin_lock();
	if (op.before)
		standin_moment_put(op.before);
	standin_unlock();
	return code;
}

CUresult cuEventQuery(CUevent event)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	const struct standin_moment *moment;

	if (code)
		return code;
	standin_lock();
	moment = (*event_find(__func__, event, device))->moment;
	if (moment && !moment->reached)
		code = CUDA_ERROR_NOT_READY;
	standin_unlock();
	return code;
}

CUresult cuEventSynchronize(CUevent event)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_moment *moment;

	if (code)
		return code;
	standin_lock();
	moment = (*event_find(__func__, event, device))->moment;
	if (moment) {
		moment->refs++;
		while (!moment->reached)
			standin_wait();
		standin_moment_put(moment);
	}
	code = standin_faults.lost;
	standin_unlock();
	return code;
}
