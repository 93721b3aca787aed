/* SPDX-License-Identifier: MIT */
/*
 * publish: commits, and telling the kernel of them. When close(2) or fsync(2)
 * returns 0, the new bytes are durable, and whoever opens the file has them;
 * whoever looks it up sees them, with a new inode number, within a second.
 *
 * One thread commits: commits are made one at a time and take long; those who
 * answer requests go on meanwhile. A rename(2) that commits is answered here,
 * and so is whoever writes, cuts or closes what is being committed. Where a
 * commit is of many, it takes all that drafts have left in the transaction; who
 * orders it by ioctl(2) is answered here, too.
 *
 * Nothing that the kernel is told may wait for a lock of its directories. Who
 * asks for something has such a lock until he is answered, and if the daemon is
 * killed before that, a thread that waits for the lock never ends: it keeps the
 * device open, so that nobody who waits for an answer is released. Therefore
 * single names are never dropped. The kernel is told that all names are old,
 * which waits for nothing; one that cannot be told so, before Linux 6.16, is
 * given no name to keep.
 *
 * Telling is a matter of what stat(2) shows. An open of an inode that the
 * kernel still has is refused by ESTALE (see read_ops.c), so that it never leads
 * to bytes of another version.
 */
#include "../internal.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum job_kind {
	JOB_COMMIT,  /* commit the draft */
	JOB_CONTROL, /* do it */
	JOB_RETRY,   /* take the request up */
};

struct job {
	struct job *next;
	enum job_kind kind;
	fuse_req_t req;		      /* to be answered */
	struct ck_write_handle *wh;   /* a reference, or NULL */
	bool asked;		      /* for all of it to be there */
	struct ck_deferred *deferred; /* owned */
	unsigned order;
	int rc;		    /* the answer */
	struct ck_buf text; /* of an order */
};

struct ck_commit_thread {
	/* Constant, or of the one thread that starts and ends it: */
	struct ck_fs *fs;
	bool started;
	pthread_t thread;

	pthread_mutex_t commit; /* one at a time, with a job or without */

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	struct job *first, **last;
	bool ended; /* the thread is to end when nothing is left */
};

/* --- telling the kernel ----------------------------------------------------- */

/* What the device takes: the head of a message to the kernel, and
 * FUSE_NOTIFY_INC_EPOCH, which libfuse 3.14 does not know. */
struct word {
	uint32_t len;
	int32_t what;
	uint64_t unique;
};

enum { INC_EPOCH = 8 };

#define NAME_TIMEOUT 1.0 /* where the kernel takes that, in seconds */

/* All names are looked up anew when they are used. False: the kernel cannot do
 * that. */
static bool forget_names(const struct ck_fs *fs)
{
	const struct word word = { .len = sizeof(word), .what = INC_EPOCH };

	return write(fuse_session_fd(fs->session), &word, sizeof(word)) >= 0;
}

/* What has the time of .metadata, and names. The text of the reports that were made
 * once stays: a commit changes no name, shape, dtype or number of boxes. */
static void tell(const struct ck_fs *fs)
{
	ck_nodes_forget_attributes(fs);
	if (fs->name_timeout > 0)
		(void)forget_names(fs); /* it has ended */
}

/* --- committing -------------------------------------------------------------- */

enum { LARGE = 16 << 20 }; /* bytes of metadata, all written by each commit */

/* Said once. */
static void advise(struct ck_fs *fs)
{
	const struct ck_checkpoint *cp = fs->cp;
	struct stat metadata = ck_checkpoint_metadata(cp);
	uint64_t bytes = (uint64_t)metadata.st_size;

	if (bytes > LARGE && !atomic_exchange(&fs->advised, true))
		ck_log("%s: each commit writes all of .metadata, %ju MiB; to "
		       "replace many tensors, mount with commit=manual and "
		       "commit them at once",
		       ck_show(ck_str_from(cp->path)),
		       (uintmax_t)(bytes >> 20));
}

/* A commit that fails after the rename is there all the same, and readers
 * must see it. */
static int commit(struct ck_commit_thread *p, struct ck_write_handle *wh,
		  bool asked)
{
	struct ck_fs *fs = p->fs;
	uint32_t tensor = ck_write_handle_node(wh)->about.number;
	uint64_t version;
	bool changed;
	int rc;

	pthread_mutex_lock(&p->commit);
	version = ck_tensor_version(fs, tensor);
	atomic_fetch_add(&fs->commits, 1);
	rc = ck_write_handle_commit(fs, wh, asked);
	atomic_fetch_add(&fs->commits, 1);
	changed = ck_tensor_version(fs, tensor) != version;
	pthread_mutex_unlock(&p->commit);
	if (!changed)
		return rc;
	ck_damage_forget(ck_root_damage(fs->root), tensor);
	tell(fs);
	advise(fs);
	return rc;
}

/* What is to be said of it goes into text; into the log, too, if it failed. */
static int commit_all(struct ck_commit_thread *p, struct ck_outcome *out,
		      struct ck_buf *text)
{
	struct ck_fs *fs = p->fs;
	struct ck_diag d = { 0 };
	int rc;

	pthread_mutex_lock(&p->commit);
	atomic_fetch_add(&fs->commits, 1);
	rc = ck_transaction_commit(fs->transaction, out, &d);
	atomic_fetch_add(&fs->commits, 1);
	pthread_mutex_unlock(&p->commit);
	for (uint32_t i = 0; out->published && i < out->n; i++)
		ck_damage_forget(ck_root_damage(fs->root), out->tensors[i]);
	if (out->published)
		tell(fs);
	ck_outcome_print(fs, out, rc, &d, text);
	if (rc)
		ck_log("%s", text->data ? text->data : d.text);
	return rc;
}

