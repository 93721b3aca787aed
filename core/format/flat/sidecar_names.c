/* SPDX-License-Identifier: MIT */
/*
 * sidecar_names: tables of the names in a sidecar, and checks of its contents: names
 * are unique, parameters are disjoint and inside their units.
 */
#include "sidecar_internal.h"

#include <errno.h>
#include <inttypes.h>

static int no_memory(struct ck_diag *d)
{
	return ck_fail(d, ENOMEM, "out of memory");
}

static int bytes_cmp(struct ck_str a, struct ck_str b)
{
	int cmp = memcmp(a.p, b.p, ck_min(a.len, b.len));

	if (cmp)
		return cmp;
	return a.len < b.len ? -1 : a.len > b.len;
}

/* Sorts by length first, so that lookup compares names of one length only. */
static int length_cmp(struct ck_str a, struct ck_str b)
{
	if (a.len != b.len)
		return a.len < b.len ? -1 : 1;
	return memcmp(a.p, b.p, a.len);
}

/* --- names of parameters ------------------------------------------------------------ */

static int name_cmp(const void *a, const void *b)
{
	const struct ck_sidecar_name *x = a, *y = b;

	return bytes_cmp(x->name, y->name);
}

const struct ck_sidecar_name *ck_sidecar_named(const struct ck_sidecar *s,
					       struct ck_str name)
{
	struct ck_sidecar_name key = { .name = name };

	return s->nnames ? bsearch(&key, s->by_name, s->nnames, sizeof(key),
				   name_cmp)
			 : NULL;
}

static void names_list(struct ck_sidecar *s)
{
	for (uint32_t u = 0; u < s->nunits; u++) {
		const struct ck_sidecar_unit *unit = &s->units[u];

		for (uint32_t i = 0; i < unit->nparams; i++)
			s->by_name[s->nnames++] = (struct ck_sidecar_name){
				s->params[unit->param + i].fqn, u,
				unit->param + i
			};
		for (uint32_t i = 0; i < unit->nshared; i++)
			s->by_name[s->nnames++] = (struct ck_sidecar_name){
				s->shared[unit->shared + i].fqn, u,
				CK_SIDECAR_NONE
			};
	}
}

static int names_sort(struct ck_sidecar *s, struct ck_diag *d)
{
	s->by_name = calloc(s->nparams + s->nshared + 1, sizeof(*s->by_name));
	if (!s->by_name)
		return no_memory(d);
	names_list(s);
	qsort(s->by_name, s->nnames, sizeof(*s->by_name), name_cmp);
	for (size_t i = 1; i < s->nnames; i++)
		if (ck_str_eq(s->by_name[i - 1].name, s->by_name[i].name))
			return ck_fail(d, EBADMSG,
				       "%s: two parameters have this name",
				       ck_show(s->by_name[i].name));
	return 0;
}

/* Finds the parameter of each further name of a unit. */
static int shared_find(struct ck_sidecar *s, uint32_t unit, struct ck_diag *d)
{
	const struct ck_sidecar_unit *u = &s->units[unit];

	for (uint32_t i = u->shared; i < u->shared + u->nshared; i++) {
		struct ck_sidecar_shared *shared = &s->shared[i];
		const struct ck_sidecar_name *n =
			ck_sidecar_named(s, shared->name);

		if (!n || n->unit != unit || n->param == CK_SIDECAR_NONE)
			return ck_fail(
				d, EBADMSG,
				"unit %s: %s is shared with %s, which is no parameter of it",
				ck_show(u->flat_param), ck_show(shared->fqn),
				ck_show(shared->name));
		shared->of = n->param;
	}
	return 0;
}

/* --- names of units ------------------------------------------------------------------ */

struct unit_name {
	struct ck_str name;
	uint32_t unit;
};

static int unit_cmp(const void *a, const void *b)
{
	const struct unit_name *x = a, *y = b;

	return length_cmp(x->name, y->name);
}

static int units_sort(struct ck_sidecar *s, struct ck_diag *d)
{
	ck_auto_free struct unit_name *names = calloc(s->nunits + 1,
						      sizeof(*names));

	s->by_length = calloc(s->nunits + 1, sizeof(*s->by_length));
	if (!names || !s->by_length)
		return no_memory(d);
	for (uint32_t i = 0; i < s->nunits; i++)
		names[i] = (struct unit_name){ s->units[i].flat_param, i };
	qsort(names, s->nunits, sizeof(*names), unit_cmp);
	for (size_t i = 0; i < s->nunits; i++) {
		s->by_length[i] = names[i].unit;
		if (i && ck_str_eq(names[i - 1].name, names[i].name))
			return ck_fail(d, EBADMSG,
				       "unit %s: there are two of this name",
				       ck_show(names[i].name));
	}
	return 0;
}

static const struct ck_sidecar_unit *unit_named(const struct ck_sidecar *s,
						struct ck_str name)
{
	size_t lo = 0, hi = s->nunits;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct ck_sidecar_unit *u = &s->units[s->by_length[mid]];
		int cmp = length_cmp(name, u->flat_param);

