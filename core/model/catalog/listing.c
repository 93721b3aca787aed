/* SPDX-License-Identifier: MIT */
/*
 * listing: names and stems of all entries, and the table that finds an entry by its
 * stem.
 *
 * Every key first gets a candidate: the key without wrappers, and without `module.` if
 * all have it. An entry keeps its key instead in two cases: its candidate is also that
 * of another entry, or is a key that another entry keeps. The second rule is repeated
 * until nothing changes. It only adds keepers, so each entry is checked once. Then all
 * names differ, because keys differ.
 *
 * Names share bytes where possible: most keys, names and stems are the same text. The
 * names of such entries are not stored when the listing is finished. A listing is
 * constant then, and counted; any thread.
 */
#include "catalog_internal.h"
#include "ckptfs/table.h"
#include "items.h"

#include <errno.h>

/* --- a table of entries by one of their texts --------------------------------- */

enum by { BY_KEY, BY_NAME, BY_STEM };

struct table {
	const struct ck_listing *l;
	enum by by;
	uint32_t *slots; /* entry + 1, or 0 if empty; at most half are used */
	size_t mask;
};

static struct ck_str text_of(const struct table *t, size_t entry)
{
	const struct ck_names *names = &t->l->names[entry];

	switch (t->by) {
	case BY_KEY: return names->key;
	case BY_NAME: return names->name;
	case BY_STEM: return names->stem;
	}
	return (struct ck_str){ "", 0 };
}

static int table_init(struct table *t, const struct ck_listing *l, enum by by)
{
	size_t slots = 16;

	while (slots < 2 * l->n)
		slots *= 2;
	*t = (struct table){ .l = l, .by = by, .mask = slots - 1 };
	t->slots = calloc(slots, sizeof(*t->slots));
	return t->slots ? 0 : -ENOMEM;
}

static size_t slot_first(const struct ck_listing *l, struct ck_str text,
			 size_t mask)
{
	return (size_t)ck_hash64_seeded(text, l->hash_seed) & mask;
}

/* Returns the slot of a text, or the empty slot where it belongs. */
static uint32_t *table_slot(const struct table *t, struct ck_str text)
{
	size_t i = slot_first(t->l, text, t->mask);

	while (t->slots[i] && !ck_str_eq(text_of(t, t->slots[i] - 1), text))
		i = (i + 1) & t->mask;
	return &t->slots[i];
}

/* Copies a text into the listing. */
static int text_add(struct ck_listing *l, struct ck_str s, struct ck_str *out)
{
	*out = ck_arena_copy(&l->text, s);
	return out->p ? 0 : -ENOMEM;
}

/* --- candidates ------------------------------------------------------------------ */

static int candidate_make(struct ck_listing *l, size_t entry,
			  struct ck_buf *scratch)
{
	struct ck_names *names = &l->names[entry];

	scratch->len = 0;
	ck_name_unwrap(names->key, scratch);
	if (scratch->err)
		return -ENOMEM;
	names->name = names->key;
	if (scratch->len == names->key.len)
		return 0;
	return text_add(l, (struct ck_str){ scratch->data, scratch->len },
			&names->name);
}

static void module_drop(struct ck_listing *l)
{
	static const struct ck_str prefix = { "module.", 7 };

	for (size_t i = 0; i < l->n; i++)
		if (!ck_str_starts(l->names[i].name, prefix))
			return;
	l->dropped = prefix.len;
	for (size_t i = 0; i < l->n; i++) {
		struct ck_str *name = &l->names[i].name;

		name->p += prefix.len;
		name->len -= prefix.len;
	}
}

static int candidates_make(struct ck_listing *l)
{
	struct ck_buf scratch = { 0 };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < l->n; i++)
		rc = candidate_make(l, i, &scratch);
	ck_buf_fini(&scratch);
	if (rc == 0)
		module_drop(l);
	return rc;
}

/* --- clashes --------------------------------------------------------------------- */

/* Entries that keep their key. */
struct keepers {
	struct ck_listing *l;
	struct table by_name; /* first entry of each candidate */
	uint32_t *next; /* next entry with the same candidate, + 1; or 0 */
	uint32_t *list; /* entries that keep their key */
	size_t n;
	bool *is;
};

