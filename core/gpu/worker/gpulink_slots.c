/* SPDX-License-Identifier: MIT */
/*
 * gpulink_slots: slots of the memory shared with a worker. States: FREE; TAKEN
 * by a caller; ON_WAY, in flight to the worker; LEFT, in flight but cancelled.
 * A slot in flight belongs to the worker until its reply, or until the worker
 * is gone. Any thread calls the functions of struct ck_gather_engine; the
 * link's thread completes slots.
 */
#include "gpulink_internal.h"

#include <errno.h>
#include <sys/eventfd.h>

enum {
	/* longer than any request takes on a working device */
	SLOW_MSEC = 1000,
	/* Checks, 1 s or more apart, without a message from a worker that has
	 * requests. Calls of NCCL and the driver may take half of that time.
	 * Time in which the mount was stopped does not count. */
	SILENT_MOST = 8,
};

static bool is_at_worker(const struct ck_gpulink_slot *slot)
{
	return slot->state == GPU_SLOT_IN_FLIGHT ||
	       slot->state == GPU_SLOT_CANCELLED;
}

bool ck_gpulink_is_aimed_at(const struct ck_gpulink_worker *m,
			    const struct ck_gpulink_memory *memory)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (is_at_worker(&m->slots[i]) &&
		    m->slots[i].is.memory == &memory->is)
			return true;
	return false;
}

/* Must hold the lock. */
static void slot_free(struct ck_gpulink_slot *slot)
{
	slot->state = GPU_SLOT_FREE;
	slot->worker->used--;
}

/* --- functions of struct ck_gather_engine --------------------------------- */

/* A slow worker gets no further requests until it has completed those it
 * has. */
static struct ck_gpulink_slot *find_free(struct ck_gpulink *l)
{
	struct ck_gpulink_worker *m = ck_gpulink_worker_now(l);

	if (!m || !m->up || m->slow)
		return NULL;
	for (uint32_t i = 0; i < m->n; i++)
		if (m->slots[i].state == GPU_SLOT_FREE)
			return &m->slots[i];
	return NULL;
}

struct ck_gather_slot *ck_gpulink_take(struct ck_gather_engine *is)
{
	struct ck_gpulink *l = (struct ck_gpulink *)is;
	struct ck_gpulink_slot *slot;

	pthread_mutex_lock(&l->lock);
	slot = find_free(l);
	if (slot) {
		slot->state = GPU_SLOT_TAKEN;
		slot->cancelled = false;
		slot->worker->used++;
	}
	pthread_mutex_unlock(&l->lock);
	if (!slot)
		return NULL;
	slot->is.filled = slot->is.results = 0;
	slot->is.ncopies = slot->is.nloops = 0;
	slot->is.memory = NULL;
	slot->is.wanted = 0;
	slot->is.all_remote = false;
	return &slot->is;
}

void ck_gpulink_put(struct ck_gather_engine *is, struct ck_gather_slot *s)
{
	struct ck_gpulink *l = (struct ck_gpulink *)is;
	struct ck_gpulink_slot *slot = (struct ck_gpulink_slot *)s;
	bool last;

	pthread_mutex_lock(&l->lock);
	slot_free(slot);
	last = slot->worker->used == 0 && slot->worker->gone;
	pthread_mutex_unlock(&l->lock);
	if (last)
		(void)eventfd_write(l->wake, 1);
}

static struct ck_gpu_message message_of(const struct ck_gpulink_slot *slot)
{
	const struct ck_gather_slot *s = &slot->is;
	const struct ck_gpulink_memory *memory =
		(const struct ck_gpulink_memory *)s->memory;

	return (struct ck_gpu_message){
		.kind = CK_GPU_GATHER,
		.slot = (uint32_t)(slot - slot->worker->slots),
		.use = slot->use,
		.filled = s->filled,
		.results = s->results,
		.ncopies = s->ncopies,
		.nloops = s->nloops,
		.wanted = s->wanted,
		.set = s->set,
		.all_remote = s->all_remote,
		.memory = memory ? memory->number : 0,
		.at = memory ? s->at : 0,
	};
}

/* Returns as ck_gpu_send(), or -ECANCELED if cancelled, if the worker is gone,
 * or if the result is memory of another worker. Must hold the lock. */
static int send(struct ck_gpulink_slot *slot)
{
	const struct ck_gpulink_memory *memory =
		(const struct ck_gpulink_memory *)slot->is.memory;
	struct ck_gpu_message message;

	if (slot->cancelled || slot->worker->gone ||
	    (memory && memory->worker != slot->worker))
		return -ECANCELED;
	slot->use++;
	message = message_of(slot);
	return ck_gpu_send(slot->worker->sock, &message, false);
}

/* A slot that could not be sent is completed by the thread. */
void ck_gpulink_start(struct ck_gather_engine *is, struct ck_gather_slot *s)
{
	struct ck_gpulink *l = (struct ck_gpulink *)is;
	struct ck_gpulink_slot *slot = (struct ck_gpulink_slot *)s;
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = send(slot);
	slot->state = GPU_SLOT_IN_FLIGHT;
	slot->since = rc ? 0 : ck_msec_now();
	slot->lost = rc == -EPIPE || rc == -ECONNRESET;
	pthread_mutex_unlock(&l->lock);
	if (rc)
		(void)eventfd_write(l->wake, 1);
}

