/* SPDX-License-Identifier: MIT */
/*
 * flatten: walks a nested state dict and gives each leaf its path. It follows
 * torch.distributed.checkpoint since 2.4 (torch/distributed/checkpoint/_traverse.py),
 * with two differences: types of keys are kept, and empty dicts are leaves. The state
 * lives for one call of ck_torch_flatten().
 */
#include "ckptfs/value.h"
#include "format/item/item_tensor.h"
#include "torch_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum {
	LEVELS = 200,
	/* bytes charged to the memory limit of the pickle, for each value */
	LOOK_COST = 8,
	LEAF_COST = 256,
};

/* The contents of a value: keys and values, or values at positions. */
struct inside {
	const struct ck_plist *list; /* NULL without contents */
	uint32_t n;

	enum { LIST, DICT, PAIRS } how;
};

struct level {
	struct inside in;
	uint32_t next;
	size_t len; /* length of the key of this level */
};

/* A part of the path: its range of the key. */
struct part {
	size_t at, len;
	uint8_t type;
};

struct flatten {
	struct ck_pickle *p;
	int (*leaf)(void *arg, const struct ck_torch_leaf *leaf);
	void *arg;
	struct ck_diag *d;
	struct ck_buf key, scratch;
	struct level levels[LEVELS + 1];
	struct part parts[LEVELS + 2];
	struct ck_path_part path[LEVELS + 2];
	uint32_t nlevels, nparts;
};

/* --- contents of a value ---------------------------------------------------------- */

/* Returns 1 for a list of pairs, 0 for another value. The length is charged, since one
 * list may be the argument of any number of calls: -EBADMSG if the memory limit is
 * spent. */
static int is_pairs(struct ck_pickle *p, const struct ck_pv *v)
{
	if (v->tag != CK_PV_LIST)
		return 0;
	if (!ck_pickle_spend(p, v->list->count))
		return -EBADMSG;
	for (uint32_t i = 0; i < v->list->count; i++)
		if (!ck_pv_list(&v->list->items[i]) ||
		    ck_pv_count(&v->list->items[i]) != 2)
			return 0;
	return 1;
}

/* Opens an OrderedDict of Python 2, which is pickled with its items as an argument. */
static int ordered_inside(struct ck_pickle *p, const struct ck_pv *arg,
			  struct inside *out)
{
	int rc = is_pairs(p, arg);

	if (rc > 0)
		*out = (struct inside){ arg->list, arg->list->count, PAIRS };
	return rc;
}

/* Returns 1 if the object is a mapping, 0 if not, or -EBADMSG if the memory limit is
 * spent. */
static int call_inside(struct ck_pickle *p, const struct ck_pcall *call,
		       struct inside *out)
{
	uint32_t nargs = ck_pv_count(&call->args);
	struct ck_pv first = { .tag = CK_PV_NONE };
	bool ordered = ck_pv_is_global(p, &call->callable,
				       "collections.OrderedDict");

	if (nargs)
		first = ck_pv_at(&call->args, 0);
	*out = (struct inside){ &call->items, call->items.count / 2, DICT };
	if (call->list.count || nargs > 1)
		return 0;
	if ((ordered && nargs == 0) ||
	    ck_pv_is_global(p, &call->callable, "collections.defaultdict"))
		return 1;
	if (!ordered &&
	    !ck_pv_is_global(p, &call->callable, "collections.Counter"))
		return 0;
	if (out->n == 0 && ordered && first.tag == CK_PV_LIST)
		return ordered_inside(p, &first, out);
	if (out->n || nargs == 0 || first.tag != CK_PV_DICT)
		return nargs == 0;
	*out = (struct inside){ first.list, first.list->count / 2, DICT };
	return 1;
}

/* The same for any value. */
static int mapping_inside(struct ck_pickle *p, const struct ck_pv *v,
			  struct inside *out)
{
	if (v->tag == CK_PV_DICT) {
		*out = (struct inside){ v->list, v->list->count / 2, DICT };
		return 1;
	}
	if (v->tag != CK_PV_CALL && v->tag != CK_PV_NEW)
		return 0;
	return call_inside(p, v->call, out);
}

static bool is_tensor(const struct ck_pickle *p, const struct ck_pv *v)
{
	struct ck_torch_tensor t;

	if (v->tag == CK_PV_PACKED)
		return true;
	return ck_pv_any_call(v) && (ck_rank_is_part(p, v) ||
				     ck_torch_tensor_take(p, v, &t, NULL) != 0);
}

