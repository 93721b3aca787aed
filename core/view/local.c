/* SPDX-License-Identifier: MIT */
/*
 * local: the index of the view local/. local/<owner>/ contains the data of one
 * rank as the rank saved it: each box of a tensor in a separate npy file, and
 * objects of which each rank has its own. The owner of a box is the rank in the
 * name of its data file (`__<rank>_...`), or else the file itself.
 *
 * Owners are in the order of the data files. The entries of an owner are in the
 * order of the checkpoint: boxes by their number in the catalog, then objects.
 * For a million boxes, two arrays are enough: the owner of each entry, and all
 * entries sorted by owner. They are built once and then constant, so any thread
 * reads them: a commit that moves boxes to other files does not move them to
 * other directories.
 */
#include "local.h"
#include "model/catalog/items.h"
#include "view_internal.h"

#include <errno.h>
#include <inttypes.h>

enum {
	OFFSETS_MAX = 40, /* longer lists of offsets are hashed */
};

/* --- owners ----------------------------------------------------------------- */

/* Slot of a rank in an open-addressing table of owners + 1. */
static CK_WRAPS uint32_t *rank_slot(const struct ck_local *l, uint32_t *slots,
				    size_t mask, uint64_t rank)
{
	size_t i = (size_t)(rank * UINT64_C(0x9E3779B97F4A7C15) >> 20) & mask;

	while (slots[i] && l->owners[slots[i] - 1].rank != rank)
		i = (i + 1) & mask;
	return &slots[i];
}

static uint32_t owner_add(struct ck_local *l, uint32_t file)
{
	l->owners[l->nowners] = (struct ck_local_owner){ .file = file };
	return l->nowners++;
}

static int find_owners(struct ck_local *l, const struct ck_catalog *c,
		       uint32_t *of_file)
{
	size_t nslots = 16;
	ck_auto_free uint32_t *slots = NULL;

	while (nslots < 2 * (size_t)c->files.n)
		nslots *= 2;
	slots = calloc(nslots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->files.n; i++) {
		uint64_t rank = ck_catalog_file(c, i)->rank;
		uint32_t *slot;

		if (rank == CK_NO_RANK) {
			of_file[i] = owner_add(l, i);
			continue;
		}
		slot = rank_slot(l, slots, nslots - 1, rank);
		if (!*slot) {
			*slot = owner_add(l, i) + 1;
			l->owners[*slot - 1].is_rank = true;
			l->owners[*slot - 1].rank = rank;
		}
		of_file[i] = *slot - 1;
	}
	return 0;
}

/* --- entries ---------------------------------------------------------------- */

/* Sorts the entries by owner with a stable counting sort. */
static void sort_entries(struct ck_local *l)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < l->nentries; i++)
		if (l->of_entry[i] != CK_NO_OWNER)
			l->owners[l->of_entry[i]].end++;
	for (uint32_t i = 0; i < l->nowners; i++) {
		l->owners[i].begin = at;
		at += l->owners[i].end;
		l->owners[i].end = l->owners[i].begin;
	}
	l->nshown = at;
	for (uint32_t i = 0; i < l->nentries; i++)
		if (l->of_entry[i] != CK_NO_OWNER)
			l->entries[l->owners[l->of_entry[i]].end++] = i;
}

/* Sets the owner of each box. Tensors that local/ does not show (`apart`), such
 * as those with replicas or without a rank, and boxes without a data file get
 * no owner. */
static void find_boxes(struct ck_local *l, const struct ck_catalog *c,
		       const uint32_t *of_file)
{
	struct ck_item_walk walk = { 0 };

	for (uint32_t i = 0; i < c->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c, i);

		for (uint32_t k = t->chunk; k < t->chunk + t->nchunks; k++) {
			uint32_t file = ck_item_walk_to(&walk, c, k)->file;

			if (!t->apart && ck_tensor_is_there(c, i) &&
			    file < c->files.n)
				l->of_entry[k] = of_file[file];
		}
	}
}

static void find_objects(struct ck_local *l, const struct ck_catalog *c,
			 const uint32_t *of_file)
{
	for (uint32_t i = 0; i < c->objects.n; i++) {
		const struct ck_object *o = ck_catalog_object(c, i);

		if (o->local && ck_object_is_there(c, i) &&
		    o->item.file < c->files.n)
			l->of_entry[l->nboxes + i] = of_file[o->item.file];
	}
}

