/* SPDX-License-Identifier: MIT */
/*
 * write_handle: state of writing a tensor or box, from open(2) to release,
 * around the stage with its bytes. writers.c keeps the list of write handles.
 *
 * States: open; changed (written or truncated); committing (the commit thread
 * owns the stage; other requests get CK_AFTER_COMMIT and are retried after the
 * commit); closing (closed, and not written since: RELEASE will follow); freed
 * with the last reference.
 *
 * Threads: any. wh->lock protects the stage, except during a commit, which runs
 * without the lock.
 */
#include "write_handle_internal.h"
#include <errno.h>
#include <fcntl.h>

/* --- log ------------------------------------------------------------------ */

static const char *tensor_name(const struct ck_fs *fs,
			       const struct ck_write_handle *wh)
{
	return ck_tensor_name(fs, wh->node.about.number);
}

static void log_refusal(const struct ck_fs *fs,
			const struct ck_write_handle *wh,
			const struct ck_diag *d)
{
	ck_log("%s: %s; the tensor stays as it was", tensor_name(fs, wh),
	       d->text);
}

/* Logs a mistake of the program once for each handle. */
static void log_once(const struct ck_fs *fs, struct ck_write_handle *wh,
		     const struct ck_diag *d)
{
	if (!wh->logged)
		log_refusal(fs, wh, d);
	wh->logged = true;
}

/* Missing bytes may be written as long as the file is open. So they are logged
 * at an fsync(2), which requests all bytes, and after the last close. */
static void log_missing(const struct ck_fs *fs, struct ck_write_handle *wh)
{
	enum ck_stage_state state = ck_stage_state(wh->stage);
	struct ck_diag d = { 0 };

	if ((state != CK_STAGE_BEGUN && state != CK_STAGE_PART) ||
	    wh->exceeded || wh->logged_missing)
		return;
	if (ck_stage_explain(wh->stage, &d))
		log_refusal(fs, wh, &d);
	wh->logged_missing = true;
}

/* --- its stage ------------------------------------------------------------ */

static int stage_open(struct ck_fs *fs, struct ck_write_handle *wh,
		      struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	const struct ck_node *n = &wh->node;
	struct ck_slice *slice;
	int rc = ck_tree_slice(c, n, &slice);

	if (rc)
		return ck_fail(d, -rc, "cannot be written: %s", strerror(-rc));
	rc = ck_stage_open(fs->transaction, c, slice, n->about.accepts,
			   &wh->stage, d);
	ck_slice_free(slice);
	return rc;
}

int ck_write_handle_open_stage(struct ck_fs *fs, struct ck_write_handle *wh)
{
	struct ck_diag d = { 0 };
	int rc;

	pthread_mutex_lock(&wh->lock);
	rc = stage_open(fs, wh, &d);
	pthread_mutex_unlock(&wh->lock);
	if (rc)
		ck_log("%s: %s", tensor_name(fs, wh), d.text);
	return rc;
}

void ck_write_handle_close_stage(struct ck_fs *fs, struct ck_write_handle *wh)
{
	if (!wh->stage)
		return;
	log_missing(fs, wh);
	ck_stage_close(wh->stage);
}

const struct ck_node *ck_write_handle_node(const struct ck_write_handle *wh)
{
	return &wh->node;
}

/* --- writing -------------------------------------------------------------- */

/* Takes the lock, unless the handle is being committed. */
static bool lock_idle(struct ck_write_handle *wh)
{
	pthread_mutex_lock(&wh->lock);
	if (!wh->committing)
		return true;
	pthread_mutex_unlock(&wh->lock);
	return false;
}

/* The kernel takes a write beyond the end for a longer file. Readers would get
 * zeros there from the page cache, until the kernel requests the size again. A
 * file of a tensor never has to be longer. */
static int refuse_longer(struct ck_write_handle *wh, uint64_t end,
			 struct ck_diag *d)
{
	wh->exceeded = true;
	return ck_differs(d, EFBIG, ck_shown("%ju", (uintmax_t)wh->size),
			  ck_shown("%ju", (uintmax_t)end),
			  "more bytes than the file of the tensor has");
}

