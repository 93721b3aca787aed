/* SPDX-License-Identifier: MIT */
/*
 * commit_thread: commits, and notifies the kernel of them. When close(2) or
 * fsync(2) returns 0, the new bytes are durable, and every later open gets
 * them. A lookup gets the new inode number within a second.
 *
 * One thread makes all commits, one at a time, since each takes long; FUSE
 * threads keep serving meanwhile. It runs jobs from a queue: commit one write
 * handle; execute an ioctl(2) that commits or drops all staged tensors; retry a
 * deferred request, as a rename(2) that commits or a write to a file being
 * committed.
 *
 * Notifying the kernel must not take a lock of its directories. A program in a
 * request holds such a lock until the reply. If the daemon is killed before, a
 * thread that waits for the lock never ends and keeps the device open, so that
 * no waiting program is released. Therefore no single dentry is invalidated.
 * FUSE_NOTIFY_INC_EPOCH expires all dentries without taking a lock. Kernels
 * before 6.16 lack it; there the entry timeout is 0.
 *
 * Notifications only affect stat(2). An open of the inode of an older version
 * fails with ESTALE (see read_ops.c), and never returns bytes of another
 * version.
 *
 * States: started; ended (queued jobs are finished); freed.
 */
#include "../internal.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum job_kind {
	JOB_COMMIT,  /* commit the write handle */
	JOB_CONTROL, /* execute an ioctl(2) */
	JOB_RETRY,   /* retry a deferred request */
};

struct job {
	struct job *next;
	enum job_kind kind;
	fuse_req_t req;		      /* for the reply */
	struct ck_write_handle *wh;   /* a reference, or NULL */
	bool explicit;		      /* an incomplete file is an error */
	struct ck_deferred *deferred; /* owned */
	unsigned cmd;
	int rc;		    /* result */
	struct ck_buf text; /* text of the reply to an ioctl(2) */
	struct ck_request_time time;
};

struct ck_commit_thread {
	/* Constant, or of the one thread that starts and ends it: */
	struct ck_fs *fs;
	bool started;
	pthread_t thread;

	pthread_mutex_t commit; /* one commit at a time */

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	struct job *first, **last;
	bool ended; /* the thread ends when the queue is empty */
};

/* --- notifying the kernel ------------------------------------------------- */

/* Message to the FUSE device: a header with FUSE_NOTIFY_INC_EPOCH, which
 * libfuse 3.14 does not have. */
struct notification {
	uint32_t len;
	int32_t what;
	uint64_t unique;
};

enum { INC_EPOCH = 8 };

/* seconds, on kernels that have the notification */
#define NAME_TIMEOUT 1.0

/* Expires all cached names. False if the kernel does not support it. */
static bool expire_names(const struct ck_fs *fs)
{
	const struct notification notification = { .len = sizeof(notification),
						   .what = INC_EPOCH };

	return write(fuse_session_fd(fs->session), &notification,
		     sizeof(notification)) >= 0;
}

/* Expires attributes with the time of .metadata, and names. Reports that are
 * made once stay cached: a commit changes no name, shape, dtype or number of
 * boxes. */
static void notify(const struct ck_fs *fs)
{
	ck_nodes_forget_attributes(fs);
	if (fs->name_timeout > 0)
		/* fails only if the mount has ended */
		(void)expire_names(fs);
}

/* --- committing ----------------------------------------------------------- */

/* size of metadata, which each commit writes whole */
enum { LARGE = 16 << 20 };

/* Logs the hint once. */
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

/* A commit that fails after its rename is visible all the same, so readers are
 * notified. */
static int commit(struct ck_commit_thread *p, struct ck_write_handle *wh,
		  bool explicit)
{
	struct ck_fs *fs = p->fs;
	uint32_t tensor = ck_write_handle_node(wh)->about.number;
	uint64_t version;
	bool changed;
	int rc;

	pthread_mutex_lock(&p->commit);
	version = ck_tensor_version(fs, tensor);
	atomic_fetch_add(&fs->commits, 1);
	rc = ck_write_handle_commit(fs, wh, explicit);
	atomic_fetch_add(&fs->commits, 1);
	changed = ck_tensor_version(fs, tensor) != version;
	pthread_mutex_unlock(&p->commit);
	if (!changed)
		return rc;
	ck_damage_forget(ck_root_damage(fs->root), tensor);
	notify(fs);
	advise(fs);
	return rc;
}

/* Appends the result to text, and logs it if the commit failed. */
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
		notify(fs);
	ck_outcome_print(fs, out, rc, &d, text);
	if (rc)
		ck_log("%s", text->data ? text->data : d.text);
	return rc;
}

/* --- jobs ----------------------------------------------------------------- */

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

/* Commits or drops all staged tensors. */
static void do_control(struct ck_commit_thread *p, struct job *job)
{
	struct ck_outcome out;

	job->rc = job->cmd == CK_IOC_ABORT ? drop_all(p, &out, &job->text)
					   : commit_all(p, &out, &job->text);
	if (job->rc == 0 && job->cmd == CK_IOC_COMMIT)
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

/* Deferred requests may have waited for the write handle. */
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
		job->rc = commit(p, job->wh, job->explicit);
	else
		do_control(p, job);
	answer(p, job);
	ck_buf_fini(&job->text);
}

static void job_run(struct ck_commit_thread *p, struct job *job)
{
	ck_request_time_resume(&job->time);
	if (job->kind == JOB_RETRY)
		ck_deferred_commit(p->fs->deferred, job->deferred);
	else
		job_do(p, job);
	ck_request_time_end();
	free(job);
}

/* --- the thread ----------------------------------------------------------- */

static void job_add(struct ck_commit_thread *p, struct job *job)
{
	job->next = NULL;
	pthread_mutex_lock(&p->lock);
	*p->last = job;
	p->last = &job->next;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* Waits for the next job. NULL if the queue is empty and the thread must end. */
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
	fs->name_timeout = expire_names(fs) ? NAME_TIMEOUT : 0;
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

/* --- requests to the thread ----------------------------------------------- */

static int publish(struct ck_fs *fs, const struct job *what,
		   struct ck_write_handle *wh)
{
	struct job *job = malloc(sizeof(*job));

	if (!job)
		return -ENOMEM;
	*job = *what;
	job->wh = wh ? ck_write_handle_ref(fs, wh) : NULL;
	job->time = ck_request_time_take();
	job_add(fs->commit_thread, job);
	return 0;
}

int ck_commit_thread_commit(struct ck_fs *fs, fuse_req_t req,
			    struct ck_write_handle *wh, bool explicit)
{
	struct job job = { .kind = JOB_COMMIT,
			   .req = req,
			   .explicit = explicit };

	return publish(fs, &job, wh);
}

int ck_commit_thread_retry(struct ck_fs *fs, struct ck_deferred *l)
{
	struct job job = { .kind = JOB_RETRY, .deferred = l };

	return publish(fs, &job, NULL);
}

int ck_commit_thread_control(struct ck_fs *fs, fuse_req_t req, unsigned cmd)
{
	struct job job = { .kind = JOB_CONTROL, .req = req, .cmd = cmd };

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
