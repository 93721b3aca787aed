/* SPDX-License-Identifier: MIT */
/*
 * value: prints the tree of a pickle as JSON. A stack of frames has the open
 * arrays and objects, so there is no recursion. One thread at a time for each
 * printer.
 */
#include "ckptfs/value.h"
#include "ckptfs/json.h"
#include "value_internal.h"

#include <errno.h>

static const uint64_t base_memory = 64ULL << 20;
static const uint64_t base_steps = 1ULL << 27; /* half a second */

enum { MEMORY_PER_BYTE = 40, STEPS_PER_BYTE = 20, FEW_KEYS = 2 * 8 };

int ck_json_bad(struct ck_json *j, const char *what)
{
	return ck_fail(j->d, EBADMSG, "not shown as JSON: %s", what);
}

int ck_json_no_memory(struct ck_json *j)
{
	return ck_fail(j->d, ENOMEM, "out of memory");
}

int ck_json_levels(struct ck_json *j, uint32_t levels)
{
	uint32_t level = j->level + levels;

	if (level > CK_JSON_LEVELS)
		return ck_json_bad(j, "nested more than 200 deep");
	if (j->reach < level)
		j->reach = level;
	return 0;
}

int ck_json_limit(struct ck_json *j, uint64_t more)
{
	if (j->out->err)
		return ck_json_no_memory(j);
	if (j->out->len + j->tables + j->scratch.cap + more > j->limit)
		return ck_json_bad(j, "longer than its size allows");
	return 0;
}

/* --- forms ------------------------------------------------------------------ */

static const struct {
	const char *name;
	enum ck_json_form form;
} forms[] = {
	{ "_codecs.encode", CK_FORM_ENCODE },
	{ "builtins.bytes", CK_FORM_BYTES },
	{ "builtins.bytearray", CK_FORM_BYTEARRAY },
	{ "builtins.complex", CK_FORM_COMPLEX },
	{ "builtins.set", CK_FORM_SET },
	{ "builtins.frozenset", CK_FORM_FROZENSET },
	{ "collections.OrderedDict", CK_FORM_ORDERED },
	{ "torch._utils._rebuild_tensor", CK_FORM_STORED },
	{ "torch._utils._rebuild_tensor_v2", CK_FORM_STORED },
	{ "torch._utils._rebuild_qtensor", CK_FORM_STORED },
	{ "torch._utils._rebuild_tensor_v3", CK_FORM_NAMED },
	{ "torch._utils._rebuild_parameter", CK_FORM_WRAPPED },
	{ "torch._utils._rebuild_parameter_with_state", CK_FORM_WRAPPED },
	{ "torch._tensor._rebuild_from_type_v2", CK_FORM_TYPED },
	{ "torch.tensor._rebuild_from_type_v2", CK_FORM_TYPED },
	{ "torch._utils._rebuild_sparse_tensor", CK_FORM_SPARSE },
	{ "torch._utils._rebuild_nested_tensor", CK_FORM_NESTED },
	{ "torch._utils._rebuild_meta_tensor_no_storage", CK_FORM_META },
	{ "torch._utils._rebuild_wrapper_subclass", CK_FORM_SUBCLASS },
	{ "torch._utils._rebuild_device_tensor_from_cpu_tensor",
	  CK_FORM_DEVICE },
	{ "torch._utils._rebuild_device_tensor_from_numpy", CK_FORM_DEVICE },
	{ "torch._utils._rebuild_xla_tensor", CK_FORM_DEVICE },
};

enum ck_json_form ck_json_form(struct ck_json *j, const struct ck_pv *global)
{
	uint8_t *form;

	if (global->tag != CK_PV_GLOBAL || global->i >= CK_JSON_GLOBALS)
		return CK_FORM_OTHER;
	form = &j->forms[global->i];
	if (*form != CK_FORM_UNSEEN)
		return *form;
	*form = CK_FORM_OTHER;
	for (size_t i = 0; i < CK_ARRAY_SIZE(forms); i++)
		if (ck_pv_is_global(j->p, global, forms[i].name))
			*form = (uint8_t)forms[i].form;
	return *form;
}

/* --- opening ------------------------------------------------------------------- */

/* Prints the text that opens a frame, and pushes the frame. */
static int frame_open(struct ck_json *j, struct ck_json_frame f,
		      const char *text)
{
	int rc = ck_json_levels(j, f.levels);

	if (rc)
		return rc;
	ck_buf_text(j->out, text);
	j->level += f.levels;
	f.reach = j->reach;
	j->frames[j->nframes++] = f;
	return 0;
}

