/* SPDX-License-Identifier: MIT */
/*
 * value_tensor: prints a tensor inside an object by its dtype and shape. The
 * tensor is a call of a torch function that rebuilds tensors, possibly nested
 * in other such calls: one of them may have the dtype, and another one the
 * shape. Such a function with arguments that torch does not write is malformed.
 * The state is that of the printer.
 */
#include "ckptfs/model.h"
#include "ckptfs/value.h"
#include "value_internal.h"

#include <errno.h>
#include <inttypes.h>

enum { WRAPS_MAX = 8 };

/* Properties of the tensor, collected from the outer call to the inner ones. */
struct built {
	struct ck_pv func, args; /* of the present call */
	struct ck_str dtype;
	struct ck_pv shape;
	bool has_dtype, has_shape;
	bool inside;  /* func and args are those of a nested call */
	bool foreign; /* that call is not of a known torch function */
};

static int malformed(struct ck_json *j, const struct built *b)
{
	return ck_fail(j->d, EBADMSG, "malformed arguments of %s",
		       ck_show(ck_pickle_global(j->p, &b->func)));
}

static void take_shape(struct built *b, struct ck_pv shape)
{
	if (!b->has_shape)
		b->shape = shape;
	b->has_shape = true;
}

static bool take_dtype(struct ck_json *j, struct built *b,
		       const struct ck_pv *dtype)
{
	struct ck_str module = CK_STR("torch.");
	struct ck_str name = ck_pickle_global(j->p, dtype);

	if (!ck_str_starts(name, module))
		return false;
	if (!b->has_dtype)
		b->dtype = (struct ck_str){ name.p + module.len,
					    name.len - module.len };
	b->has_dtype = true;
	return true;
}

static struct ck_str class_dtype(struct ck_str class)
{
	if (ck_storage_is_untyped(class))
		return CK_STR("uint8");
	return ck_str_from(ck_dtype_at(ck_dtype_by_storage(class))->name);
}

static bool take_storage(struct ck_json *j, struct built *b,
			 const struct ck_pv *storage)
{
	struct ck_str class, key;
	int64_t numel;

	if (!ck_storage_take(j->p, storage, &class, &key, &numel))
		return false;
	if (!b->has_dtype)
		b->dtype = class_dtype(class);
	b->has_dtype = true;
	return true;
}

/* Makes an argument that is a known call the present call. */
static bool enter(struct ck_json *j, struct built *b, const struct ck_pv *v)
{
	if (v->tag != CK_PV_CALL && v->tag != CK_PV_NEW)
		return false;
	if (v->tag == CK_PV_NEW || !ck_json_is_bare(v->call) ||
	    ck_json_form(j, &v->call->callable) < CK_FORM_STORED) {
		b->foreign = true;
		return false;
	}
	b->func = v->call->callable;
	b->args = v->call->args;
	b->inside = true;
	return true;
}

/* (layout, (indices, values, size, ...)) in coordinates, (compressed, plain,
 * values, size) in every other layout. */
static bool enter_sparse(struct ck_json *j, struct built *b)
{
	struct ck_pv layout = ck_pv_at(&b->args, 0);
	struct ck_pv data = ck_pv_at(&b->args, 1), values;
	const struct ck_pcall *named =
		ck_pv_call(j->p, &layout, "torch.serialization._get_layout");
	struct ck_str name = ck_pickle_global(j->p, &layout);
	uint32_t at;

	if (named && ck_pv_count(&named->args) == 1) {
		layout = ck_pv_at(&named->args, 0);
		(void)ck_pv_str(&layout, &name);
	}
	at = ck_str_is(name, "torch.sparse_coo") ? 1 : 2;
	if (ck_pv_count(&data) < at + 2)
		return false;
	take_shape(b, ck_pv_at(&data, at + 1));
	values = ck_pv_at(&data, at);
	return enter(j, b, &values);
}

/* An array by numpy's _reconstruct: its shape is in its state. */
static bool take_array(struct built *b, const struct ck_pv *data)
{
	if (data->tag != CK_PV_CALL || !data->call->has_state ||
	    ck_pv_count(&data->call->state) < 2)
		return false;
	take_shape(b, ck_pv_at(&data->call->state, 1));
	return true;
}

static bool enter_device(struct ck_json *j, struct built *b)
{
	struct ck_pv data = ck_pv_at(&b->args, 0);
	struct ck_pv dtype = ck_pv_at(&b->args, 1);

	return take_dtype(j, b, &dtype) &&
	       (enter(j, b, &data) || take_array(b, &data));
}

