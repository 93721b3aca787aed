/* SPDX-License-Identifier: MIT */
/*
 * session: one mount from beginning to end.
 *
 * States: made; mounted; serving (the loop of libfuse runs); ending (deferred
 * requests and commits are finished, exports and remote reads interrupted);
 * unmounted.
 *
 * Threads: the calling thread runs the loop with the FUSE threads of libfuse. A
 * second thread reports that the mount can be used and waits for signals
 * (mount_ready.c). The commit thread, the deferred queue and pools end before
 * the unmount, while their requests can still be answered.
 *
 * Privileges: a daemon of root drops them between the mount and its first
 * thread, and another process unmounts (detacher.c). The daemon of a user
 * unmounts by fusermount3.
 */
#include "../async_reply.h"
#include "../internal.h"
#include "base/system/privileges.h"
#include "detacher.h"
#include "host.h"
#include "mount_ready.h"
#include "pool.h"
#include "protocol.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* One mount, while this thread serves it. */
struct session {
	struct ck_fs *fs;
	struct fuse_session *fuse;
	struct ck_detacher *detacher; /* or NULL */
	const char *mountpoint;
	struct ck_mount_id mounted;
	bool identified; /* its identity is known */
	struct ck_mount_ready ready;
};

/* --- libfuse's messages --------------------------------------------------- */

/* The last error of libfuse, for the message of a failed mount. Written before
 * FUSE threads exist; later messages go to the log. */
static char fuse_error[256];
static atomic_bool serving;

CK_PRINTF(2, 0)

static void log_fuse(enum fuse_log_level level, const char *fmt, va_list ap)
{
	char text[256];
	const char *shown;
	size_t len;

	vsnprintf(text, sizeof(text), fmt, ap);
	len = strlen(text);
	while (len > 0 && text[len - 1] == '\n')
		len--;
	shown = ck_show((struct ck_str){ text, len });
	if (atomic_load(&serving) || level > FUSE_LOG_ERR)
		ck_log("%s", shown);
	else
		snprintf(fuse_error, sizeof(fuse_error), "%s", shown);
}

/* --- mounting ------------------------------------------------------------- */

static void add_escaped(struct ck_buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == ',' || *text == '\\')
			ck_buf_text(out, "\\");
		ck_buf_add(out, text, 1);
	}
}

static const char *fsname_of(const struct ck_fs *fs)
{
	return fs->options->fsname ? fs->options->fsname : fs->cp->path;
}

/* Options for libfuse. The kernel always checks modes: without that,
 * allow_other would show a private checkpoint to all users. */
static void mount_text(const struct session *s, struct ck_buf *out)
{
	const struct ck_fs *fs = s->fs;
	const struct ck_mount_options *o = fs->options;

	ck_buf_printf(out,
		      "%s,nosuid,nodev,default_permissions,max_read=%u,"
		      "subtype=ckptfs,fsname=",
		      fs->writer || ck_area_is_writable(fs) ? "rw" : "ro",
		      CK_READ_MAX);
	add_escaped(out, fsname_of(fs));
	if (o->allow_other)
		ck_buf_text(out, ",allow_other");
	if (o->auto_unmount && !s->detacher)
		ck_buf_text(out, ",auto_unmount");
	if (o->debug)
		ck_buf_text(out, ",debug");
}

static int session_make(struct session *s, struct ck_diag *d)
{
	struct fuse_lowlevel_ops ops = ck_fs_timed_ops(s->fs);
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct ck_buf text = { 0 };
	bool fine;

	mount_text(s, &text);
	fine = text.err == 0 && fuse_opt_add_arg(&args, "ckptfs") == 0 &&
	       fuse_opt_add_arg(&args, "-o") == 0 &&
	       fuse_opt_add_arg(&args, text.data) == 0;
	ck_buf_fini(&text);
	s->fuse = fine ? fuse_session_new(&args, &ops, sizeof(ops), s->fs)
		       : NULL;
	fuse_opt_free_args(&args);
	if (!s->fuse)
		return ck_fail(d, ENOMEM, "no FUSE session; %s", fuse_error);
	return 0;
}

static int mount_by_fuse(struct session *s, struct ck_diag *d)
{
	const char *name = ck_show(ck_str_from(s->mountpoint));

	if (fuse_session_mount(s->fuse, s->mountpoint) == 0)
		return 0;
	if (access("/dev/fuse", F_OK))
		return ck_fail(d, errno,
			       "%s: cannot be mounted; there is no /dev/fuse; "
			       "ckptfs ls, cat, cp and getfattr do not need it",
			       name);
	if (geteuid() != 0 && !ck_host_has_fusermount())
		return ck_fail(d, ENOENT,
			       "%s: cannot be mounted; there is no "
			       "fusermount3, install the package fuse3",
			       name);
	return ck_fail(d, EPERM, "%s: cannot be mounted; %s", name,
		       fuse_error[0] ? fuse_error
				     : "see the message of fusermount3");
}

