/* SPDX-License-Identifier: MIT */
/*
 * draft: what is written through one open file, from open(2) to its last
 * close, around the stage that holds the bytes. Which of them there are is in
 * drafts.c. Whoever comes while one is committed asks after that, see publish.c.
 */
#include "draft_internal.h"
#include <errno.h>
#include <fcntl.h>

/* --- what is said of it ----------------------------------------------------- */

static const char *draft_name(const struct ck_fs *fs,
			      const struct ck_draft *draft)
{
	return ck_tensor_name(fs, draft->node.about.number);
}

static void tell(const struct ck_fs *fs, const struct ck_draft *draft,
		 const struct ck_diag *d)
{
	ck_log("%s: %s; the tensor stays as it was", draft_name(fs, draft),
	       d->text);
}

/* What a program did wrong is said once for each open file. */
static void tell_once(const struct ck_fs *fs, struct ck_draft *draft,
		      const struct ck_diag *d)
{
	if (!draft->told)
		tell(fs, draft, d);
	draft->told = true;
}

/* Bytes that are missing may still be written as long as the file is open.
 * So they are logged when fsync(2) asks for all of them, and after the last
 * close. */
static void tell_missing(const struct ck_fs *fs, struct ck_draft *draft)
{
	enum ck_stage_state state = ck_stage_state(draft->stage);
	struct ck_diag d = { 0 };

	if ((state != CK_STAGE_BEGUN && state != CK_STAGE_PART) ||
	    draft->longer || draft->told_missing)
		return;
	if (ck_stage_explain(draft->stage, &d))
		tell(fs, draft, &d);
	draft->told_missing = true;
}

/* --- its stage ---------------------------------------------------------------- */

static int stage_open(struct ck_fs *fs, struct ck_draft *draft,
		      struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	const struct ck_node *n = &draft->node;
	struct ck_slice *slice;
	int rc = ck_tree_slice(c, n, &slice);

	if (rc)
		return ck_fail(d, -rc, "cannot be written: %s", strerror(-rc));
	rc = ck_stage_open(fs->transaction, c, slice, n->about.accepts,
			   &draft->stage, d);
	ck_slice_free(slice);
	return rc;
}

int ck_draft_begin_stage(struct ck_fs *fs, struct ck_draft *draft)
{
	struct ck_diag d = { 0 };
	int rc;

	pthread_mutex_lock(&draft->lock);
	rc = stage_open(fs, draft, &d);
	pthread_mutex_unlock(&draft->lock);
	if (rc)
		ck_log("%s: %s", draft_name(fs, draft), d.text);
	return rc;
}

void ck_draft_end_stage(struct ck_fs *fs, struct ck_draft *draft)
{
	if (!draft->stage)
		return;
	tell_missing(fs, draft);
	ck_stage_close(draft->stage);
}

const struct ck_node *ck_draft_node(const struct ck_draft *draft)
{
	return &draft->node;
}

/* --- writing ------------------------------------------------------------------ */

/* Takes the lock, unless the draft is being committed. */
static bool lock_idle(struct ck_draft *draft)
{
	pthread_mutex_lock(&draft->lock);
	if (!draft->committing)
		return true;
	pthread_mutex_unlock(&draft->lock);
	return false;
}

/* The kernel takes a write behind the end for a longer file, and those who read
 * it from the page cache would be given zeros there, until the kernel asks for
 * the size again. A file of a tensor never has to be longer than it is. */
static int refuse_longer(struct ck_draft *draft, uint64_t end,
			 struct ck_diag *d)
{
	draft->longer = true;
	return ck_differs(d, EFBIG, ck_shown("%ju", (uintmax_t)draft->size),
			  ck_shown("%ju", (uintmax_t)end),
			  "more bytes than the file of the tensor has");
}

void ck_draft_is_renamed(struct ck_draft *draft)
{
	draft->size = UINT64_MAX;
}

static void begin_change(struct ck_draft *draft)
{
	atomic_store(&draft->leaving, false);
	atomic_store(&draft->changed, true);
}

bool ck_draft_is_changed(const struct ck_draft *draft)
{
	return atomic_load(&draft->changed);
}

int ck_draft_write(struct ck_fs *fs, struct ck_draft *draft, uint64_t vpos,
		   const void *bytes, size_t len, pid_t thread)
{
	struct ck_diag d = { 0 };
	size_t fits;
	int rc;

	begin_change(draft);
	if (!lock_idle(draft))
		return CK_AFTER;
	fits = vpos < draft->size ? ck_min(len, draft->size - vpos) : 0;
	draft->told_missing = false;
	draft->written = true;
	rc = ck_stage_write(draft->stage, vpos, bytes, fits, (uint32_t)thread,
			    &d);
	if (rc == 0 && fits < len)
		rc = refuse_longer(draft, vpos + len, &d);
	if (rc)
		tell_once(fs, draft, &d);
	pthread_mutex_unlock(&draft->lock);
	return rc;
}

