/* SPDX-License-Identifier: MIT */
/*
 * place_rules: parses the rules of option placements, and applies them to a tensor.
 * Constant after it was parsed; any thread.
 */
#include "place_rules.h"
#include "spec.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>

/* DIM=PLACE. */
struct place {
	struct ck_str dim;
	bool is_shard;
	int64_t d; /* of S(d), as written */
};

struct rule {
	const char *glob;
	uint32_t first, end; /* of its places */
	uint32_t line;
};

struct ck_place_rules {
	struct rule *rules;
	struct place *places;
	size_t n, cap, nplaces, places_cap;
	char *text; /* globs and names point into it */
};

/* --- the text ----------------------------------------------------------------------- */

/* Takes the next word, and moves *line behind it. False at the end. */
static bool word_take(struct ck_str *line, struct ck_str *word)
{
	while (line->len && (*line->p == ' ' || *line->p == '\t'))
		*line = (struct ck_str){ line->p + 1, line->len - 1 };
	word->p = line->p;
	while (line->len && *line->p != ' ' && *line->p != '\t')
		*line = (struct ck_str){ line->p + 1, line->len - 1 };
	word->len = (size_t)(line->p - word->p);
	return word->len > 0;
}

/* Parses the d of S(d): at most four digits without leading zeros, perhaps after `-`. */
static bool number_parse(struct ck_str text, int64_t *out)
{
	bool minus = text.len && *text.p == '-';
	const char *p = text.p + minus, *end = text.p + text.len;

	if (p == end || end - p > 4 || (*p == '0' && (minus || end - p > 1)))
		return false;
	for (*out = 0; p < end; p++) {
		if (*p < '0' || *p > '9')
			return false;
		*out = 10 * *out + (*p - '0');
	}
	*out = minus ? -*out : *out;
	return true;
}

static bool place_parse(struct ck_str word, struct place *out)
{
	struct ck_str value;

	*out = (struct place){ 0 };
	if (!ck_spec_name_take(&word, &out->dim))
		return false;
	value = (struct ck_str){ word.p + 2, word.len - 3 };
	out->is_shard = word.len > 3 && ck_str_starts(word, CK_STR("S(")) &&
			word.p[word.len - 1] == ')';
	return out->is_shard ? number_parse(value, &out->d)
			     : ck_str_is(word, "R");
}

static int place_add(struct ck_place_rules *r, const struct rule *rule,
		     struct ck_str word, uint32_t line, struct ck_diag *d)
{
	struct place *places, place;

	if (!place_parse(word, &place))
		return ck_fail(d, EBADMSG,
			       "line %" PRIu32 ": %s: expected DIM=R or "
			       "DIM=S(d)",
			       line, ck_show(word));
	for (uint32_t i = rule->first; i < r->nplaces; i++)
		if (ck_str_eq(r->places[i].dim, place.dim))
			return ck_fail(d, EBADMSG,
				       "line %" PRIu32 ": %s has two places",
				       line, ck_show(place.dim));
	places = ck_grow(r->places, &r->places_cap, r->nplaces, 1,
			 sizeof(*places));
	if (!places)
		return ck_fail(d, ENOMEM, "out of memory");
	r->places = places;
	places[r->nplaces++] = place;
	return 0;
}

/* A line without its comment and line end, in r->text. */
static int line_parse(struct ck_place_rules *r, struct ck_str text,
		      uint32_t line, struct ck_diag *d)
{
	struct rule *rules,
		rule = { .first = (uint32_t)r->nplaces, .line = line };
	struct ck_str glob, word;
	int rc = 0;

	if (!word_take(&text, &glob))
		return 0;
	while (rc == 0 && word_take(&text, &word))
		rc = place_add(r, &rule, word, line, d);
	rule.end = (uint32_t)r->nplaces;
	if (rc)
		return rc;
	if (rule.first == rule.end || memchr(glob.p, '\0', glob.len))
		return ck_fail(d, EBADMSG,
			       "line %" PRIu32 ": expected GLOB DIM=PLACE "
			       "[DIM=PLACE]...",
			       line);
	rules = ck_grow(r->rules, &r->cap, r->n, 1, sizeof(*rules));
	if (!rules)
		return ck_fail(d, ENOMEM, "out of memory");
	r->rules = rules;
	rule.glob = glob.p;
	r->text[glob.p - r->text + (ptrdiff_t)glob.len] = '\0';
	rules[r->n++] = rule;
	return 0;
}