static bool enter_typed(struct ck_json *j, struct built *b)
{
	struct ck_pv func = ck_pv_at(&b->args, 0);

	b->args = ck_pv_at(&b->args, 2);
	b->func = func;
	b->inside = true;
	b->foreign = ck_json_form(j, &func) < CK_FORM_STORED;
	return !b->foreign && ck_pv_is_sequence(&b->args);
}

/* Evaluates the present call: takes dtype or shape from it, and enters the
 * nested call if there is one. */
static bool look(struct ck_json *j, struct built *b)
{
	static const uint8_t arguments[] = {
		[CK_FORM_STORED] = 4,  [CK_FORM_NAMED] = 7,
		[CK_FORM_WRAPPED] = 3, [CK_FORM_TYPED] = 4,
		[CK_FORM_SPARSE] = 2,  [CK_FORM_NESTED] = 4,
		[CK_FORM_META] = 4,    [CK_FORM_SUBCLASS] = 8,
		[CK_FORM_DEVICE] = 4,
	};
	enum ck_json_form form = ck_json_form(j, &b->func);
	struct ck_pv a[3] = { 0 }, dtype;

	if (ck_pv_count(&b->args) < arguments[form])
		return false;
	for (uint32_t i = 0; i < 3 && i < ck_pv_count(&b->args); i++)
		a[i] = ck_pv_at(&b->args, i);
	switch ((int)form) {
	case CK_FORM_NAMED:
		dtype = ck_pv_at(&b->args, 6);
		if (!take_dtype(j, b, &dtype))
			return false;
		take_shape(b, a[2]);
		return take_storage(j, b, &a[0]);
	case CK_FORM_STORED:
		take_shape(b, a[2]);
		return take_storage(j, b, &a[0]);
	case CK_FORM_META: take_shape(b, a[1]); return take_dtype(j, b, &a[0]);
	case CK_FORM_SUBCLASS:
		take_shape(b, a[2]);
		return take_dtype(j, b, &a[1]);
	case CK_FORM_NESTED: /* its sizes are in another tensor */
		take_shape(b, (struct ck_pv){ .tag = CK_PV_NONE });
		return enter(j, b, &a[0]);
	case CK_FORM_TYPED: return enter_typed(j, b);
	case CK_FORM_SPARSE: return enter_sparse(j, b);
	case CK_FORM_DEVICE: return enter_device(j, b);
	default: return enter(j, b, &a[0]);
	}
}

/* Evaluates calls until dtype and shape are known. Returns 1, 0 if a nested
 * call is not of a known torch function, or a negative errno. */
static int find(struct ck_json *j, struct built *b)
{
	for (int i = 0; i < WRAPS_MAX; i++) {
		b->inside = false;
		if (!look(j, b))
			return b->foreign ? 0 : malformed(j, b);
		if (b->has_dtype && b->has_shape)
			return 1;
		if (!b->inside)
			break;
	}
	return malformed(j, b);
}

static bool shape_print(struct ck_json *j, const struct ck_pv *shape)
{
	if (shape->tag == CK_PV_NONE) {
		ck_buf_text(j->out, "null");
		return true;
	}
	ck_buf_text(j->out, "[");
	for (uint32_t i = 0; i < ck_pv_count(shape); i++) {
		struct ck_pv v = ck_pv_at(shape, i);
		int64_t n;

		if (!ck_pv_int(&v, &n) || n < 0)
			return false;
		ck_buf_printf(j->out, "%s%" PRId64, i ? "," : "", n);
	}
	ck_buf_text(j->out, "]");
	return ck_pv_is_sequence(shape);
}

int ck_json_tensor(struct ck_json *j, const struct ck_pv *v)
{
	struct built b = { 0 };
	int rc;

	if (!enter(j, &b, v))
		return 0;
	rc = find(j, &b);
	if (rc <= 0)
		return rc;
	rc = ck_json_levels(j, 3);
	if (rc)
		return rc;
	ck_buf_text(j->out, "{\"$tensor\":{\"dtype\":");
	rc = ck_json_str(j, b.dtype, 2);
	ck_buf_text(j->out, ",\"shape\":");
	if (!shape_print(j, &b.shape))
		return malformed(j, &b);
	ck_buf_text(j->out, "}}");
	return rc ? rc : 1;
}

int ck_json_storage(struct ck_json *j, const struct ck_pv *v)
{
	struct ck_str class, key;
	int64_t numel;
	int rc = ck_json_levels(j, 2);

	if (rc)
		return rc;
	if (!ck_storage_take(j->p, v, &class, &key, &numel))
		return ck_json_bad(j, "a persistent id of no storage");
	ck_buf_text(j->out, "{\"$storage\":{\"dtype\":");
	rc = ck_json_str(j, class_dtype(class), 2);
	ck_buf_printf(j->out, ",\"numel\":%" PRId64 "}}", numel);
	return rc;
}
