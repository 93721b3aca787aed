/* SPDX-License-Identifier: MIT */
/*
 * draft: what is written through one open file, from open(2) to its last
 * close, around the stage that holds the bytes. There is one for a tensor at
 * a time, whichever of its files it is.
 *
 * Who comes while a draft may be about to be closed for the last time asks later,
 * see later.c; while it is committed, after that, see publish.c.
 */
#include "internal.h"
#include <errno.h>

#define BUSY_TOLD 64
#define BUSY_SEC  10 /* between two lines that a tensor has a writer */

struct ck_draft {
	struct ck_draft *next; /* this and refs: ck_drafts.lock */
	unsigned refs;
	struct ck_node node;   /* the file */
	uint64_t size;	       /* of it, as shown */
	atomic_bool leaving;   /* closed, and not written since */
	atomic_bool anew;      /* its name was made by this open */
	atomic_int thread;     /* that opened it */
	atomic_bool told_mode; /* what a change of its mode did not do */
	bool reads;	       /* it was opened for reading, too */
	struct ck_caller by;   /* else who opened it, with patch */
	pthread_mutex_t lock;  /* of all below */
	bool committing;       /* all below is the committing thread's */
	struct ck_stage *stage;
	bool longer;	   /* more was written than the file shows */
	bool written;	   /* something was, since it was opened */
	bool told;	   /* what was refused is in the log */
	bool told_missing; /* so is what is missing; nothing came since */
};

struct ck_drafts {
	pthread_mutex_t lock;
	struct ck_draft *first;
	/* Of tensors by their numbers, when it was said that one is being
	 * written, in seconds; 0: never. */
	atomic_uint busy_told[BUSY_TOLD];
};

struct ck_drafts *ck_drafts_make(void)
{
	struct ck_drafts *drafts = calloc(1, sizeof(*drafts));

	if (!drafts)
		return NULL;
	pthread_mutex_init(&drafts->lock, NULL);
	return drafts;
}

void ck_drafts_free(struct ck_drafts *drafts)
{
	if (!drafts)
		return;
	pthread_mutex_destroy(&drafts->lock);
	free(drafts);
}

/* --- what is said of it ----------------------------------------------------- */

static const char *tensor_name(const struct ck_fs *fs, uint32_t tensor)
{
	const struct ck_catalog *c = fs->catalog;

	return ck_show(ck_catalog_str(c, c->tensors[tensor].names.name));
}

static const char *shown_name(const struct ck_fs *fs, const struct ck_node *n)
{
	return tensor_name(fs, n->tensor);
}

static void tell(const struct ck_fs *fs, const struct ck_draft *draft,
		 const struct ck_diag *d)
{
	ck_log("%s: %s; the tensor stays as it was",
	       shown_name(fs, &draft->node), d->text);
}

/* What a program did wrong is said once for each open file. */
static void tell_once(const struct ck_fs *fs, struct ck_draft *draft,
		      const struct ck_diag *d)
{
	if (!draft->told)
		tell(fs, draft, d);
	draft->told = true;
}

/* What is missing may still come as long as the file is open, so it is said when
 * somebody asks for all to be there, and at the end. */
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

/* --- the list ------------------------------------------------------------- */

/* The draft of a tensor. Under the lock. */
static struct ck_draft *of_tensor(const struct ck_drafts *drafts,
				  uint32_t tensor)
{
	struct ck_draft *draft = drafts->first;

	while (draft && draft->node.tensor != tensor)
		draft = draft->next;
	return draft;
}

static void enter(struct ck_drafts *drafts, struct ck_draft *draft)
{
	draft->next = drafts->first;
	drafts->first = draft;
}

static void leave(struct ck_drafts *drafts, struct ck_draft *draft)
{
	struct ck_draft **at = &drafts->first;

	while (*at != draft)
		at = &(*at)->next;
	*at = draft->next;
}

/* Enters a draft when its tensor has no other. */
static int enter_alone(struct ck_drafts *drafts, struct ck_draft *draft)
{
	const struct ck_draft *other;
	int rc = 0;

	pthread_mutex_lock(&drafts->lock);
	other = of_tensor(drafts, draft->node.tensor);
	if (!other)
		enter(drafts, draft);
	else
		rc = atomic_load(&other->leaving) ? CK_LATER : -EBUSY;
	pthread_mutex_unlock(&drafts->lock);
	return rc;
}