static int lines_parse(struct ck_place_rules *r, size_t len, struct ck_diag *d)
{
	struct ck_cur at = ck_cur_make(r->text, len);
	struct ck_str line;
	uint32_t number = 0;
	int rc = 0;

	while (rc == 0 && ck_cur_line(&at, &line)) {
		const char *comment = line.len ? memchr(line.p, '#', line.len)
					       : NULL;

		if (comment)
			line.len = (size_t)(comment - line.p);
		line.len -= line.len && line.p[line.len - 1] == '\r';
		rc = line_parse(r, line, ++number, d);
	}
	return rc;
}

int ck_place_rules_parse(struct ck_str text, struct ck_place_rules **out,
			 struct ck_diag *d)
{
	struct ck_place_rules *r = calloc(1, sizeof(*r));
	int rc;

	if (r)
		r->text = malloc(text.len + 1);
	if (!r || !r->text) {
		ck_place_rules_free(r);
		return ck_fail(d, ENOMEM, "out of memory");
	}
	if (text.len)
		memcpy(r->text, text.p, text.len);
	r->text[text.len] = '\n';
	rc = lines_parse(r, text.len + 1, d);
	if (rc)
		ck_place_rules_free(r);
	else
		*out = r;
	return rc;
}

void ck_place_rules_free(struct ck_place_rules *r)
{
	if (!r)
		return;
	free(r->rules);
	free(r->places);
	free(r->text);
	free(r);
}

/* --- a tensor ----------------------------------------------------------------------- */

/* Sets *dim to the dimension of a tensor. False if the tensor has no such dimension. */
static bool dim_of(int64_t d, uint32_t ndim, uint32_t *dim)
{
	d += d < 0 ? ndim : 0;
	*dim = (uint32_t)d;
	return d >= 0 && d < ndim;
}

static bool is_possible(const struct ck_place_rules *r, const struct rule *rule,
			uint32_t ndim)
{
	uint32_t dim;

	for (uint32_t i = rule->first; i < rule->end; i++)
		if (r->places[i].is_shard &&
		    !dim_of(r->places[i].d, ndim, &dim))
			return false;
	return true;
}

static void rule_apply(const struct ck_place_rules *r, const struct rule *rule,
		       uint32_t ndim, struct ck_mesh_dim *m)
{
	for (uint32_t i = rule->first; i < rule->end; i++) {
		const struct place *p = &r->places[i];

		if (!ck_str_eq(p->dim, m->name))
			continue;
		m->placement = (struct ck_placement){
			.type = p->is_shard ? CK_PLACE_SHARD
					    : CK_PLACE_REPLICATE
		};
		if (p->is_shard)
			(void)dim_of(p->d, ndim, &m->placement.dim);
	}
}

uint32_t ck_place_rules_count(const struct ck_place_rules *r)
{
	return r ? (uint32_t)r->n : 0;
}

const char *ck_place_rules_at(const struct ck_place_rules *r, uint32_t rule,
			      uint32_t *line)
{
	*line = r->rules[rule].line;
	return r->rules[rule].glob;
}

int ck_place_rules_find(const struct ck_place_rules *r, struct ck_str name,
			uint32_t ndim, uint32_t *rule)
{
	uint32_t n = ck_place_rules_count(r), at = 0;
	ck_auto_free char *text = n ? strndup(name.p, name.len) : NULL;

	if (n && !text)
		return -ENOMEM;
	while (at < n && !(is_possible(r, &r->rules[at], ndim) &&
			   fnmatch(r->rules[at].glob, text, 0) == 0))
		at++;
	*rule = at;
	return 0;
}

int ck_place_rules_apply(const struct ck_place_rules *r, struct ck_str name,
			 uint32_t ndim, struct ck_mesh_dim *dims, uint32_t n)
{
	uint32_t rule;
	int rc = ck_place_rules_find(r, name, ndim, &rule);

	for (uint32_t i = 0; rc == 0 && rule < ck_place_rules_count(r) && i < n;
	     i++)
		rule_apply(r, &r->rules[rule], ndim, &dims[i]);
	return rc;
}
