/* SPDX-License-Identifier: MIT */
/*
 * check: lists all faults of a checkpoint. There are four steps:
 *
 *   1. The faults in the catalog are added, by the calling thread.
 *   2. Each item becomes a task. Tasks are sorted by file and offset.
 *   3. Worker threads, one of them the calling one, verify the items. Each takes a run of
 *      up to 64 neighbouring tasks or 4 MiB, so that disks are read forward and several
 *      threads share a large file.
 *   4. The calling thread verifies storages that belong to no item (`full` only).
 *
 * Findings are sorted at the end, so that the same checkpoint gives the same list.
 */
#include "base/system/process.h"
#include "kind.h"
#include "verify_item.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
	BUFFER = 512 * 1024, /* stays in a core's cache between read and CRC */
	RUN_ITEMS = 64,
	THREADS_MAX = 64,
};

static const uint64_t run_bytes = 4ULL << 20;

/* An item to verify. */
struct task {
	const struct ck_item *item;
	const struct ck_tensor *tensor; /* NULL: of an object or a record */
	/* Box of the tensor, number of the object, or RECORD. */
	uint32_t i;
};

/* The bytes are a storage of neither a tensor nor an object. */
#define RECORD UINT32_MAX

struct check {
	/* Constant once there are several threads: */
	struct ck_checkpoint *cp;
	const struct ck_catalog *catalog;
	const struct ck_check_options *options;
	struct task *tasks;
	size_t ntasks;
	uint8_t *file_named; /* by data file: 1 if a finding names it */

	pthread_mutex_t lock;
	/* Under lock: */
	size_t next; /* first task that no thread has taken */
	struct ck_findings *out;
	struct ck_check_progress done;
	int rc;
};

/* --- findings ------------------------------------------------------------- */

static const char *text_copy(struct ck_arena *a, const char *text)
{
	return text ? ck_arena_copy(a, ck_str_from(text)).p : NULL;
}

int ck_findings_add(struct ck_findings *out, const struct ck_fault *f)
{
	struct ck_fault *faults = ck_grow(out->faults, &out->cap, out->n, 1,
					  sizeof(*faults));
	struct ck_fault copy = *f;

	copy.what = ck_arena_copy(&out->arena, f->what);
	copy.expected = text_copy(&out->arena, f->expected);
	copy.found = text_copy(&out->arena, f->found);
	if (faults)
		out->faults = faults;
	if (!faults || !copy.what.p || !copy.expected != !f->expected ||
	    !copy.found != !f->found)
		return -ENOMEM;
	faults[out->n++] = copy;
	return 0;
}

static void add(struct check *k, const struct ck_fault *f)
{
	if (ck_findings_add(k->out, f))
		k->rc = -ENOMEM;
}