bool ck_draft_leaves(struct ck_fs *fs, uint32_t tensor)
{
	const struct ck_draft *draft;
	bool leaves;

	pthread_mutex_lock(&fs->drafts->lock);
	draft = of_tensor(fs->drafts, tensor);
	leaves = draft && atomic_load(&draft->leaving);
	pthread_mutex_unlock(&fs->drafts->lock);
	return leaves;
}

static void draft_free(struct ck_draft *draft)
{
	pthread_mutex_destroy(&draft->lock);
	ck_caller_fini(&draft->by);
	free(draft);
}

struct ck_draft *ck_draft_ref(struct ck_fs *fs, struct ck_draft *draft)
{
	pthread_mutex_lock(&fs->drafts->lock);
	draft->refs++;
	pthread_mutex_unlock(&fs->drafts->lock);
	return draft;
}

static bool same_file(const struct ck_node *a, const struct ck_node *b)
{
	return a->kind == b->kind && a->index == b->index &&
	       a->tensor == b->tensor;
}

int ck_draft_find(struct ck_fs *fs, const struct ck_node *n, bool last,
		  struct ck_draft **out)
{
	struct ck_draft *draft;
	int rc = 0;

	*out = NULL;
	pthread_mutex_lock(&fs->drafts->lock);
	draft = of_tensor(fs->drafts, n->tensor);
	if (draft && atomic_load(&draft->leaving) && !last)
		rc = CK_LATER;
	else if (draft && same_file(&draft->node, n) && draft->refs) {
		draft->refs++;
		*out = draft;
	}
	pthread_mutex_unlock(&fs->drafts->lock);
	return rc;
}

/* The stage is closed first: as long as the draft is listed, nobody asks for
 * another one of the tensor. */
void ck_draft_put(struct ck_fs *fs, struct ck_draft *draft)
{
	bool last;

	pthread_mutex_lock(&fs->drafts->lock);
	last = --draft->refs == 0;
	pthread_mutex_unlock(&fs->drafts->lock);
	if (!last)
		return;
	if (draft->stage) {
		tell_missing(fs, draft);
		ck_stage_close(draft->stage);
	}
	pthread_mutex_lock(&fs->drafts->lock);
	leave(fs->drafts, draft);
	pthread_mutex_unlock(&fs->drafts->lock);
	ck_laters_look(fs->laters);
	draft_free(draft);
}

const struct ck_node *ck_draft_node(const struct ck_draft *draft)
{
	return &draft->node;
}

/* --- opening ---------------------------------------------------------------- */

static int stage_open(struct ck_fs *fs, struct ck_draft *draft,
		      struct ck_diag *d)
{
	const struct ck_tensor *t = &fs->catalog->tensors[draft->node.tensor];
	const struct ck_node *n = &draft->node;
	bool is_box = n->kind == CK_NODE_BOX;
	enum ck_stage_form form = CK_STAGE_NPY;

	if (t->err)
		return ck_fail(d, t->err, "cannot be written: %s",
			       strerror(t->err));
	if (!is_box && !*ck_views[n->index]->suffix)
		form = CK_STAGE_RAW;
	return ck_stage_open(fs->writer, n->tensor,
			     is_box ? n->index - t->chunk : CK_STAGE_ALL, form,
			     &draft->stage, d);
}

/* Programs that wait for their turn by trying again would fill the log. */
int ck_draft_busy(struct ck_fs *fs, uint32_t tensor)
{
	atomic_uint *told = &fs->drafts->busy_told[tensor % BUSY_TOLD];
	struct timespec t;
	unsigned now, before = atomic_load(told);

	clock_gettime(CLOCK_MONOTONIC, &t);
	now = (unsigned)t.tv_sec + BUSY_SEC; /* never 0 */
	if ((before == 0 || now - before >= BUSY_SEC) &&
	    atomic_compare_exchange_strong(told, &before, now))
		ck_log("%s: is being written already", tensor_name(fs, tensor));
	return -EBUSY;
}

int ck_draft_open(struct ck_fs *fs, const struct ck_node *n,
		  struct ck_draft **out)
{
	struct ck_draft *draft = calloc(1, sizeof(*draft));
	struct ck_diag d = { 0 };
	struct stat shown;
	int rc;

