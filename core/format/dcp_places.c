/* SPDX-License-Identifier: MIT */
/*
 * Where in a `.metadata` the place of each box is said: at the BUILD of its
 * _StorageInfo, the state of which, a dict, is on top of the stack then. Who
 * wants other places puts a MARK ... SETITEMS before that opcode. This file
 * notes the positions while the pickle runs and takes them through the join;
 * ordinary reading does none of it.
 */
#include "dcp_internal.h"

#include <errno.h>

void ck_dcp_places_fini(struct ck_dcp_places *places)
{
	free(places->chunks);
	free(places->frames);
	free(places->infos);
	free(places->of_item);
	*places = (struct ck_dcp_places){ 0 };
}

/* The bytes from where the last SETITEMS began, if that was put here before.
 * Its first key is where it is only if the bytes before are what pushed it:
 * so they are no part of another opcode. */
static uint32_t set_len(const struct ck_dcp_reader *r,
			const struct ck_plist *state)
{
	uint64_t n = r->p->set, key, start;
	struct ck_str name;

	if ((n != 6 && n != 8) || state->count < n ||
	    !ck_pv_str(&state->items[state->count - n], &name) ||
	    !ck_str_is(name, "relative_path"))
		return 0;
	/* It may lie in memory of its own, far away. */
	key = (uint64_t)((uintptr_t)name.p - (uintptr_t)r->in.p);
	if (key < 6 || key >= r->p->at)
		return 0;
	start = key - 6; /* MARK, BINUNICODE and its length */
	if (memcmp(r->in.p + start, "(X\x0d\0\0", 6) != 0 ||
	    r->p->at - start > UINT32_MAX)
		return 0;
	return (uint32_t)(r->p->at - start);
}

int ck_dcp_place_info(struct ck_dcp_reader *r, const struct ck_pv *state)
{
	struct ck_dcp_places *s = r->places;
	void *room;

	if (ck_dcp_spend(r, sizeof(*s->infos)) < 0)
		return -EBADMSG;
	room = ck_grow(s->infos, &s->infos_cap, s->ninfos, 1,
		       sizeof(*s->infos));
	if (!room)
		return ck_dcp_no_memory(r);
	s->infos = room;
	s->infos[s->ninfos++] = (struct ck_dcp_place){
		.build = r->p->at,
		.set = set_len(r, state->list),
		.shared = state->list->shared,
	};
	return 0;
}

int ck_dcp_place_frame(void *ctx, struct ck_pickle *p, uint64_t len)
{
	struct ck_dcp_reader *r = ctx;
	struct ck_dcp_places *s = r->places;
	void *room;

	r->p = p;
	if (ck_dcp_spend(r, sizeof(*s->frames)) < 0)
		return -EBADMSG;
	room = ck_grow(s->frames, &s->frames_cap, s->nframes, 1,
		       sizeof(*s->frames));
	if (!room)
		return ck_dcp_no_memory(r);
	s->frames = room;
	s->frames[s->nframes++] = (struct ck_dcp_frame){ p->at, len };
	return 0;
}

int ck_dcp_place_items(struct ck_dcp_reader *r)
{
	struct ck_dcp_places *s = r->places;

	/* Of items that entry_spend() paid for: no overflow. */
	if (ck_dcp_spend(r, r->nitems * (sizeof(*s->of_item) +
					 sizeof(*s->chunks))) < 0)
		return -EBADMSG;
	s->of_item = calloc(r->nitems + 1, sizeof(*s->of_item));
	return s->of_item ? 0 : ck_dcp_no_memory(r);
}

void ck_dcp_place_item(struct ck_dcp_reader *r, size_t item, uint64_t info)
{
	struct ck_dcp_place *place = &r->places->infos[info];

	place->shared |= place->used;
	place->used = true;
	r->places->of_item[item] = (uint32_t)info + 1;
}

static void entry_places(struct ck_dcp_places *s, const struct ck_dcp_entry *e)
{
	for (uint32_t i = 0; e->tensor && i < e->count; i++) {
		uint32_t info = s->of_item[e->first + i];
		struct ck_dcp_place none = { 0 };

		s->chunks[s->nchunks++] = info ? s->infos[info - 1] : none;
	}
}

int ck_dcp_place_chunks(struct ck_dcp_reader *r)
{
	struct ck_dcp_places *s = r->places;

	s->chunks = malloc((r->nitems + 1) * sizeof(*s->chunks));
	if (!s->chunks)
		return ck_dcp_no_memory(r);
	for (uint32_t i = 0; i < r->nentries; i++)
		entry_places(s, &r->entries[i]);
	free(s->infos);
	free(s->of_item);
	s->infos = NULL;
	s->of_item = NULL;
	return 0;
}
