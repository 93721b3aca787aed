/* SPDX-License-Identifier: MIT */
/*
 * sidecar: parses ckptfs-flat.json, in two passes. The first one reads format and
 * version only, so that a file of a later version is reported as such.
 */
#include "sidecar_internal.h"

#include <errno.h>
#include <inttypes.h>

static int no_memory(struct ck_diag *d)
{
	return ck_fail(d, ENOMEM, "out of memory");
}

static int refuse(struct ck_sidecar *s, const struct ck_json_value *v,
		  const char *what)
{
	return ck_json_refuse(s->json, v, what);
}

/* --- objects and arrays ----------------------------------------------------------- */

/* Takes one value of an object or array. */
typedef int take(struct ck_sidecar *s, const struct ck_json_value *v,
		 void *into);

/* Calls f() for each value of the object or array that v begins. otherwise: the error
 * if v is of another type. */
static int each(struct ck_sidecar *s, const struct ck_json_value *v,
		enum ck_json_type type, const char *otherwise, take *f,
		void *into)
{
	struct ck_json_value value;
	int rc;

	if (v->type != type)
		return refuse(s, v, otherwise);
	for (;;) {
		rc = ck_json_next(s->json, &value);
		if (rc || value.type == CK_JSON_END)
			return rc;
		rc = f(s, &value, into);
		if (rc)
			return rc;
	}
}

static int text_take(struct ck_sidecar *s, const struct ck_json_value *v,
		     struct ck_str *out)
{
	if (v->type != CK_JSON_STRING || v->text.len == 0)
		return refuse(s, v, "no name");
	*out = v->text;
	return 0;
}

static int number_take(struct ck_sidecar *s, const struct ck_json_value *v,
		       uint64_t *out)
{
	return ck_json_u63(v, out) ? 0 : refuse(s, v, "no size below 2^63");
}

/* Fails if there are `most` elements. The limits are above any real model, and bound
 * the memory to a few times the size of the sidecar. */
static int count_check(struct ck_sidecar *s, size_t n, size_t most,
		       const char *what)
{
	if (n < most)
		return 0;
	return ck_fail(s->json->d, EBADMSG, "more than %zu %s", most, what);
}

/* --- parameters ---------------------------------------------------------------------- */

/* The parameter that is being read. */
struct param {
	struct ck_sidecar_param p;
	bool has_shape, has_offset;
};

static int size_take(struct ck_sidecar *s, const struct ck_json_value *v,
		     void *into)
{
	struct param *p = into;
	uint64_t size;
	int64_t *shapes;
	int rc = number_take(s, v, &size);

	if (rc == 0)
		rc = count_check(s, p->p.ndim, CK_MAX_DIMS, "dimensions");
	if (rc == 0)
		rc = count_check(s, s->nshapes, 8UL * CK_SIDECAR_PARAMS,
				 "dimensions of all");
	if (rc)
		return rc;
	shapes = ck_grow(s->shapes, &s->shapes_cap, s->nshapes, 1,
			 sizeof(*shapes));
	if (!shapes)
		return no_memory(s->json->d);
	s->shapes = shapes;
	shapes[s->nshapes++] = (int64_t)size;
	p->p.ndim++;
	return 0;
}

static int param_field(struct ck_sidecar *s, const struct ck_json_value *v,
		       void *into)
{
	struct param *p = into;

	if (ck_str_is(v->key, "fqn"))
		return text_take(s, v, &p->p.fqn);
	if (ck_str_is(v->key, "offset")) {
		p->has_offset = true;
		return number_take(s, v, &p->p.offset);
	}
	if (!ck_str_is(v->key, "shape"))
		return ck_json_skip(s->json, v);
	p->has_shape = true;
	p->p.shape = (uint32_t)s->nshapes;
	return each(s, v, CK_JSON_ARRAY, "a shape that is no array", size_take,
		    p);
}

/* Sets p->numel. False if the product overflows, unless a size is 0. */
static bool numel_of(const struct ck_sidecar *s, struct ck_sidecar_param *p)
{
	const int64_t *shape = ck_sidecar_shape(s, p);

	p->numel = !ck_dims_have_zero(shape, p->ndim);
	for (uint32_t d = 0; p->numel && d < p->ndim; d++)
		if (!ck_mul(&p->numel, p->numel, (uint64_t)shape[d]))
			return false;
	return true;
}

static int param_take(struct ck_sidecar *s, const struct ck_json_value *v,
		      void *into)
{
	struct param p = { 0 };
	struct ck_sidecar_param *params;
	int rc = each(s, v, CK_JSON_OBJECT, "a parameter that is no object",
		      param_field, &p);

	(void)into;
	if (rc == 0)
		rc = count_check(s, s->nparams + s->nshared, CK_SIDECAR_PARAMS,
				 "parameters");
	if (rc)
		return rc;
	if (!p.p.fqn.p || !p.has_shape || !p.has_offset)
		return refuse(s, v,
			      "a parameter without fqn, shape, or offset");
	if (!numel_of(s, &p.p))
		return ck_fail(s->json->d, EBADMSG,
			       "%s: its elements cannot be counted",
			       ck_show(p.p.fqn));
	params = ck_grow(s->params, &s->params_cap, s->nparams, 1,
			 sizeof(*params));
	if (!params)
		return no_memory(s->json->d);
	s->params = params;
	params[s->nparams++] = p.p;
	return 0;
}

