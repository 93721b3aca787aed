/* SPDX-License-Identifier: MIT */
/*
 * Values in a `.metadata` that Python takes for a string, an int or a dict, though they
 * are objects of another class: subclasses of str, pathlib paths, NumPy integers,
 * OrderedDict and defaultdict. They are read by their content; no class is called.
 *
 * Facts: str subclasses are pickled by object.__reduce_ex__() (copyreg.__newobj__(class,
 * text); protocols 0 and 1: copyreg._reconstructor(class, str, text)); paths by
 * PurePath.__reduce__() in pathlib.py (class(*parts)); NumPy scalars by
 * numpy._core.multiarray.scalar(dtype, bytes), dtypes by numpy.dtype(code, False, True)
 * with a state (3, byte order, ...).
 */
#include "dcp_internal.h"

#include <errno.h>

/* --- strings --------------------------------------------------------------------- */

static bool is_path_class(const struct ck_pickle *p, const struct ck_pv *class)
{
	static const char *const paths[] = {
		"pathlib.Path",
		"pathlib.PosixPath",
		"pathlib.PurePosixPath",
		"pathlib._local.Path",
		"pathlib._local.PosixPath",
		"pathlib._local.PurePosixPath",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(paths); i++)
		if (ck_pv_is_global(p, class, paths[i]))
			return true;
	return false;
}

/* The parts of a path, joined by slashes. */
static bool path_str(struct ck_dcp_reader *r, const struct ck_pv *parts,
		     struct ck_str *out)
{
	struct ck_buf path = { 0 };
	struct ck_str part;
	bool good = true;

	for (uint32_t i = 0; good && i < ck_pv_count(parts); i++) {
		struct ck_pv v = ck_pv_at(parts, i);

		good = ck_pv_str(&v, &part);
		if (good && path.len && path.data[path.len - 1] != '/')
			ck_buf_text(&path, "/");
		if (good)
			ck_buf_str(&path, part);
	}
	part = (struct ck_str){ path.data, path.len };
	if (path.err || (good && (ck_dcp_spend(r, part.len) ||
				  ck_catalog_text_add(r->c, part, out)))) {
		good = false;
		r->err = r->err ? r->err : -ENOMEM;
	}
	ck_buf_fini(&path);
	return good;
}

bool ck_dcp_object_str(struct ck_dcp_reader *r, const struct ck_pv *v,
		       struct ck_str *out)
{
	const struct ck_pcall *call = ck_pv_any_call(v);
	struct ck_pv text;
	uint32_t n;

	if (!call)
		return false;
	n = ck_pv_count(&call->args);
	if (is_path_class(r->p, &call->callable))
		return path_str(r, &call->args, out);
	if (v->tag == CK_PV_NEW && n == 1) {
		text = ck_pv_at(&call->args, 0);
		return ck_pv_str(&text, out);
	}
	if (n != 3 ||
	    !ck_pv_is_global(r->p, &call->callable, "copyreg._reconstructor"))
		return false;
	text = ck_pv_at(&call->args, 1);
	if (!ck_pv_is_global(r->p, &text, "builtins.str"))
		return false;
	text = ck_pv_at(&call->args, 2);
	return ck_pv_str(&text, out);
}

/* --- ints ------------------------------------------------------------------------- */

/* i1 to i8 and u1 to u8; *big: the byte order. */
static bool numpy_dtype(const struct ck_pickle *p, const struct ck_pv *v,
			struct ck_str *code, bool *big)
{
	const struct ck_pcall *call = ck_pv_call(p, v, "numpy.dtype");
	struct ck_pv arg;
	struct ck_str order = CK_STR("|");

	if (!call || ck_pv_count(&call->args) < 1)
		return false;
	arg = ck_pv_at(&call->args, 0);
	if (!ck_pv_str(&arg, code) || code->len != 2 ||
	    (code->p[0] != 'i' && code->p[0] != 'u') ||
	    !memchr("1248", code->p[1], 4))
		return false;
	if (call->has_state && ck_pv_count(&call->state) >= 2) {
		arg = ck_pv_at(&call->state, 1);
		(void)ck_pv_str(&arg, &order);
	}
	*big = ck_str_is(order, ">");
	return true;
}

