/* SPDX-License-Identifier: MIT */
/*
 * local: local/<owner>/ shows what one rank saved, as it saved it: each box
 * of a tensor in its own npy file. The owner of a box is the rank that its
 * data file is named after (`__<rank>_...`), or else the file itself.
 *
 * Owners are in the order of the data files, the boxes of an owner in the
 * checkpoint's order. Two arrays hold that for a million boxes: for each box
 * its owner, and all boxes sorted by owner. They are made once: a commit that
 * moves boxes to other files does not move them to other directories.
 */
#include "local.h"
#include "ckptfs/items.h"
#include "ckptfs/npy.h"
#include "view_internal.h"

#include <errno.h>
#include <inttypes.h>

enum {
	OFFSETS_MAX = 40, /* longer lists of offsets are hashed */
};

struct owner {
	bool is_rank;
	uint32_t file; /* its first data file */
	uint64_t rank;
	uint32_t begin; /* of its boxes, in ck_local.boxes */
	uint32_t end;
};

struct ck_local {
	struct owner *owners;
	uint32_t nowners, nboxes;
	uint32_t *of_box; /* owner of each; NO_OWNER: no file has it */
	uint32_t *boxes;  /* chunks of the catalog, sorted by owner */
};

#define NO_OWNER UINT32_MAX

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
	l->owners[l->nowners] = (struct owner){ .file = file };
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

/* --- boxes ------------------------------------------------------------------ */

/* Sorts the boxes by owner, keeping their order: counts, then places. */
static void sort_boxes(struct ck_local *l)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < l->nboxes; i++)
		if (l->of_box[i] != NO_OWNER)
			l->owners[l->of_box[i]].end++;
	for (uint32_t i = 0; i < l->nowners; i++) {
		l->owners[i].begin = at;
		at += l->owners[i].end;
		l->owners[i].end = l->owners[i].begin;
	}
	for (uint32_t i = 0; i < l->nboxes; i++)
		if (l->of_box[i] != NO_OWNER)
			l->boxes[l->owners[l->of_box[i]].end++] = i;
}

static int find_boxes(struct ck_local *l, const struct ck_catalog *c)
{
	ck_auto_free uint32_t *of_file =
		malloc((c->files.n + 1UL) * sizeof(*of_file));
	int rc = of_file ? find_owners(l, c, of_file) : -ENOMEM;
	struct ck_item_walk walk = { 0 };

	if (rc)
		return rc;
	for (uint32_t i = 0; i < c->chunks.n; i++) {
		uint32_t file = ck_item_walk_to(&walk, c, i)->file;

		l->of_box[i] = file < c->files.n ? of_file[file] : NO_OWNER;
	}
	sort_boxes(l);
	return 0;
}

int ck_local_make(const struct ck_catalog *c, struct ck_local **out)
{
	struct ck_local *l = calloc(1, sizeof(*l));
	int rc = -ENOMEM;

	if (!l)
		return -ENOMEM;
	l->nboxes = c->chunks.n;
	l->owners = malloc((c->files.n + 1UL) * sizeof(*l->owners));
	l->of_box = malloc((c->chunks.n + 1UL) * sizeof(*l->of_box));
	l->boxes = malloc((c->chunks.n + 1UL) * sizeof(*l->boxes));
	if (l->owners && l->of_box && l->boxes)
		rc = find_boxes(l, c);
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
	free(l->of_box);
	free(l->boxes);
	free(l);
}

/* --- directories ------------------------------------------------------------ */

uint32_t ck_local_count(const struct ck_local *l)
{
	return l->nowners;
}

void ck_local_name(const struct ck_local *l, const struct ck_catalog *c,
		   uint32_t owner, struct ck_buf *out)
{
	const struct owner *o = &l->owners[owner];

	if (o->is_rank) {
		ck_buf_printf(out, "rank-%" PRIu64, o->rank);
		return;
	}
	ck_buf_text(out, "file-");
	ck_name_stem(ck_catalog_file(c, o->file)->path, 1, out);
}

/* The rank of a directory's name, without leading zeros. */
static bool rank_in(struct ck_str name, uint64_t *rank)
{
	struct ck_str prefix = CK_STR("rank-");
	const char *p, *end = name.p + name.len;

	if (!ck_str_starts(name, prefix) || name.len == prefix.len)
		return false;
	p = name.p + prefix.len;
	if (*p == '0' && end - p > 1)
		return false;
	for (*rank = 0; p < end; p++)
		if (*p < '0' || *p > '9' || !ck_mul(rank, *rank, 10) ||
		    !ck_add(rank, *rank, (uint64_t)(*p - '0')))
			return false;
	return true;
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

	if (rank_in(name, &rank))
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
	return l->boxes[l->owners[owner].begin + i];
}