/* If the new mount cannot be identified in the mount table, it is served, but
 * not unmounted at the end. */
static int mount_as_root(struct session *s, struct ck_diag *d)
{
	const char *fsname = fsname_of(s->fs);
	struct ck_mounts_before before;
	int listed = ck_mounts_note(fsname, &before);
	int rc = mount_by_fuse(s, d);

	if (rc == 0 && listed == 0)
		s->identified = !ck_mount_find_new(fsname, s->mountpoint,
						   &before, &s->mounted);
	if (s->identified)
		ck_detacher_send(s->detacher, &s->mounted,
				 s->fs->options->auto_unmount);
	else if (rc == 0)
		ck_log("%s: cannot identify the new mount%s%s; unmount it "
		       "by hand",
		       ck_show(ck_str_from(s->mountpoint)), listed ? ": " : "",
		       listed ? strerror(-listed) : "");
	ck_mounts_forget(&before);
	return rc;
}

static int session_mount(struct session *s, struct ck_diag *d)
{
	int rc, seen;

	if (s->detacher)
		return mount_as_root(s, d);
	rc = mount_by_fuse(s, d);
	seen = rc ? rc : ck_mount_id(s->mountpoint, &s->mounted);
	s->identified = seen == 0;
	if (rc == 0 && seen)
		ck_log("%s: %s", ck_show(ck_str_from(s->mountpoint)),
		       strerror(-seen));
	return rc;
}

/* True if the mount was unmounted, or its connection aborted. */
static bool session_is_gone(struct fuse_session *session)
{
	struct pollfd device = { .fd = fuse_session_fd(session) };

	return poll(&device, 1, 0) == 1 && device.revents & POLLERR;
}

/* Makes libfuse take the session for ended, so that it does not try to unmount,
 * which this process may not. A pipe without a reader looks to it like a device
 * without a mount. */
static void device_close(struct fuse_session *session)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return;
	close(ends[0]);
	dup3(ends[1], fuse_session_fd(session), O_CLOEXEC);
	close(ends[1]);
}

/* Closes the device first, so that programs in the mount stop waiting. -EBUSY:
 * a mount without a daemon is left. */
static int session_unmount(struct session *s)
{
	bool gone, left;

	if (!s->detacher) {
		fuse_session_unmount(s->fuse);
		return 0;
	}
	gone = session_is_gone(s->fuse);
	if (!gone && s->identified)
		ck_detacher_send(s->detacher, &s->mounted, true);
	device_close(s->fuse);
	fuse_session_unmount(s->fuse);
	left = ck_detacher_wait(s->detacher) != 0 || !s->identified;
	return left && !gone ? -EBUSY : 0;
}

static int fail_left(const struct session *s, struct ck_diag *d)
{
	return ck_fail(d, EBUSY, "%s: is not unmounted, do it by umount",
		       ck_show(ck_str_from(s->mountpoint)));
}

static int privileges_drop(const struct ck_mount_options *o, struct ck_diag *d)
{
	bool syslog = o->log && strcmp(o->log, "syslog") == 0;

	return ck_privileges_drop(
		o->write && !o->ro ? CK_ROLE_WRITER : CK_ROLE_READER,
		syslog ? CK_SOCKETS_UNIX : CK_SOCKETS_NONE, d);
}

static int thread_first(void *arg)
{
	struct ck_diag d = { 0 };
	int rc = geteuid() == 0 ? privileges_drop(arg, &d) : 0;

	if (rc)
		ck_log("%s", d.text);
	return rc;
}

struct ck_thread_init ck_fs_thread_init(struct ck_mount_options *o)
{
	return (struct ck_thread_init){ thread_first, o };
}

/* Must run before the first thread that serves. */
static int session_drop(const struct session *s, struct ck_diag *d)
{
	return s->detacher ? privileges_drop(s->fs->options, d) : 0;
}

static int session_loop(struct fuse_session *session)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned threads = (unsigned)(cpus < 1 ? 2 : cpus > 4 ? 8 : 2 * cpus);
	int rc;

	if (!config)
		return -ENOMEM;
	fuse_loop_cfg_set_max_threads(config, threads);
	fuse_loop_cfg_set_clone_fd(config, 0);
	rc = fuse_session_loop_mt(session, config);
	fuse_loop_cfg_destroy(config);
	return rc;
}

static bool request_waits(void *arg, uint32_t tensor)
{
	return ck_write_handle_is_closing(arg, tensor);
}

static int request_commit(void *arg, struct ck_deferred *l)
{
	return ck_commit_thread_retry(arg, l);
}

