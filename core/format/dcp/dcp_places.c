/* SPDX-License-Identifier: MIT */
/*
 * Locations in `.metadata`: records the BUILD of the _StorageInfo of each box while the
 * pickle is parsed, and carries it through the join. Its state, a dict, is on top of
 * the stack at the BUILD, so rewrite.c inserts MARK ... SETITEMS before that opcode.
 * Used only if the checkpoint is opened for writing.
 */
#include "dcp_internal.h"

#include <errno.h>

void ck_dcp_places_fini(struct ck_dcp_places *places)
{
	free(places->chunks);
	free(places->infos);
	*places = (struct ck_dcp_places){ 0 };
}

int ck_dcp_place_info(struct ck_dcp_reader *r, const struct ck_pv *state)
{
	struct ck_dcp_places *s = r->places;
	uint64_t build = r->p->builds;
	void *room;

	if (ck_dcp_spend(r, sizeof(*s->infos)) < 0)
		return -EBADMSG;
	room = ck_grow(s->infos, &s->infos_cap, s->ninfos, 1,
		       sizeof(*s->infos));
	if (!room)
		return ck_dcp_no_memory(r);
	s->infos = room;
	s->infos[s->ninfos++] = (struct ck_dcp_place){
		.build = (uint32_t)ck_min(build, CK_DCP_FIXED - 1),
		/* An insertion needs a dict on top of the stack. */
		.fixed = state->tag != CK_PV_DICT || state->list->shared ||
			 r->p->full || build >= CK_DCP_FIXED,
	};
	return 1;
}

void ck_dcp_place_item(struct ck_dcp_reader *r, uint64_t info)
{
	struct ck_dcp_place *place = &r->places->infos[info];

	place->fixed |= place->used;
	place->used = true;
}

static uint32_t place_of(const struct ck_dcp_reader *r, size_t item)
{
	const struct ck_dcp_place *place;

	if (!r->of_item[item])
		return 0;
	place = &r->places->infos[r->of_item[item] - 1];
	return place->build | (place->fixed ? CK_DCP_FIXED : 0);
}

static void entry_places(struct ck_dcp_reader *r, const struct ck_dcp_entry *e)
{
	struct ck_dcp_places *s = r->places;

	for (uint32_t i = 0; e->tensor && i < e->count; i++)
		s->chunks[s->nchunks++] = place_of(r, e->first + i);
}

int ck_dcp_place_chunks(struct ck_dcp_reader *r)
{
	struct ck_dcp_places *s = r->places;

	/* entry_spend() has charged the items: no overflow. */
	if (ck_dcp_spend(r, r->nitems * sizeof(*s->chunks)))
		return -EBADMSG;
	s->chunks = malloc((r->nitems + 1) * sizeof(*s->chunks));
	if (!s->chunks)
		return ck_dcp_no_memory(r);
	for (uint32_t i = 0; i < r->nentries; i++)
		entry_places(r, &r->entries[i]);
	free(s->infos);
	s->infos = NULL;
	return 0;
}