/* --- files ------------------------------------------------------------------ */

/* Has this owner another box of the same tensor? */
static bool has_siblings(const struct ck_local *l, const struct ck_tensor *t,
			 uint32_t box)
{
	for (uint32_t i = t->chunk; i < t->chunk + t->nchunks; i++)
		if (i != box && l->of_box[i] == l->of_box[box])
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

void ck_local_box_name(const struct ck_local *l, const struct ck_catalog *c,
		       uint32_t box, struct ck_buf *out)
{
	const struct ck_tensor *t =
		ck_catalog_tensor(c, ck_catalog_tensor_of(c, box));

	ck_buf_str(out, ck_tensor_names(c, t->entry.number)->stem);
	if (t->ndim && has_siblings(l, t, box))
		add_offsets(t, box, out);
	ck_buf_text(out, ".npy");
}

/* The stem in a file name, with ".npy" and the text of offsets cut off. */
static bool stem_in(struct ck_str name, struct ck_str *stem)
{
	static const char suffix[] = ".npy";
	const char *at;

	if (name.len < 4 || memcmp(name.p + name.len - 4, suffix, 4) != 0)
		return false;
	*stem = (struct ck_str){ name.p, name.len - 4 };
	at = memmem(stem->p, stem->len, "%@", 2);
	if (at)
		stem->len = (size_t)(at - stem->p);
	return true;
}

int ck_local_box_find(const struct ck_local *l, const struct ck_catalog *c,
		      uint32_t owner, struct ck_str name, uint32_t *box)
{
	struct ck_buf b = { 0 };
	const struct ck_tensor *t;
	struct ck_str stem;
	int64_t entry;
	int rc = -ENOENT;

	entry = stem_in(name, &stem) ? ck_listing_find(c->listing, stem) : -1;
	if (entry < 0 || c->listing->entries[entry].is_object)
		return -ENOENT;
	t = ck_catalog_tensor(c, c->listing->entries[entry].i);
	for (uint32_t i = t->chunk;
	     rc && i < t->chunk + t->nchunks && i < l->nboxes; i++) {
		if (l->of_box[i] != owner)
			continue;
		b.len = 0;
		ck_local_box_name(l, c, i, &b);
		if (b.err)
			break;
		if (ck_str_eq((struct ck_str){ b.data, b.len }, name)) {
			*box = i;
			rc = 0;
		}
	}
	if (b.err)
		rc = b.err;
	ck_buf_fini(&b);
	return rc;
}

/* --- what a file consists of ------------------------------------------------ */

/* Bytes of a box; false if they cannot be counted or shown. */
static bool box_bytes(const struct ck_tensor *t, const int64_t *size,
		      uint64_t *bytes)
{
	*bytes = ck_dtype_at(t->dtype)->size;
	if (t->err || *bytes == 0)
		return false;
	for (uint32_t d = 0; d < t->ndim; d++)
		if (size[d] < 0 || !ck_mul(bytes, *bytes, (uint64_t)size[d]))
			return false;
	return *bytes <= INT64_MAX;
}

uint64_t ck_local_size(const struct ck_catalog *c, uint32_t box)
{
	const struct ck_tensor *t =
		ck_catalog_tensor(c, ck_catalog_tensor_of(c, box));
	const int64_t *size = ck_tensor_box(t, box - t->chunk) + t->ndim;
	uint64_t bytes;

	if (!box_bytes(t, size, &bytes))
		return 0;
	return ck_npy_header_len(t->dtype, t->ndim, size) + bytes;
}

int ck_local_slice(const struct ck_catalog *c, uint32_t box,
		   struct ck_slice **out)
{
	uint32_t tensor = ck_catalog_tensor_of(c, box);
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	const int64_t *off = ck_tensor_box(t, box - t->chunk);
	struct ck_view_part part = { .tensor = tensor, .ndim = t->ndim };
	struct ck_buf header = { 0 };
	int rc;

	if (!box_bytes(t, off + t->ndim, &part.nbytes))
		return ck_view_slice_make(&part, out);
	ck_npy_header(t->dtype, t->ndim, off + t->ndim, &header);
	part.literal = (struct ck_str){ header.data, header.len };
	part.has_tensor = true;
	part.box = off;
	rc = header.err ? header.err : ck_view_slice_make(&part, out);
	ck_buf_fini(&header);
	return rc;
}

/* --- the directories -------------------------------------------------------------- */

/* a[0]: 0 is local/ itself, else 1 + owner. An entry of an owner is a box. */

static void owner_set(const struct ck_local *l, uint32_t owner,
		      struct ck_child *out)
{
	*out = (struct ck_child){
		.type = CK_TYPE_DIR,
		.entry = owner,
		.dir = { .view = &ck_view_local,
			 .state = l,
			 .a = { 1 + owner },
			 .suffix = ".npy" },
	};
}

/* One of a tensor that was removed is nobody's. */
static bool is_of_owner(const struct ck_catalog *c, const struct ck_dir *dir,
			uint32_t box)
{
	const struct ck_local *l = dir->state;

	return dir->a[0] && box < l->nboxes &&
	       l->of_box[box] == dir->a[0] - 1 &&
	       ck_tensor_is_there(c, ck_catalog_tensor_of(c, box));
}

static int local_make(const struct ck_view_source *from, const void **state)
{
	struct ck_local *l;
	int rc = ck_local_make(from->catalog, &l);

	if (rc == 0)
		*state = l;
	return rc;
}

static void local_free(const void *state)
{
	ck_local_free((struct ck_local *)(uintptr_t)state);
}

static int local_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
			struct ck_str name, struct ck_child *out)
{
	const struct ck_local *l = dir->state;
	uint32_t owner;
	int rc;