/* --- shared parameters ------------------------------------------------------------ */

static int shared_field(struct ck_sidecar *s, const struct ck_json_value *v,
			void *into)
{
	struct ck_sidecar_shared *shared = into;

	if (ck_str_is(v->key, "fqn"))
		return text_take(s, v, &shared->fqn);
	if (ck_str_is(v->key, "of"))
		return text_take(s, v, &shared->name);
	return ck_json_skip(s->json, v);
}

static int shared_take(struct ck_sidecar *s, const struct ck_json_value *v,
		       void *into)
{
	struct ck_sidecar_shared one = { .of = CK_SIDECAR_NONE }, *shared;
	int rc = each(s, v, CK_JSON_OBJECT,
		      "a shared parameter that is no object", shared_field,
		      &one);

	(void)into;
	if (rc == 0)
		rc = count_check(s, s->nparams + s->nshared, CK_SIDECAR_PARAMS,
				 "parameters");
	if (rc)
		return rc;
	if (!one.fqn.p || !one.name.p)
		return refuse(s, v, "a shared parameter without fqn or of");
	shared = ck_grow(s->shared, &s->shared_cap, s->nshared, 1,
			 sizeof(*shared));
	if (!shared)
		return no_memory(s->json->d);
	s->shared = shared;
	shared[s->nshared++] = one;
	return 0;
}

/* --- units --------------------------------------------------------------------------- */

struct unit {
	struct ck_sidecar_unit u;
	bool has_numel, has_params;
};

static int unit_field(struct ck_sidecar *s, const struct ck_json_value *v,
		      void *into)
{
	struct unit *u = into;

	if (ck_str_is(v->key, "flat_param"))
		return text_take(s, v, &u->u.flat_param);
	if (ck_str_is(v->key, "dtype"))
		return text_take(s, v, &u->u.dtype);
	if (ck_str_is(v->key, "numel")) {
		u->has_numel = true;
		return number_take(s, v, &u->u.numel);
	}
	if (ck_str_is(v->key, "shared"))
		return each(s, v, CK_JSON_ARRAY, "shared that is no array",
			    shared_take, NULL);
	if (!ck_str_is(v->key, "params"))
		return ck_json_skip(s->json, v);
	u->has_params = true;
	return each(s, v, CK_JSON_ARRAY, "params that are no array", param_take,
		    NULL);
}

static int unit_take(struct ck_sidecar *s, const struct ck_json_value *v,
		     void *into)
{
	struct unit one = { .u = { .param = (uint32_t)s->nparams,
				   .shared = (uint32_t)s->nshared } };
	struct ck_sidecar_unit *units;
	int rc = each(s, v, CK_JSON_OBJECT, "a unit that is no object",
		      unit_field, &one);

	(void)into;
	if (rc == 0)
		rc = count_check(s, s->nunits, CK_SIDECAR_PARAMS, "units");
	if (rc)
		return rc;
	if (!one.u.flat_param.p || !one.has_numel || !one.has_params)
		return refuse(s, v,
			      "a unit without flat_param, numel, or params");
	one.u.nparams = (uint32_t)s->nparams - one.u.param;
	one.u.nshared = (uint32_t)s->nshared - one.u.shared;
	units = ck_grow(s->units, &s->units_cap, s->nunits, 1, sizeof(*units));
	if (!units)
		return no_memory(s->json->d);
	s->units = units;
	units[s->nunits++] = one.u;
	return 0;
}

/* --- optimizers ---------------------------------------------------------------------- */

static int state_take(struct ck_sidecar *s, const struct ck_json_value *v,
		      void *into)
{
	struct ck_sidecar_state *states,
		one = { .unit = CK_SIDECAR_NONE, .param = CK_SIDECAR_NONE };
	int rc = text_take(s, v, &one.name);

	(void)into;
	if (rc == 0)
		rc = count_check(s, s->nstates, CK_SIDECAR_PARAMS,
				 "names of optimizers");
	if (rc)
		return rc;
	states = ck_grow(s->states, &s->states_cap, s->nstates, 1,
			 sizeof(*states));
	if (!states)
		return no_memory(s->json->d);
	s->states = states;
	states[s->nstates++] = one;
	return 0;
}