static int too_deep(const struct flatten *f)
{
	return ck_fail(f->d, EBADMSG, "%s: nested more than %d deep",
		       ck_show((struct ck_str){ f->key.data, f->key.len }),
		       LEVELS);
}

static int too_much(const struct flatten *f)
{
	return ck_fail(f->d, EBADMSG,
		       "%s: needs more memory than its size allows",
		       ck_show((struct ck_str){ f->key.data, f->key.len }));
}

static int mapping_open(const struct flatten *f, const struct ck_pv *v,
			struct inside *out)
{
	int rc = mapping_inside(f->p, v, out);

	return rc < 0 ? too_much(f) : rc;
}

/* Returns 1 if a list contains a tensor, a dict or another such list, so that it is a
 * level of the path; 0 if not; or -EBADMSG. */
static int is_open(const struct flatten *f, const struct ck_plist *list,
		   unsigned levels)
{
	if (levels > LEVELS)
		return too_deep(f);
	for (uint32_t i = 0; i < list->count; i++) {
		const struct ck_pv *v = &list->items[i];
		struct inside in;
		int rc;

		if (!ck_pickle_spend(f->p, LOOK_COST))
			return too_much(f);
		if (v->tag == CK_PV_LIST)
			rc = is_open(f, v->list, levels + 1);
		else
			rc = mapping_open(f, v, &in);
		if (rc == 0)
			rc = is_tensor(f->p, v);
		if (rc)
			return rc;
	}
	return 0;
}

/* Returns 1 if v is a level of the path, 0 if it is a leaf, or -EBADMSG. */
static int inside_of(const struct flatten *f, const struct ck_pv *v,
		     struct inside *out)
{
	int rc;

	*out = (struct inside){ 0 };
	rc = mapping_open(f, v, out);
	if (rc)
		return rc < 0 ? rc : out->n > 0 || f->nlevels == 0;
	if (v->tag != CK_PV_LIST)
		return 0;
	*out = (struct inside){ v->list, v->list->count, LIST };
	return is_open(f, v->list, 0);
}

/* --- keys ------------------------------------------------------------------------------------- */

/* Appends a key of another type as JSON, as ckptfs(5) describes it. */
static int json_text(struct flatten *f, const struct ck_pv *v)
{
	struct ck_pickle only = *f->p;
	int rc;

	only.root = *v;
	rc = ck_pickle_json(&only, f->scratch.len, &f->scratch, f->d);
	if (rc == 0 && f->scratch.len)
		f->scratch.len--; /* the newline */
	return rc;
}

/* Writes the text of a key, as str() of Python, to f->scratch, and sets *type. */
static int key_text(struct flatten *f, const struct ck_pv *v, uint8_t *type)
{
	struct ck_str s;

	f->scratch.len = 0;
	*type = CK_PATH_OTHER;
	if (ck_pv_str(v, &s)) {
		*type = CK_PATH_STR;
		ck_buf_str(&f->scratch, s);
	} else if (v->tag == CK_PV_INT) {
		*type = CK_PATH_INT;
		ck_buf_printf(&f->scratch, "%" PRId64, v->i);
	} else if (v->tag == CK_PV_BOOL) {
		*type = CK_PATH_BOOL;
		ck_buf_text(&f->scratch, v->i ? "True" : "False");
	} else if (v->tag == CK_PV_NONE) {
		*type = CK_PATH_NONE;
		ck_buf_text(&f->scratch, "None");
	} else if (v->tag == CK_PV_FLOAT && !isfinite(v->f)) {
		*type = CK_PATH_FLOAT;
		ck_buf_text(&f->scratch, isnan(v->f) ? "nan"
					 : v->f < 0  ? "-inf"
						     : "inf");
	} else {
		if (v->tag == CK_PV_FLOAT)
			*type = CK_PATH_FLOAT;
		else if (v->tag == CK_PV_BIGINT)
			*type = CK_PATH_INT;
		return json_text(f, v);
	}
	return f->scratch.err ? -ENOMEM : 0;
}

/* Appends a part to the path. Its length is charged: one long text may be the key on
 * each level. */
