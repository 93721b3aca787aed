/* SPDX-License-Identifier: MIT */
/*
 * publish: commits, and telling the kernel of them. When close(2) or fsync(2)
 * returns 0, the new bytes are durable, and whoever looks the file up sees
 * them, with a new inode number.
 *
 * Two threads do that. One commits: commits are made one at a time and take
 * long; those who answer requests go on meanwhile. The other tells the kernel,
 * which drops a name only under the lock of its directory. A lookup holds that
 * until it is answered: if each thread that answers waited for the lock, none
 * would be left to answer. For the same reason nothing is told once those
 * threads are about to end (ck_publisher_quiet).
 *
 * A close(2) is answered when the kernel was told. An fsync(2) is answered
 * before: the kernel has locked the file for it, a rename(2) onto the file
 * waits for that with its directories locked, and telling waits for those. The
 * rename itself commits in the thread that answers it.
 *
 * Where a commit is of many, it takes all that drafts have left with the
 * writer; who orders it by ioctl(2) is answered here, too.
 *
 * Telling is a matter of what stat(2) shows. An open of an inode that the
 * kernel still has is refused by ESTALE (see read.c), so that it never leads
 * to bytes of another version.
 */
#include "internal.h"
#include <errno.h>
#include <stdio.h>

enum job_kind {
	JOB_CLOSE, /* commit the draft, tell, answer */
	JOB_SYNC,  /* commit it, answer, tell */
	JOB_ALL,   /* commit all that is kept, answer, tell */
	JOB_ORDER, /* do it, tell, answer */
	JOB_TELL,
};

struct job {
	struct job *next;
	enum job_kind kind;
	fuse_req_t req;		/* to be answered; not of JOB_TELL */
	struct ck_draft *draft; /* a reference, or NULL */
	unsigned order;
	int rc;		    /* the answer */
	struct ck_buf text; /* of an order */
	uint32_t *tensors;  /* that the kernel is told of; owned */
	uint32_t n;
};

/* A thread and what it has to do. */
struct line {
	struct ck_publisher *p;
	void (*run)(struct ck_publisher *p, struct job *job); /* takes it */
	pthread_t thread;
	struct job *first, **last;
	bool ended; /* the thread is to end when nothing is left */
	bool started;
};

struct ck_publisher {
	struct ck_fs *fs;
	pthread_mutex_t commit; /* one at a time; nothing is told under it */
	pthread_mutex_t lock;	/* of all below */
	pthread_cond_t changed;
	struct line commits, tells;
	bool quiet;   /* the kernel is told nothing */
	bool telling; /* it is being told */
};

/* --- telling the kernel ----------------------------------------------------- */

static void forget_name(const struct ck_fs *fs, const struct ck_node *dir,
			const struct ck_buf *name)
{
	/* -ENOENT: the kernel does not have it. */
	if (name->err == 0)
		(void)fuse_lowlevel_notify_inval_entry(fs->session,
						       ck_node_number(fs, dir),
						       name->data, name->len);
}

/* Its attributes only. */
static void forget_attributes(const struct ck_fs *fs, const struct ck_node *n)
{
	(void)fuse_lowlevel_notify_inval_inode(fs->session,
					       ck_node_number(fs, n), -1, 0);
}

static void tell_names(const struct ck_fs *fs, uint32_t tensor)
{
	const struct ck_tensor *t = &fs->catalog->tensors[tensor];
	struct ck_node dir = { .kind = CK_NODE_VIEW };
	struct ck_buf name = { 0 };

	for (; dir.index < ck_nviews; dir.index++) {
		name.len = 0;
		ck_view_name(ck_views[dir.index], fs->catalog, tensor, &name);
		forget_name(fs, &dir, &name);
	}
	dir.kind = CK_NODE_OWNER;
	for (uint32_t i = t->chunk; i < t->chunk + t->nchunks; i++) {
		if (!ck_local_has_owner(fs->local, i, &dir.index))
			continue;
		name.len = 0;
		ck_local_box_name(fs->local, i, &name);
		forget_name(fs, &dir, &name);
	}
	ck_buf_fini(&name);
}

