/* SPDX-License-Identifier: MIT */
/*
 * State of optimizers under numbers: random units with gaps and shared names, random optimizers,
 * and uneven numbers of ranks, with empty parts and perhaps a lost rank. A model gives, for each
 * element, the first file that has it. local/ must be as without a sidecar.
 */
#include "flat_shown.h"

enum { UNITS = 3, PARAMS = 4, DIMS = 3, ENTRIES = UNITS * PARAMS + 1 };

struct param {
	char fqn[24], also[24]; /* also: a name that shares it, or "" */
	uint32_t ndim;
	int64_t shape[DIMS];
	unsigned offset, n;
};

struct unit {
	unsigned numel, nparams;
	struct param params[PARAMS];
};

/* State of a unit, of a parameter of a unit, or of another parameter (unit < 0). */
struct kept {
	int unit, param;
	const char *name;
};

struct model {
	unsigned world, replicas, nunits, noptimizers, nkept[2];
	bool orig, has_world; /* has_world: the sidecar has the world size */
	struct unit units[UNITS];
	char names[UNITS][24];
	struct kept kept[2][ENTRIES];
	/* The rank has no elements of the parameter, but an empty state. */
	bool has_empty[MOST][2][ENTRIES];
};

static unsigned below(uint64_t *random, unsigned n)
{
	return (unsigned)(tap_random(random) % n);
}

static void param_draw(struct param *p, unsigned unit, unsigned i, unsigned *at,
		       uint64_t *random)
{
	(void)snprintf(p->fqn, sizeof(p->fqn), "u%u.p%u", unit, i);
	if (i == 0 && below(random, 2))
		(void)snprintf(p->also, sizeof(p->also), "shared%u", unit);
	p->ndim = below(random, DIMS + 1);
	p->n = 1;
	for (uint32_t d = 0; d < p->ndim; d++) {
		p->shape[d] = below(random, 9) ? 1 + (int)below(random, 4) : 0;
		p->n *= (unsigned)p->shape[d];
	}
	p->offset = *at + below(random, 3);
	*at = p->offset + p->n;
}

static void keep(struct model *m, int unit, int param, const char *name,
		 uint64_t *random)
{
	unsigned o = below(random, m->noptimizers);

	m->kept[o][m->nkept[o]++] = (struct kept){ unit, param, name };
}

static void unit_keep(struct model *m, unsigned u, uint64_t *random)
{
	struct unit *unit = &m->units[u];

	if (!m->orig)
		keep(m, (int)u, -1, m->names[u], random);
	for (unsigned i = 0; m->orig && i < unit->nparams; i++)
		keep(m, (int)u, (int)i,
		     *unit->params[i].also && below(random, 2)
			     ? unit->params[i].also
			     : unit->params[i].fqn,
		     random);
}

static void draw(struct model *m, uint64_t *random)
{
	*m = (struct model){ .world = 1 + below(random, 5),
			     .replicas = 1,
			     .orig = below(random, 2),
			     .has_world = below(random, 3),
			     .nunits = 1 + below(random, UNITS),
			     .noptimizers = 1 + below(random, 2) };
	if (m->has_world)
		m->replicas += below(random, 3);
	for (unsigned u = 0; u < m->nunits; u++) {
		struct unit *unit = &m->units[u];
		unsigned at = 0;

		(void)snprintf(m->names[u], sizeof(m->names[u]),
			       "u%u._flat_param", u);
		unit->nparams = 1 + below(random, PARAMS);
		for (unsigned i = 0; i < unit->nparams; i++)
			param_draw(&unit->params[i], u, i, &at, random);
		unit->numel = at + below(random, 3);
		unit->numel += unit->numel == 0;
		unit_keep(m, u, random);
	}
	keep(m, -1, -1, "elsewhere", random);
	for (unsigned r = 0; r < MOST; r++)
		for (unsigned i = 0; i < 2 * ENTRIES; i++)
			m->has_empty[r][i / ENTRIES][i % ENTRIES] =
				below(random, 2);
}

