/* SPDX-License-Identifier: MIT */
/*
 * pickler_json: writes pickles of protocol 2 of JSON texts and of bytes. A number without
 * fraction and exponent is an int, as in Python. The state lives for one call.
 */
#include "pickler_json.h"
#include "pickle_internal.h"
#include "pickler.h"
#include "syntax/json_reader.h"

#include <errno.h>
#include <stdlib.h>

/* A pickle of a JSON text while it is written. */
struct writing {
	struct ck_pickler p;
	struct ck_json_reader json;
	bool is_object[CK_JSON_READER_LEVELS];
	uint32_t nlevels;
};

static void put(struct writing *w, uint64_t value, unsigned bytes)
{
	ck_buf_add(w->p.out, &value, bytes);
}

static void put_op(struct writing *w, enum ck_op op)
{
	put(w, op, 1);
}

static void float_put(struct writing *w, double f)
{
	uint64_t bits;

	memcpy(&bits, &f, sizeof(bits));
	put_op(w, OP_BINFLOAT);
	put(w, __builtin_bswap64(bits), 8);
}

/* Writes an int of any length as text, with the opcode of protocol 0. */
static void long_put(struct writing *w, struct ck_str text)
{
	put_op(w, OP_LONG);
	ck_buf_str(w->p.out, text);
	ck_buf_text(w->p.out, "L\n");
}

static bool is_int(struct ck_str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.p[i] != '-' && (text.p[i] < '0' || text.p[i] > '9'))
			return false;
	return true;
}

static int number_put(struct writing *w, struct ck_str text)
{
	ck_auto_free char *own = strndup(text.p, text.len);
	long long i;

	if (!own)
		return -ENOMEM;
	if (!is_int(text)) {
		float_put(w, strtod(own, NULL));
		return 0;
	}
	errno = 0;
	i = strtoll(own, NULL, 10);
	if (errno || i < INT32_MIN) {
		long_put(w, text);
	} else if (i < 0) {
		put_op(w, OP_BININT);
		put(w, (uint32_t)i, 4);
	} else {
		ck_pickler_int(&w->p, (uint64_t)i);
	}
	return 0;
}

static void level_open(struct writing *w, bool is_object)
{
	put_op(w, is_object ? OP_EMPTY_DICT : OP_EMPTY_LIST);
	put_op(w, OP_MARK);
	w->is_object[w->nlevels++] = is_object;
}

static int value_put(struct writing *w, const struct ck_json_value *v)
{
	switch (v->type) {
	case CK_JSON_NULL: ck_pickler_none(&w->p); break;
	case CK_JSON_TRUE: ck_pickler_bool(&w->p, true); break;
	case CK_JSON_FALSE: ck_pickler_bool(&w->p, false); break;
	case CK_JSON_NUMBER: return number_put(w, v->text);
	case CK_JSON_STRING: ck_pickler_text(&w->p, v->text); break;
	case CK_JSON_OBJECT:
	case CK_JSON_ARRAY: level_open(w, v->type == CK_JSON_OBJECT); break;
	case CK_JSON_END:
		put_op(w,
		       w->is_object[--w->nlevels] ? OP_SETITEMS : OP_APPENDS);
		break;
	case CK_JSON_DONE: break;
	}
	return 0;
}

static int all_put(struct writing *w)
{
	struct ck_json_value v;
	int rc;

	do {
		rc = ck_json_next(&w->json, &v);
		if (rc == 0 && v.key.p && v.type != CK_JSON_END)
			ck_pickler_text(&w->p, v.key);
		if (rc == 0)
			rc = value_put(w, &v);
	} while (rc == 0 && v.type != CK_JSON_DONE);
	return rc;
}

int ck_pickle_of_json(struct ck_str text, struct ck_buf *out, struct ck_diag *d)
{
	struct writing *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return ck_fail(d, ENOMEM, "out of memory");
	w->p.out = out;
	ck_json_reader_init(&w->json, text, d);
	w->json.is_python = true;
	ck_pickler_begin(&w->p);
	rc = all_put(w);
	ck_pickler_end(&w->p);
	ck_json_reader_fini(&w->json);
	free(w);
	return rc == -ENOMEM || (rc == 0 && out->err)
		       ? ck_fail(d, ENOMEM, "out of memory")
		       : rc;
}

int ck_pickle_of_bytes(struct ck_str bytes, struct ck_buf *out,
		       struct ck_diag *d)
{
	const struct ck_pickle of = { .root = { .tag = CK_PV_BYTES,
						.len = (uint32_t)bytes.len,
						.bytes = bytes.p } };
	struct ck_pickler p = { .out = out };
	int rc;

	if (bytes.len > UINT32_MAX)
		return ck_fail(d, EBADMSG, "bytes of more than 4 GiB");
	ck_pickler_begin(&p);
	rc = ck_pickler_value(&p, &of, &of.root, NULL, SIZE_MAX, d);
	ck_pickler_end(&p);
	return rc == 0 && out->err ? ck_fail(d, ENOMEM, "out of memory") : rc;
}
