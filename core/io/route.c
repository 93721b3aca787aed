/* SPDX-License-Identifier: MIT */
/*
 * route: reads and header fetches of remote files. A read runs as if all files
 * were local, and records a descriptor for each remote range. The remote
 * backend then runs these descriptors in one batch, whatever hosts they are on.
 * If headers of items are needed to plan, they are fetched first, and the read
 * runs again.
 *
 * No thread blocks: a read continues in the thread in which the backend or
 * gather engine completes. With a gather engine, the bytes of boxes are packed
 * into a slot, and delivered when the slot is done.
 */
#include "ckptfs/io.h"
#include "header_fetch.h"
#include "staging.h"

#include <errno.h>

void ck_route_init(struct ck_route *route, struct ck_files *files,
		   struct ck_backend *remote)
{
	*route = (struct ck_route){ .files = files, .remote = remote };
	pthread_mutex_init(&route->lock, NULL);
}

void ck_route_fini(struct ck_route *route)
{
	pthread_mutex_destroy(&route->lock);
}

/* --- descriptors in flight ------------------------------------------------ */

/* Maps errors of hosts to those that programs may see. */
static int shown_errno(int rc)
{
	switch (rc) {
	case 0:
	case -EBADMSG:
	case -EINTR:
	case -ENODATA:
	case -ENOMEM:
	case -ESTALE: return rc;
	default: return -EIO;
	}
}

/* Records changed files and failovers, and maps the errors. */
static void results_record(const struct ck_route *route,
			   const struct ck_copy_batch *batch)
{
	struct ck_stats *stats = ck_files_stats(route->files);

	for (size_t i = 0; i < batch->n; i++) {
		struct ck_copy_desc *m = &batch->list[i];

		if (m->rc == 0 || m->rc == -ESTALE)
			ck_files_note_changed(route->files, m->file,
					      m->rc != 0);
		if (m->rc == 0 && stats &&
		    ck_files_has_failed_over(route->files, m->file))
			ck_count(&stats->copies, 1);
		m->rc = shown_errno(m->rc);
	}
}

/* Ends the wait of `w` for a batch. Returns true unless `w` was interrupted. */
static bool wait_end(struct ck_route *route, struct ck_waiter *w,
		     const struct ck_copy_batch *batch)
{
	bool cancelled;

	pthread_mutex_lock(&route->lock);
	w->batch = NULL;
	cancelled = w->cancelled;
	pthread_mutex_unlock(&route->lock);
	results_record(route, batch);
	return !cancelled;
}

/* Begins a wait for a batch. Returns 0, and the backend must be called next, or
 * an error. */
static int wait_begin(struct ck_route *route, struct ck_waiter *w,
		      struct ck_copy_batch *batch)
{
	bool cancelled;

	if (!route->remote)
		return -EIO;
	pthread_mutex_lock(&route->lock);
	cancelled = w->cancelled;
	if (!cancelled)
		w->batch = batch;
	pthread_mutex_unlock(&route->lock);
	return cancelled ? -EINTR : 0;
}

void ck_route_interrupt(struct ck_route *route, struct ck_waiter *w)
{
	struct ck_backend *m = route->remote;

	pthread_mutex_lock(&route->lock);
	w->cancelled = true;
	if (w->batch && m->interrupt) {
		__atomic_store_n(&w->batch->cancelled, true, __ATOMIC_RELEASE);
		m->interrupt(m, w->batch);
	}
	if (w->slot)
		route->gather_engine->interrupt(route->gather_engine, w->slot);
	pthread_mutex_unlock(&route->lock);
}

/* --- header fetches ------------------------------------------------------------- */

/* Makes a batch with one descriptor for each recorded range. */
static int batch_make(const struct ck_fetch *f, struct ck_copy_batch *out)
{
	size_t n = f->n - f->complete;
	struct ck_copy_desc *list = calloc(n, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct ck_fetch_range *p = &f->ranges[f->complete + i];

		list[i] = (struct ck_copy_desc){ .file = p->file,
						 .fpos = p->fpos,
						 .run = p->len,
						 .to = p->bytes };
	}
	*out = (struct ck_copy_batch){ .list = list, .n = n };
	return 0;
}

static void batch_free(struct ck_header_fetch *e)
{
	free(e->batch.list);
	e->batch = (struct ck_copy_batch){ 0 };
}

/* Maps ENODATA to EIO: ENODATA would be recorded as permanent damage. A file that
 * really is too short is detected by its size. */
