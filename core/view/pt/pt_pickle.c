/* SPDX-License-Identifier: MIT */
/*
 * pt_pickle: data.pkl of torch/checkpoint.pt, in blocks that are generated when they are
 * read. The dicts and lists of an entry follow from its path and from that of the entry
 * before it, so a block needs no state. Names that occur often, such as classes, are
 * spelled by the first entry that has them, which is known; all others refer to its memo
 * number.
 */
#include "pt.h"
#include "syntax/pickle/pickler.h"

#include <errno.h>
#include <stdio.h>

enum { BLOCK = 64 }; /* entries, at most; an object ends a block */

/* Memo numbers of names. */
enum {
	STORAGE,
	CPU,
	REBUILD_2,
	REBUILD_3,
	HOOKS,
	UNTYPED,
	CLASSES, /* + number of the dtype: its class of storages */
	DTYPES = CLASSES + 56,
};

/* The entry that is being written. */
struct writing {
	const struct ck_pt_pickle *k;
	struct ck_pickler p;
	uint32_t entry;
};

static unsigned class_number(const struct ck_tensor *t)
{
	return (unsigned)CLASSES + t->dtype;
}

static unsigned dtype_number(const struct ck_tensor *t)
{
	return (unsigned)DTYPES + t->dtype;
}

/* --- tensors ------------------------------------------------------------------------ */

/* Writes a global, or the text `name` if module is NULL. */
static void name_write(struct writing *w, unsigned number, const char *module,
		       const char *name)
{
	if (w->k->first[number] != w->entry) {
		ck_pickler_get(&w->p, number);
		return;
	}
	if (module)
		ck_pickler_global(&w->p, module, name);
	else
		ck_pickler_text(&w->p, ck_str_from(name));
	ck_pickler_put(&w->p, number);
}

static void storage_write(struct writing *w, const struct ck_tensor *t,
			  uint32_t storage)
{
	const struct ck_dtype *type = ck_dtype_at(t->dtype);
	char key[16];

	ck_pickler_mark(&w->p);
	name_write(w, STORAGE, NULL, "storage");
	if (type->storage)
		name_write(w, class_number(t), "torch", type->storage);
	else
		name_write(w, UNTYPED, "torch.storage", "UntypedStorage");
	(void)snprintf(key, sizeof(key), "%u", storage);
	ck_pickler_text(&w->p, ck_str_from(key));
	name_write(w, CPU, NULL, "cpu");
	ck_pickler_int(&w->p,
		       type->storage ? t->nbytes / type->size : t->nbytes);
	ck_pickler_tuple(&w->p);
	ck_pickler_persid(&w->p);
}

/* Writes sizes and strides. As in torch, a dimension of size 0 has the strides of one of
 * size 1. */
static void shape_write(struct writing *w, const struct ck_tensor *t)
{
	uint64_t stride[CK_MAX_DIMS], step = 1;

	for (uint32_t i = t->ndim; i > 0 && i--;) {
		stride[i] = step;
		step *= ck_max((uint64_t)t->shape[i], 1);
	}
	ck_pickler_ints(&w->p, t->ndim, (const uint64_t *)t->shape);
	ck_pickler_ints(&w->p, t->ndim, stride);
}

static void tensor_write(struct writing *w, const struct ck_pt_entry *e)
{
	const struct ck_tensor *t = ck_catalog_tensor(w->k->tree->c, e->id.i);
	const struct ck_dtype *type = ck_dtype_at(t->dtype);

	if (type->storage)
		name_write(w, REBUILD_2, "torch._utils", "_rebuild_tensor_v2");
	else
		name_write(w, REBUILD_3, "torch._utils", "_rebuild_tensor_v3");
	ck_pickler_mark(&w->p);
	storage_write(w, t, e->n);
	ck_pickler_int(&w->p, 0); /* offset */
	shape_write(w, t);
	ck_pickler_bool(&w->p, false); /* requires_grad */
	name_write(w, HOOKS, "collections", "OrderedDict");
	ck_pickler_ints(&w->p, 0, NULL);
	ck_pickler_reduce(&w->p);
	if (!type->storage)
		name_write(w, dtype_number(t), "torch", type->name);
	ck_pickler_tuple(&w->p);
	ck_pickler_reduce(&w->p);
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
		first_note(k, STORAGE, i);
		first_note(k, CPU, i);
		first_note(k, HOOKS, i);
		first_note(k, has_class ? REBUILD_2 : REBUILD_3, i);
		first_note(k, has_class ? class_number(t) : UNTYPED, i);
		first_note(k, dtype_number(t), i);
	}
}

/* --- dicts and lists ---------------------------------------------------------------- */

static void key_write(struct writing *w, const struct ck_path_part *part)
{
	char number[40]; /* the text of a part has no terminator */

	(void)snprintf(number, sizeof(number), "%.*s", (int)part->len, part->p);
	switch (part->type) {
	case CK_PATH_INT:
		ck_pickler_signed(&w->p, strtoll(number, NULL, 10));
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
	if (e->empty)
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