static int array_open(struct ck_json *j, const struct ck_plist *list,
		      const char *prefix, const char *text)
{
	struct ck_json_frame f = {
		.kind = CK_FRAME_ARRAY,
		.levels = prefix ? 2 : 1,
		.items = list->items,
		.n = list->count,
		.prefix = prefix,
		.close = prefix ? "]}" : "]",
	};

	return frame_open(j, f, text);
}

static int equal_keys(struct ck_json *j, struct ck_str key)
{
	return ck_fail(j->d, EBADMSG, "two values of key %s", ck_show(key));
}

/* Compares all pairs of keys, which is fastest for a small dict. */
static int few_keys_check(struct ck_json *j, const struct ck_plist *list)
{
	struct ck_str key, other;

	for (uint32_t i = 2; i < list->count; i += 2)
		for (uint32_t k = 0; k < i; k += 2)
			if (ck_pv_str(&list->items[i], &key) &&
			    ck_pv_str(&list->items[k], &other) &&
			    ck_str_eq(key, other))
				return equal_keys(j, key);
	return 0;
}

/* Refuses equal string keys, with a hash table for this dict only. */
static int keys_check(struct ck_json *j, const struct ck_plist *list)
{
	ck_auto_free uint32_t *slots = NULL;
	size_t n = 4;

	if (list->count <= FEW_KEYS)
		return few_keys_check(j, list);
	while (n < list->count)
		n *= 2;
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return ck_json_no_memory(j);
	for (uint32_t k = 0; k < list->count; k += 2) {
		struct ck_str key, other;
		size_t i;

		if (!ck_pv_str(&list->items[k], &key))
			continue;
		i = ck_hash64_seeded(key, j->seed) & (n - 1);
		for (; slots[i]; i = (i + 1) & (n - 1)) {
			(void)ck_pv_str(&list->items[slots[i] - 1], &other);
			if (ck_str_eq(key, other))
				return equal_keys(j, key);
		}
		slots[i] = k + 1;
	}
	return 0;
}

static bool keys_are_plain(const struct ck_plist *list)
{
	for (uint32_t i = 0; i < list->count; i += 2) {
		struct ck_str key;

		if (!ck_pv_str(&list->items[i], &key) ||
		    (key.len && key.p[0] == '$') || !ck_utf8_valid(key))
			return false;
	}
	return true;
}

static int dict_open(struct ck_json *j, const struct ck_plist *list)
{
	struct ck_json_frame f = { .items = list->items, .n = list->count };
	int rc = keys_check(j, list);

	if (rc)
		return rc;
	if (keys_are_plain(list)) {
		f.kind = CK_FRAME_DICT;
		f.levels = 1;
		f.close = "}";
		return frame_open(j, f, "{");
	}
	f.kind = CK_FRAME_PAIRS;
	f.levels = 3; /* with the pair's own */
	f.prefix = "$dict";
	f.close = "]]}";
	return frame_open(j, f, "{\"$dict\":[");
}

/* set([..]) and frozenset([..]) as protocol 2 has them. */
static bool is_set_call(const struct ck_pcall *call)
{
	struct ck_pv list;

	if (!ck_json_is_bare(call) || ck_pv_count(&call->args) != 1)
		return false;
	list = ck_pv_at(&call->args, 0);
	return list.tag == CK_PV_LIST;
}

static int set_call_open(struct ck_json *j, const struct ck_pcall *call,
			 bool frozen)
{
	struct ck_pv list = ck_pv_at(&call->args, 0);

	return array_open(j, list.list, frozen ? "$frozenset" : "$set",
			  frozen ? "{\"$frozenset\":[" : "{\"$set\":[");
}

static bool is_plain_dict(const struct ck_pcall *call)
{
	return ck_pv_count(&call->args) == 0 && !call->has_state &&
	       call->list.count == 0 && call->kwargs.tag == CK_PV_NONE;
}

/* Prints a call as the value that it creates, if its function is known, or as a
 * call. */
