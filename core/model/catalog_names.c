/* SPDX-License-Identifier: MIT */
/*
 * catalog_names: shown names and stems of all entries, and the table that
 * finds an entry by its stem.
 *
 * Every key first gets a candidate: the key without wrappers, and without
 * `module.` if all have it. An entry keeps its key instead if its candidate
 * is also another's candidate, or is the key that another entry keeps. The
 * second rule is followed until nothing changes; it can only add keepers, so
 * each entry is looked at once. Then all names differ, because keys do.
 *
 * Names share bytes where they can: most
 * keys, names and stems are one text.
 */
#include "catalog_internal.h"

#include <errno.h>

/* --- a table of entries by one of their texts --------------------------------- */

enum by { BY_KEY, BY_NAME, BY_STEM };

struct table {
	const struct ck_catalog *c;
	enum by by;
	uint32_t *slots; /* entry + 1; 0 empty. At most half are used */
	size_t mask;
};

static const struct ck_names *names_of(const struct ck_catalog *c, size_t entry)
{
	return ck_catalog_names(c, c->entries[entry]);
}

static struct ck_names *own_names(struct ck_catalog *c, size_t entry)
{
	struct ck_entry_id e = c->entries[entry];

	return e.is_object ? &ck_catalog_own_object(c, e.i)->names
			   : &ck_catalog_own_tensor(c, e.i)->names;
}

static struct ck_str text_of(const struct table *t, size_t entry)
{
	const struct ck_names *names = names_of(t->c, entry);

	switch (t->by) {
	case BY_KEY: return names->key;
	case BY_NAME: return names->name;
	case BY_STEM: return names->stem;
	}
	return (struct ck_str){ "", 0 };
}

static int table_init(struct table *t, const struct ck_catalog *c, enum by by)
{
	size_t slots = 16;

	while (slots < 2 * c->nentries)
		slots *= 2;
	*t = (struct table){ .c = c, .by = by, .mask = slots - 1 };
	t->slots = calloc(slots, sizeof(*t->slots));
	return t->slots ? 0 : -ENOMEM;
}

/* The slot where text is, or the empty one where it belongs. */
static uint32_t *table_slot(const struct table *t, struct ck_str text)
{
	size_t i = (size_t)ck_hash64_seeded(text, t->c->hash_seed) & t->mask;

	while (t->slots[i] && !ck_str_eq(text_of(t, t->slots[i] - 1), text))
		i = (i + 1) & t->mask;
	return &t->slots[i];
}

/* --- candidates ------------------------------------------------------------------ */

static int candidate_make(struct ck_catalog *c, size_t entry,
			  struct ck_buf *scratch)
{
	struct ck_names *names = own_names(c, entry);

	scratch->len = 0;
	ck_name_unwrap(names->key, scratch);
	if (scratch->err)
		return -ENOMEM;
	names->name = names->key;
	if (scratch->len == names->key.len)
		return 0;
	return ck_catalog_text_add(
		c, (struct ck_str){ scratch->data, scratch->len },
		&names->name);
}

static void module_drop(struct ck_catalog *c)
{
	static const struct ck_str prefix = { "module.", 7 };

	for (size_t i = 0; i < c->nentries; i++)
		if (!ck_str_starts(names_of(c, i)->name, prefix))
			return;
	for (size_t i = 0; i < c->nentries; i++) {
		struct ck_str *name = &own_names(c, i)->name;

		name->p += prefix.len;
		name->len -= prefix.len;
	}
}

static int candidates_make(struct ck_catalog *c)
{
	struct ck_buf scratch = { 0 };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < c->nentries; i++)
		rc = candidate_make(c, i, &scratch);
	ck_buf_fini(&scratch);
	if (rc == 0)
		module_drop(c);
	return rc;
}

/* --- clashes --------------------------------------------------------------------- */

/* Entries that keep their key. */
struct keepers {
	struct ck_catalog *c;
	struct table by_name; /* of candidates: first entry of each */
	uint32_t *next;	      /* entry + 1 with the same candidate; 0: none */
	uint32_t *list;	      /* entries that keep their key */
	size_t n;
	bool *is;
};

/* Chains entries with equal candidates, in order; returns whether there are
 * any. */
static bool chain_equal(struct keepers *k)
{
	bool any = false;

	for (size_t i = k->c->nentries; i > 0 && i--;) {
		uint32_t *slot = table_slot(&k->by_name,
					    text_of(&k->by_name, i));

		k->next[i] = *slot;
		any |= *slot != 0;
		*slot = (uint32_t)i + 1;
	}
	return any;
}

static void keep(struct keepers *k, uint32_t entry)
{
	if (k->is[entry])
		return;
	k->is[entry] = true;
	k->list[k->n++] = entry;
}

/* Others whose candidate is this keeper's key keep theirs too. */
static void keep_equal(struct keepers *k, uint32_t keeper)
{
	struct ck_str key = names_of(k->c, keeper)->key;

	for (uint32_t i = *table_slot(&k->by_name, key); i; i = k->next[i - 1])
		if (i - 1 != keeper)
			keep(k, i - 1);
}