/* bytes; protocols 0 to 2 have them as _codecs.encode(text, "latin1"). */
static uint32_t scalar_bytes(const struct ck_pickle *p, const struct ck_pv *v,
			     unsigned char out[static 8])
{
	const struct ck_pcall *call = ck_pv_call(p, v, "_codecs.encode");
	struct ck_pv text = *v;
	uint32_t n = 0;

	if (call && ck_pv_count(&call->args) >= 1)
		text = ck_pv_at(&call->args, 0);
	if (text.tag == CK_PV_BYTES && !call && text.len <= 8) {
		memcpy(out, text.bytes, text.len);
		return text.len;
	}
	if (text.tag != CK_PV_STR || !call)
		return 0;
	for (uint32_t i = 0; i < text.len && n < 8; n++) {
		unsigned char c = (unsigned char)text.bytes[i++];

		/* Latin-1 in UTF-8: 0xc2 and 0xc3 stand before the upper half. */
		if (c >= 0x80 && i < text.len)
			c = (unsigned char)((c & 3) << 6 |
					    (text.bytes[i++] & 0x3f));
		out[n] = c;
	}
	return n;
}

static bool numpy_int(const struct ck_dcp_reader *r,
		      const struct ck_pcall *call, int64_t *out)
{
	struct ck_pv dtype = ck_pv_at(&call->args, 0);
	struct ck_pv data = ck_pv_at(&call->args, 1);
	unsigned char bytes[8] = { 0 };
	uint64_t number = 0;
	struct ck_str code;
	uint32_t n, bits;
	bool big;

	if (!numpy_dtype(r->p, &dtype, &code, &big))
		return false;
	n = (uint32_t)(code.p[1] - '0');
	if (scalar_bytes(r->p, &data, bytes) != n)
		return false;
	for (uint32_t i = 0; i < n; i++)
		number = number << 8 | bytes[big ? i : n - 1 - i];
	bits = 64 - 8 * n;
	if (code.p[0] == 'i')
		*out = (int64_t)(number << bits) >> bits;
	else
		*out = (int64_t)number;
	return code.p[0] == 'i' || number <= INT64_MAX;
}

bool ck_dcp_object_int(const struct ck_dcp_reader *r, const struct ck_pv *v,
		       int64_t *out)
{
	const struct ck_pcall *call;

	call = ck_pv_call(r->p, v, "numpy._core.multiarray.scalar");
	if (!call)
		call = ck_pv_call(r->p, v, "numpy.core.multiarray.scalar");
	return call && ck_pv_count(&call->args) == 2 && numpy_int(r, call, out);
}

/* --- dicts ------------------------------------------------------------------------ */

bool ck_dcp_dict(const struct ck_dcp_reader *r, const struct ck_pv *v,
		 struct ck_pv *out)
{
	struct ck_pcall *call = ck_pv_any_call(v);

	*out = *v;
	if (v->tag == CK_PV_DICT)
		return true;
	if (!call || (!ck_pv_is_global(r->p, &call->callable,
				       "collections.OrderedDict") &&
		      !ck_pv_is_global(r->p, &call->callable,
				       "collections.defaultdict")))
		return false;
	*out = (struct ck_pv){ .tag = CK_PV_DICT, .list = &call->items };
	return true;
}

struct ck_pv ck_dcp_fields(const struct ck_pv *state)
{
	struct ck_pv first, second;

	if (state->tag != CK_PV_TUPLE || ck_pv_count(state) != 2)
		return *state;
	first = ck_pv_at(state, 0);
	second = ck_pv_at(state, 1);
	return first.tag == CK_PV_NONE && second.tag == CK_PV_DICT ? second
								   : *state;
}

const char *ck_dcp_type(const struct ck_dcp_reader *r, const struct ck_pv *v)
{
	static const char *const names[] = {
		[CK_PV_NONE] = "None",
		[CK_PV_BOOL] = "bool",
		[CK_PV_INT] = "int",
		[CK_PV_BIGINT] = "int",
		[CK_PV_FLOAT] = "float",
		[CK_PV_STR] = "str",
		[CK_PV_BYTES] = "bytes",
		[CK_PV_BYTEARRAY] = "bytearray",
		[CK_PV_INTS] = "tuple",
		[CK_PV_TUPLE] = "tuple",
		[CK_PV_LIST] = "list",
		[CK_PV_SET] = "set",
		[CK_PV_FROZENSET] = "frozenset",
		[CK_PV_DICT] = "dict",
		[CK_PV_GLOBAL] = "class",
	};
	const struct ck_pcall *call = ck_pv_any_call(v);

	if (call && call->callable.tag == CK_PV_GLOBAL)
		return ck_show(ck_pickle_global(r->p, &call->callable));
	if (v->tag < CK_ARRAY_SIZE(names) && names[v->tag])
		return names[v->tag];
	return "object";
}