static int range_errno(int rc)
{
	return rc == -ENODATA ? -EIO : rc;
}

static int fetch_end(struct ck_header_fetch *e)
{
	struct ck_fetch *f = &e->fetch;
	bool wanted = wait_end(e->route, e->sender, &e->batch);

	if (e->sender == &e->waiter)
		ck_stats_waited(ck_files_stats(e->route->files),
				ck_msec_now() - e->begun);
	for (size_t i = 0; i < e->batch.n; i++)
		f->ranges[f->complete + i].rc =
			range_errno(e->batch.list[i].rc);
	ck_fetch_complete(f);
	batch_free(e);
	return wanted ? 0 : -EINTR;
}

static void fetch_done(struct ck_copy_batch *batch)
{
	struct ck_header_fetch *e = batch->arg;

	e->done(e, fetch_end(e));
}

/* Starts a header fetch for the waiter `sender`. Returns as
 * ck_route_fetch(). */
static int fetch_start(struct ck_route *route, struct ck_header_fetch *e,
		       struct ck_waiter *sender)
{
	int rc;

	if (e->fetch.err)
		return e->fetch.err;
	if (e->fetch.n == e->fetch.complete)
		return -EIO;
	rc = batch_make(&e->fetch, &e->batch);
	if (rc)
		return rc;
	e->route = route;
	e->sender = sender;
	e->begun = ck_msec_now();
	e->batch.short_deadline = e->short_deadline;
	e->batch.done = fetch_done;
	e->batch.arg = e;
	rc = wait_begin(route, sender, &e->batch);
	if (rc) {
		batch_free(e);
		return rc;
	}
	rc = route->remote->start(route->remote, &e->batch);
	return rc ? rc : fetch_end(e);
}

int ck_route_fetch(struct ck_route *route, struct ck_header_fetch *e)
{
	return fetch_start(route, e, &e->waiter);
}

void ck_header_fetch_fini(struct ck_header_fetch *e)
{
	ck_fetch_fini(&e->fetch);
}

/* --- reads ------------------------------------------------------------------------- */

/* One run of a read operation, in segments. A segment is all that is left of
 * the read, or the bytes that fit into a slot of the gather engine. */
struct read_run {
	struct ck_route *route;
	struct ck_read *read;
	struct ck_read segment;
	uint64_t done; /* bytes of completed segments */
	uint64_t most; /* most bytes of a gathered segment; 0: not gathered */
	/* without a slot: gathered in this process */
	struct ck_packing packing;
	struct ck_header_fetch headers; /* for headers */
	struct ck_remote_batch remote;
	struct ck_copy_batch batch; /* the descriptors of `remote` */
	bool by_round;		    /* peers send straight to the device */
	uint64_t begun;
};

static void slot_put(struct read_run *run)
{
	struct ck_gather_engine *g = run->route->gather_engine;

	if (run->packing.slot)
		g->put(g, run->packing.slot);
	ck_packing_fini(&run->packing);
}

static void run_free(struct read_run *run)
{
	if (run->read->remote && !run->read->ahead)
		ck_stats_waited(ck_files_stats(run->route->files),
				ck_msec_now() - run->begun);
	slot_put(run);
	ck_remote_fini(&run->remote);
	ck_header_fetch_fini(&run->headers);
	free(run);
}

static void run_end(struct read_run *run, int rc)
{
	struct ck_read *r = run->read;

	run_free(run);
	r->done(r, rc);
}

/* --- a segment ------------------------------------------------------------------ */

/* Directs the result to device memory. */
static void segment_aim(struct read_run *run)
{
	struct ck_gather_slot *slot = run->packing.slot;

	slot->memory = run->read->memory;
	slot->at = run->read->at + run->done;
	run->segment.to = slot->result;
}

/* Begins the next segment, or repeats the begin of the present one. */
static void segment_begin(struct read_run *run)
{
	const struct ck_read *r = run->read;
	struct ck_gather_engine *g = run->route->gather_engine;
	uint64_t left = r->len - run->done;

	if (run->most && !run->packing.slot)
		run->packing.slot = g->take(g);
	run->segment = (struct ck_read){
		.from = r->from,
		.vpos = r->vpos + run->done,
		.len = run->packing.slot ? ck_min(left, run->most) : left,
		.memory = r->memory,
	};
	if (!r->memory)
		run->segment.to = (uint8_t *)r->to + run->done;
	else if (run->packing.slot)
		segment_aim(run);
}