static void keepers_find(struct keepers *k)
{
	for (uint32_t i = 0; i < k->c->nentries; i++)
		if (k->next[i]) {
			keep(k, i);
			keep(k, k->next[i] - 1);
		}
	for (size_t i = 0; i < k->n; i++)
		keep_equal(k, k->list[i]);
}

/* They are shown by their keys. Those of them that would not have been anyway
 * are remembered. */
static void keepers_name(struct keepers *k)
{
	struct ck_catalog *c = k->c;

	for (size_t i = 0; i < k->n; i++) {
		struct ck_names *names = own_names(c, k->list[i]);

		if (!ck_str_eq(names->name, names->key))
			k->list[c->nprefixed++] = k->list[i];
		names->name = names->key;
	}
	c->prefixed = ck_steal(&k->list);
}

static int keys_check(const struct ck_catalog *c, struct ck_diag *d)
{
	struct table by_key;
	int rc = table_init(&by_key, c, BY_KEY);

	for (size_t i = 0; rc == 0 && i < c->nentries; i++) {
		struct ck_str key = text_of(&by_key, i);
		uint32_t *slot = table_slot(&by_key, key);

		if (*slot)
			rc = ck_fail(d, EBADMSG, "%s: duplicate key",
				     ck_show(key));
		*slot = (uint32_t)i + 1;
	}
	free(by_key.slots);
	return rc;
}

static int keepers_init(struct keepers *k, struct ck_catalog *c)
{
	size_t n = c->nentries ? c->nentries : 1;

	*k = (struct keepers){ .c = c };
	k->next = calloc(n, sizeof(*k->next));
	k->list = calloc(n, sizeof(*k->list));
	k->is = calloc(n, sizeof(*k->is));
	if (!k->next || !k->list || !k->is)
		return -ENOMEM;
	return table_init(&k->by_name, c, BY_NAME);
}

/* Equal keys have equal candidates: without those there is nothing to do. */
static int clashes_solve(struct ck_catalog *c, struct ck_diag *d)
{
	struct keepers k;
	int rc = keepers_init(&k, c);

	if (rc == 0 && chain_equal(&k)) {
		rc = keys_check(c, d);
		if (rc == 0) {
			keepers_find(&k);
			keepers_name(&k);
		}
	}
	free(k.by_name.slots);
	free(k.next);
	free(k.list);
	free(k.is);
	return rc;
}

/* --- stems ----------------------------------------------------------------------- */

struct stemmer {
	struct ck_catalog *c;
	struct table by_stem;
	unsigned *nth; /* of each entry: the last ~n given to its stem */
	struct ck_buf text;
};

static struct ck_str stem_spell(struct stemmer *s, struct ck_str name,
				unsigned nth)
{
	s->text.len = 0;
	ck_name_stem(name, nth, &s->text);
	return (struct ck_str){ s->text.data, s->text.len };
}

/* Names differ, so two stems agree only where both are cut and their hashes
 * agree. That can be arranged; then the later one gets the next number. */
static int stem_make(struct stemmer *s, size_t entry)
{
	struct ck_names *names = own_names(s->c, entry);
	struct ck_str name = names->name;
	struct ck_str stem = stem_spell(s, name, 1);
	uint32_t *slot;

	if (s->text.err)
		return -ENOMEM;
	slot = table_slot(&s->by_stem, stem);
	if (*slot) {
		stem = stem_spell(s, name, ++s->nth[*slot - 1]);
		if (s->text.err)
			return -ENOMEM;
		slot = table_slot(&s->by_stem, stem);
	}
	*slot = (uint32_t)entry + 1;
	names->stem = names->name;
	if (ck_str_eq(stem, name))
		return 0;
	return ck_catalog_text_add(s->c, stem, &names->stem);
}

static int stems_make(struct ck_catalog *c)
{
	struct stemmer s = { .c = c };
	int rc = table_init(&s.by_stem, c, BY_STEM);

	s.nth = calloc(c->nentries ? c->nentries : 1, sizeof(*s.nth));
	if (rc == 0 && !s.nth)
		rc = -ENOMEM;
	for (size_t i = 0; rc == 0 && i < c->nentries; i++) {
		s.nth[i] = 1;
		rc = stem_make(&s, i);
	}
	free(s.nth);
	ck_buf_fini(&s.text);
	c->by_stem = s.by_stem.slots;
	c->stem_slots = s.by_stem.mask + 1;
	return rc;
}

int ck_catalog_names_make(struct ck_catalog *c, struct ck_diag *d)
{
	int rc = candidates_make(c);

	if (rc == 0)
		rc = clashes_solve(c, d);
	return rc ? rc : stems_make(c);
}

int64_t ck_catalog_find(const struct ck_catalog *c, struct ck_str stem)
{
	struct table t = { c, BY_STEM, c->by_stem, c->stem_slots - 1 };
	uint32_t found = c->by_stem ? *table_slot(&t, stem) : 0;

	return (int64_t)found - 1;
}