static int find_entries(struct ck_local *l, const struct ck_catalog *c)
{
	ck_auto_free uint32_t *of_file =
		malloc((c->files.n + 1UL) * sizeof(*of_file));
	int rc = of_file ? find_owners(l, c, of_file) : -ENOMEM;

	if (rc)
		return rc;
	for (uint32_t i = 0; i < l->nentries; i++)
		l->of_entry[i] = CK_NO_OWNER;
	find_boxes(l, c, of_file);
	find_objects(l, c, of_file);
	sort_entries(l);
	return 0;
}

int ck_local_make(const struct ck_catalog *c, struct ck_local **out)
{
	struct ck_local *l = calloc(1, sizeof(*l));
	int rc = -ENOMEM;
	size_t n;

	if (!l)
		return -ENOMEM;
	if (c->objects.n > UINT32_MAX - c->chunks.n) {
		free(l);
		return -EOVERFLOW;
	}
	l->nboxes = c->chunks.n;
	l->nentries = c->chunks.n + c->objects.n;
	n = l->nentries + 1UL;
	l->owners = malloc((c->files.n + 1UL) * sizeof(*l->owners));
	l->of_entry = malloc(n * sizeof(*l->of_entry));
	l->entries = malloc(n * sizeof(*l->entries));
	if (l->owners && l->of_entry && l->entries)
		rc = find_entries(l, c);
	if (rc) {
		ck_local_free(l);
		return rc;
	}
	*out = l;
	return 0;
}

void ck_local_free(struct ck_local *l)
{
	if (!l)
		return;
	free(l->owners);
	free(l->of_entry);
	free(l->entries);
	free(l);
}

/* --- directories ------------------------------------------------------------ */

void ck_local_name(const struct ck_local *l, const struct ck_catalog *c,
		   uint32_t owner, struct ck_buf *out)
{
	const struct ck_local_owner *o = &l->owners[owner];

	if (o->is_rank) {
		ck_buf_printf(out, "rank-%" PRIu64, o->rank);
		return;
	}
	ck_buf_text(out, "file-");
	ck_name_stem(ck_catalog_file(c, o->file)->path, 1, out);
}

static bool is_file_owner(const struct ck_local *l, const struct ck_catalog *c,
			  uint32_t owner, struct ck_str name, struct ck_buf *b)
{
	if (l->owners[owner].is_rank)
		return false;
	b->len = 0;
	ck_local_name(l, c, owner, b);
	return !b->err && ck_str_eq((struct ck_str){ b->data, b->len }, name);
}

int ck_local_find(const struct ck_local *l, const struct ck_catalog *c,
		  struct ck_str name, uint32_t *owner)
{
	struct ck_buf b = { 0 };
	uint32_t i = 0;
	uint64_t rank;

	if (ck_view_rank_in(name, &rank))
		while (i < l->nowners &&
		       !(l->owners[i].is_rank && l->owners[i].rank == rank))
			i++;
	else
		while (i < l->nowners && !b.err &&
		       !is_file_owner(l, c, i, name, &b))
			i++;
	ck_buf_fini(&b);
	*owner = i;
	return b.err ? b.err : i < l->nowners ? 0 : -ENOENT;
}

uint32_t ck_local_boxes(const struct ck_local *l, uint32_t owner)
{
	return l->owners[owner].end - l->owners[owner].begin;
}

uint32_t ck_local_box(const struct ck_local *l, uint32_t owner, uint32_t i)
{
	return l->entries[l->owners[owner].begin + i];
}

/* --- files ------------------------------------------------------------------ */

static bool has_others(const struct ck_local *l, const struct ck_tensor *t,
		       uint32_t box)
{
	for (uint32_t i = t->chunk; i < t->chunk + t->nchunks; i++)
		if (i != box && i < l->nboxes &&
		    l->of_entry[i] == l->of_entry[box])
			return true;
	return false;
}

/* True if the owner has another box with the same name: then the name of the
 * file needs the offsets. */
static bool has_siblings(const struct ck_local *l, const struct ck_catalog *c,
			 const struct ck_tensor *t, uint32_t box)
{
	struct ck_entry_id of = t->entry.role == CK_ROLE_WHOLE
					? (struct ck_entry_id){ t->entry.number,
								false }
					: ck_entry_of(&t->entry);
	const struct ck_same_name *same;
	uint32_t n;

	if (box >= l->nboxes)
		return false;
	if (!of.is_object && has_others(l, ck_catalog_tensor(c, of.i), box))
		return true;
	same = ck_listing_same_of(c->listing, of, &n);
	for (uint32_t i = 0; i < n; i++)
		if (!same[i].id.is_object &&
		    has_others(l, ck_catalog_tensor(c, same[i].id.i), box))
			return true;
	return false;
}

