/* SPDX-License-Identifier: MIT */
/*
 * forward_table: a hash table by id and rank, and totals for each rank. One
 * thread at a time.
 */
#include "forward_table.h"

enum { BUCKETS = 1024 };

struct ck_forward_table_row {
	struct ck_forward_table_row *next; /* in its bucket */
	uint64_t id, room;
	uint32_t rank, epoch, body;
	uint16_t type;
};

int ck_forward_table_init(struct ck_forward_table *p, uint32_t size)
{
	*p = (struct ck_forward_table){ .size = size };
	p->buckets = calloc(BUCKETS, sizeof(*p->buckets));
	p->ranks = calloc(size, sizeof(*p->ranks));
	return p->buckets && p->ranks ? 0 : -ENOMEM;
}

void ck_forward_table_fini(struct ck_forward_table *p)
{
	for (uint32_t i = 0; p->ranks && i < p->size; i++)
		ck_forward_table_lose(p, i);
	free(p->ranks);
	free(p->buckets);
	*p = (struct ck_forward_table){ 0 };
}

/* Returns the link to the entry, or the end of its bucket's list. */
static struct ck_forward_table_row **find(struct ck_forward_table *p,
					  uint32_t rank, uint64_t id)
{
	struct ck_forward_table_row **at = &p->buckets[(id ^ rank) % BUCKETS];

	while (*at && ((*at)->rank != rank || (*at)->id != id))
		at = &(*at)->next;
	return at;
}

int ck_forward_table_add(struct ck_forward_table *p, uint32_t rank,
			 const struct ck_wire_head *head, uint64_t room)
{
	struct ck_forward_table_row **at = find(p, rank, head->id);
	struct ck_forward_table_sum *sum = &p->ranks[rank];

	if (*at || sum->open >= CK_WIRE_OPEN_MAX ||
	    sum->bodies + head->body > CK_WIRE_BODIES_MAX)
		return -EPROTO;
	*at = malloc(sizeof(**at));
	if (!*at)
		return -ENOMEM;
	**at = (struct ck_forward_table_row){ .id = head->id,
					      .room = room,
					      .rank = rank,
					      .epoch = head->epoch,
					      .body = head->body,
					      .type = head->type };
	sum->open++;
	sum->bodies += head->body;
	return 0;
}

static void take_out(struct ck_forward_table *p,
		     struct ck_forward_table_row **at)
{
	struct ck_forward_table_row *row = *at;

	p->ranks[row->rank].open--;
	p->ranks[row->rank].bodies -= row->body;
	*at = row->next;
	free(row);
}

bool ck_forward_table_take(struct ck_forward_table *p, uint32_t rank,
			   const struct ck_wire_head *answer)
{
	struct ck_forward_table_row **at = find(p, rank, answer->id);

	if (!*at || (*at)->type != answer->type ||
	    (*at)->epoch != answer->epoch || answer->payload > (*at)->room)
		return false;
	take_out(p, at);
	return true;
}

void ck_forward_table_lose(struct ck_forward_table *p, uint32_t rank)
{
	p->ranks[rank].lost = true;
	for (size_t i = 0; i < BUCKETS && p->ranks[rank].open; i++) {
		struct ck_forward_table_row **at = &p->buckets[i];

		while (*at) {
			if ((*at)->rank == rank)
				take_out(p, at);
			else
				at = &(*at)->next;
		}
	}
}

bool ck_forward_table_is_lost(const struct ck_forward_table *p, uint32_t rank)
{
	return p->ranks[rank].lost;
}
