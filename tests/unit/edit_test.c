/* SPDX-License-Identifier: MIT */
/*
 * Edits of catalogs are compared with a plain list of entries. At intervals a new catalog is
 * filled from the list; its dump must equal that of the edited catalog. Dumps of old
 * generations stay the same. Row numbers stay, and are never used again.
 *
 *	CKPTFS_EDITS=1000000 edit_test
 */
#include "catalogs.h"
#include "tap.h"

#include <errno.h>

enum {
	LIVE = 24, /* entries at most */
	BOXES = 5, /* of a tensor at most */
	FILES = 4,
	HELD = 4,
	BATCH = 3,   /* edits of one generation at most */
	ROUND = 500, /* edits of one list */
};

struct entry {
	bool is_object;
	uint32_t number, nchunks;
	uint32_t group; /* tensors of a group share bytes; 0: no group */
	uint64_t version;
	char key[48];
	uint32_t nparts;
	struct ck_path_part path[3];
	struct ck_item items[BOXES]; /* an object has [0] only */
};

struct list {
	struct entry e[LIVE + BATCH];
	uint32_t n;
	uint32_t tensors, objects; /* numbers assigned */
	uint64_t keys;
};

/* Some keys have wrapper prefixes, and some clash without them. */
static void key_make(struct list *l, struct entry *e, uint64_t *random)
{
	static const char *const before[] = { "", "module.", "a._orig_mod.",
					      "a." };
	uint64_t number = l->keys++;

	snprintf(e->key, sizeof(e->key), "%s%s%ju",
		 before[tap_random(random) % 4],
		 tap_random(random) % 3 ? "w" : "_fpw_module.w",
		 (uintmax_t)number);
	e->nparts = (uint32_t)(tap_random(random) % 4);
	for (uint32_t i = 0; i < e->nparts; i++)
		e->path[i] = (struct ck_path_part){
			.p = i % 2 ? "0" : "part",
			.len = i % 2 ? 1 : 4,
			.type = i % 2 ? CK_PATH_INDEX : CK_PATH_STR,
		};
}

static struct ck_item item_make(uint64_t *random)
{
	/* The last file is missing. */
	return (struct ck_item){
		.fpos = tap_random(random) % 900, /* items do not overlap */
		.length = 1 + tap_random(random) % 9,
		.file = (uint32_t)(tap_random(random) % FILES),
	};
}

/* --- catalogs filled from the list ------------------------------------------ */

static struct ck_catalog *files_make(void)
{
	struct ck_catalog *c = catalog_new();

	for (int i = 0; i < FILES; i++) {
		char name[32];

		snprintf(name, sizeof(name), "__%d_0.distcp", i);
		file_add(c, name, 6000, i == FILES - 1 ? ENODATA : 0);
	}
	return c;
}

/* The number, in a catalog filled from the list, of the first tensor before e in the group
 * of e, or CK_NO_TENSOR. */
static uint32_t same_before(const struct list *l, const struct entry *e)
{
	uint32_t number = 0;

	for (const struct entry *o = l->e; e->group && o < e; o++) {
		if (o->group == e->group)
			return number;
		number += !o->is_object;
	}
	return CK_NO_TENSOR;
}

static void entry_fill(struct ck_catalog *c, const struct list *l,
		       const struct entry *e)
{
	uint32_t same = same_before(l, e);
	struct ck_path_part *path;

	if (e->is_object) {
		must(ck_catalog_object_add(c, ck_str_from(e->key),
					   &e->items[0]));
	} else {
		tensor_add(c, e->key, "uint8", 1, DIMS((int64_t)e->nchunks));
		for (int64_t i = 0; i < e->nchunks; i++)
			must(ck_catalog_chunk_add(c, DIMS(i), DIMS(1),
						  &e->items[i]));
		if (same != CK_NO_TENSOR)
			must(ck_catalog_tensor_alias(c, same));
	}
	path = ck_catalog_path_add(c, e->nparts);
	if (e->nparts)
		memcpy(path, e->path, e->nparts * sizeof(*path));
}

static struct ck_catalog *fill(const struct list *l)
{
	struct ck_catalog *c = files_make();

	for (uint32_t i = 0; i < l->n; i++)
		entry_fill(c, l, &l->e[i]);
	finish(c);
	return c;
}

/* --- comparing ---------------------------------------------------------------- */

static char *dump(const struct ck_catalog *c)
{
	struct ck_buf out = { 0 };

	ck_catalog_dump(c, &out);
	if (out.err)
		abort();
	return out.data;
}