	if (dir->a[0])
		return ck_local_box_find(l, c, dir->a[0] - 1, name,
					 &out->entry);
	rc = ck_local_find(l, c, name, &owner);
	if (rc == 0)
		owner_set(l, owner, out);
	return rc;
}

static int owners_next(const struct ck_local *l, uint64_t at,
		       struct ck_child *out)
{
	if (at >= l->nowners)
		return -ENOENT;
	owner_set(l, (uint32_t)at, out);
	return 0;
}

static int boxes_next(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint64_t *at, struct ck_child *out)
{
	const struct ck_local *l = dir->state;
	uint32_t owner = dir->a[0] - 1, n = ck_local_boxes(l, owner);

	while (*at < n &&
	       !is_of_owner(c, dir, ck_local_box(l, owner, (uint32_t)*at)))
		++*at;
	if (*at >= n)
		return -ENOENT;
	out->entry = ck_local_box(l, owner, (uint32_t)*at);
	return 0;
}

static int local_next(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint64_t *at, struct ck_child *out)
{
	return dir->a[0] ? boxes_next(c, dir, at, out)
			 : owners_next(dir->state, *at, out);
}

static void local_name(const struct ck_catalog *c, const struct ck_dir *dir,
		       uint32_t entry, struct ck_buf *out)
{
	if (dir->a[0])
		ck_local_box_name(dir->state, c, entry, out);
	else
		ck_local_name(dir->state, c, entry, out);
}

static int local_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint32_t entry, struct ck_about *out)
{
	uint32_t tensor;

	if (!is_of_owner(c, dir, entry))
		return -ENOENT;
	tensor = ck_catalog_tensor_of(c, entry);
	*out = (struct ck_about){
		.topic = CK_ABOUT_BOX,
		.accepts = CK_ACCEPTS_NPY,
		.number = tensor,
		.chunk = entry,
		.size = ck_local_size(c, entry),
		.version = ck_catalog_tensor(c, tensor)->version,
	};
	return 0;
}

static int local_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		       uint32_t entry, struct ck_slice **out)
{
	uint32_t tensor;

	if (!is_of_owner(c, dir, entry))
		return -ENOENT;
	tensor = ck_catalog_tensor_of(c, entry);
	return ck_view_slice_checked(ck_catalog_tensor(c, tensor),
				     ck_local_slice(c, entry, out), out);
}

static uint64_t local_count(const struct ck_catalog *c, const void *state)
{
	return (uint64_t)ck_local_count(state) + c->chunks.n;
}

const struct ck_view ck_view_local = {
	.top = "local",
	.make = local_make,
	.free = local_free,
	.lookup = local_lookup,
	.next = local_next,
	.name = local_name,
	.stat = local_stat,
	.slice = local_slice,
	.count = local_count,
};