/* Ends a segment. Returns true if there are more. */
static bool segment_end(struct read_run *run)
{
	run->done += run->segment.len;
	return run->done < run->read->len;
}

/* Halves a segment that exceeds a slot or the gather engine. */
static void segment_halve(struct read_run *run)
{
	/* Below 1/256 of a slot the GPU does not pay: gather on the host, unless
	 * the destination is device memory. */
	enum { PARTS = 256 };

	uint64_t least = run->route->gather_engine->segment / PARTS;

	run->most = run->segment.len / 2 / CK_GATHER_ALIGN * CK_GATHER_ALIGN;
	if (run->most > least || (run->most && run->read->memory))
		return;
	run->most = 0;
	slot_put(run);
}

/* Starts the recorded descriptors. */
static int batch_start(struct read_run *run)
{
	struct ck_waiter *w = &run->read->waiter;
	int rc;

	rc = wait_begin(run->route, w, &run->batch);
	if (rc == 0)
		rc = run->route->remote->start(run->route->remote, &run->batch);
	if (rc)
		return rc;
	(void)wait_end(run->route, w, &run->batch);
	return ck_remote_finish(&run->remote);
}

/* Starts the recorded descriptors, or encodes them for peers to send straight
 * to the device. */
static int batch_encode(struct read_run *run)
{
	struct ck_gather_engine *g = run->route->gather_engine;

	run->read->remote = true;
	run->batch.list = run->remote.list;
	run->batch.n = run->remote.n;
	run->by_round = run->packing.slot && run->route->remote &&
			__atomic_load_n(&g->rounds, __ATOMIC_RELAXED) &&
			!run->remote.changes &&
			ck_packing_encode(&run->packing, run->route->remote,
					  &run->batch);
	return run->by_round ? 0 : batch_start(run);
}

/* Files of the read: those of a step of a run directory differ from those of the
 * route. */
static struct ck_files *files_of(const struct read_run *run)
{
	return run->read->files ? run->read->files : run->route->files;
}

static int segment_plan(struct read_run *run)
{
	struct ck_packing *packing = run->packing.slot ? &run->packing : NULL;
	int rc;

	run->by_round = false;
	ck_remote_fini(&run->remote);
	if (packing)
		ck_packing_clear(packing);
	ck_fetch_begin(&run->headers.fetch);
	rc = ck_read_slice(files_of(run), &run->segment, &run->remote, packing);
	ck_fetch_end(&run->headers.fetch);
	/* An errno of a file, not of a start: no descriptor is in flight. */
	return rc == -EINPROGRESS ? -EIO : rc;
}

/* Returns 0 if all bytes of the segment are copied or packed. */
static int segment_read(struct read_run *run)
{
	int rc;

	do {
		rc = segment_plan(run);
		if (rc == 0 && run->remote.n)
			return batch_encode(run);
		if (rc != -EREMOTE)
			return rc;
		run->read->remote = true;
		rc = fetch_start(run->route, &run->headers, &run->read->waiter);
	} while (rc == 0);
	return rc;
}

/* True if the result is exactly the segment. */
static bool is_aimed(const struct read_run *run)
{
	const struct ck_packing *p = &run->packing;

	return p->n == 1 && p->arrivals[0].at == 0 &&
	       p->arrivals[0].len == run->segment.len;
}

static void slot_done(struct ck_gather_slot *slot, int rc);

/* Makes the slot interruptible. Returns false if the read was interrupted. */
static bool slot_wait_begin(struct read_run *run, struct ck_gather_slot *slot)
{
	struct ck_waiter *w = &run->read->waiter;
	bool wanted;

	pthread_mutex_lock(&run->route->lock);
	wanted = !w->cancelled;
	w->slot = wanted ? slot : NULL;
	pthread_mutex_unlock(&run->route->lock);
	return wanted;
}

/* Starts the slot. Returns 0 if nothing was packed. */
static int segment_gather(struct read_run *run)
{
	struct ck_gather_engine *g = run->route->gather_engine;
	struct ck_gather_slot *slot = run->packing.slot;

	if (run->segment.memory && !is_aimed(run))
		return -EIO;
	if (run->packing.n == 0)
		return 0;
	slot->done = slot_done;
	slot->arg = run;
	if (!slot_wait_begin(run, slot))
		return -EINTR;
	g->start(g, slot);
	return -EINPROGRESS;
}