static struct ck_deferred_queue *deferred_start(struct ck_fs *fs)
{
	const struct ck_deferred_options o = { .waits = request_waits,
					       .commit = request_commit,
					       .arg = fs };

	return ck_deferred_queue_start(&o);
}

static int threads_start(struct session *s, struct ck_diag *d)
{
	struct ck_fs *fs = s->fs;
	int rc = 0;

	fs->ahead = ck_ahead_make(fs->cp->files);
	if (fs->writer) {
		fs->commit_thread = ck_commit_thread_start(fs);
		fs->deferred = deferred_start(fs);
	}
	if (fs->route.remote)
		rc = -ck_async_streams_make(fs);
	if (!fs->ahead || (fs->writer && (!fs->commit_thread || !fs->deferred)))
		rc = EAGAIN;
	if (rc == 0)
		rc = ck_mount_ready_start(&s->ready,
					  s->identified ? &s->mounted : NULL);
	return rc ? ck_fail(d, rc, "no thread for the mount") : 0;
}

/* Serves a mounted session until it ends. Requested commits are finished while
 * their programs can still be answered. */
static int session_run(struct session *s, struct ck_diag *d)
{
	int left, rc = session_drop(s, d);

	if (rc == 0)
		rc = threads_start(s, d);
	if (rc) {
		left = session_unmount(s);
		if (left)
			ck_log("%s", d->text);
		return left ? fail_left(s, d) : rc;
	}
	rc = ck_protocol_begin(s->fs);
	if (rc == 0)
		rc = session_loop(s->fuse);
	ck_mount_ready_stop(&s->ready);
	ck_deferred_queue_end(s->fs->deferred);
	if (s->fs->commit_thread) {
		ck_commit_thread_end(s->fs->commit_thread);
		ck_commit_thread_drop_rest(s->fs);
		ck_scratches_dropped(s->fs);
	}
	atomic_store(&s->fs->ends, true);
	ck_pool_free(s->fs->pool);
	ck_pool_free(s->fs->compare_pool);
	ck_area_stop(s->fs->area);
	s->fs->pool = s->fs->compare_pool = NULL;
	if (s->fs->exports)
		s->fs->options->gather_engine->exports->stop(s->fs->exports);
	ck_async_replies_end(s->fs);
	left = session_unmount(s);
	ck_mount_ready_join(&s->ready);
	if (rc < 0)
		return ck_fail(d, -rc, "serving the mount: %s", strerror(-rc));
	if (left)
		return fail_left(s, d);
	if (!atomic_load(&s->fs->was_asked))
		return ck_fail(d, ECONNABORTED,
			       "unmounted before it could be used");
	return 0;
}

/* Signals are blocked before the mount: one in between would leave a mount
 * without a daemon. */
static int serve(struct session *s, struct ck_diag *d)
{
	struct ck_fs *fs = s->fs;
	sigset_t old;
	int rc = session_make(s, d);

	if (rc)
		return rc;
	fs->session = s->fuse;
	ck_mount_ready_take_signals(&s->ready, &old);
	rc = session_mount(s, d);
	if (rc == 0) {
		ck_fs_log_faults(fs);
		ck_checkpoint_log_troubles(fs->cp);
		atomic_store(&serving, true);
		rc = session_run(s, d);
	}
	fuse_session_destroy(s->fuse);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

int ck_fs_serve(struct ck_checkpoint *cp, const char *mountpoint,
		const struct ck_mount_options *options,
		struct ck_detacher *detacher,
		void (*ready)(uint64_t mount, void *arg), void *arg,
		struct ck_diag *d)
{
	struct ck_fs fs = { .cp = cp,
			    .options = options,
			    .handles_lock = PTHREAD_MUTEX_INITIALIZER };
	struct session s = { .fs = &fs,
			     .detacher = detacher,
			     .mountpoint = mountpoint,
			     .ready = {
				     .fs = &fs, .ready = ready, .arg = arg } };
	int rc = ck_fs_check_mountpoint(cp, mountpoint, options->nonempty, d);

	if (rc)
		return rc;
	if (options->allow_other && ck_host_refuses_allow_other())
		return ck_fail(d, EPERM,
			       "allow_other: a user may give it only if "
			       "/etc/fuse.conf has the line user_allow_other");
	fuse_set_log_func(log_fuse);
	ck_host_load_unwinder();
	rc = ck_sigbus_install();
	if (rc)
		return ck_fail(d, -rc, "no handler for SIGBUS: %s",
			       strerror(-rc));
	sem_init(&fs.first_request, 0, 0);
	rc = ck_fs_open_writer(&fs, d);
	if (rc == 0)
		rc = ck_fs_make(&fs, d);
	if (rc == 0)
		rc = serve(&s, d);
	ck_fs_fini(&fs);
	sem_destroy(&fs.first_request);
	return rc;
}