static bool is_path(const struct ck_entry *a, const struct entry *e)
{
	bool same = a->nparts == e->nparts;

	for (uint32_t i = 0; i < e->nparts && same; i++)
		same = a->path[i].type == e->path[i].type &&
		       ck_str_eq(ck_part_text(&a->path[i]),
				 ck_part_text(&e->path[i]));
	return same;
}

static size_t wrong_entries(const struct ck_catalog *c, const struct list *l)
{
	size_t wrong = c->listing->n != l->n;

	for (uint32_t i = 0; i < l->n && !wrong; i++) {
		const struct entry *e = &l->e[i];
		struct ck_entry_id id = c->listing->entries[i];

		wrong += id.i != e->number || id.is_object != e->is_object ||
			 !is_path(ck_catalog_entry(c, id), e);
		if (!e->is_object)
			wrong += ck_catalog_tensor(c, e->number)
					 ->facts->version != e->version;
	}
	return wrong;
}

/* Counts tensors whose number of aliases is wrong. */
static size_t wrong_aliases(const struct ck_catalog *c)
{
	size_t wrong = 0;

	for (uint32_t i = 0; i < c->tensors.n; i++) {
		uint32_t n = 0;

		for (uint32_t k = 0; k < c->tensors.n; k++)
			n += ck_tensor_alias_of(ck_catalog_tensor(c, k)) == i;
		wrong += ck_tensor_naliases(ck_catalog_tensor(c, i)) != n;
	}
	return wrong;
}

static size_t wrong_in(const struct ck_catalog *c, const struct list *l)
{
	struct ck_catalog *anew = fill(l);
	char *want = dump(anew), *got = dump(c);
	size_t wrong = wrong_entries(c, l);

	/* Dumps do not contain versions, which differ. */
	wrong += strcmp(want, got) != 0;
	wrong += c->nbytes != anew->nbytes;
	wrong += wrong_aliases(c);
	free(want);
	free(got);
	ck_catalog_put(anew);
	return wrong;
}

/* --- edits --------------------------------------------------------------------- */

/* Memory that an edit points to. */
struct room {
	struct ck_new_entry new;
	struct entry e; /* a copy, as the list's entries move */
	int64_t shape[1], boxes[2 * BOXES];
};

static struct ck_new_entry new_of(const struct entry *of, struct room *room)
{
	const struct entry *e = &room->e;

	room->e = *of;
	room->shape[0] = e->nchunks;
	for (uint32_t i = 0; i < e->nchunks; i++) {
		room->boxes[2 * (size_t)i] = i;
		room->boxes[2 * (size_t)i + 1] = 1;
	}
	return (struct ck_new_entry){
		.key = ck_str_from(e->key),
		.path = e->path,
		.nparts = e->nparts,
		.dtype = ck_dtype_by_name(CK_STR("uint8")),
		.ndim = 1,
		.nchunks = e->is_object ? 0 : e->nchunks,
		.shape = room->shape,
		.boxes = room->boxes,
		.items = e->items,
	};
}

static struct entry *entry_make(struct list *l, uint64_t *random)
{
	struct entry *e = &l->e[l->n++];

	*e = (struct entry){ .is_object = tap_random(random) % 3 == 0 };
	key_make(l, e, random);
	e->number = e->is_object ? l->objects++ : l->tensors++;
	e->nchunks = e->is_object
			     ? 0
			     : (uint32_t)(tap_random(random) % (BOXES + 1));
	for (uint32_t i = 0; i < BOXES; i++) {
		e->items[i] = item_make(random);
		e->items[i].fpos += i * UINT64_C(1000);
	}
	return e;
}

/* Makes an initial list; some of its tensors show the bytes of others. */
static void list_make(struct list *l, uint64_t *random)
{
	*l = (struct list){ .keys = l->keys };
	while (l->n < LIVE / 2) {
		struct entry *e = entry_make(l, random);
		struct entry *o = &l->e[tap_random(random) % l->n];

		if (e == o || e->is_object || o->is_object)
			continue;
		o->group = o->group ? o->group : l->n;
		e->group = o->group;
		e->nchunks = o->nchunks;
		memcpy(e->items, o->items, sizeof(e->items));
	}
}

static struct ck_edit add(struct list *l, struct room *room, uint64_t *random)
{
	struct entry *e = entry_make(l, random);

	room->new = new_of(e, room);
	return (struct ck_edit){ .kind = CK_EDIT_ADD,
				 .is_object = e->is_object,
				 .item = e->items[0],
				 .new = &room->new };
}

static struct ck_edit rename_one(struct list *l, struct entry *e,
				 struct room *room, uint64_t *random)
{
	key_make(l, e, random);
	room->new = new_of(e, room);
	return (struct ck_edit){ .kind = CK_EDIT_RENAME,
				 .is_object = e->is_object,
				 .number = e->number,
				 .new = &room->new };
}

