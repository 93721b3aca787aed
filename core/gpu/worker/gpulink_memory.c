/* SPDX-License-Identifier: MIT */
/*
 * gpulink_memory: allocations on a device, which belong to the worker process
 * and end with it. An allocation of a worker that is gone is unusable, but must
 * be released all the same.
 *
 * States: REQUESTED, ANSWERED, CANCELLED (the caller has given up; freed when
 * the reply arrives); then in the list `released` until RELEASE was sent to the
 * worker. Any thread.
 */
#include "gpulink_internal.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

/* interval of checks whether the caller has given up */
enum { LOOK_MSEC = 50 };

/* --- numbers; all must hold the lock -------------------------------------- */

/* Returns the lowest free number; 0 if all are taken, or if out of memory. */
static uint32_t number_take(struct ck_gpulink_worker *m)
{
	size_t i = ck_max(m->lowest, (size_t)1);
	uint8_t *grown;

	while (i < m->nnumbers && m->numbers[i])
		i++;
	if (i >= CK_GPU_MEMORIES)
		return 0;
	if (i >= m->nnumbers) {
		grown = ck_grow(m->numbers, &m->numbers_cap, m->nnumbers,
				i + 1 - m->nnumbers, 1);
		if (!grown)
			return 0;
		m->numbers = grown;
		memset(grown + m->nnumbers, 0, i + 1 - m->nnumbers);
		m->nnumbers = i + 1;
	}
	m->numbers[i] = 1;
	m->lowest = i + 1;
	return (uint32_t)i;
}

static void number_give_back(struct ck_gpulink_worker *m, uint32_t number)
{
	m->numbers[number] = 0;
	m->lowest = ck_min(m->lowest, (size_t)number);
}

/* The worker does not have the allocation any more, or never had it. */
static void forget(struct ck_gpulink_memory *memory)
{
	number_give_back(memory->worker, memory->number);
	memory->worker->memories--;
	free(memory);
}

/* --- requests ------------------------------------------------------------- */

/* Sends a request. Returns 0, or: -EAGAIN if the socket is full; -EOPNOTSUPP if
 * there is no worker; -ENOMEM. Must hold the lock. The worker's struct stays
 * until forget(). */
static int request(struct ck_gpulink *l, struct ck_gpulink_memory *memory,
		   const struct ck_gather_alloc *want)
{
	struct ck_gpulink_worker *m = ck_gpulink_worker_now(l);
	struct ck_gpu_message message = { .kind = CK_GPU_ALLOCATE,
					  .bytes = want->bytes,
					  .with_file = want->with_file };
	int rc;

	if (!m || !m->up)
		return -EOPNOTSUPP;
	message.memory = number_take(m);
	if (message.memory == 0)
		return -ENOMEM;
	memcpy(message.uuid, want->uuid, sizeof(message.uuid));
	rc = ck_gpu_send(m->sock, &message, false);
	if (rc) {
		number_give_back(m, message.memory);
		return rc == -EAGAIN ? rc : -EOPNOTSUPP;
	}
	memory->worker = m;
	memory->number = message.memory;
	memory->since = ck_msec_now();
	memory->next = m->requested;
	m->requested = memory;
	m->memories++;
	return 0;
}

/* Waits for a change. False if the caller has given up. Must hold the lock. */
static bool wait_a_little(struct ck_gpulink *l,
			  const struct ck_gather_alloc *want)
{
	struct timespec end = ck_time_in(CLOCK_REALTIME, LOOK_MSEC);

	if (__atomic_load_n(want->cancelled, __ATOMIC_ACQUIRE))
		return false;
	(void)pthread_cond_timedwait(&l->changed, &l->lock, &end);
	return true;
}

/* Retries while the socket is full. The worker either reads from it or is
 * replaced. Must hold the lock. */
static int request_soon(struct ck_gpulink *l, struct ck_gpulink_memory *memory,
			const struct ck_gather_alloc *want)
{
	int rc;

	while ((rc = request(l, memory, want)) == -EAGAIN)
		if (!wait_a_little(l, want))
			return -EINTR;
	return rc;
}

/* Must hold the lock. */
static int wait_for(struct ck_gpulink *l, struct ck_gpulink_memory *memory,
		    const struct ck_gather_alloc *want)
{
	while (memory->state == GPU_MEMORY_REQUESTED && wait_a_little(l, want))
		;
	if (memory->state == GPU_MEMORY_ANSWERED)
		return memory->rc;
	memory->state = GPU_MEMORY_CANCELLED;
	return -EINTR;
}

int ck_gpulink_allocate(struct ck_gather_engine *is,
			const struct ck_gather_alloc *want,
			struct ck_gather_memory **out)
{
	struct ck_gpulink *l = (struct ck_gpulink *)is;
	struct ck_gpulink_memory *memory = calloc(1, sizeof(*memory));
	int rc;