/* As ck_draft_truncate(), under the lock. */
static int truncate_to(struct ck_fs *fs, struct ck_draft *draft, uint64_t size)
{
	struct ck_diag d = { 0 };
	int rc;

	begin_change(draft);
	draft->longer = draft->longer && size > 0;
	draft->told_missing = false;
	rc = draft->stage ? ck_stage_truncate(draft->stage, size, &d)
			  : ck_fail(&d, EBUSY, "was not opened for writing");
	if (rc)
		tell_once(fs, draft, &d);
	return rc;
}

int ck_draft_truncate(struct ck_fs *fs, struct ck_draft *draft, uint64_t size)
{
	int rc;

	if (!lock_idle(draft))
		return CK_AFTER;
	rc = truncate_to(fs, draft, size);
	pthread_mutex_unlock(&draft->lock);
	return rc;
}

int ck_draft_grow(struct ck_fs *fs, struct ck_draft *draft, uint64_t end)
{
	struct ck_diag d = { 0 };
	int rc;

	if (!lock_idle(draft))
		return CK_AFTER;
	begin_change(draft);
	draft->told_missing = false;
	rc = ck_stage_grow(draft->stage, end, &d);
	if (rc)
		tell_once(fs, draft, &d);
	pthread_mutex_unlock(&draft->lock);
	return rc;
}

/* While a commit runs the stage is complete: nothing is noted. */
void ck_draft_closed_by(struct ck_draft *draft, pid_t thread)
{
	if (!lock_idle(draft))
		return;
	if (draft->stage)
		ck_stage_closed_by(draft->stage, (uint32_t)thread);
	pthread_mutex_unlock(&draft->lock);
}

void ck_draft_synced(struct ck_draft *draft)
{
	if (!lock_idle(draft))
		return;
	if (draft->stage)
		ck_stage_synced(draft->stage);
	pthread_mutex_unlock(&draft->lock);
}

void ck_draft_removed(struct ck_draft *draft)
{
	pthread_mutex_lock(&draft->lock);
	draft->removed = true;
	pthread_mutex_unlock(&draft->lock);
}

void ck_draft_opened_by(const struct ck_fs *fs, struct ck_draft *draft,
			fuse_req_t req, int flags)
{
	atomic_store(&draft->thread, fuse_req_ctx(req)->pid);
	/* Opened with O_RDWR: the kernel has checked the right to read. */
	draft->reads = (flags & O_ACCMODE) == O_RDWR;
	if (fs->options->patch && !draft->reads)
		ck_caller_take(&draft->by, req);
}

/* What open(2) with O_TRUNC asks for cannot be told from truncate(2), but both
 * come from a thread. Of another one it would put zeros in place of what was
 * written. Where all threads look alike it is the opener's as long as there is
 * nothing to lose. */
static bool may_truncate(const struct ck_draft *draft, uint64_t size,
			 pid_t thread)
{
	if (atomic_load(&draft->thread) != thread)
		return false;
	return thread || (size == 0 && !draft->written);
}

int ck_draft_truncate_by(struct ck_fs *fs, struct ck_draft *draft,
			 uint64_t size, pid_t thread)
{
	int rc = -EBUSY;

	if (!lock_idle(draft))
		return CK_AFTER;
	if (may_truncate(draft, size, thread))
		rc = truncate_to(fs, draft, size);
	pthread_mutex_unlock(&draft->lock);
	return rc;
}

/* cp -p does so before it has closed what it made. */
bool ck_draft_drop_mode(const struct ck_fs *fs, struct ck_draft *draft,
			mode_t mode, pid_t thread)
{
	if (thread == 0 || atomic_load(&draft->thread) != thread)
		return false;
	if (!atomic_exchange(&draft->told_mode, true))
		ck_log("%s: its mode is that of .metadata; a change to %04o "
		       "has no effect",
		       draft_name(fs, draft), (unsigned)mode & 07777);
	return true;
}

bool ck_draft_is_new(const struct ck_draft *draft)
{
	return atomic_load(&draft->anew);
}

int ck_draft_begin(struct ck_fs *fs, struct ck_draft *draft)
{
	atomic_store(&draft->anew, true);
	return ck_draft_truncate(fs, draft, 0);
}

/* --- reading ----------------------------------------------------------------- */

/* Under the lock, so that no commit comes between. */
static int read_both(struct ck_fs *fs, struct ck_draft *draft, uint64_t vpos,
		     size_t *len, void *bytes)
{
	uint64_t size;
	bool empty = ck_stage_began_empty(draft->stage, &size);
	int rc = 0;

	*len = vpos < size ? (size_t)ck_min(*len, size - vpos) : 0;
	if (empty)
		memset(bytes, 0, *len);
	else if (*len)
		rc = ck_patch_read(fs, &draft->node, vpos, *len, bytes);
	return rc ? rc : ck_stage_overlay(draft->stage, vpos, bytes, *len);
}

int ck_draft_read(struct ck_fs *fs, struct ck_draft *draft, uint64_t vpos,
		  size_t *len, void *bytes)
{
	int rc;

	if (!lock_idle(draft))
		return CK_AFTER;
	rc = read_both(fs, draft, vpos, len, bytes);
	pthread_mutex_unlock(&draft->lock);
	return rc;
}