static struct ck_edit remove_one(struct list *l, struct entry *e)
{
	struct ck_edit edit = { .kind = CK_EDIT_REMOVE,
				.is_object = e->is_object,
				.number = e->number };

	memmove(e, e + 1, (size_t)(&l->e[l->n] - (e + 1)) * sizeof(*e));
	l->n--;
	return edit;
}

static struct ck_edit place_one(const struct ck_catalog *c, struct entry *e,
				uint64_t *random)
{
	uint32_t i = (uint32_t)(tap_random(random) % e->nchunks);

	e->group = 0;
	e->items[i] = item_make(random);
	e->items[i].fpos += i * UINT64_C(1000);
	/* A committed file is never the missing one. */
	e->items[i].file %= FILES - 1;
	return (struct ck_edit){
		.number = ck_catalog_tensor(c, e->number)->chunk + i,
		.item = e->items[i],
	};
}

/* Makes one edit of the current catalog, and applies it to the list. */
static struct ck_edit edit_one(const struct ck_catalog *c, struct list *l,
			       struct room *room, uint32_t there,
			       uint64_t *random)
{
	uint64_t what = tap_random(random) % 10;
	uint32_t i = there ? (uint32_t)(tap_random(random) % there) : 0;

	if (there == 0 || (what < 3 && l->n < LIVE))
		return add(l, room, random);
	if (what < 5)
		return rename_one(l, &l->e[i], room, random);
	if (what < 7 || l->e[i].nchunks == 0 || l->e[i].number >= c->tensors.n)
		return remove_one(l, &l->e[i]);
	return place_one(c, &l->e[i], random);
}

/* The entry whose location the edit changes, or NULL: removed, or an edit of another kind. */
static struct entry *entry_of(const struct ck_catalog *c, struct list *l,
			      const struct ck_edit *edit)
{
	if (edit->kind != CK_EDIT_PLACE)
		return NULL;
	for (uint32_t i = 0; i < l->n; i++)
		if (!l->e[i].is_object &&
		    l->e[i].number == ck_catalog_tensor_of(c, edit->number))
			return &l->e[i];
	return NULL;
}

/* Makes the next generation of *c. Returns the number of edits. */
static uint32_t step(const struct ck_catalog **c, struct list *l,
		     uint64_t *random)
{
	uint32_t n = 1 + (uint32_t)(tap_random(random) % BATCH);
	struct ck_catalog *next = ck_catalog_next(*c);
	struct ck_diag d = { 0 };
	struct ck_edit edits[BATCH];
	struct room rooms[BATCH];

	if (!next)
		abort();
	for (uint32_t i = 0; i < n; i++) {
		struct entry *e;

		edits[i] = edit_one(*c, l, &rooms[i],
				    (uint32_t)ck_min(l->n, LIVE), random);
		e = edits[i].kind == CK_EDIT_ADD ? &l->e[l->n - 1]
						 : entry_of(*c, l, &edits[i]);
		if (e)
			e->version = (*c)->generation + 1;
	}
	must(ck_catalog_edit(next, edits, n, &d));
	ck_catalog_put(*c);
	*c = next;
	return n;
}

/* --- the test --------------------------------------------------------------------- */

struct held {
	const struct ck_catalog *c;
	char *text;
};

static size_t hold(struct held *h, const struct ck_catalog *c)
{
	size_t wrong = 0;
	char *now;

	if (h->c) {
		now = dump(h->c);
		wrong = strcmp(now, h->text) != 0;
		free(now);
		free(h->text);
	}
	ck_catalog_put(h->c);
	h->c = ck_catalog_hold(c);
	h->text = c ? dump(c) : NULL;
	return wrong;
}

static uint64_t edits_wanted(void)
{
	return tap_cases("CKPTFS_EDITS", TAP_SLOW ? 3000 : 12000,
			 TAP_SLOW ? 30000 : 1000000);
}

/* Edits a new list. Returns the number of edits. */
static uint64_t round_of(struct list *l, struct held *held, uint64_t *random,
			 size_t *wrong)
{
	const struct ck_catalog *c;
	uint64_t done = 0, last = 0;

	list_make(l, random);
	c = fill(l);
	*wrong += wrong_in(c, l);
	while (done < ROUND) {
		done += step(&c, l, random);
		if (done / 10 == last / 10)
			continue;
		last = done;
		*wrong += wrong_in(c, l);
		*wrong += hold(&held[tap_random(random) % HELD], c);
	}
	ck_catalog_put(c);
	return done;
}

