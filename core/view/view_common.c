/* SPDX-License-Identifier: MIT */
/*
 * view_common: functions that several views use: the slice of a file of one tensor, names,
 * entries that are left out, plans, and values of objects. No state; any thread.
 */
#include "ckptfs/pickle.h"
#include "syntax/pickle/pickler.h"
#include "view_internal.h"

#include <errno.h>

/* --- slices --------------------------------------------------------------------- */

bool ck_view_has_bytes(const struct ck_tensor *t)
{
	return !t->err || t->nbytes;
}

int ck_view_slice_make(const struct ck_view_part *p, struct ck_slice **out)
{
	struct ck_slice_builder b = { 0 };
	int rc;

	ck_slice_add_bytes(&b, p->literal);
	if (p->has_tensor) {
		ck_slice_add_box(&b, p->tensor, p->ndim,
				 (const uint64_t *)p->box, p->nbytes);
		b.parts[b.n - 1].part.from = p->from;
	}
	rc = ck_slice_make(&b, out);
	if (rc == 0)
		(*out)->at_open = true;
	return rc;
}

int ck_view_slice_checked(const struct ck_tensor *t, int rc,
			  struct ck_slice **out)
{
	if (rc || t->err == 0)
		return rc;
	if (t->err == EBADMSG) {
		(*out)->err = t->err;
		return 0;
	}
	ck_slice_free(*out);
	return -t->err;
}

/* --- options -------------------------------------------------------------------- */

bool ck_view_is_wanted(const struct ck_view_options *o, const char *top)
{
	size_t len = strlen(top);

	for (const char *at = o->views; at; at = strchr(at, '+')) {
		at += *at == '+';
		if (strncmp(at, top, len) == 0 && strchr("+", at[len]))
			return true;
	}
	return !o->views;
}

/* --- names ---------------------------------------------------------------------- */

bool ck_view_is_flat(const struct ck_catalog *c, uint32_t tensor)
{
	return ck_catalog_tensor(c, tensor)->kind == CK_KIND_FLAT_PARAM ||
	       ck_name_is_flat(ck_tensor_names(c, tensor).name);
}

bool ck_view_is_optimizer(struct ck_str name)
{
	static const char *const names[] = { "optim", "optimizer", "optimizers",
					     "optimizer_state_dict",
					     "optimizer_states" };

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++)
		if (ck_str_is(name, names[i]))
			return true;
	return false;
}

bool ck_view_is_below(struct ck_str name, const char *root)
{
	size_t len = strlen(root);

	return len == 0 || (name.len > len && name.p[len] == '.' &&
			    memcmp(name.p, root, len) == 0);
}

struct ck_str ck_view_word(struct ck_str text)
{
	const char *dot = text.len ? memchr(text.p, '.', text.len) : NULL;

	return (struct ck_str){ text.p,
				dot ? (size_t)(dot - text.p) : text.len };
}

bool ck_view_is_text(struct ck_str s)
{
	for (size_t i = 0, len; i < s.len; i += len) {
		const uint8_t *p = (const uint8_t *)s.p + i;

		len = ck_utf8_len(s.p + i, s.len - i);
		if (len == 0 && s.len - i >= 3 && p[0] == 0xed &&
		    p[1] >= 0xa0 && p[1] <= 0xbf && (p[2] & 0xc0) == 0x80)
			len = 3;
		if (len == 0)
			return false;
	}
	return true;
}

bool ck_view_number_in(struct ck_str name, struct ck_str prefix,
		       struct ck_str suffix, uint64_t *number)
{
	const char *p, *end;

	if (!ck_str_starts(name, prefix) || name.len <= prefix.len + suffix.len)
		return false;
	p = name.p + prefix.len;
	end = name.p + name.len - suffix.len;
	if (memcmp(end, suffix.p, suffix.len) != 0 ||
	    (*p == '0' && end - p > 1))
		return false;
	for (*number = 0; p < end; p++)
		if (*p < '0' || *p > '9' || !ck_mul(number, *number, 10) ||
		    !ck_add(number, *number, (uint64_t)(*p - '0')))
			return false;
	return true;
}

bool ck_view_number(struct ck_str text, uint64_t *number)
{
	return text.len <= 18 &&
	       ck_view_number_in(text, CK_STR(""), CK_STR(""), number);
}

bool ck_view_rank_in(struct ck_str name, uint64_t *rank)
{
	return ck_view_number_in(name, CK_STR("rank-"), CK_STR(""), rank);
}

/* --- left out tensors ------------------------------------------------------------- */

/* A row that is no whole tensor is a piece of a flat parameter, or has the reason that
 * ranks differ. */
