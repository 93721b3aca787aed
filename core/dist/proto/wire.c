/* SPDX-License-Identifier: MIT */
/*
 * wire: encoding and checking of message heads, and the elements of bodies. A
 * head that passes the check has a known type, and sizes within the limits. No
 * state, any thread.
 */
#include "dist/dist_internal.h"

#include <errno.h>

enum {
	MAGIC = 0x77706b63, /* "ckpw" */
	ANSWER = 1,
	ZEROS = 24, /* bytes at the end */
};

/* Writes `len` bytes of value, little-endian. Returns the position behind
 * them. */
static uint8_t *put(uint8_t *p, uint64_t value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		*p++ = (uint8_t)(value >> 8 * i & 0xff);
	return p;
}

void ck_wire_head_put(const struct ck_wire_head *head,
		      uint8_t out[static CK_WIRE_HEAD])
{
	uint8_t *p = put(out, MAGIC, 4);

	p = put(p, CK_WIRE_VERSION, 2);
	p = put(p, head->type, 2);
	p = put(p, head->answer ? ANSWER : 0, 4);
	p = put(p, head->err, 4);
	p = put(p, head->id, 8);
	p = put(p, head->payload, 8);
	p = put(p, head->body, 4);
	p = put(p, head->epoch, 4);
	memset(p, 0, ZEROS);
}

static bool is_ours(struct ck_cur *c)
{
	uint32_t magic;
	uint16_t version;

	return ck_cur_u32(c, &magic) && magic == MAGIC &&
	       ck_cur_u16(c, &version) && version == CK_WIRE_VERSION;
}

/* Rules that every message of a type follows. */
static bool is_sound(const struct ck_wire_head *h, uint32_t flags)
{
	if (h->type < CK_WIRE_LIST || h->type >= CK_WIRE_TYPES ||
	    flags > ANSWER)
		return false;
	if (h->body > CK_WIRE_BODY_MAX || h->payload > CK_WIRE_READ_MAX)
		return false;
	if (h->payload && (!h->answer || h->type != CK_WIRE_READ))
		return false;
	if (h->type >= CK_WIRE_REQUESTS && h->answer)
		return false;
	if (h->type >= CK_WIRE_REQUESTS && h->type != CK_WIRE_ROUND && h->body)
		return false;
	if (h->err == 0)
		return true;
	return h->answer && h->err <= CK_WIRE_ERR_MAX && !h->body &&
	       !h->payload;
}

int ck_wire_head_get(const uint8_t bytes[static CK_WIRE_HEAD],
		     struct ck_wire_head *out)
{
	struct ck_cur c = ck_cur_make(bytes, CK_WIRE_HEAD);
	struct ck_wire_head h = { 0 };
	uint32_t flags;

	if (!is_ours(&c) || !ck_cur_u16(&c, &h.type) ||
	    !ck_cur_u32(&c, &flags) || !ck_cur_u32(&c, &h.err) ||
	    !ck_cur_u64(&c, &h.id) || !ck_cur_u64(&c, &h.payload) ||
	    !ck_cur_u32(&c, &h.body) || !ck_cur_u32(&c, &h.epoch))
		return -EPROTO;
	while (ck_cur_left(&c))
		if (!ck_wire_zero(&c))
			return -EPROTO;
	h.answer = flags & ANSWER;
	if (!is_sound(&h, flags))
		return -EPROTO;
	*out = h;
	return 0;
}

/* --- bodies ------------------------------------------------------------------ */

void ck_wire_text_put(struct ck_buf *b, struct ck_str text)
{
	ck_buf_u16(b, (uint16_t)text.len);
	ck_buf_str(b, text);
}

bool ck_wire_text_get(struct ck_cur *c, struct ck_str *out)
{
	uint16_t len;

	return ck_cur_u16(c, &len) && len <= CK_WIRE_NAME_MAX &&
	       ck_cur_bytes(c, len, out);
}

bool ck_wire_zero(struct ck_cur *c)
{
	uint32_t zero;

	return ck_cur_u32(c, &zero) && zero == 0;
}

bool ck_wire_count(struct ck_cur *c, uint32_t *n)
{
	return ck_cur_u32(c, n) && *n > 0 && ck_wire_zero(c);
}

struct ck_cur ck_wire_body(const struct ck_message *m)
{
	return ck_cur_make(m->body.p, m->body.len);
}
