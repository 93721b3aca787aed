/* SPDX-License-Identifier: MIT */
/*
 * pickler_leaf: writes values without nested values in protocol 2. Bytes are
 * written as _codecs.encode(text, "latin1"), as CPython does. The state is that
 * of the writer.
 */
#include "pickler_internal.h"

static void bigint_write(struct ck_written *w, const struct ck_pv *v)
{
	bool is_short = v->len <= UINT8_MAX;

	ck_put_op(w, is_short ? OP_LONG1 : OP_LONG4);
	ck_put(w, v->len, is_short ? 1 : 4);
	ck_buf_add(w->p->out, v->bytes, v->len);
}

void ck_text_write(struct ck_written *w, const struct ck_pv *v)
{
	ck_put_op(w, OP_BINUNICODE);
	ck_put(w, v->len, 4);
	ck_buf_add(w->p->out, v->bytes, v->len);
}

/* Writes each byte as the character with that code point. */
static int latin1_write(struct ck_written *w, const struct ck_pv *v)
{
	uint64_t len = v->len;

	for (uint32_t i = 0; i < v->len; i++)
		len += (uint8_t)v->bytes[i] >> 7;
	if (len > UINT32_MAX)
		return ck_written_bad(w, "bytes of more than 4 GiB as text");
	ck_put_op(w, OP_BINUNICODE);
	ck_put(w, len, 4);
	for (uint32_t i = 0; i < v->len; i++) {
		uint8_t c = (uint8_t)v->bytes[i];

		if (c >= 0x80)
			ck_put(w, 0xc0U | c >> 6, 1);
		ck_put(w, c >= 0x80 ? 0x80U | (c & 0x3fU) : c, 1);
	}
	return 0;
}

static void latin1_name(struct ck_written *w)
{
	if (w->latin1) {
		ck_number_get(w, w->latin1 - 1);
		return;
	}
	ck_pickler_text(w->p, CK_STR("latin1"));
	w->latin1 = ck_number_next(w) + 1;
}

/* Writes _codecs.encode(text, "latin1"), or bytes() for an empty value. */
static int bytes_write(struct ck_written *w, const struct ck_pv *v)
{
	int rc = 0;

	ck_known_write(w, v->len ? CK_KNOWN_ENCODE : CK_KNOWN_BYTES);
	if (v->len) {
		rc = latin1_write(w, v);
		latin1_name(w);
	}
	ck_put_op(w, v->len ? OP_TUPLE2 : OP_EMPTY_TUPLE);
	ck_put_op(w, OP_REDUCE);
	return rc;
}

static int bytearray_write(struct ck_written *w, const struct ck_pv *v)
{
	int rc = 0;

	ck_known_write(w, CK_KNOWN_BYTEARRAY);
	if (v->len)
		rc = bytes_write(w, v);
	ck_put_op(w, v->len ? OP_TUPLE1 : OP_EMPTY_TUPLE);
	ck_put_op(w, OP_REDUCE);
	return rc;
}

/* A tuple of ints, or torch.Size of it. */
static void ints_write(struct ck_written *w, const struct ck_pv *v)
{
	static const enum ck_op made[] = { OP_EMPTY_TUPLE, OP_TUPLE1, OP_TUPLE2,
					   OP_TUPLE3 };

	bool is_short = v->len < CK_ARRAY_SIZE(made);

	if (v->aux)
		ck_known_write(w, CK_KNOWN_SIZE);
	if (!is_short)
		ck_put_op(w, OP_MARK);
	for (uint32_t i = 0; i < v->len; i++)
		ck_pickler_signed(w->p, v->ints[i]);
	ck_put_op(w, is_short ? made[v->len] : OP_TUPLE);
	if (v->aux) {
		ck_put_op(w, OP_TUPLE1);
		ck_put_op(w, OP_REDUCE);
	}
}

int ck_leaf_write(struct ck_written *w, const struct ck_pv *v)
{
	int rc = 0;

	switch (v->tag) {
	case CK_PV_NONE: ck_put_op(w, OP_NONE); return 0;
	case CK_PV_BOOL:
		ck_put_op(w, v->i ? OP_NEWTRUE : OP_NEWFALSE);
		return 0;
	case CK_PV_INT: ck_pickler_signed(w->p, v->i); return 0;
	case CK_PV_FLOAT: ck_pickler_float(w->p, v->f); return 0;
	case CK_PV_GLOBAL: return ck_global_write(w, v);
	case CK_PV_BIGINT: bigint_write(w, v); break;
	case CK_PV_STR: ck_text_write(w, v); break;
	case CK_PV_INTS: ints_write(w, v); break;
	case CK_PV_BYTES: rc = bytes_write(w, v); break;
	case CK_PV_BYTEARRAY: rc = bytearray_write(w, v); break;
	default: return ck_written_bad(w, "a value of no kind");
	}
	return rc ? rc : ck_name_it(w, v);
}
