/* SPDX-License-Identifier: MIT */
/*
 * value_leaf: prints values without nested values: scalars, strings, bytes,
 * tuples of ints, names. The state is that of the printer. Protocol 2 spells some
 * of these values, which have opcodes in later protocols, as calls:
 *
 *   _codecs.encode('text', 'latin1')     bytes
 *   builtins.bytearray(bytes)            bytearray
 *   builtins.complex(re, im)             complex
 */
#include "ckptfs/json.h"
#include "value_internal.h"

#include <errno.h>
#include <math.h>

static void base64_print(struct ck_json *j, const char *before, struct ck_str s)
{
	ck_buf_text(j->out, before);
	ck_buf_base64(j->out, s);
	ck_buf_text(j->out, "\"}");
}

void ck_json_ints(struct ck_json *j, const struct ck_pv *v)
{
	for (uint32_t i = 0; i < v->len; i++) {
		if (i)
			ck_buf_text(j->out, ",");
		ck_buf_i64(j->out, v->ints[i]);
	}
}

/* A tuple of ints, or the torch.Size made of it. */
static int ints_leaf(struct ck_json *j, const struct ck_pv *v)
{
	int rc = ck_json_levels(j, v->aux ? 4 : 2);

	if (rc)
		return rc;
	ck_buf_text(
		j->out,
		v->aux ? "{\"$class\":\"torch.Size\",\"args\":[{\"$tuple\":["
		       : "{\"$tuple\":[");
	ck_json_ints(j, v);
	ck_buf_text(j->out, v->aux ? "]}]}" : "]}");
	return 0;
}

static int float_leaf(struct ck_json *j, double f)
{
	size_t begin = j->out->len;

	ck_buf_json_float(j->out, f);
	if (j->out->err || j->out->data[begin] != '{')
		return 0;
	return ck_json_levels(j, 1);
}

int ck_json_str(struct ck_json *j, struct ck_str s, uint32_t levels)
{
	size_t begin = j->out->len;

	ck_buf_json_str(j->out, s);
	if (j->out->err || j->out->data[begin] != '{')
		return 0;
	return ck_json_levels(j, levels + 1);
}

static int bigint_leaf(struct ck_json *j, const struct ck_pv *v)
{
	struct ck_str le = { v->bytes, v->len };

	if (ck_buf_json_int(j->out, le, &j->steps))
		return 0;
	return ck_json_bad(j, "integers of more digits than its size allows");
}

static int bytes_leaf(struct ck_json *j, bool array, struct ck_str s)
{
	int rc = ck_json_levels(j, 1);

	if (rc == 0)
		base64_print(j, array ? "{\"$bytearray\":\"" : "{\"$bytes\":\"",
			     s);
	return rc;
}

static int global_leaf(struct ck_json *j, const struct ck_pv *v)
{
	int rc = ck_json_levels(j, 1);

	if (rc)
		return rc;
	ck_buf_text(j->out, "{\"$global\":");
	rc = ck_json_str(j, ck_pickle_global(j->p, v), 1);
	ck_buf_text(j->out, "}");
	return rc;
}

int ck_json_leaf(struct ck_json *j, const struct ck_pv *v)
{
	struct ck_str s = { v->bytes, v->len };

	switch (v->tag) {
	case CK_PV_NONE: ck_buf_text(j->out, "null"); return 0;
	case CK_PV_BOOL: ck_buf_text(j->out, v->i ? "true" : "false"); return 0;
	case CK_PV_INT: ck_buf_i64(j->out, v->i); return 0;
	case CK_PV_BIGINT: return bigint_leaf(j, v);
	case CK_PV_FLOAT: return float_leaf(j, v->f);
	case CK_PV_STR: return ck_json_str(j, s, 0);
	case CK_PV_BYTES: return bytes_leaf(j, false, s);
	case CK_PV_BYTEARRAY: return bytes_leaf(j, true, s);
	case CK_PV_INTS: return ints_leaf(j, v);
	case CK_PV_GLOBAL: return global_leaf(j, v);
	default: return ck_json_bad(j, "a value of no kind");
	}
}

/* --- calls that stand for a value ------------------------------------------- */

