/* SPDX-License-Identifier: MIT */
/*
 * cards: see cards.h. A work goes to the device that has least to do. It is asked for what is done
 * in the order in which it was started there. What goes to memory of another device is put
 * together where it went, and is transferred then; if it does not come to its place so, all of it
 * is done again on the device of that memory.
 */
#include "cards.h"
#include "member.h"
#include "work.h"

#include <errno.h>
#include <stdio.h>

void ck_cards_refuse(struct ck_cards *all, struct ck_gpu_work *w, int rc)
{
	w->rc = rc;
	w->next = NULL;
	*all->refused_end = w;
	all->refused_end = &w->next;
}

/* The device is lost, or does what it must not: it is not used any more. */
void ck_cards_lose(struct ck_cards *all, const struct ck_card *g,
		   const char *what)
{
	const struct ck_device *device = g->device;
	CUresult lost = (CUresult)__atomic_load_n(&device->lost,
						  __ATOMIC_ACQUIRE);

	if (*all->trouble.text)
		return;
	(void)ck_fail(&all->trouble, EIO, "GPU %d: %s: %s", device->ordinal,
		      what, lost ? ck_cuda_error(&all->cuda, lost) : "failed");
}

/* What was asked of the device may have begun, whatever it said: that nothing more is done
 * with it is known when the process has ended. */
static void push(struct ck_cards *all, struct ck_card *g, struct ck_gpu_work *w,
		 int rc)
{
	g->ways[(g->first + g->n++) % CK_CARD_WAYS] =
		(struct ck_card_way){ .work = w, .batch = g->next };
	g->next = (struct ck_pipe_batch){ 0 };
	if (rc)
		ck_cards_lose(all, g, "a gathering");
}

/* -EAGAIN: there is no room now. Else it is on its way, or done. */
static int send(struct ck_cards *all, struct ck_card *g, struct ck_gpu_work *w)
{
	bool here = w->to && &all->list[w->to->gpu] == g;
	int rc;

	g->next.from = w->fill;
	g->next.to = w->to ? NULL : w->result;
	g->next.stays = w->to && !here;
	g->next.tiles = &g->tiles;
	rc = ck_pipe_take(&g->pipe, here ? w->to->at + w->to_at : 0, &g->next);
	if (rc == -EAGAIN)
		return rc;
	if (rc) {
		ck_cards_lose(all, g, "memory that was used before");
		ck_cards_refuse(all, w, -EIO);
		return 0;
	}
	rc = ck_work_tiles(w, g->next.staged, g->next.result, &g->tiles);
	if (rc) {
		ck_cards_refuse(all, w, rc == -EOVERFLOW ? rc : -EIO);
		return 0;
	}
	rc = ck_pipe_send(&g->pipe, &g->next, w->filled, w->results);
	if (rc == -E2BIG)
		ck_cards_refuse(all, w, -EOVERFLOW);
	else
		push(all, g, w, rc);
	return 0;
}

bool ck_cards_are_spread(const struct ck_cards *all)
{
	return all->spreads && all->spread->is_on(all->spread);
}

bool ck_cards_may_move(const struct ck_cards *all)
{
	return (all->spread || all->member) && *all->trouble.text;
}

static int send_to(struct ck_cards *all, struct ck_card *g,
		   struct ck_gpu_work *w)
{
	if (g->n == CK_CARD_WAYS)
		return -EAGAIN;
	(void)ck_device_use(g->device);
	return send(all, g, w);
}

/* Those that were not transferred, on the device of their memory. False: for some there is no
 * room now. */
static bool send_again(struct ck_cards *all)
{
	while (all->again && !*all->trouble.text) {
		struct ck_gpu_work *w = all->again, *next = w->next;

		if (send_to(all, &all->list[w->to->gpu], w) == -EAGAIN)
			return false;
		all->again = next;
		if (!next)
			all->again_end = &all->again;
	}
	return true;
}

int ck_cards_start(struct ck_gpu *is, struct ck_gpu_work *w)
{
	struct ck_cards *all = (struct ck_cards *)is;
	struct ck_card *least = &all->list[w->to ? w->to->gpu : 0];

	if (*all->trouble.text) {
		ck_cards_refuse(all, w, -EIO);
		return 0;
	}
	if (!send_again(all))
		return -EAGAIN;
	for (uint32_t i = 0; i < all->n && (!w->to || ck_cards_are_spread(all));
	     i++)
		if (all->list[i].n < least->n)
			least = &all->list[i];
	return send_to(all, least, w);
}