static int optimizer_take(struct ck_sidecar *s, const struct ck_json_value *v,
			  void *into)
{
	struct ck_sidecar_optimizer *optimizers,
		one = { .state = (uint32_t)s->nstates };
	int rc = each(s, v, CK_JSON_ARRAY, "an optimizer that is no array",
		      state_take, NULL);

	(void)into;
	if (rc == 0)
		rc = count_check(s, s->noptimizers, CK_SIDECAR_PARAMS,
				 "optimizers");
	if (rc)
		return rc;
	one.nstates = (uint32_t)s->nstates - one.state;
	optimizers = ck_grow(s->optimizers, &s->optimizers_cap, s->noptimizers,
			     1, sizeof(*optimizers));
	if (!optimizers)
		return no_memory(s->json->d);
	s->optimizers = optimizers;
	optimizers[s->noptimizers++] = one;
	return 0;
}

/* --- the file --------------------------------------------------------------------- */

static int world_take(struct ck_sidecar *s, const struct ck_json_value *v)
{
	int rc = number_take(s, v, &s->world);

	return rc == 0 && s->world == 0 ? refuse(s, v, "no world_size") : rc;
}

static int field_take(struct ck_sidecar *s, const struct ck_json_value *v,
		      void *into)
{
	(void)into;
	if (ck_str_is(v->key, "world_size"))
		return world_take(s, v);
	if (ck_str_is(v->key, "units"))
		return each(s, v, CK_JSON_ARRAY, "units that are no array",
			    unit_take, NULL);
	if (ck_str_is(v->key, "optimizers"))
		return each(s, v, CK_JSON_ARRAY, "optimizers that are no array",
			    optimizer_take, NULL);
	return ck_json_skip(s->json, v);
}

/* The fields that identify a sidecar. */
struct kind {
	struct ck_str format, version;
	bool has_units;
};

static int kind_field(struct ck_sidecar *s, const struct ck_json_value *v,
		      void *into)
{
	struct kind *k = into;

	if (ck_str_is(v->key, "format") && v->type == CK_JSON_STRING)
		k->format = v->text;
	if (ck_str_is(v->key, "version") && v->type == CK_JSON_NUMBER)
		k->version = v->text;
	k->has_units |= ck_str_is(v->key, "units");
	return ck_json_skip(s->json, v);
}

static int kind_check(const struct kind *k, struct ck_diag *d)
{
	if (!ck_str_is(k->format, "ckptfs-flat"))
		return ck_differs(d, EBADMSG, "ckptfs-flat",
				  k->format.p ? ck_show(k->format) : "none",
				  "format");
	if (!ck_str_is(k->version, "1"))
		return ck_differs(d, EBADMSG, "1",
				  k->version.p ? ck_show(k->version) : "none",
				  "version");
	if (!k->has_units)
		return ck_fail(d, EBADMSG, "it has no units");
	return 0;
}

/* Reads the text, which is one object. */
static int object_take(struct ck_sidecar *s, take *f, void *into)
{
	struct ck_json_value v;
	int rc = ck_json_next(s->json, &v);

	if (rc == 0)
		rc = each(s, &v, CK_JSON_OBJECT, "no object", f, into);
	return rc ? rc : ck_json_next(s->json, &v);
}

static int kind_read(struct ck_sidecar *s, struct ck_str text,
		     struct ck_diag *d)
{
	struct kind k = { 0 };
	int rc;

	ck_json_reader_init(s->json, text, d);
	rc = object_take(s, kind_field, &k);
	if (rc == 0)
		rc = kind_check(&k, d);
	ck_json_reader_fini(s->json);
	return rc;
}

static int sidecar_take(struct ck_sidecar *s, struct ck_str text,
			struct ck_diag *d)
{
	int rc = kind_read(s, text, d);

	if (rc)
		return rc;
	/* A shape without dimensions needs an address, too. */
	s->shapes = ck_grow(NULL, &s->shapes_cap, 0, 1, sizeof(*s->shapes));
	if (!s->shapes)
		return no_memory(d);
	ck_json_reader_init(s->json, text, d);
	rc = object_take(s, field_take, NULL);
	ck_json_reader_leave(s->json, &s->texts);
	return rc ? rc : ck_sidecar_check(s, d);
}

int ck_sidecar_read(struct ck_sidecar *s, struct ck_str text, struct ck_diag *d)
{
	struct ck_json_reader reader;
	int rc;

	*s = (struct ck_sidecar){ .json = &reader };
	if (text.len > CK_SIDECAR_MOST)
		rc = ck_fail(d, EBADMSG, "%zu bytes; at most %d are read",
			     text.len, CK_SIDECAR_MOST);
	else
		rc = sidecar_take(s, text, d);
	s->json = NULL;
	return rc;
}

void ck_sidecar_fini(struct ck_sidecar *s)
{
	free(s->units);
	free(s->params);
	free(s->shared);
	free(s->optimizers);
	free(s->states);
	free(s->shapes);
	free(s->by_length);
	free(s->by_name);
	ck_arena_fini(&s->texts);
	*s = (struct ck_sidecar){ 0 };
}