static int num_cmp(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Compares offsets and sizes, not pointers: tensors share arrays of boxes. */
static int box_cmp(const struct ck_fault *x, const struct ck_fault *y)
{
	if (x->ndim != y->ndim)
		return num_cmp(x->ndim, y->ndim);
	for (uint32_t i = 0; i < 2 * x->ndim; i++)
		if (x->box[i] != y->box[i])
			return x->box[i] < y->box[i] ? -1 : 1;
	return 0;
}

static int fault_cmp(const void *a, const void *b)
{
	const struct ck_fault *x = a, *y = b;
	int order = (x->name.p != NULL) - (y->name.p != NULL);

	if (order == 0 && x->name.p)
		order = ck_str_natural_cmp(x->name, y->name);
	if (order == 0)
		order = (x->box != NULL) - (y->box != NULL);
	if (order == 0 && x->box && y->box)
		order = box_cmp(x, y);
	if (order == 0)
		order = ck_str_natural_cmp(x->file, y->file);
	if (order == 0)
		order = num_cmp(x->pos, y->pos);
	return order ? order : ck_str_natural_cmp(x->what, y->what);
}

/* --- faults in the catalog -------------------------------------------------- */

static void add_of_item(struct check *k, const struct ck_item *item,
			const struct ck_fault *f)
{
	struct ck_fault copy = *f;

	if (item->file < k->catalog->files.n)
		k->file_named[item->file] = 1;
	copy.host = ck_checkpoint_host(k->cp, item->file);
	add(k, &copy);
}

static void add_losses(struct check *k)
{
	struct ck_fault f;

	for (size_t i = 0; i < k->catalog->nlosses; i++) {
		const struct ck_loss *loss = &k->catalog->losses[i];

		ck_catalog_loss_fault(k->catalog, loss, &f);
		if (loss->file < k->catalog->files.n) {
			k->file_named[loss->file] = 1;
			f.host = ck_checkpoint_host(k->cp, loss->file);
		}
		add(k, &f);
	}
}

static uint32_t tensor_of_replica(const struct ck_catalog *c, uint32_t i)
{
	return ck_catalog_tensor_of(c, ck_catalog_replica(c, i)->chunk);
}

static void add_known(struct check *k)
{
	const struct ck_catalog *c = k->catalog;
	struct ck_fault f;

	for (uint32_t i = 0; i < c->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c, i);

		/* A copy shares the items of a whole tensor, which are checked,
		 * unless its strides differ: see odd_add() in ranks_join.c. */
		if (t->entry.role == CK_ROLE_COPY ||
		    t->entry.role == CK_ROLE_HIDDEN)
			continue;
		if (ck_catalog_tensor_has_fault(c, t, &f))
			add(k, &f);
		for (uint32_t box = 0; box < t->nchunks; box++)
			if (ck_catalog_box_has_fault(c, t, box, &f))
				add_of_item(k,
					    ck_catalog_item(c, t->chunk + box),
					    &f);
	}
	for (uint32_t i = 0; i < c->replicas.n; i++)
		if (ck_tensor_is_there(c, tensor_of_replica(c, i)) &&
		    ck_catalog_replica_has_fault(c, ck_catalog_replica(c, i),
						 &f))
			add_of_item(k, &ck_catalog_replica(c, i)->item, &f);
	for (uint32_t i = 0; i < c->objects.n; i++)
		if (ck_object_is_there(c, i) &&
		    ck_catalog_object_has_fault(c, ck_catalog_object(c, i), &f))
			add_of_item(k, &ck_catalog_object(c, i)->item, &f);
	add_losses(k);
	for (uint32_t i = 0; i < c->files.n; i++)
		if (!k->file_named[i] && ck_catalog_file_has_fault(c, i, &f))
			add(k, &f);
}

/* Adds the replicas of data files that are not used, with the reason. */
static void add_unused(struct check *k)
{
	const struct ck_remote_source *e = k->cp->elsewhere;
	struct ck_unused_copy copy;

	for (size_t i = 0; e && e->unused(e, i, &copy); i++)
		add(k, &(struct ck_fault){
			       .file = ck_catalog_file(k->catalog, copy.file)
					       ->path,
			       .host = copy.host,
			       .err = copy.err,
			       .what = ck_str_from(copy.what),
			       .expected = copy.expected,
			       .found = copy.found,
		       });
}

/* --- tasks ------------------------------------------------------------------- */

static int task_cmp(const void *a, const void *b)
{
	const struct ck_item *x = ((const struct task *)a)->item;
	const struct ck_item *y = ((const struct task *)b)->item;

	return x->file != y->file ? num_cmp(x->file, y->file)
				  : num_cmp(x->fpos, y->fpos);
}

/* Bytes of a task for the progress: 0 for a value, whose pickle was read when the
 * checkpoint was opened. */
static uint64_t task_bytes(const struct ck_item *item)
{
	return item->form == CK_FORM_VALUE ? 0 : item->length;
}

/* An item within another chunk is verified with that chunk. */
static void task_add(struct check *k, const struct ck_item *item,
		     const struct ck_tensor *tensor, uint32_t i)
{
	if (item->form == CK_FORM_WITHIN)
		return;
	k->out->items_total++;
	if (!ck_catalog_item_is_there(k->catalog, item))
		return;
	k->done.bytes_total += task_bytes(item);
	k->tasks[k->ntasks++] = (struct task){ item, tensor, i };
}

