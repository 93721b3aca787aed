/* SPDX-License-Identifier: MIT */
/*
 * rename: parses a map of names and applies it to the names of a listing. A map is
 * constant after it was parsed, and counted; any thread.
 *
 * Lines are in two tables by their old name: single names, and prefixes. A name is
 * looked up as a whole, then by each of its prefixes, the longest first.
 */
#include "rename.h"
#include "catalog_internal.h"
#include "ckptfs/table.h"

#include <errno.h>
#include <inttypes.h>

struct line {
	struct ck_str from, to; /* without the `*` of prefixes */
	uint32_t number;	/* in the text, from 1 */
	bool is_prefix;
};

struct ck_renames {
	struct line *lines;
	size_t n, cap;
	struct ck_table by_from[2]; /* single names, prefixes: index of lines */
	size_t longest;		    /* prefix: bytes */
	char *text;		    /* old and new names point into it */
	uint32_t refs;		    /* atomic */
};

/* --- the text ----------------------------------------------------------------------- */

static struct ck_str from_of(const void *arg, uint32_t i)
{
	return ((const struct ck_renames *)arg)->lines[i].from;
}

static struct ck_str to_of(const void *arg, uint32_t i)
{
	return ((const struct ck_renames *)arg)->lines[i].to;
}

static bool cut_star(struct ck_str *name)
{
	bool star = name->len && name->p[name->len - 1] == '*';

	name->len -= star;
	return star;
}

/* Returns NULL, or why the line is malformed. */
static const char *line_parse(struct ck_str text, struct line *out)
{
	const char *tab = memchr(text.p, '\t', text.len);
	size_t len = tab ? (size_t)(tab - text.p) : 0;

	if (!tab || memchr(tab + 1, '\t', text.len - len - 1))
		return "expected OLD, one tab, NEW";
	out->from = (struct ck_str){ text.p, len };
	out->to = (struct ck_str){ tab + 1, text.len - len - 1 };
	if (out->from.len == 0 || out->to.len == 0)
		return "an empty name";
	out->is_prefix = cut_star(&out->from);
	if (cut_star(&out->to) != out->is_prefix)
		return "only one of the two names ends in *";
	if (memchr(out->from.p, '*', out->from.len) ||
	    memchr(out->to.p, '*', out->to.len))
		return "* is possible only at the end of both names";
	return NULL;
}

/* Enters the last line into a table, by its old or its new name; each once. */
static int line_enter(const struct ck_renames *m, struct ck_table *t,
		      const char *which, struct ck_diag *d)
{
	const struct line *line = &m->lines[m->n - 1], *other;
	uint32_t first;

	if (ck_table_add(t, t->key(m, (uint32_t)m->n - 1), (uint32_t)m->n - 1,
			 &first))
		return ck_fail(d, ENOMEM, "out of memory");
	other = &m->lines[first];
	if (other == line)
		return 0;
	return ck_fail(d, EBADMSG,
		       "lines %" PRIu32 " and %" PRIu32
		       " have the same %s name: %s -> %s, %s -> %s",
		       other->number, line->number, which, ck_show(other->from),
		       ck_show(other->to), ck_show(line->from),
		       ck_show(line->to));
}

static int line_add(struct ck_renames *m, struct ck_table by_to[2],
		    struct ck_str text, uint32_t number, struct ck_diag *d)
{
	struct line *lines, line = { .number = number };
	const char *why;
	int rc;

	if (text.len == 0 || text.p[0] == '#')
		return 0;
	why = line_parse(text, &line);
	if (why)
		return ck_fail(d, EBADMSG, "line %" PRIu32 ": %s", number, why);
	lines = ck_grow(m->lines, &m->cap, m->n, 1, sizeof(*lines));
	if (!lines)
		return ck_fail(d, ENOMEM, "out of memory");
	m->lines = lines;
	lines[m->n++] = line;
	if (line.is_prefix)
		m->longest = ck_max(m->longest, line.from.len);
	rc = line_enter(m, &m->by_from[line.is_prefix], "old", d);
	return rc ? rc : line_enter(m, &by_to[line.is_prefix], "new", d);
}

/* len: bytes of m->text, of which the last is a line feed. */
static int lines_parse(struct ck_renames *m, size_t len, struct ck_diag *d)
{
	struct ck_table by_to[2] = { { .key = to_of, .arg = m },
				     { .key = to_of, .arg = m } };
	struct ck_cur at = ck_cur_make(m->text, len);
	struct ck_str line;
	uint32_t number = 0;
	int rc = 0;

	while (rc == 0 && ck_cur_line(&at, &line)) {
		line.len -= line.len && line.p[line.len - 1] == '\r';
		rc = line_add(m, by_to, line, ++number, d);
	}
	ck_table_fini(&by_to[0]);
	ck_table_fini(&by_to[1]);
	return rc;
}

int ck_renames_parse(struct ck_str text, const struct ck_renames **out,
		     struct ck_diag *d)
{
	struct ck_renames *m = calloc(1, sizeof(*m));
	int rc;