const char *ck_view_left_out(const struct ck_catalog *c, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);

	if (ck_view_is_flat(c, tensor))
		return "it is a flat parameter of FSDP1";
	if (t->entry.role != CK_ROLE_WHOLE && ck_tensor_fault(t).len == 0)
		return "it is a piece of a flat parameter of FSDP1";
	if (t->entry.role != CK_ROLE_WHOLE)
		return "its ranks differ";
	if (ck_dtype_is_quantized(t->dtype))
		return "its dtype is quantized";
	return t->err ? "it cannot be opened" : NULL;
}

int ck_left_outs_add(struct ck_left_outs *l, struct ck_str name,
		     const char *why)
{
	struct ck_left_out *all = ck_grow(l->all, &l->cap, l->n, 1,
					  sizeof(*all));

	if (!all)
		return -ENOMEM;
	l->all = all;
	all[l->n++] = (struct ck_left_out){ name, why };
	return 0;
}

void ck_left_outs_print(const struct ck_left_outs *l, const char *view,
			struct ck_buf *out)
{
	for (uint32_t i = 0; i < l->n; i++) {
		ck_buf_printf(out, "%s: left out: ", view);
		ck_buf_escaped(out, l->all[i].name);
		ck_buf_printf(out, ": %s\n", l->all[i].why);
	}
}

/* --- plans ------------------------------------------------------------------------ */

void ck_view_plan_begin(struct ck_view_plan *p,
			const struct ck_view_plan *current,
			const struct ck_catalog *c, void (*free)(void *plan))
{
	*p = (struct ck_view_plan){ .refs = 1,
				    .c = ck_catalog_hold(c),
				    .born = current ? c->generation : 0,
				    .free = free };
}

void *ck_view_plan_hold(void *plan)
{
	struct ck_view_plan *p = plan;

	__atomic_fetch_add(&p->refs, 1, __ATOMIC_RELAXED);
	return p;
}

void ck_view_plan_put(void *plan)
{
	struct ck_view_plan *p = plan;
	const struct ck_catalog *c;

	if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	c = p->c;
	p->free(p);
	ck_catalog_put(c);
}

void *ck_view_plan_of(struct ck_view_plan *current, const struct ck_catalog *c)
{
	return current && current->c->listing == c->listing
		       ? ck_view_plan_hold(current)
		       : NULL;
}

void ck_view_plan_keep(struct ck_view_plan **current, struct ck_view_plan *p)
{
	if (*current && (*current)->c->generation > p->c->generation)
		return;
	ck_view_plan_put(*current);
	*current = ck_view_plan_hold(p);
}

void ck_view_facts_add(struct ck_view_facts *f, mode_t mode,
		       struct timespec mtime, uint64_t version)
{
	f->mode &= mode;
	if (ck_time_is_later(mtime, f->mtime))
		f->mtime = mtime;
	f->version = ck_max(f->version, version);
}

void ck_view_facts_of(struct ck_view_facts *f, const struct ck_catalog *c,
		      struct ck_entry_id id)
{
	const struct ck_object *o = id.is_object ? ck_catalog_object(c, id.i)
						 : NULL;
	const struct ck_tensor_facts *t = o ? NULL
					    : ck_catalog_tensor(c, id.i)->facts;

	if (o)
		ck_view_facts_add(f, o->mode, o->mtime, 0);
	else
		ck_view_facts_add(f, t->mode, t->mtime, t->version);
}

/* --- values of objects ------------------------------------------------------------ */

/* Limit of a value, by the length of its pickle: protocol 2 spells bytes as text. */
enum { GROWS = 8, GROWS_BY = 4096 };

static int convert(struct ck_pickler *p, const struct ck_buf *pickle,
		   const char **why)
{
	size_t begin = p->out->len,
	       most = begin + GROWS * pickle->len + GROWS_BY;
	struct ck_pickle from = { 0 };
	int rc = ck_pickle_read(&from, pickle->data, pickle->len, NULL, NULL);

	if (rc == 0)
		rc = ck_pickler_value(p, &from, &from.root, NULL, most, NULL);
	ck_pickle_fini(&from);
	if (rc)
		p->out->len = begin;
	if (rc == -EBADMSG) {
		*why = p->refused ? p->refused : "it is malformed";
		rc = 0;
	}
	return rc;
}

/* True if an object may be readable later. An object that the mounting user may not read is
 * left out. */
static bool is_transient(int rc, const struct ck_diag *d)
{
	return ck_is_shortage(rc) || rc == -EREMOTE ||
	       (d->transient && rc != -EACCES && rc != -EPERM);
}

int ck_view_object(const struct ck_object_access *objects, uint32_t object,
		   struct ck_pickler *p, const char **why)
{
	struct ck_buf pickle = { 0 };
	struct ck_diag d = { 0 };
	int rc = objects->pickle(objects->cp, object, &pickle, &d);

	*why = NULL;
	if (rc == 0) {
		rc = convert(p, &pickle, why);
	} else if (!is_transient(rc, &d)) {
		*why = "it cannot be read";
		rc = 0;
	}
	ck_buf_fini(&pickle);
	return rc;
}