/* Chains entries with equal candidates, in order. True if there are any. */
static bool chain_equal(struct keepers *k)
{
	bool any = false;

	for (size_t i = k->l->n; i > 0 && i--;) {
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

/* Makes other entries whose candidate is the key of a keeper keepers, too. */
static void keep_equal(struct keepers *k, uint32_t keeper)
{
	struct ck_str key = k->l->names[keeper].key;

	for (uint32_t i = *table_slot(&k->by_name, key); i; i = k->next[i - 1])
		if (i - 1 != keeper)
			keep(k, i - 1);
}

static void keepers_find(struct keepers *k)
{
	for (uint32_t i = 0; i < k->l->n; i++)
		if (k->next[i]) {
			keep(k, i);
			keep(k, k->next[i] - 1);
		}
	for (size_t i = 0; i < k->n; i++)
		keep_equal(k, k->list[i]);
}

/* Names the keepers by their keys, and lists those whose candidate was another text. */
static void keepers_name(struct keepers *k)
{
	struct ck_listing *l = k->l;

	for (size_t i = 0; i < k->n; i++) {
		struct ck_names *names = &l->names[k->list[i]];

		if (!ck_str_eq(names->name, names->key))
			k->list[l->nprefixed++] = k->list[i];
		names->name = names->key;
	}
	l->prefixed = ck_steal(&k->list);
}

static int keys_check(const struct ck_listing *l, struct ck_diag *d)
{
	struct table by_key;
	int rc = table_init(&by_key, l, BY_KEY);

	for (size_t i = 0; rc == 0 && i < l->n; i++) {
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

static int keepers_init(struct keepers *k, struct ck_listing *l)
{
	size_t n = l->n ? l->n : 1;

	*k = (struct keepers){ .l = l };
	k->next = calloc(n, sizeof(*k->next));
	k->list = calloc(n, sizeof(*k->list));
	k->is = calloc(n, sizeof(*k->is));
	if (!k->next || !k->list || !k->is)
		return -ENOMEM;
	return table_init(&k->by_name, l, BY_NAME);
}

/* Resolves clashes. Equal keys have equal candidates, so without equal candidates there
 * is no clash. */
static int clashes_solve(struct ck_listing *l, struct ck_diag *d)
{
	struct keepers k;
	int rc = keepers_init(&k, l);

	if (rc == 0 && chain_equal(&k)) {
		rc = keys_check(l, d);
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
	struct ck_listing *l;
	struct table by_stem;
	unsigned *nth; /* for each entry, the last number ~n of its stem */
	struct ck_buf text;
};

static struct ck_str stem_spell(struct stemmer *s, struct ck_str name,
				unsigned nth)
{
	s->text.len = 0;
	ck_name_stem(name, nth, &s->text);
	return (struct ck_str){ s->text.data, s->text.len };
}

/* Sets the stem of an entry. Names differ, so two stems are equal only if both are cut
 * and their hashes are equal. An attacker can arrange that; the later one then gets the
 * next number. */
static int stem_make(struct stemmer *s, size_t entry)
{
	struct ck_names *names = &s->l->names[entry];
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
	return text_add(s->l, stem, &names->stem);
}

static int stems_make(struct ck_listing *l)
{
	struct stemmer s = { .l = l };
	int rc = table_init(&s.by_stem, l, BY_STEM);

	s.nth = calloc(l->n ? l->n : 1, sizeof(*s.nth));
	if (rc == 0 && !s.nth)
		rc = -ENOMEM;
	for (size_t i = 0; rc == 0 && i < l->n; i++) {
		s.nth[i] = 1;
		rc = stem_make(&s, i);
	}
	for (size_t i = l->n; i < l->n + l->nhidden; i++)
		l->names[i].stem = l->names[i].name; /* has no file */
	free(s.nth);
	ck_buf_fini(&s.text);
	l->by_stem = s.by_stem.slots;
	l->stem_slots = s.by_stem.mask + 1;
	return rc;
}

/* --- the value -------------------------------------------------------------------- */

static void number_count(struct ck_entry_id e, uint32_t *tensors,
			 uint32_t *objects)
{
	uint32_t *most = e.is_object ? objects : tensors;

	*most = (uint32_t)ck_max(*most, e.i + UINT64_C(1));
}

static uint32_t *place_of(const struct ck_listing *l, struct ck_entry_id e)
{
	return &(e.is_object ? l->of_object : l->of_tensor)[e.i];
}

static int same_cmp(const void *a, const void *b)
{
	const struct ck_same_name *x = a, *y = b;
	int order = ck_entry_id_cmp(x->of, y->of);

	return order ? order : ck_entry_id_cmp(x->id, y->id);
}

/* Makes the tables from tensors and objects to entries. */
static int places_make(struct ck_listing *l)
{
	uint32_t tensors = 0, objects = 0;

	for (size_t i = 0; i < l->n + l->nhidden; i++)
		number_count(l->entries[i], &tensors, &objects);
	for (size_t i = 0; i < l->nsame; i++)
		number_count(l->same[i].id, &tensors, &objects);
	l->of_tensor = calloc(tensors + 1UL, sizeof(*l->of_tensor));
	l->of_object = calloc(objects + 1UL, sizeof(*l->of_object));
	if (!l->of_tensor || !l->of_object)
		return -ENOMEM;
	for (uint32_t i = 0; i < l->n + l->nhidden; i++)
		*place_of(l, l->entries[i]) = i;
	for (size_t i = 0; i < l->nsame; i++)
		*place_of(l, l->same[i].id) = *place_of(l, l->same[i].of);
	if (l->nsame)
		qsort(l->same, l->nsame, sizeof(*l->same), same_cmp);
	return 0;
}

struct ck_listing *ck_listing_make(void)
{
	struct ck_listing *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->hash_seed = ck_hash_seed();
	l->refs = 1;
	return l;
}

int ck_listing_add(struct ck_listing *l, struct ck_entry_id id,
		   struct ck_str key)
{
	struct ck_entry_id *entries;
	struct ck_names *names;

	if (l->n >= UINT32_MAX / 4)
		return -EOVERFLOW;
	entries = ck_grow(l->entries, &l->entries_cap, l->n, 1,
			  sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	l->entries = entries;
	names = ck_grow(l->names, &l->names_cap, l->n, 1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	l->names = names;
	l->entries[l->n] = id;
	l->names[l->n++] = (struct ck_names){ .key = key };
	return 0;
}

int ck_listing_same(struct ck_listing *l, struct ck_entry_id id,
		    struct ck_entry_id of)
{
	struct ck_same_name *same = ck_grow(l->same, &l->same_cap, l->nsame, 1,
					    sizeof(*same));

	if (!same)
		return -ENOMEM;
	l->same = same;
	same[l->nsame++] = (struct ck_same_name){ .of = of, .id = id };
	return 0;
}

/* --- stored names ----------------------------------------------------------------- */

/* True if name and stem follow from the key alone. */
static bool is_plain(const struct ck_listing *l, const struct ck_names *n)
{
	return n->name.p == n->key.p + l->dropped &&
	       n->name.len == n->key.len - l->dropped &&
	       n->stem.p == n->name.p && n->stem.len == n->name.len;
}

/* Stores only names that do not follow from their keys: nearly all of a million do. */
static int names_settle(struct ck_listing *l)
{
	for (size_t i = 0; i < l->n + l->nhidden; i++) {
		const struct ck_names *names = &l->names[i];
		struct ck_other_name *named;

		if (is_plain(l, names))
			continue;
		named = ck_grow(l->named, &l->named_cap, l->nnamed, 1,
				sizeof(*named));
		if (!named)
			return -ENOMEM;
		l->named = named;
		named[l->nnamed++] = (struct ck_other_name){ (uint32_t)i,
							     names->name,
							     names->stem };
	}
	free(l->names);
	l->names = NULL;
	return 0;
}

static const struct ck_other_name *named_of(const struct ck_listing *l,
					    size_t entry)
{
	size_t lo = CK_COUNT_BEFORE(l->nnamed, i, l->named[i].entry < entry);

	return lo < l->nnamed && l->named[lo].entry == entry ? &l->named[lo]
							     : NULL;
}

struct ck_names ck_entry_names(const struct ck_catalog *c, size_t entry)
{
	const struct ck_listing *l = c->listing;
	struct ck_str key = ck_catalog_entry(c, l->entries[entry])->key;
	const struct ck_other_name *named = named_of(l, entry);
	struct ck_str name;

	if (named)
		return (struct ck_names){ key, named->name, named->stem };
	name = (struct ck_str){ key.p + l->dropped, key.len - l->dropped };
	return (struct ck_names){ key, name, name };
}

static void trim(struct ck_listing *l)
{
	l->entries = ck_trim(l->entries, l->n + l->nhidden,
			     sizeof(*l->entries));
	l->named = ck_trim(l->named, l->nnamed, sizeof(*l->named));
	l->same = ck_trim(l->same, l->nsame, sizeof(*l->same));
}

int ck_listing_finish(struct ck_listing *l, struct ck_diag *d)
{
	int rc = candidates_make(l);

	if (rc == 0)
		rc = clashes_solve(l, d);
	if (rc == 0)
		rc = ck_listing_rename(l, d);
	if (rc == 0)
		rc = ck_listing_select(l);
	if (rc == 0)
		rc = stems_make(l);
	if (rc == 0)
		rc = places_make(l);
	if (rc == 0)
		rc = names_settle(l);
	if (rc == 0)
		trim(l);
	return rc;
}

static uint32_t *refs_of(const struct ck_listing *l)
{
	return (uint32_t *)(uintptr_t)&l->refs;
}

const struct ck_listing *ck_listing_hold(const struct ck_listing *l)
{
	__atomic_fetch_add(refs_of(l), 1, __ATOMIC_RELAXED);
	return l;
}

void ck_listing_put(const struct ck_listing *l)
{
	struct ck_listing *last;

	if (!l || __atomic_sub_fetch(refs_of(l), 1, __ATOMIC_ACQ_REL))
		return;
	last = (struct ck_listing *)(uintptr_t)l;
	free(last->entries);
	free(last->names);
	free(last->named);
	free(last->of_tensor);
	free(last->of_object);
	free(last->by_stem);
	free(last->prefixed);
	free(last->same);
	ck_renames_put(last->renames);
	ck_selection_put(last->selection);
	ck_arena_fini(&last->text);
	free(last);
}

int64_t ck_catalog_find(const struct ck_catalog *c, struct ck_str stem)
{
	const struct ck_listing *l = c->listing;
	size_t mask = l->stem_slots - 1;
	size_t i = l->by_stem ? slot_first(l, stem, mask) : 0;

	while (l->by_stem && l->by_stem[i] &&
	       !ck_str_eq(ck_entry_names(c, l->by_stem[i] - 1).stem, stem))
		i = (i + 1) & mask;
	return l->by_stem ? (int64_t)l->by_stem[i] - 1 : -1;
}

int64_t ck_catalog_find_hidden(const struct ck_catalog *c, struct ck_str stem)
{
	const struct ck_listing *l = c->listing;
	struct ck_buf text = { 0 };
	int64_t found = -1;

	for (size_t i = l->n; i < l->n + l->nhidden && found < 0; i++) {
		text.len = 0;
		ck_name_stem(ck_entry_names(c, i).name, 1, &text);
		if (!text.err &&
		    ck_str_eq((struct ck_str){ text.data, text.len }, stem))
			found = (int64_t)i;
	}
	ck_buf_fini(&text);
	return found;
}

const struct ck_same_name *ck_listing_same_of(const struct ck_listing *l,
					      struct ck_entry_id of,
					      uint32_t *n)
{
	size_t lo = CK_COUNT_BEFORE(l->nsame, i,
				    ck_entry_id_cmp(l->same[i].of, of) < 0);

	for (*n = 0; lo + *n < l->nsame &&
		     ck_entry_id_cmp(l->same[lo + *n].of, of) == 0;)
		++*n;
	return l->same ? l->same + lo : NULL;
}