static int tasks_make(struct check *k)
{
	const struct ck_catalog *c = k->catalog;

	k->tasks = calloc(1UL + c->chunks.n + c->replicas.n + c->objects.n,
			  sizeof(*k->tasks));
	if (!k->tasks)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c, i);
		bool checked = ck_tensor_is_there(c, i) &&
			       t->entry.role != CK_ROLE_COPY;

		for (uint32_t box = 0; box < t->nchunks && checked; box++)
			if (!ck_tensor_box_is_empty(t, box))
				task_add(k, ck_catalog_item(c, t->chunk + box),
					 t, box);
	}
	for (uint32_t i = 0; i < c->replicas.n; i++) {
		uint32_t chunk = ck_catalog_replica(c, i)->chunk;
		uint32_t tensor = tensor_of_replica(c, i);
		const struct ck_tensor *t = ck_catalog_tensor(c, tensor);

		if (ck_tensor_is_there(c, tensor) &&
		    !ck_tensor_box_is_empty(t, chunk - t->chunk))
			task_add(k, &ck_catalog_replica(c, i)->item, t,
				 chunk - t->chunk);
	}
	for (uint32_t i = 0; i < c->objects.n; i++)
		if (ck_object_is_there(c, i))
			task_add(k, &ck_catalog_object(c, i)->item, NULL, i);
	qsort(k->tasks, k->ntasks, sizeof(*k->tasks), task_cmp);
	k->done.items_total = k->ntasks;
	return 0;
}

/* --- worker threads ----------------------------------------------------------- */

struct worker {
	struct check *k;
	const struct task *task;
	void *buffer; /* BUFFER bytes; NULL: verify headers only */
};

static void found(void *ctx, uint64_t fpos, const struct ck_diag *d)
{
	const struct worker *w = ctx;
	const struct ck_catalog *c = w->k->catalog;
	struct ck_fault f = { 0 };

	if (w->task->tensor)
		ck_catalog_box_fault_init(c, w->task->tensor, w->task->i, &f);
	else if (w->task->i != RECORD)
		ck_catalog_object_fault_init(
			c, ck_catalog_object(c, w->task->i), &f);
	ck_catalog_place_fault(c, w->task->item, &f);
	f.host = ck_checkpoint_host(w->k->cp, w->task->item->file);
	ck_fault_set(&f, fpos, d);
	pthread_mutex_lock(&w->k->lock);
	add(w->k, &f);
	pthread_mutex_unlock(&w->k->lock);
}

/* Takes the next run of tasks, from *begin to the returned end. It is empty if all tasks are
 * taken, or a thread has failed. */
static size_t run_take(struct check *k, size_t *begin)
{
	uint64_t bytes = 0;
	size_t end;

	pthread_mutex_lock(&k->lock);
	*begin = end = k->next;
	while (k->rc == 0 && end < k->ntasks && end - *begin < RUN_ITEMS &&
	       bytes < run_bytes)
		bytes += k->tasks[end++].item->length;
	k->next = end;
	pthread_mutex_unlock(&k->lock);
	return end;
}

static void task_done(struct check *k, const struct task *task, int rc)
{
	const struct ck_check_options *o = k->options;

	pthread_mutex_lock(&k->lock);
	if (rc && k->rc == 0)
		k->rc = rc;
	k->done.items++;
	k->done.bytes += task_bytes(task->item);
	if (o->progress)
		o->progress(o->arg, &k->done);
	pthread_mutex_unlock(&k->lock);
}

static struct ck_str task_pickle(const struct ck_catalog *c,
				 const struct task *task)
{
	return task->tensor || task->i == RECORD
		       ? CK_STR("")
		       : ck_catalog_object(c, task->i)->pickle;
}