static void model_side(const struct model *m)
{
	struct ck_buf units = { 0 }, optimizers = { 0 };

	for (unsigned u = 0; u < m->nunits; u++) {
		const struct unit *unit = &m->units[u];
		const struct param *p = unit->params;

		ck_buf_printf(&units,
			      "%s{\"flat_param\":\"%s\",\"numel\":%u,"
			      "\"params\":[",
			      u ? "," : "", m->names[u], unit->numel);
		for (unsigned i = 0; i < unit->nparams; i++) {
			ck_buf_printf(&units, "%s{\"fqn\":\"%s\",\"shape\":[",
				      i ? "," : "", p[i].fqn);
			for (uint32_t d = 0; d < p[i].ndim; d++)
				ck_buf_printf(&units, "%s%d", d ? "," : "",
					      (int)p[i].shape[d]);
			ck_buf_printf(&units, "],\"offset\":%u}", p[i].offset);
		}
		ck_buf_text(&units, "]");
		if (*p->also)
			ck_buf_printf(
				&units,
				",\"shared\":[{\"fqn\":\"%s\",\"of\":\"%s\"}]",
				p->also, p->fqn);
		ck_buf_text(&units, "}");
	}
	for (unsigned o = 0; o < m->noptimizers; o++) {
		ck_buf_text(&optimizers, o ? ",[" : "[");
		for (unsigned i = 0; i < m->nkept[o]; i++)
			ck_buf_printf(&optimizers, "%s\"%s\"", i ? "," : "",
				      m->kept[o][i].name);
		ck_buf_text(&optimizers, "]");
	}
	side_put(m->has_world ? m->world : 0, units.data, optimizers.data);
	ck_buf_fini(&units);
	ck_buf_fini(&optimizers);
}

static uint32_t element(unsigned o, unsigned i, unsigned replica, unsigned at)
{
	return 1 + (o << 24 | i << 16 | replica << 12 | at);
}

/* The range of elements of a unit, or of one of its parameters, that a rank has. */
static unsigned range(const struct model *m, const struct kept *k,
		      unsigned rank, unsigned *begin)
{
	const struct unit *unit = &m->units[k->unit];
	unsigned chunk = (unit->numel + m->world - 1) / m->world, end;

	*begin = rank % m->world * chunk;
	if (k->param < 0)
		return chunk;
	end = (unsigned)ck_min(*begin + chunk, unit->numel);
	*begin = (unsigned)ck_max(*begin, unit->params[k->param].offset);
	end = (unsigned)ck_min(end, unit->params[k->param].offset +
					    unit->params[k->param].n);
	return end > *begin ? end - *begin : 0;
}

static bool has_state(const struct model *m, unsigned r, unsigned o, unsigned i)
{
	const struct kept *k = &m->kept[o][i];
	unsigned begin;

	if (files[r].lost)
		return false;
	return k->param < 0 || range(m, k, r, &begin) > 0 ||
	       m->has_empty[r][o][i];
}

static void state_put(const struct model *m, unsigned r, unsigned o, unsigned i)
{
	const struct kept *k = &m->kept[o][i];
	unsigned begin = 0, n = k->unit < 0 ? 3 : range(m, k, r, &begin);
	uint32_t v[ELEMENTS];

	for (unsigned at = 0; at < n; at++)
		v[at] = k->unit >= 0 && begin + at >= m->units[k->unit].numel
				? PADDING
				: element(o, i, r / m->world, begin + at);
	ck_buf_printf(&files[r].words, " %u { ( 'm", i);
	put(&files[r], v, n, "");
	say(&files[r], "'step");
	put_one(&files[r], 7000 + r);
	say(&files[r], "u");
}

static void model_files(const struct model *m, uint64_t *random)
{
	unsigned n = m->world * m->replicas, lost = below(random, 3 * n);

	files_begin("o", n);
	for (unsigned r = 0; r < n; r++) {
		struct file *f = &files[r];

		/* A lost rank is detected if others remain and the world size is known. */
		f->lost = r == lost && n > 2 && m->has_world;
		say(f, "{ 'opts [ (");
		for (unsigned o = 0; o < m->noptimizers; o++) {
			say(f, "{ ( 'state { (");
			for (unsigned i = 0; i < m->nkept[o]; i++)
				if (has_state(m, r, o, i))
					state_put(m, r, o, i);
			say(f, "u 'param_groups [ u");
		}
		say(f, "e s");
	}
	files_write();
}