void ck_gpulink_interrupt(struct ck_gather_engine *is, struct ck_gather_slot *s)
{
	struct ck_gpulink *l = (struct ck_gpulink *)is;
	struct ck_gpulink_slot *slot = (struct ck_gpulink_slot *)s;

	pthread_mutex_lock(&l->lock);
	slot->cancelled = true;
	pthread_mutex_unlock(&l->lock);
	(void)eventfd_write(l->wake, 1);
}

/* --- completion ----------------------------------------------------------- */

/* The slot was cancelled. It is not reused while the worker may write to it. */
static void slot_cancel(struct ck_gpulink *l, struct ck_gpulink_slot *slot)
{
	slot->is.done(&slot->is, -EINTR);
	pthread_mutex_lock(&l->lock);
	if (slot->since && !slot->worker->gone)
		slot->state = GPU_SLOT_CANCELLED;
	else
		slot_free(slot);
	pthread_mutex_unlock(&l->lock);
}

/* Gives the slot back to the caller. */
static void slot_end(struct ck_gpulink *l, struct ck_gpulink_slot *slot, int rc)
{
	pthread_mutex_lock(&l->lock);
	slot->state = GPU_SLOT_TAKEN;
	pthread_mutex_unlock(&l->lock);
	slot->is.done(&slot->is, rc);
}

int ck_gpulink_done(struct ck_gpulink *l, struct ck_gpulink_worker *m,
		    const struct ck_gpu_message *message)
{
	struct ck_gpulink_slot *slot;
	bool right, waits;

	if (message->slot >= m->n)
		return -EPROTO;
	slot = &m->slots[message->slot];
	pthread_mutex_lock(&l->lock);
	right = is_at_worker(slot) && slot->since && message->use == slot->use;
	waits = right && slot->state == GPU_SLOT_IN_FLIGHT;
	if (right && !waits)
		slot_free(slot);
	m->worked |= right && message->rc == 0;
	pthread_mutex_unlock(&l->lock);
	/* -EINTR is reserved for cancellation. */
	if (waits)
		slot_end(l, slot, message->rc == -EINTR ? -EIO : message->rc);
	return right ? 0 : -EPROTO;
}

/* True if the slot was cancelled or will have no reply. Must hold the lock. */
static bool is_over(const struct ck_gpulink_slot *slot, int *rc)
{
	if (slot->state != GPU_SLOT_IN_FLIGHT)
		return false;
	*rc = slot->cancelled ? -EINTR : -EIO;
	return slot->cancelled || slot->worker->gone ||
	       (slot->since == 0 && !slot->lost);
}

static struct ck_gpulink_slot *find_over(struct ck_gpulink *l, int *rc)
{
	struct ck_gpulink_slot *found = NULL;

	pthread_mutex_lock(&l->lock);
	for (struct ck_gpulink_worker *m = l->workers; m && !found; m = m->next)
		for (uint32_t i = 0; i < m->n && !found; i++) {
			struct ck_gpulink_slot *slot = &m->slots[i];

			if (m->gone && slot->state == GPU_SLOT_CANCELLED)
				slot_free(slot);
			else if (is_over(slot, rc))
				found = slot;
		}
	pthread_mutex_unlock(&l->lock);
	return found;
}

void ck_gpulink_clear(struct ck_gpulink *l)
{
	struct ck_gpulink_slot *slot;
	int rc;

	while ((slot = find_over(l, &rc))) {
		if (rc == -EINTR)
			slot_cancel(l, slot);
		else
			slot_end(l, slot, rc);
	}
}

void ck_gpulink_received(struct ck_gpulink *l, struct ck_gpulink_worker *m)
{
	pthread_mutex_lock(&l->lock);
	m->silent = 0;
	pthread_mutex_unlock(&l->lock);
}

void ck_gpulink_forgive(struct ck_gpulink_worker *m, uint64_t msec,
			uint64_t now)
{
	m->started = ck_min(m->started + msec, now);
	for (uint32_t i = 0; i < m->n; i++)
		if (m->slots[i].since)
			m->slots[i].since = ck_min(m->slots[i].since + msec,
						   now);
	for (struct ck_gpulink_memory *a = m->requested; a; a = a->next)
		a->since = ck_min(a->since + msec, now);
}

bool ck_gpulink_is_overdue(struct ck_gpulink *l, struct ck_gpulink_worker *m)
{
	uint64_t now, longest = 0;
	bool waits, late;

	pthread_mutex_lock(&l->lock);
	waits = m->requested != NULL;
	/* Read under the lock: other threads send meanwhile. */
	now = ck_msec_now();
	for (uint32_t i = 0; i < m->n; i++)
		if (is_at_worker(&m->slots[i]) && m->slots[i].since) {
			longest = ck_max(longest, now - m->slots[i].since);
			waits = true;
		}
	for (const struct ck_gpulink_memory *a = m->requested; a; a = a->next)
		longest = ck_max(longest, now - a->since);
	m->slow = longest > SLOW_MSEC;
	m->silent = waits ? m->silent + 1 : 0;
	late = longest > l->options.timeout_msec || m->silent > SILENT_MOST;
	pthread_mutex_unlock(&l->lock);
	return late;
}