void ck_write_handle_allow_longer(struct ck_write_handle *wh)
{
	wh->size = UINT64_MAX;
}

static void begin_change(struct ck_write_handle *wh)
{
	atomic_store(&wh->closing, false);
	atomic_store(&wh->changed, true);
}

bool ck_write_handle_is_changed(const struct ck_write_handle *wh)
{
	return atomic_load(&wh->changed);
}

int ck_write_handle_write(struct ck_fs *fs, struct ck_write_handle *wh,
			  uint64_t vpos, const void *bytes, size_t len,
			  pid_t thread)
{
	struct ck_diag d = { 0 };
	size_t fits;
	int rc;

	begin_change(wh);
	if (!lock_idle(wh))
		return CK_AFTER_COMMIT;
	fits = vpos < wh->size ? ck_min(len, wh->size - vpos) : 0;
	wh->logged_missing = false;
	wh->written = true;
	rc = ck_stage_write(wh->stage, vpos, bytes, fits, (uint32_t)thread, &d);
	if (rc == 0 && fits < len)
		rc = refuse_longer(wh, vpos + len, &d);
	if (rc)
		log_once(fs, wh, &d);
	pthread_mutex_unlock(&wh->lock);
	return rc;
}

/* As ck_write_handle_truncate(), with the lock held. */
static int truncate_to(struct ck_fs *fs, struct ck_write_handle *wh,
		       uint64_t size)
{
	struct ck_diag d = { 0 };
	int rc;

	begin_change(wh);
	wh->exceeded = wh->exceeded && size > 0;
	wh->logged_missing = false;
	rc = wh->stage ? ck_stage_truncate(wh->stage, size, &d)
		       : ck_fail(&d, EBUSY, "was not opened for writing");
	if (rc)
		log_once(fs, wh, &d);
	return rc;
}

int ck_write_handle_truncate(struct ck_fs *fs, struct ck_write_handle *wh,
			     uint64_t size)
{
	int rc;

	if (!lock_idle(wh))
		return CK_AFTER_COMMIT;
	rc = truncate_to(fs, wh, size);
	pthread_mutex_unlock(&wh->lock);
	return rc;
}

int ck_write_handle_grow(struct ck_fs *fs, struct ck_write_handle *wh,
			 uint64_t end)
{
	struct ck_diag d = { 0 };
	int rc;

	if (!lock_idle(wh))
		return CK_AFTER_COMMIT;
	begin_change(wh);
	wh->logged_missing = false;
	rc = ck_stage_grow(wh->stage, end, &d);
	if (rc)
		log_once(fs, wh, &d);
	pthread_mutex_unlock(&wh->lock);
	return rc;
}

/* During a commit the stage is complete, and a close changes nothing. */
void ck_write_handle_closed_by(struct ck_write_handle *wh, pid_t thread)
{
	if (!lock_idle(wh))
		return;
	if (wh->stage)
		ck_stage_closed_by(wh->stage, (uint32_t)thread);
	pthread_mutex_unlock(&wh->lock);
}

void ck_write_handle_synced(struct ck_write_handle *wh)
{
	if (!lock_idle(wh))
		return;
	if (wh->stage)
		ck_stage_synced(wh->stage);
	pthread_mutex_unlock(&wh->lock);
}

void ck_write_handle_removed(struct ck_write_handle *wh)
{
	pthread_mutex_lock(&wh->lock);
	wh->removed = true;
	pthread_mutex_unlock(&wh->lock);
}

void ck_write_handle_opened_by(const struct ck_fs *fs,
			       struct ck_write_handle *wh, fuse_req_t req,
			       int flags)
{
	atomic_store(&wh->thread, fuse_req_ctx(req)->pid);
	/* With O_RDWR the kernel has checked the permission to read. */
	wh->reads = (flags & O_ACCMODE) == O_RDWR;
	if (fs->options->patch && !wh->reads)
		ck_caller_take(&wh->by, req);
}

