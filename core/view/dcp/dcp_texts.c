/* SPDX-License-Identifier: MIT */
/*
 * dcp_texts: the texts of `.metadata` that were made, as a list with the last used one first.
 * The list has one use of each text, and each open slice another one.
 */
#include "dcp_view.h"

#include <errno.h>

struct ck_dcp_text {
	unsigned refs;		  /* atomic */
	uint32_t number;	  /* of the spec */
	struct ck_dcp_plan *plan; /* held */
	struct ck_buf bytes;
	struct ck_dcp_text *next; /* of the list */
};

void ck_dcp_text_put(struct ck_dcp_text *t)
{
	if (__atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	ck_view_plan_put(t->plan);
	ck_buf_fini(&t->bytes);
	free(t);
}

uint64_t ck_dcp_text_len(const struct ck_dcp_text *t)
{
	return t->bytes.len;
}

/* --- the list ------------------------------------------------------------------------- */

static bool is_used(const struct ck_dcp_text *t)
{
	return __atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) > 1;
}

static void first_set(struct ck_dcp_texts *s, struct ck_dcp_text *t)
{
	t->next = s->first;
	s->first = t;
}

static void drop(struct ck_dcp_text **at)
{
	struct ck_dcp_text *t = *at;

	*at = t->next;
	ck_dcp_text_put(t);
}

/* Drops unused texts behind the first one: those of other plans, and those that exceed the
 * most bytes, the oldest first. */
static void trim(struct ck_dcp_texts *s)
{
	struct ck_dcp_text **at = &s->first->next;
	uint64_t total = s->first->bytes.len;

	for (const struct ck_dcp_text *t = *at; t; t = t->next)
		total += is_used(t) ? t->bytes.len : 0;
	while (*at) {
		struct ck_dcp_text *t = *at;

		if (is_used(t)) {
			at = &t->next;
		} else if (t->plan != s->first->plan ||
			   total + t->bytes.len > s->most) {
			drop(at);
		} else {
			total += t->bytes.len;
			at = &t->next;
		}
	}
}

void ck_dcp_texts_fini(struct ck_dcp_texts *s)
{
	while (s->first)
		drop(&s->first);
}

static int make(struct ck_dcp_texts *s, const struct ck_dcp_layout *l)
{
	struct ck_dcp_text *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	t->refs = 1;
	t->number = l->number;
	t->plan = ck_view_plan_hold(l->plan);
	rc = ck_dcp_metadata_print(l, s->most, &t->bytes);
	if (rc) {
		ck_dcp_text_put(t);
		return rc;
	}
	t->bytes.data = ck_trim(t->bytes.data, t->bytes.len + 1, 1);
	first_set(s, t);
	return 0;
}

static int find(struct ck_dcp_texts *s, const struct ck_dcp_layout *l)
{
	struct ck_dcp_text **at = &s->first, *t;

	while ((t = *at) && (t->number != l->number || t->plan != l->plan))
		at = &t->next;
	if (!t)
		return make(s, l);
	*at = t->next;
	first_set(s, t);
	return 0;
}

int ck_dcp_text_get(struct ck_dcp_texts *s, const struct ck_dcp_layout *l,
		    struct ck_dcp_text **out)
{
	int rc = find(s, l);

	if (rc)
		return rc;
	*out = s->first;
	__atomic_fetch_add(&s->first->refs, 1, __ATOMIC_RELAXED);
	trim(s);
	return 0;
}

/* --- slices ----------------------------------------------------------------------------- */

struct text_slice {
	struct ck_slice slice; /* first member */
	struct ck_dcp_text *text;
	struct ck_part part;
	uint64_t begins[2];
};

static void slice_free(struct ck_slice *slice)
{
	struct text_slice *s = (struct text_slice *)slice;

	ck_dcp_text_put(s->text);
	free(s);
}

int ck_dcp_text_slice(struct ck_dcp_text *t, struct ck_slice **out)
{
	struct text_slice *s = malloc(sizeof(*s));

	if (!s) {
		ck_dcp_text_put(t);
		return -ENOMEM;
	}
	*s = (struct text_slice){
		.slice = { .size = t->bytes.len,
			   .nparts = 1,
			   .parts = &s->part,
			   .begins = s->begins,
			   .free = slice_free },
		.text = t,
		.part = { .kind = CK_PART_BYTES, .at.bytes = t->bytes.data },
		.begins = { 0, t->bytes.len },
	};
	*out = &s->slice;
	return 0;
}
