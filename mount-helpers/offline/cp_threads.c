/* SPDX-License-Identifier: MIT */
/*
 * cp_threads: the queue of files and the threads that copy them. A thread continues the file
 * that it has opened. Without one it opens the next file of the queue; if the queue is
 * empty it copies ranges of a file that another thread has opened. The kernel lets one
 * thread at a time write to a file, so each thread has its own file while there are
 * enough of them.
 */
#include "ckptfs/memory.h"
#include "cli.h"
#include "cp_internal.h"
#include <errno.h>

/* --- threads ------------------------------------------------------------------------- */

/* A range that a thread has taken and copies. */
struct range {
	struct ck_cp_file *file; /* NULL: nothing */
	uint64_t begin, end;
};

static bool has_more(const struct ck_cp_file *f)
{
	return f && f->next < f->size;
}

/* Removes a file from the list of open ones. Must hold the lock. */
static void leave_open(struct ck_cp *c, struct ck_cp_file *f)
{
	struct ck_cp_file **at = &c->open;

	while (*at && *at != f)
		at = &(*at)->next_file;
	if (*at)
		*at = f->next_file;
}

static void take_range(struct ck_cp *c, struct ck_cp_file *f, struct range *r)
{
	*r = (struct range){ f, f->next,
			     ck_min(f->size, f->next + CK_COPY_RANGE) };
	f->next = r->end;
	f->users++;
	if (!has_more(f))
		leave_open(c, f);
}

/* Ends a range, copied or failed. Returns the file if that was its last range, else NULL.
 * r->file stays set if the file has more ranges. Must hold the lock. */
static struct ck_cp_file *release(struct ck_cp *c, struct range *r)
{
	struct ck_cp_file *f = r->file;

	if (!f)
		return NULL;
	if (atomic_load(&f->failed)) {
		leave_open(c, f);
		f->next = f->size;
	}
	f->users--;
	if (has_more(f))
		return NULL;
	r->file = NULL;
	return f->users ? NULL : f;
}

/* Opens the first file of the queue and takes a range of it; r->file stays NULL if it cannot
 * be copied. Must hold the lock, which is released while the file is opened. */
static void take_queued(struct ck_cp *c, struct range *r)
{
	struct ck_cp_file *f = c->first;
	bool opened;

	c->first = f->next_file;
	if (!c->first)
		c->last = &c->first;
	f->next_file = NULL;
	c->queued--;
	c->opening++;
	pthread_cond_signal(&c->room);
	pthread_mutex_unlock(&c->lock);
	opened = ck_cp_file_open(c, f);
	if (!opened)
		ck_cp_file_end(c, f);
	pthread_mutex_lock(&c->lock);
	c->opening--;
	if (opened && f->size > CK_COPY_RANGE) {
		f->next_file = c->open;
		c->open = f;
	}
	if (opened)
		take_range(c, f, r);
	if (c->open || c->ended)
		pthread_cond_broadcast(&c->work);
}

/* Ends the range of a thread and takes the next one; waits for it. False if there are no
 * more ranges, or the copy is stopping. */