/* open(2) with O_TRUNC looks like truncate(2), but both come from a thread. A
 * truncation by another thread would replace written bytes by zeros. If threads
 * cannot be distinguished, a truncation is accepted as long as no byte can be
 * lost. */
static bool may_truncate(const struct ck_write_handle *wh, uint64_t size,
			 pid_t thread)
{
	if (atomic_load(&wh->thread) != thread)
		return false;
	return thread || (size == 0 && !wh->written);
}

int ck_write_handle_truncate_by(struct ck_fs *fs, struct ck_write_handle *wh,
				uint64_t size, pid_t thread)
{
	int rc = -EBUSY;

	if (!lock_idle(wh))
		return CK_AFTER_COMMIT;
	if (may_truncate(wh, size, thread))
		rc = truncate_to(fs, wh, size);
	pthread_mutex_unlock(&wh->lock);
	return rc;
}

/* cp -p changes the mode before it closes the file. */
bool ck_write_handle_ignore_mode(const struct ck_fs *fs,
				 struct ck_write_handle *wh, mode_t mode,
				 pid_t thread)
{
	if (thread == 0 || atomic_load(&wh->thread) != thread)
		return false;
	if (!atomic_exchange(&wh->logged_mode, true))
		ck_log("%s: its mode is that of .metadata; a change to %04o "
		       "has no effect",
		       tensor_name(fs, wh), (unsigned)mode & 07777);
	return true;
}

bool ck_write_handle_is_recreated(const struct ck_write_handle *wh)
{
	return atomic_load(&wh->recreated);
}

int ck_write_handle_recreate(struct ck_fs *fs, struct ck_write_handle *wh)
{
	atomic_store(&wh->recreated, true);
	return ck_write_handle_truncate(fs, wh, 0);
}

/* --- reading -------------------------------------------------------------- */

/* With the lock held, so that no commit comes between. */
static int read_both(struct ck_fs *fs, struct ck_write_handle *wh,
		     uint64_t vpos, size_t *len, void *bytes)
{
	uint64_t size;
	bool empty = ck_stage_began_empty(wh->stage, &size);
	int rc = 0;

	*len = vpos < size ? (size_t)ck_min(*len, size - vpos) : 0;
	if (empty)
		memset(bytes, 0, *len);
	else if (*len)
		rc = ck_patch_read(fs, &wh->node, vpos, *len, bytes);
	return rc ? rc : ck_stage_overlay(wh->stage, vpos, bytes, *len);
}

int ck_write_handle_read(struct ck_fs *fs, struct ck_write_handle *wh,
			 uint64_t vpos, size_t *len, void *bytes)
{
	int rc;

	if (!lock_idle(wh))
		return CK_AFTER_COMMIT;
	rc = read_both(fs, wh, vpos, len, bytes);
	pthread_mutex_unlock(&wh->lock);
	return rc;
}

/* --- patching ------------------------------------------------------------- */

/* The writer could read the filled bytes from the new file, so he must be
 * allowed to read the tensor. */
static int may_fill(struct ck_fs *fs, struct ck_write_handle *wh,
		    const struct ck_node *n, struct ck_diag *d)
{
	struct stat shown;
	int rc = ck_node_stat(fs, n, &shown);

	if (rc)
		return rc;
	if (wh->reads || ck_caller_may(&wh->by, &shown, CK_MAY_READ))
		return 0;
	return ck_fail(d, EACCES,
		       "bytes that were not written: user %u, who writes, may "
		       "not read them",
		       wh->by.uid);
}

/* No other thread can commit the tensor meanwhile. */
static int fill(struct ck_fs *fs, struct ck_write_handle *wh)
{
	struct ck_diag d = { 0 };
	uint64_t begin, end;
	int rc;

	if (!ck_stage_gap(wh->stage, &begin, &end))
		return 0;
	rc = may_fill(fs, wh, &wh->node, &d);
	if (rc == 0)
		rc = ck_patch_fill(fs, wh->stage, &wh->node, &d);
	if (rc)
		log_once(fs, wh, &d);
	return rc;
}