/* Of what is to be transferred: it is put together, and goes to its place from now on. */
static void move(struct ck_cards *all, struct ck_card *g,
		 struct ck_card_way *way)
{
	const struct ck_gpu_work *w = way->work;

	way->transfer = (struct ck_transfer){
		.from = (uint32_t)(g - all->list),
		.to = w->to->gpu,
		.src = way->batch.result,
		.dst = w->to->at + w->to_at,
		.bytes = w->results,
	};
	way->moves = true;
	all->spread->add(all->spread, &way->transfer);
}

static void move_some(struct ck_cards *all, struct ck_card *g)
{
	(void)ck_device_use(g->device);
	for (uint32_t i = 0; i < g->n; i++) {
		struct ck_card_way *way =
			&g->ways[(g->first + i) % CK_CARD_WAYS];
		int rc;

		if (!way->batch.stays || way->moves)
			continue;
		rc = ck_pipe_is_done(&g->pipe, &way->batch);
		if (rc < 0)
			ck_cards_lose(all, g, "a gathering");
		if (rc <= 0)
			return;
		move(all, g, way);
	}
}

/* Goes on with all transfers. */
static void turn_spread(struct ck_cards *all)
{
	const char *what;
	uint32_t which;

	if (!all->spread || *all->trouble.text)
		return;
	for (uint32_t i = 0; i < all->n; i++)
		move_some(all, &all->list[i]);
	all->spread->turn(all->spread);
	if (all->spread->is_broken(all->spread, &which, &what))
		ck_cards_lose(all, &all->list[which], what);
	(void)send_again(all);
}

/* 1: it is over, as far as this device has to do with it. */
static int is_over(struct ck_card *g, struct ck_card_way *way)
{
	if (way->batch.stays)
		return way->moves && way->transfer.rc != -EINPROGRESS;
	(void)ck_device_use(g->device);
	return ck_pipe_is_done(&g->pipe, &way->batch);
}

/* What was not transferred is done on the device of its memory. NULL: so it was. */
static struct ck_gpu_work *end_way(struct ck_cards *all,
				   struct ck_card_way *way)
{
	struct ck_gpu_work *w = way->work;

	w->rc = *all->trouble.text ? -EIO : 0;
	if (w->rc || !way->batch.stays || way->transfer.rc == 0)
		return w;
	w->next = NULL;
	*all->again_end = w;
	all->again_end = &w->next;
	return NULL;
}

/* The first of its queue, if it is done; with a trouble it is never asked for again. */
static struct ck_gpu_work *first_done(struct ck_cards *all, struct ck_card *g)
{
	struct ck_gpu_work *w = NULL;

	while (g->n && !w) {
		struct ck_card_way *way = &g->ways[g->first];
		int rc = *all->trouble.text ? 1 : is_over(g, way);

		if (rc == 0)
			break;
		if (rc < 0)
			ck_cards_lose(all, g, "a gathering");
		ck_pipe_put(&way->batch);
		w = end_way(all, way);
		g->first = (g->first + 1) % CK_CARD_WAYS;
		g->n--;
	}
	return w;
}

/* With a trouble those are not done again. */
static void refuse_again(struct ck_cards *all)
{
	while (all->again && *all->trouble.text) {
		struct ck_gpu_work *w = all->again;

		all->again = w->next;
		ck_cards_refuse(all, w, -EIO);
	}
	if (!all->again)
		all->again_end = &all->again;
}

/* With what the member's device was asked for all is well, or it is not used any more. */
void ck_cards_check_member(struct ck_cards *all)
{
	if (ck_member_is_broken(all->member))
		ck_cards_lose(all, &all->list[0], "rounds");
}

struct ck_gpu_work *ck_cards_member_done(struct ck_cards *all)
{
	struct ck_gpu_work *w;

	if (!all->member)
		return NULL;
	(void)ck_device_use(all->list[0].device);
	w = ck_member_done(all->member, *all->trouble.text);
	ck_cards_check_member(all);
	return w;
}

struct ck_gpu_work *ck_cards_done(struct ck_gpu *is)
{
	struct ck_cards *all = (struct ck_cards *)is;
	struct ck_gpu_work *w;

	turn_spread(all);
	refuse_again(all);
	w = all->refused;
	if (w) {
		all->refused = w->next;
		if (!all->refused)
			all->refused_end = &all->refused;
		return w;
	}
	w = ck_cards_member_done(all);
	for (uint32_t i = 0; i < all->n && !w; i++)
		w = first_done(all, &all->list[i]);
	return w;
}
