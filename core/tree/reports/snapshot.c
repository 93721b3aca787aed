/* SPDX-License-Identifier: MIT */
/*
 * snapshot: see snapshot.h. Reports of the catalog are printed once, when first looked
 * at, and kept; live ones are printed at each lookup. The lock is held for a few loads
 * only: texts are printed outside of it.
 */
#include "snapshot.h"

#include <errno.h>
#include <pthread.h>

struct ck_snapshots {
	/* Constant: */
	const struct ck_report *reports;
	size_t n;
	void *arg;

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_snapshot *present[]; /* one reference each */
};

struct ck_snapshots *ck_snapshots_make(const struct ck_report *reports,
				       size_t n, void *arg)
{
	struct ck_snapshots *s = calloc(1,
					sizeof(*s) + n * sizeof(*s->present));

	if (!s)
		return NULL;
	s->reports = reports;
	s->n = n;
	s->arg = arg;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void ck_snapshots_free(struct ck_snapshots *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		ck_snapshot_put(s->present[i]);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

size_t ck_snapshots_count(const struct ck_snapshots *s)
{
	return s->n;
}

size_t ck_snapshots_shown(const struct ck_snapshots *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += !s->reports[i].is_shown || s->reports[i].is_shown(s->arg);
	return n;
}

struct ck_snapshot *ck_snapshot_make(struct ck_buf *text)
{
	struct ck_snapshot *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	atomic_init(&s->refs, 1);
	s->text = *text;
	*text = (struct ck_buf){ 0 };
	return s;
}

void ck_snapshot_put(struct ck_snapshot *s)
{
	if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	ck_buf_fini(&s->text);
	free(s);
}

/* With one reference, the caller's. */
static struct ck_snapshot *print(const struct ck_snapshots *s, size_t i)
{
	struct ck_buf text = { 0 };
	struct ck_snapshot *out;

	s->reports[i].print(s->arg, &text);
	out = text.err ? NULL : ck_snapshot_make(&text);
	ck_buf_fini(&text);
	return out;
}

static struct ck_snapshot *present_get(struct ck_snapshots *s, size_t i)
{
	struct ck_snapshot *present;

	pthread_mutex_lock(&s->lock);
	present = s->present[i];
	if (present)
		atomic_fetch_add(&present->refs, 1);
	pthread_mutex_unlock(&s->lock);
	return present;
}

/* Two lookups at once may both have printed a report of the catalog: the
 * texts are equal, either may stay. */
static void present_set(struct ck_snapshots *s, size_t i,
			struct ck_snapshot *present)
{
	struct ck_snapshot *old;

	atomic_fetch_add(&present->refs, 1);
	pthread_mutex_lock(&s->lock);
	old = s->present[i];
	s->present[i] = present;
	pthread_mutex_unlock(&s->lock);
	ck_snapshot_put(old);
}

int ck_snapshots_get(struct ck_snapshots *s, size_t i, bool renew,
		     struct ck_snapshot **out)
{
	*out = NULL;
	if (!renew || !s->reports[i].live)
		*out = present_get(s, i);
	if (*out)
		return 0;
	*out = print(s, i);
	if (!*out)
		return -ENOMEM;
	present_set(s, i, *out);
	return 0;
}

/* --- as slices ------------------------------------------------------------- */

struct text_slice {
	struct ck_slice slice; /* first: the slice is this */
	struct ck_part part;
	uint64_t begins[2];
	struct ck_snapshot *text;
};

static void text_free(struct ck_slice *s)
{
	ck_snapshot_put(((struct text_slice *)s)->text);
	free(s);
}

int ck_snapshot_slice(struct ck_snapshot *text, struct ck_slice **out)
{
	struct text_slice *s = malloc(sizeof(*s));

	if (!s) {
		ck_snapshot_put(text);
		return -ENOMEM;
	}
	*s = (struct text_slice){
		.slice = { .size = text->text.len,
			   .nparts = 1,
			   .begins = s->begins,
			   .parts = &s->part,
			   .free = text_free },
		.part = { .kind = CK_PART_BYTES, .at.bytes = text->text.data },
		.begins = { 0, text->text.len },
		.text = text,
	};
	*out = &s->slice;
	return 0;
}
