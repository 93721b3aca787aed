/* SPDX-License-Identifier: MIT */
/*
 * mount_state: makes and frees the parts of struct ck_fs, in the order of their
 * dependencies. Both run in the thread that serves the mount, before the first and after
 * the last worker thread. No locks.
 */
#include "../async_reply.h"
#include "../internal.h"
#include "pool.h"
#include <errno.h>

enum {
	POOL_THREADS = 8,
	/* each reads all of a file and of its replicas */
	COMPARE_THREADS = 2,
	/* A thread that waits for a tensor being exported must not hold back
	 * others. */
	EXPORT_THREADS = 64,
};

static void wait_for_reopens(void *arg)
{
	const struct ck_fs *fs = arg;

	ck_reopen_leases_wait(fs->reopen_leases);
}

/* True if the kind of the checkpoint cannot be written, but files/ can. */
static bool is_of_files(const struct ck_fs *fs)
{
	struct ck_diag d = { 0 };

	if (!fs->creator || !ck_area_is_wanted(fs) ||
	    ck_checkpoint_can_be_written(fs->cp, &d) == 0)
		return false;
	ck_log("%s: note: %s, only " CK_AREA_NAME "/ can",
	       ck_show(ck_str_from(fs->cp->path)), d.text);
	return true;
}

/* Before threads exist: it prepares the catalog for changes. */
int ck_fs_open_writer(struct ck_fs *fs, struct ck_diag *d)
{
	struct ck_writer_options options = {
		.keep_unknown = fs->options->keep_unknown,
		.before_switch = wait_for_reopens,
		.arg = fs,
	};
	int rc;

	rc = ck_options_check(fs->options, d);
	if (rc || !fs->options->write || fs->options->ro)
		return rc;
	fs->creator = fs->options->creator;
	if (fs->options->remote)
		return ck_fail(d, EINVAL,
			       "option write: data files of other hosts cannot "
			       "be written");
	rc = ck_fs_check_proc(fs->cp, d);
	if (rc == 0 && is_of_files(fs))
		return 0;
	if (rc == 0)
		rc = ck_writer_open(fs->cp, &options, &fs->writer, d);
	if (rc == 0 &&
	    ck_transaction_begin(fs->writer,
				 fs->options->commit != CK_COMMIT_CLOSE,
				 &fs->transaction))
		rc = ck_fail(d, ENOMEM, "out of memory");
	return rc;
}

int ck_fs_make(struct ck_fs *fs, struct ck_diag *d)
{
	int rc;

	ck_route_init(&fs->route, fs->cp->files, fs->options->remote);
	if (fs->options->gathers || fs->options->remote)
		fs->route.gather_engine = fs->options->gather_engine;
	fs->route.rounds_only = !fs->options->gathers;
	rc = ck_objects_keep(fs->cp, &fs->route);
	if (rc)
		return ck_fail(d, -rc, "entries in remote files: %s",
			       strerror(-rc));
	if (fs->options->gather_engine)
		fs->exports = fs->options->gather_engine->exports->make(
			fs->cp->files, fs->options->remote,
			fs->options->gather_engine, fs->options->gpu.cache);
	if (fs->options->gather_engine)
		fs->export_pool = ck_pool_make(EXPORT_THREADS);
	rc = ck_nodes_make(fs, ck_mount_status_report, d);
	if (rc)
		return rc;
	if ((fs->options->gather_engine && (!fs->exports || !fs->export_pool)))
		return ck_fail(d, ENOMEM, "out of memory");
	fs->access_checks = ck_access_checks_make();
	fs->write_handles = ck_write_handles_make();
	fs->reopen_leases = ck_reopen_leases_make();
	fs->pool = ck_pool_make(POOL_THREADS);
	fs->compare_pool = ck_pool_make(COMPARE_THREADS);
	fs->async_replies = ck_async_replies_make();
	rc = ck_area_make(fs);
	if (rc)
		return ck_fail(d, -rc, CK_AREA_NAME "/: %s", strerror(-rc));
	if (!fs->access_checks || !fs->write_handles || !fs->reopen_leases ||
	    !fs->pool || !fs->compare_pool || !fs->async_replies)
		return ck_fail(d, ENOMEM, "out of memory");
	if (!fs->writer)
		return 0;
	fs->scratches = ck_scratches_make();
	fs->whiteouts = ck_whiteouts_make();
	if (!fs->whiteouts || !fs->scratches)
		return ck_fail(d, ENOMEM, "out of memory");
	return 0;
}

void ck_fs_fini(struct ck_fs *fs)
{
	ck_area_free(fs->area);
	ck_pool_free(fs->export_pool);
	ck_pool_free(fs->compare_pool);
	ck_pool_free(fs->pool);
	ck_commit_thread_free(fs->commit_thread);
	ck_streams_free(fs->streams);
	ck_handles_close(fs);
	if (fs->exports)
		fs->options->gather_engine->exports->free(fs->exports);
	ck_async_replies_free(fs->async_replies);
	ck_route_fini(&fs->route);
	ck_deferred_queue_free(fs->deferred);
	ck_write_handles_free(fs->write_handles);
	ck_reopen_leases_free(fs->reopen_leases);
	ck_scratches_free(fs->scratches);
	ck_whiteouts_free(fs->whiteouts);
	ck_ahead_free(fs->ahead);
	pthread_mutex_destroy(&fs->handles_lock);
	ck_nodes_free(fs);
	ck_access_checks_free(fs->access_checks);
	ck_transaction_end(fs->transaction);
	if (fs->writer)
		ck_writer_close(fs->writer);
}
