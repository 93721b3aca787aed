/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a sidecar of flat parameters: it is refused with a reason, or its parameters
 * are inside their units and share no element, all names differ, and every unit is found by
 * its name, below anything.
 */
#include "format/flat/sidecar.h"
#include "must.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FEW = 64 };

static bool meet(const struct ck_sidecar_param *a,
		 const struct ck_sidecar_param *b)
{
	return a->numel && b->numel && a->offset < b->offset + b->numel &&
	       b->offset < a->offset + a->numel;
}

static void look_at_param(const struct ck_sidecar *s,
			  const struct ck_sidecar_unit *u, uint32_t i)
{
	const struct ck_sidecar_param *p = &s->params[i];
	uint64_t numel = 1;

	must(p->ndim <= CK_MAX_DIMS && p->shape + p->ndim <= s->nshapes);
	must(p->offset <= u->numel && p->numel <= u->numel - p->offset);
	for (uint32_t d = 0; d < p->ndim; d++)
		must(ck_sidecar_shape(s, p)[d] >= 0);
	if (ck_dims_have_zero(ck_sidecar_shape(s, p), p->ndim))
		numel = 0;
	for (uint32_t d = 0; numel && d < p->ndim; d++)
		numel *= (uint64_t)ck_sidecar_shape(s, p)[d];
	must(p->numel == numel);
	for (uint32_t k = u->param; k < i && k < u->param + FEW; k++)
		must(!meet(&s->params[k], p));
	for (uint32_t k = 0; k < i && k < FEW; k++)
		must(!ck_str_eq(s->params[k].fqn, p->fqn));
}

/* With anything before it, it is the longest that ends so, or itself. */
static void look_for_unit(const struct ck_sidecar *s,
			  const struct ck_sidecar_unit *u)
{
	struct ck_buf name = { 0 };
	struct ck_str prefix;

	must(ck_sidecar_find(s, u->flat_param, &prefix) == u);
	must(prefix.len == 0);
	ck_buf_text(&name, "%.");
	ck_buf_str(&name, u->flat_param);
	must(name.err ||
	     ck_sidecar_find(s, (struct ck_str){ name.data, name.len },
			     &prefix));
	ck_buf_fini(&name);
}

static void look_at_unit(const struct ck_sidecar *s,
			 const struct ck_sidecar_unit *u)
{
	must(u->flat_param.len && ck_utf8_valid(u->flat_param));
	must(u->param + u->nparams <= s->nparams);
	must(u->shared + u->nshared <= s->nshared);
	for (uint32_t i = u->param; i < u->param + u->nparams; i++)
		look_at_param(s, u, i);
	for (uint32_t i = u->shared; i < u->shared + u->nshared; i++)
		must(s->shared[i].of >= u->param &&
		     s->shared[i].of < u->param + u->nparams);
	look_for_unit(s, u);
}

static void look_at_states(const struct ck_sidecar *s)
{
	for (uint32_t o = 0; o < s->noptimizers; o++)
		for (uint32_t i = 0; i < s->optimizers[o].nstates; i++) {
			const struct ck_sidecar_state *st =
				ck_sidecar_state(s, o, i);

			must(st && st->name.len);
			must(st->unit == CK_SIDECAR_NONE ||
			     st->unit < s->nunits);
			must(st->param == CK_SIDECAR_NONE ||
			     (st->param < s->nparams &&
			      st->unit != CK_SIDECAR_NONE));
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_sidecar s;
	struct ck_diag d = { 0 };
	int rc = ck_sidecar_read(
		&s, (struct ck_str){ (const char *)data, size }, &d);

	must(rc == 0 || (rc == -EBADMSG && d.err == EBADMSG && *d.text));
	if (rc == 0) {
		for (uint32_t i = 0; i < s.nunits; i++)
			look_at_unit(&s, &s.units[i]);
		look_at_states(&s);
	}
	ck_sidecar_fini(&s);
	return 0;
}