static int part_add(struct flatten *f, struct ck_str text, uint8_t type)
{
	if (!ck_pickle_spend(f->p, text.len))
		return too_much(f);
	if (f->nparts)
		ck_buf_text(&f->key, ".");
	f->parts[f->nparts++] = (struct part){ f->key.len, text.len, type };
	ck_buf_str(&f->key, text);
	return 0;
}

/* Advances a level: adds the next key to the path and sets *out to its value. */
static int step(struct flatten *f, struct level *l, const struct ck_pv **out)
{
	const struct ck_plist *list = l->in.list;
	uint32_t i = l->next++;
	const struct ck_pv *key;
	struct ck_pv *pair;
	char text[16];
	uint8_t type;
	int rc;

	if (l->in.how == LIST) {
		(void)snprintf(text, sizeof(text), "%" PRIu32, i);
		*out = &list->items[i];
		return part_add(f, ck_str_from(text), CK_PATH_INDEX);
	}
	if (l->in.how == DICT) {
		key = &list->items[2UL * i];
		*out = key + 1;
	} else {
		pair = &list->items[i];
		key = &pair->list->items[0];
		*out = key + 1;
	}
	rc = key_text(f, key, &type);
	if (rc)
		return rc;
	return part_add(f, (struct ck_str){ f->scratch.data, f->scratch.len },
			type);
}

/* --- the walk ------------------------------------------------------------------------------------ */

static int emit(struct flatten *f, const struct ck_pv *v)
{
	struct ck_torch_leaf leaf = { .path = f->path,
				      .nparts = f->nparts,
				      .value = v };

	if (f->key.err)
		return ck_fail(f->d, ENOMEM, "out of memory");
	if (!ck_pickle_spend(f->p, LEAF_COST + 2 * f->key.len +
					   f->nparts * sizeof(*f->path)))
		return too_much(f);
	for (uint32_t i = 0; i < f->nparts; i++)
		f->path[i] = (struct ck_path_part){
			.p = f->key.len ? f->key.data + f->parts[i].at : "",
			.len = (uint32_t)f->parts[i].len,
			.type = f->parts[i].type,
		};
	leaf.key = (struct ck_str){ f->key.len ? f->key.data : "", f->key.len };
	return f->leaf(f->arg, &leaf);
}

/* Reports v as a leaf, or opens it as one more level. */
static int visit(struct flatten *f, const struct ck_pv *v)
{
	struct inside in;
	int rc = inside_of(f, v, &in);

	if (rc < 0)
		return rc;
	if (rc == 0)
		return emit(f, v);
	if (f->nlevels > LEVELS)
		return too_deep(f);
	f->levels[f->nlevels++] = (struct level){ in, 0, f->key.len };
	return 0;
}

static int walk(struct flatten *f, uint32_t above)
{
	int rc = 0;

	while (f->nlevels && rc == 0) {
		struct level *l = &f->levels[f->nlevels - 1];
		const struct ck_pv *v = NULL;

		f->nparts = above + f->nlevels - 1;
		f->key.len = l->len;
		if (l->next == l->in.n) {
			f->nlevels--;
			continue;
		}
		if (!ck_pickle_spend(f->p, LOOK_COST))
			return too_much(f);
		rc = step(f, l, &v);
		if (rc == 0)
			rc = visit(f, v);
	}
	return rc;
}

int ck_torch_flatten(struct ck_pickle *p, struct ck_str above,
		     struct ck_str name,
		     int (*leaf)(void *arg, const struct ck_torch_leaf *leaf),
		     void *arg, struct ck_diag *d)
{
	struct flatten *f = calloc(1, sizeof(*f));
	struct inside in;
	bool open;
	int rc;

	if (!f)
		return ck_fail(d, ENOMEM, "out of memory");
	f->p = p;
	f->leaf = leaf;
	f->arg = arg;
	f->d = d;
	rc = inside_of(f, &p->root, &in);
	open = rc > 0;
	if (open)
		rc = 0;
	if (rc == 0 && above.len)
		rc = part_add(f, above, CK_PATH_STR);
	else if (rc == 0 && !open)
		rc = part_add(f, name, CK_PATH_STR);
	if (rc == 0)
		rc = open ? visit(f, &p->root) : emit(f, &p->root);
	if (rc == 0)
		rc = walk(f, above.len != 0);
	ck_buf_fini(&f->key);
	ck_buf_fini(&f->scratch);
	free(f);
	return rc;
}
