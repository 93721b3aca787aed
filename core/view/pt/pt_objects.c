/* SPDX-License-Identifier: MIT */
/*
 * pt_objects: the values of the objects of torch/checkpoint.pt. Each is its own pickle,
 * converted to protocol 2, with memo numbers that no other one has. A value that
 * torch.load(weights_only=True) would refuse is left out, because it would make the whole
 * file unreadable. All values are kept in one buffer.
 */
#include "ckptfs/pickle.h"
#include "pt.h"
#include "syntax/pickle/pickler.h"
#include "view/view_internal.h"

#include <errno.h>

struct making {
	struct ck_pt_objects *o;
	struct ck_pt_tree *t;
	const struct ck_object_access *objects;
	bool is_remote; /* remote ranges must be fetched first */
};

static int end_add(struct ck_pt_objects *o)
{
	uint64_t *ends = ck_grow(o->ends, &o->cap, o->n, 1, sizeof(*ends));

	if (!ends)
		return -ENOMEM;
	o->ends = ends;
	ends[o->n++] = o->bytes.len;
	return 0;
}

/* Adds an object. Returns 1, or 0 if it is left out, or an error. */
static int object_add(struct making *m, struct ck_pt_entry *e)
{
	struct ck_pickler p = { .out = &m->o->bytes,
				.memo = m->o->memo,
				.restricted = true };
	const char *why;
	int rc = ck_view_object(m->objects, e->id.i, &p, &why);

	if (rc)
		return rc;
	if (why)
		return ck_left_outs_add(&m->t->left_out,
					ck_catalog_names(m->t->c, e->id).name,
					why);
	m->o->memo = p.memo;
	e->n = m->o->n;
	rc = end_add(m->o);
	return rc ? rc : 1;
}

/* True for the null at the end of a list that has other entries, all before it. The first n
 * entries are those before the null that stay. */
static bool is_end(const struct ck_pt_tree *t, uint32_t n,
		   const struct ck_pt_entry *null)
{
	return n &&
	       ck_pt_common(t, &t->entries[n - 1], null) == null->empty - 1U;
}

/* Adds all objects and removes the entries of those that are left out, and nulls of lists
 * that do not need them. The ranges of all are requested before -EREMOTE is returned. */
static int objects_add(struct making *m)
{
	struct ck_pt_tree *t = m->t;
	uint32_t n = 0, next = 0;
	int rc = 0;

	for (uint32_t i = 0; i < t->n && rc >= 0; i++) {
		while (next < t->noptimizers && t->optimizers[next].begin == i)
			t->optimizers[next++].begin = n;
		rc = 1;
		if (t->entries[i].id.is_object && !t->entries[i].empty)
			rc = object_add(m, &t->entries[i]);
		else if (t->entries[i].is_null)
			rc = is_end(t, n, &t->entries[i]);
		if (rc == -EREMOTE) {
			m->is_remote = true;
			rc = 0;
		}
		if (rc > 0)
			t->entries[n++] = t->entries[i];
	}
	if (rc < 0)
		return rc;
	t->n = n;
	return m->is_remote ? -EREMOTE : 0;
}

/* --- optimizers --------------------------------------------------------------------- */

/* Reads the value of `params`. Sets *ints for a list of ints, *others for any value but a
 * list of ints or an empty list. */
static void params_read(struct ck_str value, bool *ints, bool *others)
{
	struct ck_buf text = { 0 };
	struct ck_pickler p = { .out = &text };
	struct ck_pickle read = { 0 };
	bool is_list = false;

	ck_pickler_begin(&p);
	ck_buf_str(&text, value);
	ck_pickler_end(&p);
	if (!text.err &&
	    ck_pickle_read(&read, text.data, text.len, NULL, NULL) == 0) {
		is_list = read.root.tag == CK_PV_LIST;
		for (uint32_t i = 0; is_list && i < read.root.list->count; i++)
			if (read.root.list->items[i].tag == CK_PV_INT)
				*ints = true;
			else
				*others = true;
	}
	*others |= !is_list;
	ck_pickle_fini(&read);
	ck_buf_fini(&text);
}

static bool is_part(const struct ck_pt_tree *t, const struct ck_pt_entry *e,
		    uint32_t level, const char *text)
{
	struct ck_path_part part;

	if (level >= ck_pt_levels(t, e))
		return false;
	part = ck_pt_part(t, e, level);
	return ck_str_is(ck_part_text(&part), text);
}

/* Does that for param_groups.*.params. */
static void params_look(const struct making *m, const struct ck_pt_entry *e,
			uint32_t levels, bool *ints, bool *others)
{
	bool is_params = e->id.is_object && !e->empty &&
			 ck_pt_levels(m->t, e) == levels + 3 &&
			 is_part(m->t, e, levels, "param_groups") &&
			 is_part(m->t, e, levels + 2, "params");

	if (is_params)
		params_read(ck_pt_object(m->o, e->n), ints, others);
}

