/* SPDX-License-Identifier: MIT */
/*
 * Values in a `.metadata` that Python treats as a string, an int or a dict, though they
 * are objects of another class: subclasses of str, pathlib paths, NumPy strings and
 * integers, OrderedDict and defaultdict. They are read by their content; no class is
 * called.
 *
 * Facts: str subclasses are pickled by object.__reduce_ex__()
 * (copyreg.__newobj__(class, text); protocols 0 and 1: copyreg._reconstructor(class,
 * str, text)); paths by PurePath.__reduce__() in pathlib.py (class(*parts)); NumPy
 * scalars by numpy._core.multiarray.scalar(dtype, bytes), dtypes by numpy.dtype(code,
 * False, True) with a state (3, byte order, ...). The dtype of numpy.str_ is
 * U<characters>, its bytes are UTF-32.
 */
#include "dcp_internal.h"

#include <errno.h>

/* --- NumPy scalars ---------------------------------------------------------------- */

/* scalar(dtype, data) of NumPy. */
struct scalar {
	struct ck_str code; /* of the dtype, such as i8 or U3 */
	bool big;	    /* big-endian */
	/* protocols 0 to 2: data is _codecs.encode(data, "latin1") */
	bool latin1;
	struct ck_str data;
};

static bool scalar_dtype(const struct ck_pickle *p, const struct ck_pv *v,
			 struct scalar *out)
{
	const struct ck_pcall *call = ck_pv_call(p, v, "numpy.dtype");
	struct ck_str order = CK_STR("|");
	struct ck_pv arg;

	if (!call || ck_pv_count(&call->args) < 1)
		return false;
	arg = ck_pv_at(&call->args, 0);
	if (!ck_pv_str(&arg, &out->code) || out->code.len < 2)
		return false;
	if (call->has_state && ck_pv_count(&call->state) >= 2) {
		arg = ck_pv_at(&call->state, 1);
		(void)ck_pv_str(&arg, &order);
	}
	out->big = ck_str_is(order, ">");
	return true;
}

static bool scalar_data(const struct ck_pickle *p, const struct ck_pv *v,
			struct scalar *out)
{
	const struct ck_pcall *call = ck_pv_call(p, v, "_codecs.encode");
	struct ck_str encoding;
	struct ck_pv arg;

	out->latin1 = v->tag != CK_PV_BYTES;
	if (!out->latin1) {
		out->data = (struct ck_str){ v->bytes, v->len };
		return true;
	}
	if (!call || ck_pv_count(&call->args) != 2)
		return false;
	arg = ck_pv_at(&call->args, 1);
	if (!ck_pv_str(&arg, &encoding) || !ck_str_is(encoding, "latin1"))
		return false;
	arg = ck_pv_at(&call->args, 0);
	return ck_pv_str(&arg, &out->data);
}

static bool scalar_of(const struct ck_pickle *p, const struct ck_pv *v,
		      struct scalar *out)
{
	const struct ck_pcall *call;
	struct ck_pv dtype, data;

	call = ck_pv_call(p, v, "numpy._core.multiarray.scalar");
	if (!call)
		call = ck_pv_call(p, v, "numpy.core.multiarray.scalar");
	if (!call || ck_pv_count(&call->args) != 2)
		return false;
	dtype = ck_pv_at(&call->args, 0);
	data = ck_pv_at(&call->args, 1);
	return scalar_dtype(p, &dtype, out) && scalar_data(p, &data, out);
}

/* Decodes UTF-8 of Latin-1 characters, in which 0xc2 and 0xc3 precede the upper half.
 * Returns the number of bytes; 0 if there are more than `most`, or other characters. */
static uint32_t latin1_bytes(struct ck_str text, unsigned char *out,
			     uint64_t most)
{
	uint32_t n = 0;

	for (size_t i = 0; i < text.len; n++) {
		unsigned char c = (unsigned char)text.p[i++];

		if (n == most ||
		    (c >= 0x80 && ((c & 0xfe) != 0xc2 || i == text.len)))
			return 0;
		if (c >= 0x80)
			c = (unsigned char)((c & 3) << 6 |
					    (text.p[i++] & 0x3f));
		out[n] = c;
	}
	return n;
}

