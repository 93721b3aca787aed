/* SPDX-License-Identifier: MIT */
/*
 * local_backend: the backend of files on this host. Each descriptor is a plan
 * of one op, which runs in the calling thread; start() never leaves a
 * descriptor in flight. Blocks on local files only. Any thread.
 */
#include "ckptfs/backend.h"
#include "gather.h"
#include "load.h"
#include "range.h"
#include "workspace.h"

#include <errno.h>
#include <sys/uio.h>

/* Runs one descriptor. Adds the bytes read from the file to *read. */
static int move_one(const struct ck_file *file, const struct ck_copy_desc *m,
		    uint64_t *read)
{
	struct ck_plan_op copy = { .run = m->run, .nloops = m->nloops };
	struct ck_plan plan = { .copies = &copy,
				.loops = (struct ck_loop *)(uintptr_t)m->loops,
				.ncopies = 1,
				.nloops = m->nloops };
	const uint8_t *from = NULL;
	struct ck_gather g = { &plan, &from, m->to };
	struct ck_workspace *s = ck_workspace_get();
	uint8_t *block;
	uint64_t bytes, end;

	if (!ck_copy_desc_measure(m, &bytes, &end) || end > file->size)
		return -EIO;
	if (file->map) {
		*read += bytes;
		from = file->map + m->fpos;
		return ck_sigbus_guard(ck_gather_run, &g);
	}
	block = s ? ck_workspace_block(s) : NULL;
	if (!block)
		return -ENOMEM;
	return ck_load_copy(file->fd, &plan, 0, m->fpos, m->to, block, read);
}

static int move(struct ck_files *files, const struct ck_copy_desc *m,
		uint64_t *read)
{
	struct ck_file file;
	int rc;

	if (m->file >= ck_files_count(files))
		return -ENODATA;
	rc = ck_files_get(files, m->file, &file);
	/* Callers take ESTALE for a changed file, so a transient one is EIO. */
	if (rc)
		return rc == -ESTALE && file.transient ? -EIO : rc;
	rc = file.remote ? -EREMOTE : move_one(&file, m, read);
	ck_files_put(files, &file);
	return rc;
}

static int start(struct ck_backend *backend, struct ck_copy_batch *batch)
{
	struct ck_files *files = ((struct ck_local_backend *)backend)->files;

	for (size_t i = 0; i < batch->n; i++)
		batch->list[i].rc = move(files, &batch->list[i], &batch->read);
	return 0;
}

bool ck_local_backend_try(struct ck_local_backend *m,
			  struct ck_copy_batch *batch)
{
	bool all = true;

	for (size_t i = 0; i < batch->n && all; i++) {
		struct ck_copy_desc *one = &batch->list[i];
		struct iovec to = { one->to, one->run };
		struct ck_file file;

		if (one->nloops || one->file >= ck_files_count(m->files) ||
		    !ck_files_is_open(m->files, one->file) ||
		    ck_files_get(m->files, one->file, &file))
			return false;
		all = preadv2(file.fd, &to, 1, (off_t)one->fpos, RWF_NOWAIT) ==
		      (ssize_t)one->run;
		ck_files_put(m->files, &file);
		one->rc = 0;
		batch->read += one->run;
	}
	return all;
}

void ck_local_backend_init(struct ck_local_backend *m, struct ck_files *files)
{
	*m = (struct ck_local_backend){
		.backend = { .name = "host", .start = start }, .files = files
	};
}