/* --- jobs --------------------------------------------------------------------- */

static int drop_all(struct ck_commit_thread *p, struct ck_outcome *out,
		    struct ck_buf *text)
{
	struct ck_diag d = { 0 };
	int rc = ck_transaction_drop(p->fs->transaction, out, &d);

	if (rc)
		ck_buf_text(text, d.text);
	else
		ck_drop_print(p->fs, out, "dropped", text);
	return rc;
}

/* All staged tensors. */
static void do_control(struct ck_commit_thread *p, struct job *job)
{
	struct ck_outcome out;

	job->rc = job->order == CK_IOC_ABORT ? drop_all(p, &out, &job->text)
					     : commit_all(p, &out, &job->text);
	if (job->rc == 0 && job->order == CK_IOC_COMMIT)
		ck_scratches_print(p->fs, &job->text);
	ck_outcome_fini(&out);
}

static void answer_control(const struct job *job)
{
	struct ck_control_reply answer = { .err = -job->rc };

	snprintf(answer.text, sizeof(answer.text), "%s",
		 job->text.data ? job->text.data : "out of memory");
	fuse_reply_ioctl(job->req, 0, &answer, sizeof(answer));
}

/* Other requests may have waited for the draft. */
static void answer(struct ck_commit_thread *p, struct job *job)
{
	if (job->wh) {
		ck_write_handle_set_closing(job->wh);
		ck_write_handle_put(p->fs, job->wh);
	}
	if (job->kind == JOB_CONTROL)
		answer_control(job);
	else
		fuse_reply_err(job->req, -job->rc);
}

static void job_do(struct ck_commit_thread *p, struct job *job)
{
	if (job->kind == JOB_COMMIT)
		job->rc = commit(p, job->wh, job->asked);
	else
		do_control(p, job);
	answer(p, job);
	ck_buf_fini(&job->text);
}

static void job_run(struct ck_commit_thread *p, struct job *job)
{
	if (job->kind == JOB_RETRY)
		ck_deferred_commit(p->fs->deferred, job->deferred);
	else
		job_do(p, job);
	free(job);
}

/* --- the thread --------------------------------------------------------------- */

static void job_add(struct ck_commit_thread *p, struct job *job)
{
	job->next = NULL;
	pthread_mutex_lock(&p->lock);
	*p->last = job;
	p->last = &job->next;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* Waits for the next job. NULL: all are done, and the thread is to end. */
static struct job *job_take(struct ck_commit_thread *p)
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

static void *thread_run(void *arg)
{
	struct ck_commit_thread *p = arg;
	struct job *job;

	while ((job = job_take(p)))
		job_run(p, job);
	return NULL;
}

struct ck_commit_thread *ck_commit_thread_start(struct ck_fs *fs)
{
	struct ck_commit_thread *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->fs = fs;
	p->last = &p->first;
	fs->name_timeout = forget_names(fs) ? NAME_TIMEOUT : 0;
	pthread_mutex_init(&p->commit, NULL);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	p->started = pthread_create(&p->thread, NULL, thread_run, p) == 0;
	if (p->started)
		return p;
	ck_commit_thread_free(p);
	return NULL;
}

void ck_commit_thread_end(struct ck_commit_thread *p)
{
	if (!p->started)
		return;
	pthread_mutex_lock(&p->lock);
	p->ended = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	p->started = false;
}

void ck_commit_thread_free(struct ck_commit_thread *p)
{
	if (!p)
		return;
	ck_commit_thread_end(p);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	pthread_mutex_destroy(&p->commit);
	free(p);
}

/* --- what others ask for -------------------------------------------------------- */

static int publish(struct ck_fs *fs, const struct job *what,
		   struct ck_write_handle *wh)
{
	struct job *job = malloc(sizeof(*job));

	if (!job)
		return -ENOMEM;
	*job = *what;
	job->wh = wh ? ck_write_handle_ref(fs, wh) : NULL;
	job_add(fs->commit_thread, job);
	return 0;
}

int ck_commit_thread_commit(struct ck_fs *fs, fuse_req_t req,
			    struct ck_write_handle *wh, bool asked)
{
	struct job job = { .kind = JOB_COMMIT, .req = req, .asked = asked };

	return publish(fs, &job, wh);
}

int ck_commit_thread_retry(struct ck_fs *fs, struct ck_deferred *l)
{
	struct job job = { .kind = JOB_RETRY, .deferred = l };

	return publish(fs, &job, NULL);
}

int ck_commit_thread_control(struct ck_fs *fs, fuse_req_t req, unsigned order)
{
	struct job job = { .kind = JOB_CONTROL, .req = req, .order = order };

	return publish(fs, &job, NULL);
}

int ck_commit_thread_commit_here(struct ck_fs *fs, struct ck_write_handle *wh)
{
	return commit(fs->commit_thread, wh, true);
}

void ck_commit_thread_drop_rest(struct ck_fs *fs)
{
	struct ck_transaction_status status;
	struct ck_outcome out;
	struct ck_buf text = { 0 };

	ck_transaction_status(fs->transaction, &status);
	if (status.staged == 0)
		return;
	if (drop_all(fs->commit_thread, &out, &text) == 0)
		ck_log("unmounted without a commit: %s",
		       text.data ? text.data : "staged tensors are dropped");
	ck_outcome_fini(&out);
	ck_buf_fini(&text);
}