/* Returns the number of bytes; 0 if there are more than `most`, or they are
 * malformed. */
static uint32_t scalar_bytes(const struct scalar *s, unsigned char *out,
			     uint64_t most)
{
	if (s->latin1)
		return latin1_bytes(s->data, out, most);
	if (s->data.len > most)
		return 0;
	memcpy(out, s->data.p, s->data.len);
	return (uint32_t)s->data.len;
}

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

/* Sets *len to an upper limit of the length of the joined parts. False if a part is not
 * a string, or is an absolute path behind the first part. */
static bool parts_measure(struct ck_dcp_reader *r, const struct ck_pv *parts,
			  uint64_t *len)
{
	uint32_t n = ck_pv_count(parts);

	*len = 0;
	if (ck_dcp_spend(r, (uint64_t)n * CK_DCP_STEP))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct ck_pv v = ck_pv_at(parts, i);
		struct ck_str part;

		if (!ck_pv_str(&v, &part) ||
		    (i && part.len && part.p[0] == '/'))
			return false;
		*len += part.len + 1; /* of 32 bits each: no overflow */
	}
	return true;
}

/* Joins the parts of a path by slashes; "" and "." are skipped. */
static bool path_str(struct ck_dcp_reader *r, const struct ck_pv *parts,
		     struct ck_str *out)
{
	struct ck_buf path = { 0 };
	uint64_t len;
	int rc;

	if (!parts_measure(r, parts, &len) || ck_dcp_spend(r, 2 * len))
		return false;
	for (uint32_t i = 0; i < ck_pv_count(parts); i++) {
		struct ck_pv v = ck_pv_at(parts, i);
		struct ck_str part;

		(void)ck_pv_str(&v, &part);
		if (part.len == 0 || ck_str_is(part, "."))
			continue;
		if (path.len && path.data[path.len - 1] != '/')
			ck_buf_text(&path, "/");
		ck_buf_str(&path, part);
	}
	rc = path.err ? path.err
		      : ck_catalog_text_add(
				r->c, (struct ck_str){ path.data, path.len },
				out);
	ck_buf_fini(&path);
	return rc == 0 || ck_dcp_no_memory(r) == 0;
}

/* True if a class may be a subclass of str: not a class that the format knows. */
static bool may_be_str(struct ck_dcp_reader *r, const struct ck_pv *class)
{
	return ck_pv_is_global(r->p, class, "builtins.str") ||
	       ck_dcp_kind(r, class) == CK_DCP_UNKNOWN;
}

/* True for object.__new__(class, text), in both spellings; sets *out to the text. */
static bool subclass_text(struct ck_dcp_reader *r, const struct ck_pv *v,
			  struct ck_pv *out)
{
	const struct ck_pcall *call = v->call;
	struct ck_pv class = call->callable, base;

	if (v->tag == CK_PV_NEW && ck_pv_count(&call->args) == 1) {
		*out = ck_pv_at(&call->args, 0);
	} else if (v->tag == CK_PV_CALL && ck_pv_count(&call->args) == 3 &&
		   ck_pv_is_global(r->p, &class, "copyreg._reconstructor")) {
		class = ck_pv_at(&call->args, 0);
		base = ck_pv_at(&call->args, 1);
		*out = ck_pv_at(&call->args, 2);
		if (!ck_pv_is_global(r->p, &base, "builtins.str"))
			return false;
	} else {
		return false;
	}
	return call->kwargs.tag == CK_PV_NONE && may_be_str(r, &class);
}

/* Converts UTF-32 to UTF-8, without zeros at the end, which NumPy drops. */
static bool add_utf32(struct ck_buf *b, const unsigned char *p, uint32_t n,
		      bool big)
{
	size_t end = 0;

	for (uint32_t i = 0; i < n; i += 4) {
		uint32_t point = 0;

		for (uint32_t k = 0; k < 4; k++)
			point = point << 8 | p[i + (big ? k : 3 - k)];
		if (point > 0x10ffff)
			return false;
		ck_pickle_add_point(b, point);
		end = point ? b->len : end;
	}
	b->len = end;
	return true;
}