	if (!memory)
		return -ENOMEM;
	pthread_mutex_lock(&l->lock);
	rc = request_soon(l, memory, want);
	if (rc) {
		free(memory);
	} else {
		rc = wait_for(l, memory, want);
		if (rc && memory->state == GPU_MEMORY_ANSWERED)
			forget(memory);
	}
	pthread_mutex_unlock(&l->lock);
	if (rc == 0)
		*out = &memory->is;
	return rc;
}

/* --- replies -------------------------------------------------------------- */

static void take_place(struct ck_gather_memory *m,
		       const struct ck_gpu_message *message)
{
	m->size = message->bytes;
	memcpy(m->handle, message->handle, sizeof(m->handle));
	memcpy(m->token, message->token, sizeof(m->token));
	memcpy(m->socket, message->text, sizeof(m->socket) - 1);
}

/* Removes a request from the list; NULL if there is no such request. Must hold
 * the lock. */
static struct ck_gpulink_memory *take_requested(struct ck_gpulink_worker *m,
						uint32_t number)
{
	struct ck_gpulink_memory **at = &m->requested, *found;

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = found->next;
	return found;
}

/* Completes a request. An allocation that the caller does not want any more is
 * released at once. Must hold the lock. */
static void answered(struct ck_gpulink *l, struct ck_gpulink_memory *memory,
		     int rc)
{
	if (memory->state == GPU_MEMORY_REQUESTED) {
		memory->rc = rc;
		memory->state = GPU_MEMORY_ANSWERED;
		pthread_cond_broadcast(&l->changed);
	} else if (rc) {
		forget(memory);
	} else {
		memory->next = l->released;
		l->released = memory;
	}
}

int ck_gpulink_allocated(struct ck_gpulink *l, struct ck_gpulink_worker *m,
			 const struct ck_gpu_message *message)
{
	struct ck_gpulink_memory *memory;

	pthread_mutex_lock(&l->lock);
	memory = take_requested(m, message->memory);
	if (memory) {
		take_place(&memory->is, message);
		answered(l, memory, message->rc == -EINTR ? -EIO : message->rc);
	}
	pthread_mutex_unlock(&l->lock);
	return memory ? 0 : -EPROTO;
}

void ck_gpulink_requests_end(struct ck_gpulink *l, struct ck_gpulink_worker *m)
{
	while (m->requested)
		answered(l, take_requested(m, m->requested->number),
			 -EOPNOTSUPP);
}

/* --- release -------------------------------------------------------------- */

/* A socket is writable only while most of its buffer is free, so that some room
 * remains for requests. */
static bool has_room(int sock)
{
	struct pollfd fd = { .fd = sock, .events = POLLOUT };

	return poll(&fd, 1, 0) == 1;
}

/* Sends RELEASE. True if the allocation was released, or the worker is gone;
 * *full: its socket is full. Must hold the lock. */
static bool send_released(struct ck_gpulink_memory *memory, bool *full)
{
	const struct ck_gpu_message message = { .kind = CK_GPU_RELEASE,
						.memory = memory->number };
	struct ck_gpulink_worker *m = memory->worker;

	if (!m->gone && ck_gpulink_is_aimed_at(m, memory))
		return false;
	*full = !m->gone && (!has_room(m->sock) ||
			     ck_gpu_send(m->sock, &message, false) == -EAGAIN);
	if (*full)
		return false;
	forget(memory);
	return true;
}

bool ck_gpulink_send_released(struct ck_gpulink *l)
{
	bool full = false;

	pthread_mutex_lock(&l->lock);
	while (l->released) {
		struct ck_gpulink_memory *next = l->released->next;

		if (!send_released(l->released, &full))
			break;
		l->released = next;
	}
	pthread_mutex_unlock(&l->lock);
	return full;
}

void ck_gpulink_release(struct ck_gather_engine *is, struct ck_gather_memory *m)
{
	struct ck_gpulink *l = (struct ck_gpulink *)is;
	struct ck_gpulink_memory *memory = (struct ck_gpulink_memory *)m;

	pthread_mutex_lock(&l->lock);
	memory->next = l->released;
	l->released = memory;
	pthread_mutex_unlock(&l->lock);
	if (ck_gpulink_send_released(l))
		(void)eventfd_write(l->wake, 1);
}

bool ck_gpulink_holds(struct ck_gather_engine *is,
		      const struct ck_gather_memory *m)
{
	struct ck_gpulink *l = (struct ck_gpulink *)is;
	const struct ck_gpulink_memory *memory =
		(const struct ck_gpulink_memory *)m;
	bool holds;

	pthread_mutex_lock(&l->lock);
	holds = !memory->worker->gone;
	pthread_mutex_unlock(&l->lock);
	return holds;
}
