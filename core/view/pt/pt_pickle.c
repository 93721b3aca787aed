/* SPDX-License-Identifier: MIT */
/*
 * pt_pickle: data.pkl of torch/checkpoint.pt, in blocks that are generated when they are
 * read. The dicts and lists of an entry follow from its path and from that of the entry
 * before it, so a block needs no state. Names that occur often, such as classes, are
 * spelled by the first entry that has them, which is known; all others refer to its memo
 * number.
 */
#include "pt.h"
#include "syntax/item_form.h"
#include "syntax/pickle/pickler.h"

#include <errno.h>
#include <stdio.h>

enum { BLOCK = 64 }; /* entries, at most; an object ends a block */

/* The entry that is being written. */
struct writing {
	const struct ck_pt_pickle *k;
	struct ck_pickler p;
	uint32_t entry;
};

/* --- tensors ------------------------------------------------------------------------ */

static void tensor_write(struct writing *w, const struct ck_pt_entry *e)
{
	const struct ck_tensor *t = ck_catalog_tensor(w->k->tree->c, e->id.i);
	char storage[16];

	(void)snprintf(storage, sizeof(storage), "%u", e->n);
	ck_item_pickle_write(&(struct ck_item_pickle){ t->dtype, t->ndim,
						       t->shape, t->nbytes,
						       storage, w->k->first,
						       w->entry },
			     &w->p);
}

static void first_note(struct ck_pt_pickle *k, unsigned number, uint32_t entry)
{
	k->first[number] = (uint32_t)ck_min(k->first[number], entry);
}

/* Finds the entries that spell names. */
static void names_find(struct ck_pt_pickle *k)
{
	memset(k->first, 0xff, sizeof(k->first));
	for (uint32_t i = 0; i < k->tree->n; i++) {
		const struct ck_pt_entry *e = &k->tree->entries[i];
		const struct ck_tensor *t;
		bool has_class;

		if (e->id.is_object || e->empty)
			continue;
		t = ck_catalog_tensor(k->tree->c, e->id.i);
		has_class = ck_dtype_at(t->dtype)->storage;
		first_note(k, CK_ITEM_STORAGE, i);
		first_note(k, CK_ITEM_CPU, i);
		first_note(k, CK_ITEM_HOOKS, i);
		first_note(k, has_class ? CK_ITEM_REBUILD_2 : CK_ITEM_REBUILD_3,
			   i);
		first_note(k,
			   has_class ? (unsigned)CK_ITEM_CLASSES + t->dtype
				     : CK_ITEM_UNTYPED,
			   i);
		first_note(k, (unsigned)CK_ITEM_DTYPES + t->dtype, i);
	}
}

/* --- dicts and lists ---------------------------------------------------------------- */

static void key_write(struct writing *w, const struct ck_path_part *part)
{
	char number[40]; /* the text of a part has no terminator */
	int64_t value = 0;

	(void)snprintf(number, sizeof(number), "%.*s", (int)part->len, part->p);
	switch (part->type) {
	case CK_PATH_INT:
		(void)ck_pt_int(part, &value);
		ck_pickler_signed(&w->p, value);
		break;
	case CK_PATH_FLOAT:
		ck_pickler_float(&w->p, strtod(number, NULL));
		break;
	case CK_PATH_BOOL:
		ck_pickler_bool(&w->p, ck_str_is(ck_part_text(part), "True"));
		break;
	case CK_PATH_NONE: ck_pickler_none(&w->p); break;
	default: ck_pickler_text(&w->p, ck_part_text(part));
	}
}

/* Writes the key of a dict, or the unused positions of a list from `at` on. */
static void place_write(struct writing *w, const struct ck_path_part *part,
			uint32_t at)
{
	uint32_t index = 0;

	if (part->type != CK_PATH_INDEX) {
		key_write(w, part);
		return;
	}
	for ((void)ck_pt_index(part, &index); at < index; at++)
		ck_pickler_none(&w->p);
}

static void open_write(struct writing *w, const struct ck_path_part *part)
{
	if (part->type == CK_PATH_INDEX)
		ck_pickler_list(&w->p);
	else
		ck_pickler_dict(&w->p);
	ck_pickler_mark(&w->p);
}

/* Ends the dicts and lists of an entry from a level on, the innermost first. */
static void levels_close(struct writing *w, const struct ck_pt_entry *e,
			 uint32_t from)
{
	const struct ck_pt_tree *t = w->k->tree;

	for (uint32_t level = ck_pt_levels(t, e); level > from;) {
		struct ck_path_part part = ck_pt_part(t, e, --level);

		if (part.type == CK_PATH_INDEX)
			ck_pickler_append_items(&w->p);
		else
			ck_pickler_set_items(&w->p);
	}
}