/* numpy.str_ */
static bool numpy_str(struct ck_dcp_reader *r, const struct scalar *s,
		      struct ck_str *out)
{
	ck_auto_free unsigned char *bytes = NULL;
	struct ck_buf text = { 0 };
	bool good;
	uint32_t n;
	int rc;

	if (ck_dcp_spend(r, 3 * (uint64_t)s->data.len))
		return false;
	bytes = malloc(s->data.len + 1);
	if (!bytes)
		return ck_dcp_no_memory(r) == 0;
	n = scalar_bytes(s, bytes, s->data.len);
	good = n % 4 == 0 && (n == 0) == (s->data.len == 0) &&
	       ck_str_is(s->code, ck_shown("U%u", n / 4)) &&
	       add_utf32(&text, bytes, n, s->big);
	rc = text.err;
	if (good && rc == 0)
		rc = ck_catalog_text_add(
			r->c, (struct ck_str){ text.data, text.len }, out);
	ck_buf_fini(&text);
	return rc ? ck_dcp_no_memory(r) == 0 : good;
}

static bool is_numpy_str(const struct ck_dcp_reader *r, const struct ck_pv *v,
			 struct scalar *out)
{
	return scalar_of(r->p, v, out) && out->code.p[0] == 'U';
}

bool ck_dcp_object_is_str(struct ck_dcp_reader *r, const struct ck_pv *v)
{
	struct ck_pv text;
	struct scalar s;

	if (!ck_pv_any_call(v))
		return false;
	return is_path_class(r->p, &v->call->callable) ||
	       (subclass_text(r, v, &text) && text.tag == CK_PV_STR) ||
	       is_numpy_str(r, v, &s);
}

bool ck_dcp_object_str(struct ck_dcp_reader *r, const struct ck_pv *v,
		       struct ck_str *out)
{
	struct ck_pv text;
	struct scalar s;

	if (!ck_pv_any_call(v))
		return false;
	if (v->tag == CK_PV_CALL && is_path_class(r->p, &v->call->callable))
		return path_str(r, &v->call->args, out);
	if (is_numpy_str(r, v, &s))
		return numpy_str(r, &s, out);
	return subclass_text(r, v, &text) && ck_pv_str(&text, out);
}

/* --- ints ------------------------------------------------------------------------- */

/* Accepts dtypes i1 to i8 and u1 to u8. */
bool ck_dcp_object_int(const struct ck_dcp_reader *r, const struct ck_pv *v,
		       int64_t *out)
{
	unsigned char bytes[8] = { 0 };
	uint64_t number = 0;
	struct scalar s;
	uint32_t n, bits;

	if (!scalar_of(r->p, v, &s) || s.code.len != 2 ||
	    (s.code.p[0] != 'i' && s.code.p[0] != 'u') ||
	    !memchr("1248", s.code.p[1], 4))
		return false;
	n = (uint32_t)(s.code.p[1] - '0');
	if (scalar_bytes(&s, bytes, sizeof(bytes)) != n)
		return false;
	for (uint32_t i = 0; i < n; i++)
		number = number << 8 | bytes[s.big ? i : n - 1 - i];
	bits = 64 - 8 * n;
	if (s.code.p[0] == 'i')
		*out = (int64_t)(number << bits) >> bits;
	else
		*out = (int64_t)number;
	return s.code.p[0] == 'i' || number <= INT64_MAX;
}

/* --- dicts ------------------------------------------------------------------------ */

/* A call with content in its arguments does not count as a dict. */
static bool is_dict_class(const struct ck_pickle *p,
			  const struct ck_pcall *call)
{
	uint32_t n = ck_pv_count(&call->args);

	if (ck_pv_is_global(p, &call->callable, "collections.OrderedDict"))
		return n == 0;
	return ck_pv_is_global(p, &call->callable, "collections.defaultdict") &&
	       n <= 1;
}

bool ck_dcp_dict(const struct ck_dcp_reader *r, const struct ck_pv *v,
		 struct ck_pv *out)
{
	struct ck_pcall *call = ck_pv_any_call(v);

	*out = *v;
	if (v->tag == CK_PV_DICT)
		return true;
	if (!call || call->kwargs.tag != CK_PV_NONE ||
	    !is_dict_class(r->p, call))
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