/* Code points below 256 of a text, as bytes in scratch. */
static bool latin1_take(struct ck_json *j, const struct ck_pv *v,
			struct ck_str *out)
{
	struct ck_buf *b = &j->scratch;

	if (v->tag != CK_PV_STR)
		return false;
	b->len = 0;
	for (uint32_t i = 0; i < v->len; i++) {
		uint8_t c = (uint8_t)v->bytes[i];
		uint8_t next = i + 1 < v->len ? (uint8_t)v->bytes[i + 1] : 0;

		if (c >= 0x80) {
			if ((c != 0xc2 && c != 0xc3) || (next & 0xc0) != 0x80)
				return false;
			c = (uint8_t)(c << 6 | (next & 0x3f));
			i++;
		}
		ck_buf_add(b, &c, 1);
	}
	*out = (struct ck_str){ b->data, b->len };
	return true;
}

static bool is_latin1(const struct ck_pv *v)
{
	struct ck_str s;

	return ck_pv_str(v, &s) &&
	       (ck_str_is(s, "latin1") || ck_str_is(s, "latin-1"));
}

/* bytes, or the call that protocol 2 makes them by. */
static bool bytes_take(struct ck_json *j, const struct ck_pv *v,
		       struct ck_str *out)
{
	struct ck_pv text, how;
	uint32_t n;

	if (v->tag == CK_PV_BYTES) {
		*out = (struct ck_str){ v->bytes, v->len };
		return true;
	}
	if (v->tag != CK_PV_CALL || !ck_json_is_bare(v->call))
		return false;
	n = ck_pv_count(&v->call->args);
	*out = CK_STR("");
	if (ck_json_form(j, &v->call->callable) == CK_FORM_BYTES)
		return n == 0;
	if (ck_json_form(j, &v->call->callable) != CK_FORM_ENCODE || n != 2)
		return false;
	text = ck_pv_at(&v->call->args, 0);
	how = ck_pv_at(&v->call->args, 1);
	return is_latin1(&how) && latin1_take(j, &text, out);
}

/* bytearray(), bytearray(bytes), bytearray('text', 'latin-1'). */
static bool bytearray_take(struct ck_json *j, const struct ck_pv *args,
			   struct ck_str *out)
{
	struct ck_pv first, how;
	uint32_t n = ck_pv_count(args);

	*out = CK_STR("");
	if (n == 0)
		return true;
	first = ck_pv_at(args, 0);
	if (n == 1)
		return bytes_take(j, &first, out);
	how = ck_pv_at(args, 1);
	return n == 2 && is_latin1(&how) && latin1_take(j, &first, out);
}

static int complex_leaf(struct ck_json *j, const struct ck_pv *args)
{
	struct ck_pv re, im;
	int rc;

	if (ck_pv_count(args) != 2)
		return 0;
	re = ck_pv_at(args, 0);
	im = ck_pv_at(args, 1);
	if (re.tag != CK_PV_FLOAT || im.tag != CK_PV_FLOAT)
		return 0;
	rc = ck_json_levels(j, isfinite(re.f) && isfinite(im.f) ? 2 : 3);
	ck_buf_text(j->out, "{\"$complex\":[");
	ck_buf_json_float(j->out, re.f);
	ck_buf_text(j->out, ",");
	ck_buf_json_float(j->out, im.f);
	ck_buf_text(j->out, "]}");
	return rc ? rc : 1;
}

int ck_json_call_leaf(struct ck_json *j, const struct ck_pv *v)
{
	const struct ck_pcall *call = v->call;
	struct ck_str s;
	int rc;

	if (v->tag != CK_PV_CALL || !ck_json_is_bare(call))
		return 0;
	switch ((int)ck_json_form(j, &call->callable)) {
	case CK_FORM_ENCODE:
	case CK_FORM_BYTES:
		if (!bytes_take(j, v, &s))
			return 0;
		rc = bytes_leaf(j, false, s);
		break;
	case CK_FORM_BYTEARRAY:
		if (!bytearray_take(j, &call->args, &s))
			return 0;
		rc = bytes_leaf(j, true, s);
		break;
	case CK_FORM_COMPLEX: return complex_leaf(j, &call->args);
	default: return 0;
	}
	if (j->scratch.err)
		return j->scratch.err;
	return rc ? rc : 1;
}