/* Writes everything between the value of the entry before and that of this one. */
static void path_write(struct writing *w, const struct ck_pt_entry *e)
{
	const struct ck_pt_tree *t = w->k->tree;
	uint32_t levels = ck_pt_levels(t, e), level = 0, at = 0;
	struct ck_path_part part;

	if (w->entry) {
		level = ck_pt_common(t, e - 1, e);
		levels_close(w, e - 1, level + 1);
		part = ck_pt_part(t, e - 1, level);
		if (part.type == CK_PATH_INDEX && ck_pt_index(&part, &at))
			at++;
		part = ck_pt_part(t, e, level++);
		place_write(w, &part, at);
	}
	for (; level < levels; level++) {
		part = ck_pt_part(t, e, level);
		open_write(w, &part);
		place_write(w, &part, 0);
	}
}

/* --- blocks ------------------------------------------------------------------------- */

static void entry_write(struct writing *w, uint32_t i)
{
	const struct ck_pt_entry *e = &w->k->tree->entries[i];

	w->entry = i;
	path_write(w, e);
	if (e->is_null)
		ck_pickler_none(&w->p);
	else if (e->empty)
		ck_pickler_dict(&w->p);
	else if (!e->id.is_object)
		tensor_write(w, e);
}

/* The last block ends all. A file without entries is an empty dict. */
static void end_write(struct writing *w)
{
	const struct ck_pt_tree *t = w->k->tree;

	if (t->n)
		levels_close(w, &t->entries[t->n - 1], 0);
	else
		ck_pickler_dict(&w->p);
	ck_pickler_end(&w->p);
}

void ck_pt_block(const struct ck_pt_pickle *p, uint32_t block,
		 struct ck_buf *out)
{
	struct writing w = { .k = p, .p = { .out = out } };

	if (block == 0)
		ck_pickler_begin(&w.p);
	if (block + 1 == p->nblocks) {
		end_write(&w);
		return;
	}
	for (uint32_t i = p->firsts[block]; i < p->firsts[block + 1]; i++)
		entry_write(&w, i);
}

/* Returns the object that ends a block, or NULL. */
static const struct ck_pt_entry *object_of(const struct ck_pt_pickle *p,
					   uint32_t block)
{
	const struct ck_pt_entry *last;

	if (block + 1 == p->nblocks)
		return NULL;
	last = &p->tree->entries[p->firsts[block + 1] - 1];
	return last->id.is_object && !last->empty ? last : NULL;
}

struct ck_str ck_pt_block_object(const struct ck_pt_pickle *p, uint32_t block)
{
	const struct ck_pt_entry *e = object_of(p, block);

	return e ? ck_pt_object(p->objects, e->n) : CK_STR("");
}

/* Cuts the entries into blocks. */
static void blocks_cut(struct ck_pt_pickle *p)
{
	const struct ck_pt_tree *t = p->tree;

	p->nblocks = 0;
	for (uint32_t i = 0, n = 0; i < t->n; i++) {
		const struct ck_pt_entry *e = &t->entries[i];

		if (n++ == 0)
			p->firsts[p->nblocks++] = i;
		if (n == BLOCK || (e->id.is_object && !e->empty))
			n = 0;
	}
	p->firsts[p->nblocks++] = t->n;
}

static int block_measure(struct ck_pt_pickle *p, uint32_t block)
{
	struct ck_buf bytes = { 0 };

	ck_pt_block(p, block, &bytes);
	p->lens[block] = bytes.len;
	p->len += bytes.len + ck_pt_block_object(p, block).len;
	ck_buf_fini(&bytes);
	return bytes.err;
}

int ck_pt_pickle_make(struct ck_pt_pickle *p, const struct ck_pt_tree *tree,
		      const struct ck_pt_objects *objects)
{
	int rc = 0;

	*p = (struct ck_pt_pickle){ .tree = tree, .objects = objects };
	names_find(p);
	p->firsts = malloc((tree->n + 1UL) * sizeof(*p->firsts));
	if (!p->firsts)
		return -ENOMEM;
	blocks_cut(p);
	p->firsts = ck_trim(p->firsts, p->nblocks, sizeof(*p->firsts));
	p->lens = malloc(p->nblocks * sizeof(*p->lens));
	if (!p->lens)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->nblocks && rc == 0; i++)
		rc = block_measure(p, i);
	return rc;
}

void ck_pt_pickle_fini(struct ck_pt_pickle *p)
{
	free(p->firsts);
	free(p->lens);
	*p = (struct ck_pt_pickle){ 0 };
}