/* The lowest rank that has part of it, or nfiles. */
static unsigned lowest(const struct model *m, unsigned o, unsigned i)
{
	const struct kept *k = &m->kept[o][i];
	unsigned r = 0, begin;

	while (r < nfiles && (files[r].lost ||
			      (k->param >= 0 && range(m, k, r, &begin) == 0)))
		r++;
	return r;
}

static uint32_t want_of(const struct model *m, unsigned o, unsigned i,
			unsigned at)
{
	unsigned numel = m->units[m->kept[o][i].unit].numel;
	unsigned chunk = (numel + m->world - 1) / m->world;

	for (unsigned c = 0; c < m->replicas; c++)
		if (!files[c * m->world + at / chunk].lost)
			return element(o, i, c, at);
	return HOLE;
}

static unsigned one_check(const struct model *m, const struct ck_catalog *c,
			  unsigned o, unsigned i, const struct param *p,
			  const char *name)
{
	unsigned low = lowest(m, o, i);
	uint32_t want[ELEMENTS], step = 7000 + low;
	char text[80];

	for (unsigned k = 0; k < p->n; k++)
		want[k] = want_of(m, o, i, p->offset + k);
	(void)snprintf(text, sizeof(text), "opts.%u.state.%s.m", o, name);
	if (differs(c, text, p->ndim, p->shape, want, p->n))
		return 1;
	(void)snprintf(text, sizeof(text), "opts.%u.state.%s.step", o, name);
	if (low < nfiles)
		return differs(c, text, 0, NULL, &step, 1);
	/* Each rank that has the entry has an empty part: it is dropped. */
	return whole(c, text) != NULL;
}

static unsigned kept_check(const struct model *m, const struct ck_catalog *c,
			   unsigned o, unsigned i)
{
	const struct kept *k = &m->kept[o][i];
	static const int64_t three[] = { 3 };
	unsigned wrong = 0, low = lowest(m, o, i);
	char text[80];

	(void)snprintf(text, sizeof(text), "opts.%u.state.%u.m", o, i);
	wrong += whole(c, text) != NULL;
	(void)snprintf(text, sizeof(text), "opts.%u.state.%s.m", o, k->name);
	if (k->unit < 0) {
		uint32_t first = element(o, i, low / m->world, 0);

		return wrong + !is_run(c, text, 1, three, first);
	}
	for (unsigned r = 0; r <= nfiles; r++) {
		if (r == nfiles)
			return wrong + (whole(c, text) != NULL);
		if (has_state(m, r, o, i))
			break;
	}
	if (k->param >= 0)
		return wrong + one_check(m, c, o, i,
					 &m->units[k->unit].params[k->param],
					 k->name);
	for (unsigned p = 0; p < m->units[k->unit].nparams; p++)
		wrong += one_check(m, c, o, i, &m->units[k->unit].params[p],
				   m->units[k->unit].params[p].fqn);
	return wrong;
}

static unsigned random_wrong(uint64_t *random)
{
	struct model *m = calloc(1, sizeof(*m));
	struct ck_checkpoint *cp;
	unsigned wrong = 0;

	if (!m)
		abort();
	draw(m, random);
	model_files(m, random);
	model_side(m);
	cp = opened();
	for (unsigned o = 0; o < m->noptimizers; o++)
		for (unsigned i = 0; i < m->nkept[o]; i++)
			wrong += kept_check(m, cp->catalog, o, i);
	wrong += !is_local_as_without(cp->catalog);
	if (wrong)
		printf("# world %u, %u times, %s, %s\n", m->world, m->replicas,
		       m->orig ? "pieces" : "flat",
		       m->has_world ? "world known" : "world unknown");
	ck_checkpoint_close(cp);
	files_end();
	free(m);
	return wrong;
}

static void test_random(void)
{
	uint64_t random = tap_seed(14);
	unsigned wrong = 0, times = (unsigned)tap_cases(
				    "CKPTFS_CASES", TAP_SLOW ? 100 : 250,
				    TAP_SLOW ? 1000 : 20000);

	for (unsigned i = 0; i < times && !wrong; i++) {
		wrong = random_wrong(&random);
		if (wrong)
			printf("# case %u\n", i);
	}
	eq_u64(wrong, 0);
}

int main(void)
{
	tc_begin();
	test_random();
	return tc_end();
}
