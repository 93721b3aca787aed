/* SPDX-License-Identifier: MIT */
/*
 * publish: commits, and telling the kernel of them. When close(2) or fsync(2)
 * returns 0, the new bytes are durable, and whoever looks the file up sees
 * them, with a new inode number.
 *
 * One thread does both, for two reasons. Commits are made one at a time and
 * take long; those who answer requests go on meanwhile. And the kernel drops
 * a name only under the lock of its directory, which a lookup holds until it
 * is answered: if each thread that answers waited for that lock, none would
 * be left to answer. For the same reason nothing is told once those threads
 * are about to end (ck_publisher_quiet).
 *
 * A rename(2) onto a tensor has locks of directories and of the tensor's file
 * while it is answered, an fsync(2) that of the file, for which such a rename
 * may wait. If they were queued here, what is before them might wait for those
 * directories: they commit in the thread that answers, and the kernel is told
 * afterwards.
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
	JOB_DRAFT, /* commit it */
	JOB_ORDER,
	JOB_TELL,
};

struct job {
	struct job *next;
	enum job_kind kind;
	fuse_req_t req;		/* to be answered; not of JOB_TELL */
	struct ck_draft *draft; /* a reference, or NULL */
	unsigned order;
	uint32_t *tensors; /* JOB_TELL: these; owned */
	uint32_t n;
};

struct ck_publisher {
	struct ck_fs *fs;
	pthread_t thread;
	pthread_mutex_t commit; /* one at a time; nothing is told under it */
	pthread_mutex_t lock;	/* of all below */
	pthread_cond_t changed;
	struct job *first, **last;
	bool quiet;   /* the kernel is told nothing */
	bool telling; /* it is being told */
	bool ended;   /* the thread is to end when nothing is left */
	bool joined;
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

	ck_turns_wait(fs->turns, n.tensor);
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

	ck_turns_wait(fs->turns, CK_TURN_ANY);
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

/* --- the thread ------------------------------------------------------------- */

static int run_draft(struct ck_publisher *p, struct job *job)
{
	uint32_t tensor = ck_draft_node(job->draft)->tensor;
	bool changed;
	int rc = commit(p, job->draft, &changed);

	tell(p, &tensor, changed);
	return rc;
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

static void run_order(struct ck_publisher *p, struct job *job)
{
	struct ck_order answer = { 0 };
	struct ck_outcome out;
	struct ck_buf text = { 0 };
	int rc = job->order == CK_ORDER_COMMIT ? commit_all(p, &out, &text)
					       : drop_all(p, &out, &text);

	tell(p, out.tensors, out.published ? out.n : 0);
	answer.err = -rc;
	snprintf(answer.text, sizeof(answer.text), "%s",
		 text.data ? text.data : "out of memory");
	fuse_reply_ioctl(job->req, 0, &answer, sizeof(answer));
	ck_outcome_fini(&out);
	ck_buf_fini(&text);
}

static void job_run(struct ck_publisher *p, struct job *job)
{
	int rc = 0;

	switch (job->kind) {
	case JOB_DRAFT: rc = run_draft(p, job); break;
	case JOB_ORDER: run_order(p, job); break;
	case JOB_TELL: tell(p, job->tensors, job->n); break;
	}
	if (job->draft) {
		ck_draft_leave(job->draft);
		ck_draft_put(p->fs, job->draft);
	}
	if (job->kind == JOB_DRAFT)
		fuse_reply_err(job->req, -rc);
	free(job->tensors);
	free(job);
}

/* NULL: there is none, and there will be none. */
static struct job *job_take(struct ck_publisher *p)
{
	struct job *job;

	pthread_mutex_lock(&p->lock);
	while (!p->first && !p->ended)
		pthread_cond_wait(&p->changed, &p->lock);
	job = p->first;
	if (job)
		p->first = job->next;
	if (!p->first)
		p->last = &p->first;
	pthread_mutex_unlock(&p->lock);
	return job;
}

static void *publisher_run(void *arg)
{
	struct ck_publisher *p = arg;
	struct job *job;

	while ((job = job_take(p)))
		job_run(p, job);
	return NULL;
}

struct ck_publisher *ck_publisher_start(struct ck_fs *fs)
{
	struct ck_publisher *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->fs = fs;
	p->last = &p->first;
	pthread_mutex_init(&p->commit, NULL);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	if (pthread_create(&p->thread, NULL, publisher_run, p) == 0)
		return p;
	p->joined = true;
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
	if (p->joined)
		return;
	pthread_mutex_lock(&p->lock);
	p->quiet = true;
	p->ended = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	p->joined = true;
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

static int job_add(struct ck_publisher *p, const struct job *what)
{
	struct job *job = malloc(sizeof(*job));

	if (!job)
		return -ENOMEM;
	*job = *what;
	pthread_mutex_lock(&p->lock);
	*p->last = job;
	p->last = &job->next;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return 0;
}

/* --- what others ask for -------------------------------------------------------- */

static int publish(struct ck_fs *fs, struct job *job, struct ck_draft *draft)
{
	int rc;

	job->draft = draft ? ck_draft_ref(fs, draft) : NULL;
	rc = job_add(fs->publisher, job);
	if (rc && draft)
		ck_draft_put(fs, draft);
	return rc;
}

int ck_publish(struct ck_fs *fs, fuse_req_t req, struct ck_draft *draft)
{
	struct job job = { .kind = JOB_DRAFT, .req = req };

	return publish(fs, &job, draft);
}

int ck_publish_order(struct ck_fs *fs, fuse_req_t req, unsigned order)
{
	struct job job = { .kind = JOB_ORDER, .req = req, .order = order };

	return publish(fs, &job, NULL);
}

/* Takes the array. Without memory stat(2) goes on to show what was; open(2)
 * does not. */
static void tell_later(struct ck_fs *fs, uint32_t *tensors, uint32_t n)
{
	struct job job = { .kind = JOB_TELL, .tensors = tensors, .n = n };

	if (tensors && job_add(fs->publisher, &job) == 0)
		return;
	free(tensors);
	ck_log("out of memory: times of some tensors are shown late");
}

void ck_publish_tell(struct ck_fs *fs, uint32_t tensor)
{
	uint32_t *one = malloc(sizeof(*one));

	if (one)
		*one = tensor;
	tell_later(fs, one, 1);
}

int ck_publish_now(struct ck_fs *fs, struct ck_draft *draft, bool *changed)
{
	int rc = commit(fs->publisher, draft, changed);

	ck_draft_leave(draft);
	return rc;
}

int ck_publish_all_now(struct ck_fs *fs)
{
	struct ck_outcome out;
	struct ck_buf text = { 0 };
	int rc = commit_all(fs->publisher, &out, &text);

	if (out.published)
		tell_later(fs, ck_steal(&out.tensors), out.n);
	ck_outcome_fini(&out);
	ck_buf_fini(&text);
	return rc;
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