static size_t aliases_in(const struct list *l)
{
	size_t n = 0;

	for (uint32_t i = 0; i < l->n; i++)
		n += same_before(l, &l->e[i]) != CK_NO_TENSOR;
	return n;
}

/* The comparison detects a wrong entry, and a wrong alias. */
static void test_canaries(struct list *l, uint64_t *random)
{
	const struct ck_catalog *c;
	uint32_t i = 0;

	do
		list_make(l, random);
	while (aliases_in(l) == 0);
	c = fill(l);
	eq_u64(wrong_in(c, l), 0);
	while (same_before(l, &l->e[i]) == CK_NO_TENSOR)
		i++;
	l->e[i].group = 0;
	ok(wrong_in(c, l) > 0);
	ck_catalog_put(c);
	c = fill(l);
	l->e[0].key[0] ^= 1;
	ok(wrong_in(c, l) > 0);
	ck_catalog_put(c);
}

static void test_model(void)
{
	static struct list list;
	struct held held[HELD] = { { NULL, NULL } };
	uint64_t random = tap_seed(5), done = 0;
	size_t wrong = 0;

	while (done < edits_wanted())
		done += round_of(&list, held, &random, &wrong);
	eq_u64(wrong, 0);
	test_canaries(&list, &random);
	for (size_t i = 0; i < HELD; i++)
		wrong += hold(&held[i], NULL);
	eq_u64(wrong, 0);
}

/* --- refused edits ---------------------------------------------------------------- */

static void refuses(const struct ck_catalog *c, struct ck_edit edit, int want)
{
	struct ck_catalog *next = ck_catalog_next(c);
	struct ck_diag d = { 0 };

	eq_err(ck_catalog_edit(next, &edit, 1, &d), want);
	ck_catalog_put(next);
}

/* The numbers of a removed tensor and its boxes are refused. */
static void test_removed(const struct ck_catalog *c)
{
	struct ck_edit edits[] = {
		{ .kind = CK_EDIT_REMOVE, .number = 0 },
		{ .kind = CK_EDIT_PLACE, .number = 0 },
	};
	struct ck_catalog *next = ck_catalog_next(c);

	eq_err(ck_catalog_edit(next, edits, 1, NULL), 0);
	eq_u64(next->listing->n, c->listing->n - 1);
	eq_u64(next->tensors.n, c->tensors.n);
	eq_u64(next->nbytes, 0);
	eq_u64(ck_catalog_tensor(next, 0)->facts->version, next->generation);
	ok(ck_catalog_find(next, CK_STR("a")) < 0);
	ok(ck_catalog_find(c, CK_STR("a")) == 0);
	refuses(next, edits[0], -ENOENT);
	refuses(next, edits[1], -ENOENT);
	ck_catalog_put(next);
}

static void test_refused(void)
{
	struct ck_catalog *c = files_make();
	struct ck_item items[2] = { { .length = 1 },
				    { .fpos = 1, .length = 1 } };
	struct ck_new_entry new = {
		.key = CK_STR("a"),
		.dtype = ck_dtype_by_name(CK_STR("uint8")),
		.ndim = 1,
		.nchunks = 2,
		.shape = DIMS(2),
		.boxes = DIMS(0, 2, 1, 1),
		.items = items,
	};
	struct ck_edit edit = { .kind = CK_EDIT_ADD, .new = &new };
	char *before, *after;

	tensor_add(c, "a", "uint8", 1, DIMS(1));
	box_add(c, DIMS(0), DIMS(1));
	object_add(c, "b");
	finish(c);
	before = dump(c);
	refuses(c, edit, -EINVAL); /* boxes overlap */
	new.boxes = DIMS(0, 1, 1, 1);
	refuses(c, edit, -EEXIST);
	new.key = CK_STR("b");
	refuses(c, edit, -EEXIST);
	new.key = CK_STR("c");
	refuses(c, edit, 0);
	edit.kind = CK_EDIT_RENAME;
	edit.number = 1;
	refuses(c, edit, -ENOENT);
	edit.number = 0;
	new.key = CK_STR("b");
	refuses(c, edit, -EEXIST);
	edit.kind = CK_EDIT_REMOVE;
	edit.number = 7;
	refuses(c, edit, -ENOENT);
	edit.kind = CK_EDIT_PLACE;
	refuses(c, edit, -ENOENT);
	edit.number = 0;
	refuses(c, edit, 0);
	edit.item.form = CK_FORM_ELEMENTS;
	refuses(c, edit, -EINVAL);
	test_removed(c);
	after = dump(c);
	eq_text(after, before);
	free(before);
	free(after);
	ck_catalog_put(c);
}

int main(void)
{
	test_refused();
	test_model();
	return tap_done();
}