static bool take(struct ck_cp *c, struct range *r)
{
	struct ck_cp_file *done;
	bool found = false;

	pthread_mutex_lock(&c->lock);
	done = release(c, r);
	if (done) {
		pthread_mutex_unlock(&c->lock);
		ck_cp_file_end(c, done);
		pthread_mutex_lock(&c->lock);
	}
	while (!found && !ck_cp_stopping(c)) {
		if (r->file)
			take_range(c, r->file, r);
		else if (c->first)
			take_queued(c, r);
		else if (c->open)
			take_range(c, c->open, r);
		else if (c->ended && !c->opening)
			break;
		else
			pthread_cond_wait(&c->work, &c->lock);
		found = r->file != NULL;
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

static void wake_all(struct ck_cp *c)
{
	pthread_mutex_lock(&c->lock);
	pthread_cond_broadcast(&c->work);
	pthread_cond_broadcast(&c->room);
	pthread_mutex_unlock(&c->lock);
}

static void *copying(void *arg)
{
	struct ck_cp *c = arg;
	struct range r = { .file = NULL };
	void *buffer = ck_pages_alloc(CK_COPY_PIECE);

	if (!buffer)
		ck_cp_no_memory(c);
	while (take(c, &r))
		ck_cp_file_range(c, r.file, r.begin, r.end, buffer);
	ck_pages_free(buffer, buffer ? CK_COPY_PIECE : 0);
	/* After an error other threads may still wait for ranges or for room. */
	wake_all(c);
	return NULL;
}

/* --- begin and end --------------------------------------------------------------------- */

static void threads_begin(struct ck_cp *c)
{
	c->threads = calloc(c->how.threads, sizeof(*c->threads));
	while (c->threads && c->nthreads < c->how.threads &&
	       pthread_create(&c->threads[c->nthreads], NULL, copying, c) == 0)
		c->nthreads++;
}

static void discard(struct ck_cp *c)
{
	pthread_cond_destroy(&c->room);
	pthread_cond_destroy(&c->work);
	pthread_mutex_destroy(&c->lock);
	free(c->threads);
	free(c);
}

struct ck_cp *ck_cp_begin(const struct ck_cp_how *how)
{
	struct ck_cp *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->how = *how;
	c->last = &c->first;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->work, NULL);
	pthread_cond_init(&c->room, NULL);
	(void)umask(0077);
	if (how->from->s.cp->file)
		c->source = ck_checkpoint_metadata(how->from->s.cp);
	if (how->from->s.cp->file ||
	    fstat(how->from->s.cp->dirfd, &c->source) == 0)
		threads_begin(c);
	if (c->nthreads == 0) {
		discard(c);
		return NULL;
	}
	return c;
}

/* Ends the files of a list that a stopped copy has not completed. */
static void drop(struct ck_cp *c, struct ck_cp_file *f)
{
	while (f) {
		struct ck_cp_file *next = f->next_file;

		atomic_store(&f->failed, true);
		ck_cp_file_end(c, f);
		f = next;
	}
}

/* Removes the mark of a complete copy. The use of its directory is dropped after that, so that
 * DEST gets its mode and time last. */
static void mark_end(struct ck_cp *c)
{
	if (c->how.mark && atomic_load(&c->status) == CK_EXIT_FINE &&
	    !ck_cp_stopping(c))
		ck_cp_mark_remove(c->how.mark);
	ck_cp_dir_put(c, c->marked);
}

int ck_cp_end(struct ck_cp *c)
{
	int status;

	pthread_mutex_lock(&c->lock);
	c->ended = true;
	pthread_mutex_unlock(&c->lock);
	wake_all(c);
	for (unsigned i = 0; i < c->nthreads; i++)
		pthread_join(c->threads[i], NULL);
	drop(c, c->open);
	drop(c, c->first);
	mark_end(c);
	status = atomic_load(&c->status);
	discard(c);
	return status;
}

/* --- the walk ---------------------------------------------------------------------------- */

/* Waits for room in the queue. False if the copy is stopping; the file is queued anyway. */
static bool queue(struct ck_cp *c, struct ck_cp_file *f)
{
	pthread_mutex_lock(&c->lock);
	while (c->queued >= CK_COPY_QUEUE && !ck_cp_stopping(c))
		pthread_cond_wait(&c->room, &c->lock);
	*c->last = f;
	c->last = &f->next_file;
	c->queued++;
	pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->lock);
	return !ck_cp_stopping(c);
}

struct walk {
	struct ck_cp *c;
	const struct ck_named *dir;
	struct ck_cp_dir *into;
};

static int walk_each(void *arg, struct ck_node *n, const char *name)
{
	const struct walk *w = arg;
	struct ck_named found = { *n, ck_path_join(w->dir->path, name) };
	int rc = -ENOMEM;

	if (found.path)
		rc = ck_cp_run(w->c, &found, w->into, name) ? 0 : 1;
	free(found.path);
	return rc;
}

static bool copy_dir(struct ck_cp *c, const struct ck_named *from,
		     struct ck_cp_dir *up, const char *name)
{
	struct ck_cp_dir *into = ck_cp_dir_enter(c, up, name, from);
	struct walk w = { c, from, into };
	int rc;

	if (!into)
		return !ck_cp_stopping(c);
	rc = ck_offline_copied(c->how.from, into->number, walk_each, &w);
	if (rc < 0)
		ck_cp_unread(c, from, rc);
	ck_cp_dir_put(c, into);
	return !ck_cp_stopping(c);
}

bool ck_cp_run(struct ck_cp *c, const struct ck_named *from,
	       struct ck_cp_dir *into, const char *name)
{
	struct ck_cp_file *f;

	if (from->node.about.type == CK_TYPE_DIR)
		return copy_dir(c, from, into, name);
	if (from->node.about.type == CK_TYPE_LINK) {
		ck_cp_link(c, from, into, name);
		return !ck_cp_stopping(c);
	}
	f = ck_cp_file_make(from, into, name);
	if (f)
		return queue(c, f);
	ck_cp_unwritten(c, into, name, ENOMEM);
	return false;
}