static void add_offsets(const struct ck_tensor *t, uint32_t box,
			struct ck_buf *out)
{
	const int64_t *off = ck_tensor_box(t, box - t->chunk);
	struct ck_buf text = { 0 };
	char hex[33];

	for (uint32_t d = 0; d < t->ndim; d++)
		ck_buf_printf(&text, d ? ",%" PRId64 : "%" PRId64, off[d]);
	if (text.len > OFFSETS_MAX) {
		ck_hash128_hex((struct ck_str){ text.data, text.len }, hex);
		ck_buf_printf(out, "%%@~%s", hex);
	} else {
		ck_buf_text(out, "%@");
		ck_buf_add(out, text.data, text.len);
	}
	if (text.err)
		out->err = text.err;
	ck_buf_fini(&text);
}

bool ck_local_is_object(const struct ck_local *l, uint32_t entry,
			uint32_t *object)
{
	if (entry < l->nboxes || entry >= l->nentries)
		return false;
	*object = entry - l->nboxes;
	return true;
}

void ck_local_box_name(const struct ck_local *l, const struct ck_catalog *c,
		       uint32_t box, struct ck_buf *out)
{
	const struct ck_tensor *t;
	uint32_t object;

	if (ck_local_is_object(l, box, &object)) {
		ck_buf_str(out, ck_object_names(c, object).stem);
		ck_buf_text(out, ".json");
		return;
	}
	t = ck_catalog_tensor(c, ck_catalog_tensor_of(c, box));
	ck_buf_str(out, ck_tensor_names(c, t->entry.number).stem);
	if (t->ndim && has_siblings(l, c, t, box))
		add_offsets(t, box, out);
	ck_buf_text(out, ".npy");
}

/* A lookup of a file name. */
struct looked {
	const struct ck_local *l;
	const struct ck_catalog *c;
	uint32_t owner;
	struct ck_str name, stem;
	bool is_json;
	struct ck_buf text;
	uint32_t entry; /* found */
};

/* Sets k->stem to the name without its suffix and offsets. False if the suffix
 * is not .npy or .json. */
static bool stem_in(struct looked *k)
{
	const char *at;

	k->is_json = ck_str_ends(k->name, CK_STR(".json"));
	if (!k->is_json && !ck_str_ends(k->name, CK_STR(".npy")))
		return false;
	k->stem = (struct ck_str){ k->name.p,
				   k->name.len - (k->is_json ? 5 : 4) };
	at = k->is_json ? NULL : memmem(k->stem.p, k->stem.len, "%@", 2);
	if (at)
		k->stem.len = (size_t)(at - k->stem.p);
	return true;
}

static bool is_named(struct looked *k, uint32_t entry)
{
	if (entry >= k->l->nentries || k->l->of_entry[entry] != k->owner)
		return false;
	k->entry = entry;
	k->text.len = 0;
	ck_local_box_name(k->l, k->c, entry, &k->text);
	return !k->text.err &&
	       ck_str_eq((struct ck_str){ k->text.data, k->text.len }, k->name);
}

static bool find_in(struct looked *k, struct ck_entry_id id)
{
	const struct ck_tensor *t;

	if (id.is_object != k->is_json)
		return false;
	if (id.is_object)
		return is_named(k, k->l->nboxes + id.i);
	t = ck_catalog_tensor(k->c, id.i);
	for (uint32_t i = t->chunk; i < t->chunk + t->nchunks; i++)
		if (i < k->l->nboxes && is_named(k, i))
			return true;
	return false;
}

int ck_local_box_find(const struct ck_local *l, const struct ck_catalog *c,
		      uint32_t owner, struct ck_str name, uint32_t *box)
{
	struct looked k = { .l = l, .c = c, .owner = owner, .name = name };
	const struct ck_same_name *same;
	struct ck_entry_id id;
	bool found;
	int64_t entry;
	uint32_t n;

	entry = stem_in(&k) ? ck_catalog_find(c, k.stem) : -1;
	if (entry < 0)
		return -ENOENT;
	id = c->listing->entries[entry];
	found = find_in(&k, id);
	same = ck_listing_same_of(c->listing, id, &n);
	for (uint32_t i = 0; i < n && !found && !k.text.err; i++)
		found = find_in(&k, same[i].id);
	ck_buf_fini(&k.text);
	*box = k.entry;
	return k.text.err ? k.text.err : found ? 0 : -ENOENT;
}