	if (!draft)
		return -ENOMEM;
	draft->refs = 1;
	draft->node = *n;
	draft->by.uid = (uid_t)-1; /* until it is said who it is */
	ck_node_stat(fs, n, 0, &shown);
	draft->size = (uint64_t)shown.st_size;
	pthread_mutex_init(&draft->lock, NULL);
	rc = enter_alone(fs->drafts, draft);
	if (rc) {
		draft_free(draft);
		return rc == -EBUSY ? ck_draft_busy(fs, n->tensor) : rc;
	}
	pthread_mutex_lock(&draft->lock);
	rc = stage_open(fs, draft, &d);
	pthread_mutex_unlock(&draft->lock);
	if (rc) {
		ck_log("%s: %s", shown_name(fs, n), d.text);
		ck_draft_put(fs, draft);
		return rc;
	}
	*out = draft;
	return 0;
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
			  "too many bytes, header included");
}

void ck_draft_is_renamed(struct ck_draft *draft)
{
	draft->size = UINT64_MAX;
}

int ck_draft_write(struct ck_fs *fs, struct ck_draft *draft, uint64_t vpos,
		   const void *bytes, size_t len, pid_t thread)
{
	struct ck_diag d = { 0 };
	size_t fits;
	int rc;

	atomic_store(&draft->leaving, false);
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
static int cut(struct ck_fs *fs, struct ck_draft *draft, uint64_t size)
{
	struct ck_diag d = { 0 };
	int rc;

	atomic_store(&draft->leaving, false);
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
	rc = cut(fs, draft, size);
	pthread_mutex_unlock(&draft->lock);
	return rc;
}

void ck_draft_opened_by(const struct ck_fs *fs, struct ck_draft *draft,
			fuse_req_t req, int flags)
{
	atomic_store(&draft->thread, fuse_req_ctx(req)->pid);
	/* The kernel has asked who opened it to read as well. */
	draft->reads = (flags & O_ACCMODE) == O_RDWR;
	if (fs->options->patch && !draft->reads)
		ck_caller_take(&draft->by, req);
}

/* What open(2) with O_TRUNC asks for cannot be told from truncate(2), but both
 * come from a thread. Of another one it would put zeros in place of what was
 * written. Where all threads look alike it is the opener's as long as there is
 * nothing to lose. */
static bool may_cut(const struct ck_draft *draft, uint64_t size, pid_t thread)
{
	if (atomic_load(&draft->thread) != thread)
		return false;
	return thread || (size == 0 && !draft->written);
}

int ck_draft_cut(struct ck_fs *fs, struct ck_draft *draft, uint64_t size,
		 pid_t thread)
{
	int rc = -EBUSY;

	if (!lock_idle(draft))
		return CK_AFTER;
	if (may_cut(draft, size, thread))
		rc = cut(fs, draft, size);
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
		       shown_name(fs, &draft->node), (unsigned)mode & 07777);
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

/* --- patching ---------------------------------------------------------------- */

/* What is filled in would be his to read: he must be allowed to. */
static int may_fill(struct ck_fs *fs, struct ck_draft *draft,
		    const struct ck_node *n, struct ck_diag *d)
{
	struct stat shown;

	ck_node_stat(fs, n, 0, &shown);
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

/* As ck_draft_settle(), for who has the stage. */
static int settle(struct ck_fs *fs, struct ck_draft *draft, bool asked)
{
	enum ck_stage_state state = ck_stage_state(draft->stage);
	struct ck_diag d = { 0 };
	int rc;

	if (draft->longer)
		return -EINVAL; /* it was told why */
	if (state == CK_STAGE_PART && fs->options->patch) {
		if (!draft->committing)
			return 1; /* it is read and filled in by the commit */
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

/* By who has the stage. failed: what the log says if it is not handed over. */
static int hand_over(struct ck_fs *fs, struct ck_draft *draft, bool asked,
		     int (*to)(struct ck_stage *s, struct ck_diag *d),
		     const char *failed)
{
	struct ck_diag d = { 0 };
	int rc = settle(fs, draft, asked);

	if (rc != 1)
		return rc;
	atomic_store(&draft->anew, false);
	rc = to(draft->stage, &d);
	if (rc)
		ck_log("%s: %s: %s", shown_name(fs, &draft->node), failed,
		       d.text);
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

int ck_draft_keep(struct ck_fs *fs, struct ck_draft *draft, bool asked)
{
	int rc;

	pthread_mutex_lock(&draft->lock);
	rc = hand_over(fs, draft, asked, ck_stage_keep, "not staged");
	pthread_mutex_unlock(&draft->lock);
	ck_draft_leave(draft);
	return rc;
}