/* --- patching ---------------------------------------------------------------- */

/* The writer could read from the new file what is filled in, so he must be
 * allowed to read the tensor. */
static int may_fill(struct ck_fs *fs, struct ck_draft *draft,
		    const struct ck_node *n, struct ck_diag *d)
{
	struct stat shown;
	int rc = ck_node_stat(fs, n, &shown);

	if (rc)
		return rc;
	if (draft->reads || ck_caller_may(&draft->by, &shown, CK_MAY_READ))
		return 0;
	return ck_fail(d, EACCES,
		       "bytes that were not written: user %u, who writes, may "
		       "not read them",
		       draft->by.uid);
}

/* Nobody else can commit the tensor meanwhile. */
static int fill(struct ck_fs *fs, struct ck_draft *draft)
{
	struct ck_diag d = { 0 };
	uint64_t begin, end;
	int rc;

	if (!ck_stage_gap(draft->stage, &begin, &end))
		return 0;
	rc = may_fill(fs, draft, &draft->node, &d);
	if (rc == 0)
		rc = ck_patch_fill(fs, draft->stage, &draft->node, &d);
	if (rc)
		tell_once(fs, draft, &d);
	return rc;
}

/* --- closing ------------------------------------------------------------------ */

/* As ck_draft_settle(), for whoever has the stage. */
static int settle(struct ck_fs *fs, struct ck_draft *draft, bool asked)
{
	enum ck_stage_state state = ck_stage_state(draft->stage);
	struct ck_diag d = { 0 };
	int rc;

	if (draft->longer)
		return -EINVAL; /* it was told why */
	if (draft->removed && state != CK_STAGE_EMPTY) {
		rc = ck_fail(&d, ESTALE,
			     "was removed while it was open for writing; the "
			     "written bytes are not committed");
		tell_once(fs, draft, &d);
		return rc;
	}
	if (state == CK_STAGE_PART && fs->options->patch) {
		if (!draft->committing)
			return 1; /* the commit reads the gaps and fills them in */
		rc = fill(fs, draft);
		if (rc)
			return rc;
		state = ck_stage_state(draft->stage);
	}
	if (state == CK_STAGE_EMPTY)
		return 0;
	if (state == CK_STAGE_COMPLETE)
		return 1;
	rc = ck_stage_explain(draft->stage, &d);
	if (state == CK_STAGE_SPOILED)
		tell_once(fs, draft, &d);
	else if (asked)
		tell_missing(fs, draft);
	return rc;
}

int ck_draft_settle(struct ck_fs *fs, struct ck_draft *draft, bool asked)
{
	int rc;

	if (!lock_idle(draft))
		return 1;
	rc = settle(fs, draft, asked);
	pthread_mutex_unlock(&draft->lock);
	if (rc != 1)
		ck_draft_leave(draft);
	return rc;
}

void ck_draft_leave(struct ck_draft *draft)
{
	atomic_store(&draft->leaving, true);
}

static void log_skipped(const struct ck_fs *fs, const struct ck_draft *draft)
{
	uint64_t skipped = ck_stage_skipped(draft->stage);

	if (skipped)
		ck_log("%s: %ju bytes that the program skipped are zeros",
		       draft_name(fs, draft), (uintmax_t)skipped);
}

/* By whoever has the stage. failed: what the log says if it is not handed over. */
static int hand_over(struct ck_fs *fs, struct ck_draft *draft, bool asked,
		     int (*to)(struct ck_stage *s, struct ck_diag *d),
		     const char *failed)
{
	struct ck_diag d = { 0 };
	int rc = settle(fs, draft, asked);

	if (rc != 1)
		return rc;
	atomic_store(&draft->anew, false);
	log_skipped(fs, draft);
	rc = to(draft->stage, &d);
	if (rc)
		ck_log("%s: %s: %s", draft_name(fs, draft), failed, d.text);
	return rc;
}

static void set_committing(struct ck_draft *draft, bool committing)
{
	pthread_mutex_lock(&draft->lock);
	draft->committing = committing;
	pthread_mutex_unlock(&draft->lock);
}

int ck_draft_commit(struct ck_fs *fs, struct ck_draft *draft, bool asked)
{
	int rc;

	set_committing(draft, true);
	rc = hand_over(fs, draft, asked, ck_stage_commit, "not saved");
	set_committing(draft, false);
	return rc;
}

/* Reads what was written once more, for its checksums, and syncs nothing: 0.2 s
 * for a GiB in the page cache. Whoever waits for the lock meanwhile uses the same open
 * file. */
int ck_draft_keep(struct ck_fs *fs, struct ck_draft *draft, bool asked)
{
	int rc;

	pthread_mutex_lock(&draft->lock);
	rc = hand_over(fs, draft, asked, ck_stage_keep, "not staged");
	pthread_mutex_unlock(&draft->lock);
	ck_draft_leave(draft);
	return rc;
}
