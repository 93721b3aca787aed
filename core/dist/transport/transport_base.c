/* SPDX-License-Identifier: MIT */
/*
 * transport_base: the parts that all transports need: queues of parcels, the
 * table of expected payloads, and delivery to the rank itself. One thread,
 * except for ck_transport_wake().
 */
#include "transport_internal.h"

#include <errno.h>

/* Destination of the payload of a reply. */
struct ck_expected {
	struct ck_expected *next;
	uint32_t from;
	uint64_t id;
	uint8_t *to;
	uint64_t len;
};

/* --- parcels --------------------------------------------------------------------- */

void ck_parcels_push(struct ck_parcels *q, struct ck_parcel *p)
{
	p->next = NULL;
	if (q->first)
		q->last->next = p;
	else
		q->first = p;
	q->last = p;
}

struct ck_parcel *ck_parcels_pop(struct ck_parcels *q)
{
	struct ck_parcel *p = q->first;

	if (p)
		q->first = p->next;
	return p;
}

/* Empties q and returns its parcels; parcels that callbacks add later stay in
 * q. */
static struct ck_parcels take_all(struct ck_parcels *q)
{
	struct ck_parcels all = *q;

	*q = (struct ck_parcels){ 0 };
	return all;
}

void ck_transport_give_back(struct ck_transport_base *b, struct ck_parcel *p,
			    int rc)
{
	b->called = true;
	p->sent(p, rc);
}

void ck_transport_refuse(struct ck_transport_base *b, struct ck_parcels *q)
{
	struct ck_parcels all = take_all(q);
	struct ck_parcel *p;

	while ((p = ck_parcels_pop(&all)))
		ck_transport_give_back(b, p, -EIO);
}

void ck_transport_refuse_rest(struct ck_transport_base *b)
{
	while (b->own.first || b->refused.first) {
		ck_transport_refuse(b, &b->own);
		ck_transport_refuse(b, &b->refused);
	}
}

/* --- expected payloads ---------------------------------------------------- */

/* Returns the link to the entry, or the end of its bucket's list. */
static struct ck_expected **find_expected(struct ck_transport_base *b,
					  uint32_t from, uint64_t id)
{
	struct ck_expected **at =
		&b->expected[(id ^ from) % CK_EXPECTED_BUCKETS];

	while (*at && ((*at)->from != from || (*at)->id != id))
		at = &(*at)->next;
	return at;
}

static void forget(struct ck_transport_base *b, struct ck_expected **at)
{
	struct ck_expected *e = *at;

	*at = e->next;
	b->nexpected--;
	free(e);
}

void ck_transport_forget(struct ck_transport_base *b, uint32_t from)
{
	for (size_t i = 0; i < CK_EXPECTED_BUCKETS; i++) {
		struct ck_expected **at = &b->expected[i];

		while (*at) {
			if ((*at)->from == from)
				forget(b, at);
			else
				at = &(*at)->next;
		}
	}
}

int ck_transport_expect(struct ck_transport_base *b, uint32_t from, uint64_t id,
			uint8_t *to, uint64_t len)
{
	struct ck_expected **at = find_expected(b, from, id);

	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (!*at)
			return -ENOMEM;
		b->nexpected++;
	}
	(*at)->from = from;
	(*at)->id = id;
	(*at)->to = to;
	(*at)->len = len;
	return 0;
}

uint8_t *ck_transport_take_expected(struct ck_transport_base *b, uint32_t from,
				    const struct ck_wire_head *h)
{
	struct ck_expected **at;
	uint8_t *to = NULL;

	if (!h->answer)
		return NULL;
	at = find_expected(b, from, h->id);
	if (!*at)
		return NULL;
	if (h->payload && h->payload <= (*at)->len)
		to = (*at)->to;
	forget(b, at);
	return to;
}

/* --- messages ------------------------------------------------------------------------- */

void ck_transport_got(struct ck_transport_base *b, uint32_t from,
		      struct ck_message *m, const uint8_t *payload)
{
	if (payload)
		m->payload = (struct ck_str){ (const char *)payload,
					      m->head.payload };
	b->called = true;
	b->x.got(b->x.arg, from, m);
}

void ck_transport_deliver_own(struct ck_transport_base *b)
{
	struct ck_parcels all = take_all(&b->own);
	struct ck_parcel *p;

	while ((p = ck_parcels_pop(&all))) {
		struct ck_message m = { .head = p->head, .body = p->body };
		uint8_t *to = ck_transport_take_expected(b, b->x.rank,
							 &p->head);

		if (to)
			memcpy(to, p->payload, p->head.payload);
		ck_transport_got(b, b->x.rank, &m, to);
		ck_transport_give_back(b, p, 0);
	}
}

void ck_transport_wake(struct ck_transport *x)
{
	ck_event_wake(((struct ck_transport_base *)x)->event);
}

/* --- creation and end ----------------------------------------------------- */

int ck_transport_base_init(struct ck_transport_base *b)
{
	b->event = ck_event_make();
	return b->event < 0 ? b->event : 0;
}

void ck_transport_base_fini(struct ck_transport_base *b)
{
	for (size_t i = 0; i < CK_EXPECTED_BUCKETS; i++)
		while (b->expected[i])
			forget(b, &b->expected[i]);
	ck_fd_cleanup(&b->event);
}