/* Ids of parameters in the groups are ints: so are the keys of `state`. */
static void optimizer_ids(const struct making *m,
			  const struct ck_pt_optimizer *optimizer)
{
	struct ck_pt_tree *t = m->t;
	uint32_t begin = optimizer->begin, end = begin,
		 levels = optimizer->levels;
	bool ints = false, others = false;

	while (end < t->n &&
	       ck_pt_common(t, &t->entries[begin], &t->entries[end]) >= levels)
		params_look(m, &t->entries[end++], levels, &ints, &others);
	for (uint32_t i = begin; i < end && ints && !others; i++) {
		struct ck_pt_entry *e = &t->entries[i];
		struct ck_path_part part;
		uint64_t number;

		if (!is_part(t, e, levels, "state") ||
		    ck_pt_levels(t, e) <= levels + 1)
			continue;
		part = ck_pt_part(t, e, levels + 1);
		if (part.type == CK_PATH_STR &&
		    ck_view_number(ck_part_text(&part), &number))
			e->as_int = (uint16_t)(levels + 2);
	}
}

/* --- the state of an optimizer alone -------------------------------------------------- */

/* Sets *before to the text before "state" in a root that ends with it. False if the root is
 * not the state of an optimizer, by its name. */
static bool state_root(const struct ck_pt_tree *t, struct ck_str *before)
{
	struct ck_str rest = ck_str_from(t->root), part;
	bool is_digits;

	if (!ck_str_ends(rest, CK_STR("state")))
		return false;
	rest.len -= strlen("state");
	*before = rest;
	if (rest.len == 0)
		return true;
	do {
		const char *dot;

		if (rest.p[--rest.len] != '.')
			return false;
		dot = memrchr(rest.p, '.', rest.len);
		part.p = dot ? dot + 1 : rest.p;
		part.len = (size_t)(rest.p + rest.len - part.p);
		is_digits = part.len &&
			    strspn(part.p, "0123456789") >= part.len;
		rest.len -= part.len;
	} while (is_digits && rest.len);
	return ck_view_is_optimizer(part);
}

/* True for the name <before>param_groups.<number>.params. */
static bool is_params_name(struct ck_str name, struct ck_str before)
{
	static const struct ck_str groups = { "param_groups.", 13 },
				   params = { ".params", 7 };
	uint64_t number;

	if (!ck_str_starts(name, before))
		return false;
	name.p += before.len;
	name.len -= before.len;
	return ck_view_number_in(name, groups, params, &number);
}

/* Reads the lists of parameters in groups that are not below root=. */
static int groups_read(const struct making *m, struct ck_str before, bool *ints,
		       bool *others)
{
	const struct ck_catalog *c = m->t->c;
	const struct ck_listing *l = c->listing;
	int rc = 0;

	for (size_t i = 0; i < l->n && rc == 0; i++) {
		struct ck_buf value = { 0 };
		struct ck_pickler p = { .out = &value, .restricted = true };
		const char *why;

		if (!l->entries[i].is_object ||
		    !is_params_name(ck_catalog_names(c, l->entries[i]).name,
				    before))
			continue;
		rc = ck_view_object(m->objects, l->entries[i].i, &p, &why);
		if (rc == 0 && !why)
			params_read((struct ck_str){ value.data, value.len },
				    ints, others);
		*others |= why != NULL;
		ck_buf_fini(&value);
	}
	return rc;
}

/* Does for root=<optimizer>.state what optimizer_ids() does. */
static int state_ids(const struct making *m)
{
	struct ck_pt_tree *t = m->t;
	bool ints = false, others = false;
	struct ck_str before;
	int rc;

	if (strcmp(t->c->kind, "dcp") != 0 || t->flat ||
	    !state_root(t, &before))
		return 0;
	rc = groups_read(m, before, &ints, &others);
	for (uint32_t i = 0; i < t->n && rc == 0 && ints && !others; i++) {
		struct ck_path_part part = ck_pt_part(t, &t->entries[i], 0);
		uint64_t number;

		if (part.type == CK_PATH_STR &&
		    ck_view_number(ck_part_text(&part), &number))
			t->entries[i].as_int = 1;
	}
	return rc;
}

/* --- all ---------------------------------------------------------------------------- */

struct ck_str ck_pt_object(const struct ck_pt_objects *o, uint32_t n)
{
	uint64_t begin = n ? o->ends[n - 1] : 0;

	return (struct ck_str){ o->bytes.data + begin, o->ends[n] - begin };
}

int ck_pt_objects_make(struct ck_pt_objects *o, struct ck_pt_tree *t,
		       const struct ck_object_access *objects)
{
	struct making m = { .o = o, .t = t, .objects = objects };
	int rc;

	*o = (struct ck_pt_objects){ .memo = CK_PT_NAMES };
	rc = objects_add(&m);
	for (uint32_t i = 0; i < t->noptimizers && rc == 0; i++)
		optimizer_ids(&m, &t->optimizers[i]);
	return rc ? rc : state_ids(&m);
}

void ck_pt_objects_fini(struct ck_pt_objects *o)
{
	ck_buf_fini(&o->bytes);
	free(o->ends);
	*o = (struct ck_pt_objects){ 0 };
}
