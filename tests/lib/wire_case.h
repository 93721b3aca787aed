/* SPDX-License-Identifier: MIT */
/*
 * wire_case: messages as the bytes of a connection, and what a peer sees of them.
 */
#ifndef CK_WIRE_CASE_H
#define CK_WIRE_CASE_H

#include "dist/server/file_server.h"

/* A whole message. */
static inline void wire_add(struct ck_buf *to, const struct ck_wire_head *head,
			    const struct ck_buf *body, const void *payload)
{
	uint8_t bytes[CK_WIRE_HEAD];

	ck_wire_head_put(head, bytes);
	ck_buf_add(to, bytes, sizeof(bytes));
	ck_buf_add(to, body->data, body->len);
	ck_buf_add(to, payload, (size_t)head->payload);
}

static inline void wire_add_ask(struct ck_buf *to, const struct ck_query *a)
{
	wire_add(to, &a->head, &a->body, NULL);
}

static inline void wire_add_answer(struct ck_buf *to, const struct ck_answer *a)
{
	wire_add(to, &a->head, &a->body, a->payload);
}

/* Splits bytes into the parts of a message. If the number of bytes differs from the head,
 * so does the length of the last part. Returns -EPROTO without a complete head. */
static inline int wire_split(const void *bytes, size_t len,
			     struct ck_message *m)
{
	struct ck_cur c = ck_cur_make(bytes, len);
	struct ck_str head;

	if (!ck_cur_bytes(&c, CK_WIRE_HEAD, &head) ||
	    ck_wire_head_get((const uint8_t *)head.p, &m->head))
		return -EPROTO;
	if (!ck_cur_bytes(&c, m->head.payload ? m->head.body : ck_cur_left(&c),
			  &m->body) ||
	    !ck_cur_bytes(&c, ck_cur_left(&c), &m->payload))
		return -EPROTO;
	return 0;
}

/* All runs of a nest, in its order: calls each() with where they are. */
static inline void each_run(const struct ck_copy_desc *m,
			    void (*each)(void *arg, uint64_t fpos,
					 uint64_t dst),
			    void *arg)
{
	uint64_t index[CK_MAX_DIMS] = { 0 }, fpos = m->fpos, dst = 0;
	uint32_t k;

	do {
		each(arg, fpos, dst);
		for (k = m->nloops; k > 0; k--) {
			const struct ck_loop *l = &m->loops[k - 1];

			if (++index[k - 1] < l->count) {
				fpos += l->src;
				dst += l->dst;
				break;
			}
			/* Back to its beginning. */
			index[k - 1] = 0;
			fpos -= (l->count - 1) * l->src;
			dst -= (l->count - 1) * l->dst;
		}
	} while (k > 0);
}

/* A request, answered by an owner: -EPROTO, or a whole answer, the caller's. */
static inline int wire_serve(struct ck_file_server *o, const struct ck_query *a,
			     struct ck_buf *answer)
{
	struct ck_buf request = { 0 };
	struct ck_answer out;
	struct ck_message m;
	int rc;

	*answer = (struct ck_buf){ 0 };
	wire_add_ask(&request, a);
	rc = wire_split(request.data, request.len, &m);
	if (!rc)
		rc = ck_file_server_answer(o, &m, &out);
	if (!rc) {
		wire_add_answer(answer, &out);
		ck_answer_fini(&out);
	}
	ck_buf_fini(&request);
	return rc;
}

/* A check of the answer to a PING, which has only a head. Returns 0, the negative errno in
 * it, or -EPROTO. */
static inline int take_ping(const struct ck_query *a,
			    const struct ck_message *m)
{
	if (a->head.type != CK_WIRE_PING || ck_query_check(a, &m->head) ||
	    m->body.len || m->payload.len)
		return -EPROTO;
	return -(int)m->head.err;
}

#endif