/* --- closing -------------------------------------------------------------- */

/* As ck_write_handle_check(), for the owner of the stage. */
static int check(struct ck_fs *fs, struct ck_write_handle *wh, bool asked)
{
	enum ck_stage_state state = ck_stage_state(wh->stage);
	struct ck_diag d = { 0 };
	int rc;

	if (wh->exceeded)
		return -EINVAL; /* the reason is in the log */
	if (wh->removed && state != CK_STAGE_EMPTY) {
		rc = ck_fail(&d, ESTALE,
			     "was removed while it was open for writing; the "
			     "written bytes are not committed");
		log_once(fs, wh, &d);
		return rc;
	}
	if (state == CK_STAGE_PART && fs->options->patch) {
		if (!wh->committing)
			return 1; /* the commit fills the gaps */
		rc = fill(fs, wh);
		if (rc)
			return rc;
		state = ck_stage_state(wh->stage);
	}
	if (state == CK_STAGE_EMPTY)
		return 0;
	if (state == CK_STAGE_COMPLETE)
		return 1;
	rc = ck_stage_explain(wh->stage, &d);
	if (state == CK_STAGE_SPOILED)
		log_once(fs, wh, &d);
	else if (asked)
		log_missing(fs, wh);
	return rc;
}

int ck_write_handle_check(struct ck_fs *fs, struct ck_write_handle *wh,
			  bool asked)
{
	int rc;

	if (!lock_idle(wh))
		return 1;
	rc = check(fs, wh, asked);
	pthread_mutex_unlock(&wh->lock);
	if (rc != 1)
		ck_write_handle_set_closing(wh);
	return rc;
}

void ck_write_handle_set_closing(struct ck_write_handle *wh)
{
	atomic_store(&wh->closing, true);
}

static void log_skipped(const struct ck_fs *fs,
			const struct ck_write_handle *wh)
{
	uint64_t skipped = ck_stage_skipped(wh->stage);

	if (skipped)
		ck_log("%s: %ju bytes that the program skipped are zeros",
		       tensor_name(fs, wh), (uintmax_t)skipped);
}

/* For the owner of the stage. failed: text of the log if `to` fails. */
static int hand_over(struct ck_fs *fs, struct ck_write_handle *wh, bool asked,
		     int (*to)(struct ck_stage *s, struct ck_diag *d),
		     const char *failed)
{
	struct ck_diag d = { 0 };
	int rc = check(fs, wh, asked);

	if (rc != 1)
		return rc;
	atomic_store(&wh->recreated, false);
	log_skipped(fs, wh);
	rc = to(wh->stage, &d);
	if (rc)
		ck_log("%s: %s: %s", tensor_name(fs, wh), failed, d.text);
	return rc;
}

static void set_committing(struct ck_write_handle *wh, bool committing)
{
	pthread_mutex_lock(&wh->lock);
	wh->committing = committing;
	pthread_mutex_unlock(&wh->lock);
}

int ck_write_handle_commit(struct ck_fs *fs, struct ck_write_handle *wh,
			   bool asked)
{
	int rc;

	set_committing(wh, true);
	rc = hand_over(fs, wh, asked, ck_stage_commit, "not saved");
	set_committing(wh, false);
	return rc;
}

/* Reads the written bytes again for their checksums, and syncs nothing: 0.2 s
 * for a GiB in the page cache. Threads that wait for the lock meanwhile use the
 * same open file. */
int ck_write_handle_stage(struct ck_fs *fs, struct ck_write_handle *wh,
			  bool asked)
{
	int rc;

	pthread_mutex_lock(&wh->lock);
	rc = hand_over(fs, wh, asked, ck_stage_keep, "not staged");
	pthread_mutex_unlock(&wh->lock);
	ck_write_handle_set_closing(wh);
	return rc;
}
