/* SPDX-License-Identifier: MIT */
/*
 * area_job: requests for files/ as jobs of its pool. A FUSE thread copies the arguments of
 * a request and continues; a thread of the pool handles and answers it. The queue has no
 * limit: each entry is a request that a program waits for. Requests that wait for the creator
 * have threads of their own, so that others continue if it does not answer.
 *
 * One FUSE thread at a time handles a request itself, which saves two changes of threads
 * for a program that sends one request after the other. If the source does not answer, that
 * thread waits, and at least one other FUSE thread is left for all other requests.
 */
#include "area_internal.h"

struct ck_area *ck_area_of(fuse_req_t req)
{
	const struct ck_fs *fs = fuse_req_userdata(req);

	return fs->area;
}

static void job_free(struct ck_area_job *j)
{
	free(j->other_name);
	free(j);
}

static void job_run(struct ck_pool_job *job, bool ended)
{
	struct ck_area_job *j = (struct ck_area_job *)job;

	ck_request_time_resume(&j->time);
	if (ended && !j->always)
		fuse_reply_err(j->req, ECONNABORTED);
	else
		j->run(j);
	ck_request_time_end();
	job_free(j);
}

struct ck_area_job *ck_area_job_make(fuse_req_t req, fuse_ino_t ino,
				     void (*run)(struct ck_area_job *j),
				     const char *name,
				     const struct fuse_file_info *fi)
{
	size_t len = name ? strlen(name) + 1 : 1;
	struct ck_area_job *j = calloc(1, sizeof(*j) + len);

	if (!j) {
		fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	j->job.run = job_run;
	j->area = ck_area_of(req);
	j->req = req;
	j->run = run;
	j->ino = ino;
	if (name)
		memcpy(j->name, name, len);
	j->has_fi = fi != NULL;
	if (fi)
		j->fi = *fi;
	return j;
}

bool ck_area_job_text(struct ck_area_job *j, const char *text)
{
	j->other_name = strdup(text);
	if (j->other_name)
		return true;
	fuse_reply_err(j->req, ENOMEM);
	job_free(j);
	return false;
}

/* The bytes of a request are those of the FUSE thread, which continues. */
static bool bytes_copy(struct ck_area_job *j)
{
	j->other_name = malloc(j->size ? j->size : 1);
	if (!j->other_name)
		return false;
	memcpy(j->other_name, j->bytes, j->size);
	j->bytes = j->other_name;
	return true;
}

void ck_area_job_queue(struct ck_area_job *j)
{
	struct ck_area *a = j->area;

	j->time = ck_request_time_take();
	if (!atomic_flag_test_and_set(&a->has_fuse_thread)) {
		job_run(&j->job, false);
		atomic_flag_clear(&a->has_fuse_thread);
		return;
	}
	if (j->bytes && !bytes_copy(j)) {
		fuse_reply_err(j->req, ENOMEM);
		job_free(j);
		return;
	}
	/* false only if no thread could be started at all */
	if (!ck_pool_add(j->makes ? a->makers : a->pool, &j->job))
		job_run(&j->job, true);
}

void ck_area_defer(fuse_req_t req, fuse_ino_t ino,
		   void (*run)(struct ck_area_job *j), const char *name,
		   const struct fuse_file_info *fi)
{
	struct ck_area_job *j = ck_area_job_make(req, ino, run, name, fi);

	if (j)
		ck_area_job_queue(j);
}

void ck_area_reply_entry(struct ck_area_job *j, int rc,
			 const struct fuse_entry_param *e)
{
	if (rc)
		fuse_reply_err(j->req, -rc);
	else if (fuse_reply_entry(j->req, e) == -ENOENT)
		/* the kernel dropped the reply and will not forget it */
		ck_area_forget(&j->area->table, e->ino, 1);
}
