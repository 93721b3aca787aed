/* SPDX-License-Identifier: MIT */
/*
 * drafts: who writes which tensor. A draft is entered by open(2), and leaves with
 * the last reference to it. There is one for a tensor at a time, whichever of its
 * files it is.
 *
 * Whoever comes while a draft may be about to be closed for the last time asks later,
 * see later.c.
 */
#include "draft_internal.h"
#include <errno.h>

#define BUSY_TOLD 64
#define BUSY_SEC  10 /* between two lines that a tensor has a writer */

struct ck_drafts {
	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_draft *first;

	/* Atomic: of tensors by their numbers, when it was said that one is
	 * being written, in seconds; 0 is never: */
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

/* --- the list ------------------------------------------------------------- */

/* The draft of a tensor. Under the lock. */
static struct ck_draft *of_tensor(const struct ck_drafts *drafts,
				  uint32_t tensor)
{
	struct ck_draft *draft = drafts->first;

	while (draft && draft->node.about.number != tensor)
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
	other = of_tensor(drafts, draft->node.about.number);
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

static void draft_free(struct ck_fs *fs, struct ck_draft *draft)
{
	ck_tree_forget(fs->tree, draft->node.number, 1);
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

int ck_draft_find(struct ck_fs *fs, const struct ck_node *n, bool last,
		  struct ck_draft **out)
{
	struct ck_draft *draft;
	int rc = 0;

	*out = NULL;
	pthread_mutex_lock(&fs->drafts->lock);
	draft = of_tensor(fs->drafts, n->about.number);
	if (draft && atomic_load(&draft->leaving) && !last)
		rc = CK_LATER;
	else if (draft && draft->node.place == n->place && draft->refs) {
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
	ck_draft_end_stage(fs, draft);
	pthread_mutex_lock(&fs->drafts->lock);
	leave(fs->drafts, draft);
	pthread_mutex_unlock(&fs->drafts->lock);
	ck_laters_look(fs->laters);
	draft_free(fs, draft);
}

/* --- opening ---------------------------------------------------------------- */

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
		ck_log("%s: is being written already",
		       ck_tensor_name(fs, tensor));
	return -EBUSY;
}

int ck_draft_open(struct ck_fs *fs, const struct ck_node *n,
		  struct ck_draft **out)
{
	struct ck_draft *draft = calloc(1, sizeof(*draft));
	int rc;

	if (!draft)
		return -ENOMEM;
	draft->refs = 1;
	draft->node = *n;
	ck_tree_hold(fs->tree, n->number);
	draft->by.uid = (uid_t)-1; /* until ck_draft_opened_by() */
	draft->size = n->about.size;
	pthread_mutex_init(&draft->lock, NULL);
	rc = enter_alone(fs->drafts, draft);
	if (rc) {
		draft_free(fs, draft);
		return rc == -EBUSY ? ck_draft_busy(fs, n->about.number) : rc;
	}
	rc = ck_draft_begin_stage(fs, draft);
	if (rc)
		ck_draft_put(fs, draft);
	else
		*out = draft;
	return rc;
}