static int call_open(struct ck_json *j, const struct ck_pv *v)
{
	const struct ck_pcall *call = v->call;
	enum ck_json_form form = v->tag == CK_PV_CALL
					 ? ck_json_form(j, &call->callable)
					 : CK_FORM_OTHER;
	struct ck_json_frame f = { .kind = CK_FRAME_CALL,
				   .levels = 1,
				   .call = call,
				   .n = CK_PART_END,
				   .close = "}" };
	int rc = 0;

	if (form == CK_FORM_ORDERED && is_plain_dict(call))
		return dict_open(j, &call->items);
	if ((form == CK_FORM_SET || form == CK_FORM_FROZENSET) &&
	    is_set_call(call))
		return set_call_open(j, call, form == CK_FORM_FROZENSET);
	if (form >= CK_FORM_STORED)
		rc = ck_json_tensor(j, v);
	else if (form != CK_FORM_OTHER)
		rc = ck_json_call_leaf(j, v);
	if (rc)
		return rc < 0 ? rc : 0;
	return frame_open(j, f, "{");
}

/* Prints a packed tensor, which never opens a frame. */
static int packed_print(struct ck_json *j, const struct ck_pv *v)
{
	struct ck_pv_room room;
	const struct ck_pv whole = ck_pv_unpack(v, &room);
	int rc = ck_json_tensor(j, &whole);

	return rc < 0 ? rc : 0;
}

/* Prints a value or opens a frame that will. */
static int value_start(struct ck_json *j, const struct ck_pv *v)
{
	switch (v->tag) {
	case CK_PV_TUPLE:
		return array_open(j, v->list, "$tuple", "{\"$tuple\":[");
	case CK_PV_LIST: return array_open(j, v->list, NULL, "[");
	case CK_PV_SET: return array_open(j, v->list, "$set", "{\"$set\":[");
	case CK_PV_FROZENSET:
		return array_open(j, v->list, "$frozenset",
				  "{\"$frozenset\":[");
	case CK_PV_DICT: return dict_open(j, v->list);
	case CK_PV_CALL:
	case CK_PV_NEW: return call_open(j, v);
	case CK_PV_PERSID: return ck_json_storage(j, v);
	case CK_PV_PACKED: return packed_print(j, v);
	default: return ck_json_leaf(j, v);
	}
}

/* Ends a value. reach: the deepest level that was needed before the value
 * began. */
static int value_end(struct ck_json *j, uint32_t record, uint32_t reach)
{
	int rc = record ? ck_json_record_close(j, record) : 0;

	j->reach = (uint32_t)ck_max(j->reach, reach);
	return rc;
}

static int value_print(struct ck_json *j, const struct ck_pv *v)
{
	const void *at = ck_json_identity(j, v);
	uint32_t record = 0, frame = j->nframes, reach = j->reach;
	const struct ck_json_record *known;
	int rc = ck_json_limit(j, 0);

	if (rc)
		return rc;
	known = at ? ck_json_record_find(j, v, at) : NULL;
	if (known)
		return ck_json_again(j, known);
	if (at)
		rc = ck_json_record_open(j, v, at, &record);
	j->reach = j->level;
	if (rc == 0)
		rc = value_start(j, v);
	if (rc)
		return rc;
	if (j->nframes == frame)
		return value_end(j, record, reach);
	j->frames[frame].record = record;
	j->frames[frame].reach = reach;
	return 0;
}

/* --- stepping -------------------------------------------------------------------- */

static int frame_close(struct ck_json *j)
{
	struct ck_json_frame f = j->frames[--j->nframes];

	ck_buf_text(j->out, f.close);
	j->level -= f.levels;
	return value_end(j, f.record, f.reach);
}

static int array_step(struct ck_json *j, struct ck_json_frame *f)
{
	if (f->i)
		ck_buf_text(j->out, ",");
	return value_print(j, &f->items[f->i++]);
}

static int pairs_step(struct ck_json *j, struct ck_json_frame *f)
{
	if (f->i % 2)
		ck_buf_text(j->out, ",");
	else
		ck_buf_text(j->out, f->i ? "],[" : "[");
	return value_print(j, &f->items[f->i++]);
}

static int dict_step(struct ck_json *j, struct ck_json_frame *f)
{
	const struct ck_pv *key = &f->items[f->i];

	if (f->i)
		ck_buf_text(j->out, ",");
	ck_buf_json_str(j->out, (struct ck_str){ key->bytes, key->len });
	ck_buf_text(j->out, ":");
	f->i += 2;
	return value_print(j, key + 1);
}

static int class_print(struct ck_json *j, const struct ck_pcall *call)
{
	ck_buf_text(j->out, "\"$class\":");
	if (call->callable.tag != CK_PV_GLOBAL)
		return value_print(j, &call->callable);
	return ck_json_str(j, ck_pickle_global(j->p, &call->callable), 0);
}

