/* SPDX-License-Identifier: MIT */
/*
 * staged: reads by the writer from its own open file. Written bytes come from the stage.
 * The others are zeros if the file was truncated to 0, else committed bytes, which the
 * caller has read.
 */
#include "commit_internal.h"

#include <errno.h>

static int fetch(struct ck_stage *s, uint64_t vpos, char *to, uint64_t len)
{
	/* Before the header is complete there are no elements. */
	uint64_t data = s->data_known ? s->data : s->head.len;
	uint64_t head = vpos < data ? ck_min(len, data - vpos) : 0;

	if (head)
		memcpy(to, s->head.data + vpos, head);
	return ck_cutter_fetch(&s->cutter, vpos + head - data, to + head,
			       len - head);
}

static int overlay(struct ck_stage *s, uint64_t vpos, char *bytes, size_t len)
{
	const struct ck_ranges *written = &s->written.ranges;
	int rc = s->spoiled ? -EINVAL : 0;

	for (size_t i = 0; rc == 0 && i < written->n; i++) {
		uint64_t begin = ck_max(written->r[i].begin, vpos);
		uint64_t end = ck_min(written->r[i].end, vpos + len);

		if (begin < end)
			rc = fetch(s, begin, bytes + (begin - vpos),
				   end - begin);
	}
	return rc;
}

int ck_stage_overlay(struct ck_stage *s, uint64_t vpos, void *bytes, size_t len)
{
	int rc;

	pthread_rwlock_rdlock(&s->x->placing);
	rc = overlay(s, vpos, bytes, len);
	pthread_rwlock_unlock(&s->x->placing);
	return rc;
}

uint64_t ck_stage_skipped(struct ck_stage *s)
{
	const struct ck_written_ranges *g = &s->written;
	uint64_t n;

	pthread_rwlock_rdlock(&s->x->placing);
	n = s->truncated ? g->end - ck_written_bytes(g, 0) : 0;
	pthread_rwlock_unlock(&s->x->placing);
	return n;
}

int ck_stage_verify(struct ck_stage *s, struct ck_diag *d)
{
	uint32_t n, first = ck_stage_boxes(s, &n);

	return ck_boxes_verify(s->x->w->cp, s->of.tensor, first, n, d);
}

bool ck_stage_began_empty(struct ck_stage *s, uint64_t *size)
{
	bool truncated;

	pthread_rwlock_rdlock(&s->x->placing);
	truncated = s->truncated;
	*size = truncated ? s->written.end : ck_stage_total(s);
	pthread_rwlock_unlock(&s->x->placing);
	return truncated;
}