	*out = NULL;
	if (m)
		m->text = malloc(text.len + 1);
	if (!m || !m->text) {
		free(m);
		return ck_fail(d, ENOMEM, "out of memory");
	}
	m->refs = 1;
	m->by_from[0] = m->by_from[1] = (struct ck_table){ .key = from_of,
							   .arg = m };
	if (text.len)
		memcpy(m->text, text.p, text.len);
	m->text[text.len] = '\n'; /* ends the last line */
	rc = lines_parse(m, text.len + 1, d);
	if (rc)
		ck_renames_put(m);
	else
		*out = m;
	return rc;
}

static uint32_t *refs_of(const struct ck_renames *m)
{
	return (uint32_t *)(uintptr_t)&m->refs;
}

const struct ck_renames *ck_renames_hold(const struct ck_renames *m)
{
	if (m)
		__atomic_fetch_add(refs_of(m), 1, __ATOMIC_RELAXED);
	return m;
}

void ck_renames_put(const struct ck_renames *m)
{
	struct ck_renames *last;

	if (!m || __atomic_sub_fetch(refs_of(m), 1, __ATOMIC_ACQ_REL))
		return;
	last = (struct ck_renames *)(uintptr_t)m;
	ck_table_fini(&last->by_from[0]);
	ck_table_fini(&last->by_from[1]);
	free(last->lines);
	free(last->text);
	free(last);
}

/* --- a listing ------------------------------------------------------------------------ */

/* The line that decides for a name, as index; -1 if no line does. */
static int64_t line_of(const struct ck_renames *m, struct ck_str name)
{
	int64_t line = ck_table_find(&m->by_from[0], name);

	for (size_t len = ck_min(m->longest, name.len) + 1;
	     line < 0 && len > 0 && len--;)
		line = ck_table_find(&m->by_from[1],
				     (struct ck_str){ name.p, len });
	return line;
}

struct renaming {
	struct ck_listing *l;
	struct ck_str *now; /* new name of each entry */
	bool *used;	    /* of each line: it decides for a name */
	struct ck_table by_now;
	struct ck_buf scratch;
};

static struct ck_str now_of(const void *arg, uint32_t entry)
{
	return ((const struct renaming *)arg)->now[entry];
}

/* Sets the new name of an entry. */
static int name_make(struct renaming *r, uint32_t entry)
{
	struct ck_str name = r->l->names[entry].name;
	int64_t i = line_of(r->l->renames, name);
	const struct line *line;

	r->now[entry] = name;
	if (i < 0)
		return 0;
	line = &r->l->renames->lines[i];
	r->now[entry] = line->to;
	r->used[i] = true;
	r->l->nrenamed++;
	if (name.len == line->from.len)
		return 0;
	r->scratch.len = 0;
	ck_buf_str(&r->scratch, line->to);
	ck_buf_add(&r->scratch, name.p + line->from.len,
		   name.len - line->from.len);
	if (r->scratch.err)
		return -ENOMEM;
	r->now[entry] = ck_arena_copy(
		&r->l->text,
		(struct ck_str){ r->scratch.data, r->scratch.len });
	return r->now[entry].p ? 0 : -ENOMEM;
}

static int names_make(struct renaming *r, struct ck_diag *d)
{
	const struct ck_names *names = r->l->names;
	uint32_t first = 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < r->l->n; i++) {
		rc = name_make(r, i);
		if (rc == 0)
			rc = ck_table_add(&r->by_now, r->now[i], i, &first);
		if (rc == 0 && first != i)
			rc = ck_fail(d, EBADMSG,
				     "rename: %s and %s would have the same "
				     "name: %s",
				     ck_show(names[first].name),
				     ck_show(names[i].name),
				     ck_show(r->now[i]));
	}
	return rc;
}

int ck_listing_rename(struct ck_listing *l, struct ck_diag *d)
{
	struct renaming r = { .l = l, .by_now = { .key = now_of, .arg = &r } };
	int rc;

	if (!l->renames)
		return 0;
	r.now = calloc(l->n + 1, sizeof(*r.now));
	r.used = calloc(l->renames->n + 1, sizeof(*r.used));
	rc = r.now && r.used ? names_make(&r, d) : -ENOMEM;
	for (size_t i = 0; rc == 0 && i < l->n; i++)
		l->names[i].name = r.now[i];
	for (size_t i = l->renames->n; rc == 0 && i > 0 && i--;)
		if (!r.used[i]) {
			l->unused_first = (uint32_t)i;
			l->nunused++;
		}
	ck_table_fini(&r.by_now);
	ck_buf_fini(&r.scratch);
	free(r.now);
	free(r.used);
	return rc;
}

int ck_listing_note_unused(const struct ck_listing *l, struct ck_catalog *c)
{
	const struct line *first;

	if (l->n == 0 || l->nunused == 0)
		return 0;
	first = &l->renames->lines[l->unused_first];
	return ck_catalog_doubt_add(
		c, ck_shown("rename: %" PRIu32
			    " of %zu lines apply to no name; the first is line "
			    "%" PRIu32 ": %s%s",
			    l->nunused, l->renames->n, first->number,
			    ck_show(first->from), first->is_prefix ? "*" : ""));
}