/* Runs segments until one waits. Returns as ck_route_read(). */
static int segments_run(struct read_run *run)
{
	bool more = true;
	int rc = 0;

	while (more && rc == 0) {
		segment_begin(run);
		if (run->segment.memory && !run->packing.slot)
			return run->most ? -EAGAIN : -EIO;
		rc = segment_read(run);
		if (rc == 0)
			rc = segment_gather(run);
		if (rc == 0)
			more = segment_end(run);
		if (rc != -E2BIG || !run->packing.slot)
			continue;
		segment_halve(run);
		rc = 0;
	}
	return rc;
}

/* --- completions ---------------------------------------------------------------- */

/* Continues the read after a segment ended with rc. */
static void run_resume(struct read_run *run, int rc, bool more)
{
	if (rc == 0 && more)
		rc = segments_run(run);
	if (rc != -EINPROGRESS)
		run_end(run, rc);
}

/* Continues a segment after its descriptors completed with rc. */
static void segment_resume(struct read_run *run, int rc)
{
	bool more = false;

	if (rc == 0)
		rc = segment_gather(run);
	if (rc == 0)
		more = segment_end(run);
	if (rc != -EINPROGRESS)
		run_resume(run, rc, more);
}

static void batch_done(struct ck_copy_batch *batch)
{
	struct read_run *run = batch->arg;

	(void)wait_end(run->route, &run->read->waiter, batch);
	segment_resume(run, ck_remote_finish(&run->remote));
}

static void headers_done(struct ck_header_fetch *e, int rc)
{
	run_resume(e->arg, rc, true);
}

/* A round of the segment ended: counts it, or falls back to the backend. */
static void round_end(struct read_run *run, int rc)
{
	struct ck_backend *remote = run->route->remote;
	struct ck_stats *stats = ck_files_stats(run->route->files);

	run->by_round = false;
	ck_packing_encode_none(&run->packing);
	if (rc)
		return;
	for (size_t i = 0; i < run->batch.n; i++)
		run->batch.list[i].rc = 0;
	results_record(run->route, &run->batch);
	if (remote->delivered)
		remote->delivered(remote, &run->batch);
	if (stats)
		ck_count(&stats->rounds, 1);
}

/* After an error of the gather engine the segment is gathered in this
 * process. */
static void slot_done(struct ck_gather_slot *slot, int rc)
{
	struct read_run *run = slot->arg;
	struct ck_stats *stats = ck_files_stats(run->route->files);
	bool more = true;

	pthread_mutex_lock(&run->route->lock);
	run->read->waiter.slot = NULL;
	pthread_mutex_unlock(&run->route->lock);
	if (rc == -EINTR) {
		run->packing.slot = NULL;
		run_resume(run, -EINTR, false);
		return;
	}
	if (run->by_round && (rc == 0 || rc == -EREMOTEIO)) {
		round_end(run, rc);
		if (rc) {
			rc = batch_start(run);
			if (rc != -EINPROGRESS)
				segment_resume(run, rc);
			return;
		}
	}
	if (rc == -EOVERFLOW) {
		segment_halve(run);
	} else if (rc && run->segment.memory) {
		run_resume(run, -EIO, false);
		return;
	} else if (rc) {
		run->most = 0;
		slot_put(run);
	} else {
		uint64_t bytes = run->segment.len;

		if (!run->segment.memory)
			bytes = ck_packing_arrive(&run->packing);
		if (stats)
			ck_count(&stats->gpu_bytes, bytes);
		more = segment_end(run);
	}
	run_resume(run, 0, more);
}

/* True if the read starts with a slot. */
static bool uses_slots(const struct ck_route *route)
{
	const struct ck_gather_engine *g = route->gather_engine;

	return ck_route_gathers(route) ||
	       (g && __atomic_load_n(&g->rounds, __ATOMIC_RELAXED));
}

int ck_route_read(struct ck_route *route, struct ck_read *r)
{
	uint64_t size = ck_open_slice_slice(r->from)->size;
	struct read_run *run;
	int rc;

	r->remote = false;
	if (r->len > size || r->vpos > size - r->len)
		return -EINVAL;
	run = calloc(1, sizeof(*run));
	if (!run)
		return -ENOMEM;
	run->route = route;
	run->read = r;
	if (uses_slots(route))
		run->most = route->gather_engine->segment;
	run->begun = ck_msec_now();
	run->headers.done = headers_done;
	run->headers.arg = run;
	run->headers.short_deadline = r->short_deadline;
	run->batch.short_deadline = r->short_deadline;
	run->batch.done = batch_done;
	run->batch.arg = run;
	rc = segments_run(run);
	if (rc != -EINPROGRESS)
		run_free(run);
	return rc;
}