static int task_look(struct worker *w, const struct task *task)
{
	const struct ck_item_check look = {
		.catalog = w->k->catalog,
		.item = task->item,
		.tensor = task->tensor,
		.box = task->i,
		.pickle = task_pickle(w->k->catalog, task),
		.buffer = w->buffer,
		.buffer_len = BUFFER,
		.fault = found,
		.ctx = w,
	};

	w->task = task;
	return ck_item_verify(w->k->cp, &look);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	size_t begin, end;

	while ((end = run_take(w->k, &begin)) > begin)
		for (size_t i = begin; i < end; i++) {
			const struct task *task = &w->k->tasks[i];

			task_done(w->k, task, task_look(w, task));
		}
	return NULL;
}

/* Runs the tasks. Returns 0, or the first error that prevents the check. */
static int look_at_items(struct check *k)
{
	unsigned n = k->options->threads;
	struct worker *workers;

	n = n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : n;
	workers = calloc(n, sizeof(*workers));
	if (!workers)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		workers[i].k = k;
		if (k->options->full && !(workers[i].buffer = malloc(BUFFER)))
			k->rc = -ENOMEM;
	}
	if (k->options->progress)
		k->options->progress(k->options->arg, &k->done);
	ck_workers_run(n, work, workers, sizeof(*workers));
	for (unsigned i = 0; i < n; i++)
		free(workers[i].buffer);
	free(workers);
	return k->rc;
}

/* --- storages that belong to no item -------------------------------------------- */

/* Skips a sum that was computed since the last change of its file. */
static int record_look(struct worker *w, const struct ck_item *item)
{
	const struct ck_sum *sum = w->k->cp->format->sum(w->k->cp, item);

	if (!sum || atomic_load(&sum->known) ==
			    ck_files_touched(w->k->cp->files, item->file) + 1)
		return 0;
	return task_look(w, &(struct task){ item, NULL, RECORD });
}

/* Verifies storages of tensors in tuples, of sparse tensors and of meshes. */
static int look_at_records(struct check *k)
{
	const struct ck_format *format = k->cp->format;
	struct worker w = { .k = k, .buffer = malloc(BUFFER) };
	struct ck_item item;
	int rc = w.buffer ? 0 : -ENOMEM;

	for (uint32_t file = 0; file < k->catalog->files.n && rc == 0; file++)
		for (size_t i = 0;
		     rc == 0 && format->record(k->cp, file, i, &item); i++)
			if (ck_catalog_item_is_there(k->catalog, &item))
				rc = record_look(&w, &item);
	free(w.buffer);
	return rc ? rc : k->rc;
}

static int check_all(struct check *k)
{
	int rc;

	k->file_named = calloc(k->catalog->files.n + 1UL, 1);
	if (!k->file_named)
		return -ENOMEM;
	add_known(k);
	add_unused(k);
	rc = k->rc;
	if (rc == 0)
		rc = tasks_make(k);
	if (rc == 0)
		rc = look_at_items(k);
	if (rc == 0 && k->options->full && k->cp->format->record)
		rc = look_at_records(k);
	return rc;
}

int ck_checkpoint_check(struct ck_checkpoint *cp,
			const struct ck_check_options *options,
			struct ck_findings *out, struct ck_diag *d)
{
	const struct ck_catalog *c = ck_checkpoint_catalog(cp);
	struct check k = {
		.cp = cp, .catalog = c, .options = options, .out = out
	};
	int rc;

	*out = (struct ck_findings){ .catalog = c };
	pthread_mutex_init(&k.lock, NULL);
	rc = check_all(&k);
	pthread_mutex_destroy(&k.lock);
	free(k.tasks);
	free(k.file_named);
	if (rc) {
		ck_findings_fini(out);
		return ck_fail(d, -rc, "%s: %s", ck_show(ck_str_from(cp->path)),
			       strerror(-rc));
	}
	out->items = k.done.items;
	ck_findings_sort(out);
	return 0;
}

void ck_findings_sort(struct ck_findings *f)
{
	if (f->n)
		qsort(f->faults, f->n, sizeof(*f->faults), fault_cmp);
}

void ck_findings_fini(struct ck_findings *f)
{
	free(f->faults);
	ck_arena_fini(&f->arena);
	ck_catalog_put(f->catalog);
	*f = (struct ck_findings){ 0 };
}