/* What has the time of .metadata. The text of the reports that were made once
 * stays: a commit changes no name, shape, dtype or number of boxes. */
static void tell_times(const struct ck_fs *fs)
{
	struct ck_node n = { .kind = CK_NODE_ROOT };

	forget_attributes(fs, &n);
	n.kind = CK_NODE_CONTROL;
	forget_attributes(fs, &n);
	n.kind = CK_NODE_OBJECTS;
	forget_attributes(fs, &n);
	n.kind = CK_NODE_LOCAL;
	forget_attributes(fs, &n);
	n.kind = CK_NODE_REPORT;
	for (n.index = 0; n.index < ck_nreports; n.index++)
		forget_attributes(fs, &n);
	n.kind = CK_NODE_VIEW;
	for (n.index = 0; n.index < ck_nviews; n.index++)
		forget_attributes(fs, &n);
	n.kind = CK_NODE_OWNER;
	for (n.index = 0; n.index < ck_local_count(fs->local); n.index++)
		forget_attributes(fs, &n);
}

static bool begin_telling(struct ck_publisher *p)
{
	pthread_mutex_lock(&p->lock);
	p->telling = !p->quiet;
	pthread_mutex_unlock(&p->lock);
	return p->telling;
}

static void end_telling(struct ck_publisher *p)
{
	pthread_mutex_lock(&p->lock);
	p->telling = false;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void tell(struct ck_publisher *p, const uint32_t *tensors, uint32_t n)
{
	if (n == 0 || !begin_telling(p))
		return;
	for (uint32_t i = 0; i < n; i++)
		tell_names(p->fs, tensors[i]);
	tell_times(p->fs);
	end_telling(p);
}

/* --- committing -------------------------------------------------------------- */

enum { LARGE = 16 << 20 }; /* bytes of metadata, all written by each commit */

/* Said once. */
static void advise(struct ck_fs *fs)
{
	const struct ck_checkpoint *cp = fs->cp;
	uint64_t bytes;

	ck_checkpoint_lock(fs->cp);
	bytes = (uint64_t)cp->metadata.st_size;
	ck_checkpoint_unlock(fs->cp);
	if (bytes > LARGE && !atomic_exchange(&fs->advised, true))
		ck_log("%s: each commit writes all of .metadata, %ju MiB; to "
		       "replace many tensors, mount with commit=manual and "
		       "commit them at once",
		       ck_show(ck_str_from(cp->path)),
		       (uintmax_t)(bytes >> 20));
}

/* A commit that fails at its very end is seen all the same. */
static int commit(struct ck_publisher *p, struct ck_draft *draft, bool *changed)
{
	struct ck_fs *fs = p->fs;
	struct ck_node n = *ck_draft_node(draft);
	int rc;

	pthread_mutex_lock(&p->commit);
	n.version = ck_node_version(fs, &n);
	atomic_fetch_add(&fs->commits, 1);
	rc = ck_draft_commit(fs, draft);
	atomic_fetch_add(&fs->commits, 1);
	*changed = ck_node_version(fs, &n) != n.version;
	pthread_mutex_unlock(&p->commit);
	if (!*changed)
		return rc;
	ck_tensor_forget_faults(fs, n.tensor);
	advise(fs);
	return rc;
}

/* What is to be said of it goes into text; into the log, too, if it failed. */
static int commit_all(struct ck_publisher *p, struct ck_outcome *out,
		      struct ck_buf *text)
{
	struct ck_fs *fs = p->fs;
	struct ck_diag d = { 0 };
	int rc;

	pthread_mutex_lock(&p->commit);
	atomic_fetch_add(&fs->commits, 1);
	rc = ck_writer_commit(fs->writer, out, &d);
	atomic_fetch_add(&fs->commits, 1);
	pthread_mutex_unlock(&p->commit);
	for (uint32_t i = 0; out->published && i < out->n; i++)
		ck_tensor_forget_faults(fs, out->tensors[i]);
	ck_outcome_print(fs, out, rc, &d, text);
	if (rc)
		ck_log("%s", text->data ? text->data : d.text);
	return rc;
}

/* --- the threads ------------------------------------------------------------ */

static void line_add(struct line *line, struct job *job)
{
	job->next = NULL;
	pthread_mutex_lock(&line->p->lock);
	*line->last = job;
	line->last = &job->next;
	pthread_cond_broadcast(&line->p->changed);
	pthread_mutex_unlock(&line->p->lock);
}

static uint32_t *one_tensor(uint32_t tensor)
{
	uint32_t *one = malloc(sizeof(*one));

	if (one)
		*one = tensor;
	return one;
}

static void do_draft(struct ck_publisher *p, struct job *job)
{
	bool changed;

	job->rc = commit(p, job->draft, &changed);
	if (changed)
		job->tensors = one_tensor(ck_draft_node(job->draft)->tensor);
	job->n = job->tensors ? 1 : 0;
}

static int drop_all(struct ck_publisher *p, struct ck_outcome *out,
		    struct ck_buf *text)
{
	struct ck_diag d = { 0 };
	int rc = ck_writer_drop(p->fs->writer, out, &d);

	if (rc)
		ck_buf_text(text, d.text);
	else
		ck_drop_print(p->fs, out, "dropped", text);
	return rc;
}

static void do_all(struct ck_publisher *p, struct job *job)
{
	struct ck_outcome out;

	job->rc = job->order == CK_ORDER_ABORT
			  ? drop_all(p, &out, &job->text)
			  : commit_all(p, &out, &job->text);
	if (out.published) {
		job->n = out.n;
		job->tensors = ck_steal(&out.tensors);
	}
	ck_outcome_fini(&out);
}

static void answer_order(const struct job *job)
{
	struct ck_order answer = { .err = -job->rc };

	snprintf(answer.text, sizeof(answer.text), "%s",
		 job->text.data ? job->text.data : "out of memory");
	fuse_reply_ioctl(job->req, 0, &answer, sizeof(answer));
}

/* Others may have waited for the draft. */
static void answer(struct ck_publisher *p, struct job *job)
{
	if (job->draft) {
		ck_draft_leave(job->draft);
		ck_draft_put(p->fs, job->draft);
		job->draft = NULL;
	}
	if (job->kind == JOB_ORDER)
		answer_order(job);
	else if (job->kind != JOB_TELL)
		fuse_reply_err(job->req, -job->rc);
	job->kind = JOB_TELL;
}

static void job_commit(struct ck_publisher *p, struct job *job)
{
	if (job->kind == JOB_CLOSE || job->kind == JOB_SYNC)
		do_draft(p, job);
	else
		do_all(p, job);
	if (job->kind == JOB_SYNC || job->kind == JOB_ALL)
		answer(p, job);
	line_add(&p->tells, job);
}

static void job_tell(struct ck_publisher *p, struct job *job)
{
	tell(p, job->tensors, job->n);
	answer(p, job);
	ck_buf_fini(&job->text);
	free(job->tensors);
	free(job);
}

/* NULL: there is none, and there will be none. */
static struct job *line_take(struct line *line)
{
	struct job *job;

	pthread_mutex_lock(&line->p->lock);
	while (!line->first && !line->ended)
		pthread_cond_wait(&line->p->changed, &line->p->lock);
	job = line->first;
	if (job)
		line->first = job->next;
	if (!line->first)
		line->last = &line->first;
	pthread_mutex_unlock(&line->p->lock);
	return job;
}

static void *line_run(void *arg)
{
	struct line *line = arg;
	struct job *job;

	while ((job = line_take(line)))
		line->run(line->p, job);
	return NULL;
}

static bool line_start(struct line *line, struct ck_publisher *p,
		       void (*run)(struct ck_publisher *p, struct job *job))
{
	*line = (struct line){ .p = p, .run = run };
	line->last = &line->first;
	line->started = pthread_create(&line->thread, NULL, line_run, line) ==
			0;
	return line->started;
}

/* When nothing is left in it. */
static void line_end(struct line *line)
{
	if (!line->started)
		return;
	pthread_mutex_lock(&line->p->lock);
	line->ended = true;
	pthread_cond_broadcast(&line->p->changed);
	pthread_mutex_unlock(&line->p->lock);
	pthread_join(line->thread, NULL);
	line->started = false;
}

struct ck_publisher *ck_publisher_start(struct ck_fs *fs)
{
	struct ck_publisher *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->fs = fs;
	pthread_mutex_init(&p->commit, NULL);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	if (line_start(&p->tells, p, job_tell) &&
	    line_start(&p->commits, p, job_commit))
		return p;
	ck_publisher_free(p);
	return NULL;
}

void ck_publisher_quiet(struct ck_publisher *p)
{
	pthread_mutex_lock(&p->lock);
	p->quiet = true;
	while (p->telling)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

void ck_publisher_end(struct ck_publisher *p)
{
	pthread_mutex_lock(&p->lock);
	p->quiet = true;
	pthread_mutex_unlock(&p->lock);
	line_end(&p->commits);
	line_end(&p->tells);
}

void ck_publisher_free(struct ck_publisher *p)
{
	if (!p)
		return;
	ck_publisher_end(p);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	pthread_mutex_destroy(&p->commit);
	free(p);
}

/* --- what others ask for -------------------------------------------------------- */

static int publish(struct ck_fs *fs, const struct job *what,
		   struct ck_draft *draft)
{
	struct job *job = malloc(sizeof(*job));

	if (!job)
		return -ENOMEM;
	*job = *what;
	job->draft = draft ? ck_draft_ref(fs, draft) : NULL;
	line_add(&fs->publisher->commits, job);
	return 0;
}

int ck_publish(struct ck_fs *fs, fuse_req_t req, struct ck_draft *draft,
	       bool sync)
{
	struct job job = { .kind = sync ? JOB_SYNC : JOB_CLOSE, .req = req };

	return publish(fs, &job, draft);
}

int ck_publish_all(struct ck_fs *fs, fuse_req_t req, struct ck_draft *draft)
{
	struct job job = { .kind = JOB_ALL, .req = req };

	return publish(fs, &job, draft);
}

int ck_publish_order(struct ck_fs *fs, fuse_req_t req, unsigned order)
{
	struct job job = { .kind = JOB_ORDER, .req = req, .order = order };

	return publish(fs, &job, NULL);
}

/* Without memory stat(2) goes on to show what was; open(2) does not. */
void ck_publish_tell(struct ck_fs *fs, uint32_t tensor)
{
	struct job *job = malloc(sizeof(*job));
	uint32_t *one = one_tensor(tensor);

	if (job && one) {
		*job = (struct job){ .kind = JOB_TELL, .tensors = one, .n = 1 };
		line_add(&fs->publisher->tells, job);
		return;
	}
	free(job);
	free(one);
	ck_log("out of memory: times of a tensor are shown late");
}

int ck_publish_now(struct ck_fs *fs, struct ck_draft *draft)
{
	bool changed;

	return commit(fs->publisher, draft, &changed);
}

void ck_publish_rest(struct ck_fs *fs)
{
	struct ck_writer_status status;
	struct ck_outcome out;
	struct ck_buf text = { 0 };

	ck_writer_status(fs->writer, &status);
	if (status.staged == 0)
		return;
	if (fs->options->commit == CK_COMMIT_FSYNC) {
		if (commit_all(fs->publisher, &out, &text) == 0)
			ck_log("%s", text.data ? text.data : "committed");
		else if (!out.published && out.n)
			ck_log("unmounted: what was staged is dropped");
	} else if (drop_all(fs->publisher, &out, &text) == 0) {
		ck_log("unmounted without a commit: %s",
		       text.data ? text.data : "staged tensors are dropped");
	}
	ck_outcome_fini(&out);
	ck_buf_fini(&text);
}