/* An array inside a call. */
static int part_open(struct ck_json *j, const struct ck_plist *list,
		     const char *prefix, const char *text)
{
	struct ck_json_frame f = { .kind = CK_FRAME_ARRAY,
				   .is_part = true,
				   .levels = 1,
				   .items = list->items,
				   .n = list->count,
				   .prefix = prefix,
				   .close = "]" };

	return frame_open(j, f, text);
}

static int args_print(struct ck_json *j, const struct ck_pv *args)
{
	int rc;

	if (args->tag == CK_PV_INTS) {
		rc = ck_json_levels(j, 1);
		ck_buf_text(j->out, ",\"args\":[");
		ck_json_ints(j, args);
		ck_buf_text(j->out, "]");
		return rc;
	}
	return part_open(j, args->list, "args", ",\"args\":[");
}

static int items_print(struct ck_json *j, const struct ck_plist *items)
{
	struct ck_json_frame f = { .kind = CK_FRAME_PAIRS,
				   .is_part = true,
				   .levels = 2,
				   .items = items->items,
				   .n = items->count,
				   .prefix = "items",
				   .close = "]]" };

	return items->count ? frame_open(j, f, ",\"items\":[") : 0;
}

static int named_print(struct ck_json *j, const char *name,
		       const struct ck_pv *v)
{
	ck_buf_text(j->out, name);
	return value_print(j, v);
}

static int call_step(struct ck_json *j, struct ck_json_frame *f)
{
	const struct ck_pcall *call = f->call;

	switch ((enum ck_part_of_call)f->i++) {
	case CK_PART_CLASS: return class_print(j, call);
	case CK_PART_ARGS: return args_print(j, &call->args);
	case CK_PART_KWARGS:
		return call->kwargs.tag == CK_PV_NONE
			       ? 0
			       : named_print(j, ",\"kwargs\":", &call->kwargs);
	case CK_PART_LIST:
		return call->list.count ? part_open(j, &call->list, "list",
						    ",\"list\":[")
					: 0;
	case CK_PART_ITEMS: return items_print(j, &call->items);
	case CK_PART_STATE:
		return call->has_state
			       ? named_print(j, ",\"state\":", &call->state)
			       : 0;
	case CK_PART_END: break;
	}
	return 0;
}

static int step(struct ck_json *j)
{
	struct ck_json_frame *f = &j->frames[j->nframes - 1];

	if (f->i >= f->n)
		return frame_close(j);
	switch (f->kind) {
	case CK_FRAME_ARRAY: return array_step(j, f);
	case CK_FRAME_PAIRS: return pairs_step(j, f);
	case CK_FRAME_DICT: return dict_step(j, f);
	case CK_FRAME_CALL: return call_step(j, f);
	}
	return 0;
}

static int prepare(struct ck_json *j, size_t len)
{
	uint64_t used = ck_pickle_memory(j->p);

	j->seed = ck_hash_seed();
	j->steps = base_steps + STEPS_PER_BYTE * (uint64_t)len;
	j->limit = base_memory + MEMORY_PER_BYTE * (uint64_t)len;
	j->limit -= ck_min(used, j->limit);
	/* A reserve for the growth of buffers, and for one leaf. */
	j->limit -= j->limit / 4;
	j->limit += j->out->len;
	j->frames = malloc(CK_JSON_LEVELS * sizeof(*j->frames));
	j->nnodes = CK_JSON_ROOT + 1;
	j->nodes = ck_grow(NULL, &j->nodes_cap, 0, j->nnodes,
			   sizeof(*j->nodes));
	return j->frames && j->nodes ? 0 : ck_json_no_memory(j);
}

static void json_free(struct ck_json *j)
{
	free(j->frames);
	free(j->records);
	free(j->slots);
	free(j->nodes);
	ck_buf_fini(&j->scratch);
	free(j);
}

int ck_pickle_json(const struct ck_pickle *p, size_t len, struct ck_buf *out,
		   struct ck_diag *d)
{
	struct ck_json *j = calloc(1, sizeof(*j));
	int rc;

	if (!j)
		return ck_fail(d, ENOMEM, "out of memory");
	j->p = p;
	j->out = out;
	j->d = d;
	rc = prepare(j, len);
	if (rc == 0)
		rc = value_print(j, &p->root);
	while (rc == 0 && j->nframes)
		rc = step(j);
	ck_buf_text(out, "\n");
	if (rc == 0)
		rc = ck_json_limit(j, 0);
	json_free(j);
	return rc;
}
