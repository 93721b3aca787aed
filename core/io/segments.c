/* SPDX-License-Identifier: MIT */
/*
 * segments: table of segments by slice, and lists of new, idle and spent ones. An
 * idle or spent segment gives its memory to a new one of the same size. No lock and
 * no threads: callers hold ck_streams.lock.
 */
#include "segments.h"
#include "ckptfs/memory.h"

enum {
	/* factor for the age of untaken segments: a slow reader may come */
	UNREAD = 3,
	YOUNG_MSEC = 2000, /* too young to evict: a reader will come soon */
};

static uint64_t bucket_of(uint64_t slice)
{
	return slice % CK_SEGMENT_BUCKETS;
}

/* --- lists ------------------------------------------------------------------------- */

static void list_append(struct ck_segment_list *l, struct ck_segment *s)
{
	s->before = l->newest;
	s->after = NULL;
	*(l->newest ? &l->newest->after : &l->oldest) = s;
	l->newest = s;
	l->bytes += s->room;
}

static void list_remove(struct ck_segment_list *l, struct ck_segment *s)
{
	*(s->before ? &s->before->after : &l->oldest) = s->after;
	*(s->after ? &s->after->before : &l->newest) = s->before;
	l->bytes -= s->room;
}

/* List of a ready segment without readers. */
static struct ck_segment_list *rest_of(struct ck_segments *all,
				       const struct ck_segment *s)
{
	return s->taken < s->end - s->begin ? &all->idle : &all->spent;
}

/* --- finding ----------------------------------------------------------------------- */

struct ck_segment *ck_segments_find(const struct ck_segments *all,
				    uint64_t slice, uint64_t vpos)
{
	struct ck_segment *s = all->buckets[bucket_of(slice)];

	while (s && (s->slice != slice || vpos < s->begin || vpos >= s->end))
		s = s->same;
	return s;
}

uint64_t ck_segments_next(const struct ck_segments *all, uint64_t slice,
			  uint64_t vpos)
{
	uint64_t next = UINT64_MAX;

	for (const struct ck_segment *s = all->buckets[bucket_of(slice)]; s;
	     s = s->same)
		if (s->slice == slice && s->begin >= vpos)
			next = ck_min(next, s->begin);
	return next;
}

/* --- memory ------------------------------------------------------------------------ */

static void forget(struct ck_segments *all, struct ck_segment *s)
{
	struct ck_segment **at = &all->buckets[bucket_of(s->slice)];

	while (*at != s)
		at = &(*at)->same;
	*at = s->same;
}

/* Sets the bytes of all segments, also in the statistics. */
static void count_bytes(struct ck_segments *all, uint64_t bytes)
{
	if (all->stats && bytes > all->bytes)
		ck_count(&all->stats->cache_bytes, bytes - all->bytes);
	else if (all->stats)
		__atomic_fetch_sub(&all->stats->cache_bytes, all->bytes - bytes,
				   __ATOMIC_RELAXED);
	all->bytes = bytes;
}

/* Must be in no list and no table. */
static void segment_free(struct ck_segments *all, struct ck_segment *s)
{
	count_bytes(all, all->bytes - s->room);
	ck_pages_free(s->bytes, s->room);
	free(s);
}

/* Frees an idle segment and returns its memory. */
static uint8_t *take_memory(struct ck_segments *all, struct ck_segment *s)
{
	uint8_t *bytes = s->bytes;

	list_remove(rest_of(all, s), s);
	forget(all, s);
	free(s);
	return bytes;
}

static void drop(struct ck_segments *all, struct ck_segment *s)
{
	list_remove(rest_of(all, s), s);
	forget(all, s);
	segment_free(all, s);
}

/* A spent segment to reuse; NULL if all are kept. If `kept` is 0, the one
 * used last, whose memory is in the processor's caches. */
static struct ck_segment *spare(const struct ck_segments *all, uint64_t room)
{
	if (all->spent.bytes + room <= all->kept)
		return NULL;
	return all->kept ? all->spent.oldest : all->spent.newest;
}

/* The segment to evict; NULL if all are needed. */
static struct ck_segment *victim(const struct ck_segments *all, uint64_t now)
{
	struct ck_segment *s = all->spent.oldest;

	if (s)
		return s;
	s = all->idle.oldest;
	return s && now - s->used >= YOUNG_MSEC ? s : NULL;
}

/* Reuses memory where possible: pages that were written before cost much less than
 * new ones. */
static uint8_t *memory_of(struct ck_segments *all, uint64_t room, uint64_t now)
{
	struct ck_segment *s;
	uint8_t *bytes;

	while ((s = spare(all, room)) || all->bytes + room > all->cache) {
		if (!s)
			s = victim(all, now);
		if (!s)
			return NULL;
		if (s->room == room)
			return take_memory(all, s);
		drop(all, s);
	}
	bytes = ck_pages_alloc(room);
	if (bytes)
		count_bytes(all, all->bytes + room);
	return bytes;
}

/* Sizes are powers of two below the limit, so that memory can be reused. */
static uint64_t room_for(const struct ck_segments *all, uint64_t len)
{
	uint64_t room = all->most;

	while (room / 2 >= len)
		room /= 2;
	return room;
}

struct ck_segment *ck_segments_add(struct ck_segments *all, uint64_t slice,
				   uint64_t begin, uint64_t end, uint64_t now)
{
	uint64_t room = room_for(all, end - begin);
	struct ck_segment *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	*s = (struct ck_segment){ .slice = slice,
				  .begin = begin,
				  .end = end,
				  .used = now,
				  .room = room,
				  .bytes = memory_of(all, room, now) };
	if (!s->bytes) {
		free(s);
		return NULL;
	}
	s->same = all->buckets[bucket_of(slice)];
	all->buckets[bucket_of(slice)] = s;
	list_append(&all->fresh, s);
	return s;
}

/* --- its life ---------------------------------------------------------------------- */

struct ck_segment *ck_segments_start(struct ck_segments *all)
{
	struct ck_segment *s = all->fresh.oldest;

	if (!s)
		return NULL;
	list_remove(&all->fresh, s);
	s->state = CK_SEGMENT_IN_FLIGHT;
	return s;
}

void ck_segments_complete(struct ck_segments *all, struct ck_segment *s,
			  bool good, uint64_t now)
{
	s->used = now;
	s->state = good ? CK_SEGMENT_READY : CK_SEGMENT_FAILED;
	if (!good)
		forget(all, s);
	if (s->readers)
		return;
	if (good)
		list_append(rest_of(all, s), s);
	else
		segment_free(all, s);
}

void ck_segments_hold(struct ck_segments *all, struct ck_segment *s)
{
	if (s->readers++ == 0 && s->state == CK_SEGMENT_READY)
		list_remove(rest_of(all, s), s);
}

void ck_segments_release(struct ck_segments *all, struct ck_segment *s,
			 uint64_t taken, uint64_t now)
{
	s->taken += taken;
	s->used = now;
	if (--s->readers)
		return;
	if (s->state == CK_SEGMENT_READY)
		list_append(rest_of(all, s), s);
	else if (s->state == CK_SEGMENT_FAILED)
		segment_free(all, s);
}

static void age_list(struct ck_segments *all, struct ck_segment_list *l,
		     uint64_t now, uint64_t msec)
{
	while (l->oldest && now - l->oldest->used >= msec)
		drop(all, l->oldest);
}

void ck_segments_age(struct ck_segments *all, uint64_t now, uint64_t msec)
{
	age_list(all, &all->idle, now, UNREAD * msec);
	age_list(all, &all->spent, now, msec);
}