		if (cmp == 0)
			return u;
		if (cmp < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

const struct ck_sidecar_unit *ck_sidecar_find(const struct ck_sidecar *s,
					      struct ck_str shown,
					      struct ck_str *prefix)
{
	const struct ck_sidecar_unit *u = NULL;
	size_t longest =
		s->nunits ? s->units[s->by_length[s->nunits - 1]].flat_param.len
			  : 0;
	size_t at = shown.len > longest ? shown.len - longest : 0;

	for (; s->nunits && at < shown.len && !u; at++)
		if (at == 0 || shown.p[at - 1] == '.')
			u = unit_named(s, (struct ck_str){ shown.p + at,
							   shown.len - at });
	if (u)
		*prefix = (struct ck_str){ shown.p,
					   shown.len - u->flat_param.len };
	return u;
}

int ck_sidecar_fits(const struct ck_sidecar_unit *unit, struct ck_str shown,
		    uint64_t numel, struct ck_diag *d)
{
	if (unit->numel == numel)
		return 0;
	return ck_differs(d, EBADMSG, ck_shown("%" PRIu64, unit->numel),
			  ck_shown("%" PRIu64, numel),
			  "%s: elements of unit %s, which is not used",
			  ck_show(shown), ck_show(unit->flat_param));
}

/* --- ranges of parameters --------------------------------------------------------- */

struct range {
	uint64_t begin, end;
	uint32_t param;
};

static int range_cmp(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->param < y->param ? -1 : x->param > y->param;
}

static int overlap(const struct ck_sidecar *s, const struct ck_sidecar_unit *u,
		   const struct range *a, const struct range *b,
		   struct ck_diag *d)
{
	return ck_differs(d, EBADMSG, ck_shown("%" PRIu64 " or more", a->end),
			  ck_shown("%" PRIu64, b->begin),
			  "unit %s: offset of %s, behind %s",
			  ck_show(u->flat_param),
			  ck_show(s->params[b->param].fqn),
			  ck_show(s->params[a->param].fqn));
}

/* Lists the ranges of parameters with elements; others cannot overlap. */
static int ranges_list(const struct ck_sidecar *s,
		       const struct ck_sidecar_unit *u, struct range *ranges,
		       uint32_t *n, struct ck_diag *d)
{
	*n = 0;
	for (uint32_t i = u->param; i < u->param + u->nparams; i++) {
		const struct ck_sidecar_param *p = &s->params[i];
		uint64_t end;

		if (!ck_add(&end, p->offset, p->numel))
			end = UINT64_MAX;
		if (end > u->numel)
			return ck_differs(
				d, EBADMSG,
				ck_shown("%" PRIu64 " or less", u->numel),
				ck_shown("%" PRIu64, end), "unit %s: end of %s",
				ck_show(u->flat_param), ck_show(p->fqn));
		if (p->numel)
			ranges[(*n)++] = (struct range){ p->offset, end, i };
	}
	return 0;
}

static int unit_check(const struct ck_sidecar *s,
		      const struct ck_sidecar_unit *u, struct range *ranges,
		      struct ck_diag *d)
{
	uint32_t n;
	int rc = ranges_list(s, u, ranges, &n, d);

	if (rc)
		return rc;
	qsort(ranges, n, sizeof(*ranges), range_cmp);
	for (uint32_t i = 1; i < n; i++)
		if (ranges[i].begin < ranges[i - 1].end)
			return overlap(s, u, &ranges[i - 1], &ranges[i], d);
	return 0;
}

static int units_check(struct ck_sidecar *s, struct ck_diag *d)
{
	ck_auto_free struct range *ranges = calloc(s->nparams + 1,
						   sizeof(*ranges));
	int rc = ranges ? 0 : no_memory(d);

	for (uint32_t i = 0; rc == 0 && i < s->nunits; i++) {
		rc = unit_check(s, &s->units[i], ranges, d);
		if (rc == 0)
			rc = shared_find(s, i, d);
	}
	return rc;
}

/* --- optimizers ---------------------------------------------------------------------- */

/* Finds the unit or parameter of a name in optimizer state. Leaves it unset if the
 * sidecar lacks the name: FSDP need not manage all parameters. */
static void state_find(const struct ck_sidecar *s, struct ck_sidecar_state *st)
{
	const struct ck_sidecar_unit *u = unit_named(s, st->name);
	const struct ck_sidecar_name *n = ck_sidecar_named(s, st->name);

	if (u) {
		st->unit = (uint32_t)(u - s->units);
	} else if (n) {
		st->unit = n->unit;
		st->param = n->param;
	}
}

const struct ck_sidecar_state *ck_sidecar_state(const struct ck_sidecar *s,
						uint64_t optimizer,
						uint64_t number)
{
	const struct ck_sidecar_optimizer *o;

	if (optimizer >= s->noptimizers)
		return NULL;
	o = &s->optimizers[optimizer];
	return number < o->nstates ? &s->states[o->state + number] : NULL;
}

/* Gives further names the parameter that they share. */
static void names_share(struct ck_sidecar *s)
{
	for (uint32_t i = 0; i < s->nshared; i++) {
		struct ck_sidecar_name key = { .name = s->shared[i].fqn };
		struct ck_sidecar_name *n = bsearch(&key, s->by_name, s->nnames,
						    sizeof(key), name_cmp);

		if (n)
			n->param = s->shared[i].of;
	}
}

int ck_sidecar_check(struct ck_sidecar *s, struct ck_diag *d)
{
	int rc = units_sort(s, d);

	if (rc == 0)
		rc = names_sort(s, d);
	if (rc == 0)
		rc = units_check(s, d);
	if (rc)
		return rc;
	names_share(s);
	for (size_t i = 0; i < s->nstates; i++)
		state_find(s, &s->states[i]);
	return 0;
}
