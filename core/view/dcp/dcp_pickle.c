/* SPDX-License-Identifier: MIT */
/*
 * dcp_pickle: prints `.metadata` of a layout: a pickle of protocol 2 with the classes that
 * PyTorch 2.1 writes and all later releases read. Classes, and strings that occur for each
 * entry, are put into the memo first and have fixed indexes there; then each entry's key,
 * and the name of each file, get the index of their number.
 *
 * A box costs about 95 bytes, and no memory beside the text but 8 bytes for each rank.
 *
 * Source: torch/distributed/checkpoint/metadata.py, filesystem.py and
 * _shard/sharded_tensor/metadata.py of PyTorch 2.1.
 */
#include "dcp_view.h"
#include "syntax/pickle/pickler.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define METADATA "torch.distributed.checkpoint.metadata"
#define SHARDED	 "torch.distributed._shard.sharded_tensor.metadata"
#define STORAGE	 "torch.distributed.checkpoint.filesystem"

/* Memo indexes. */
enum memo {
	TENSOR,
	BYTES,
	CHUNK,
	INDEX,
	INFO,
	PROPERTIES,
	SIZE,
	CLASSES,
	LAYOUT = CLASSES,
	FORMAT,
	NAMES,
	NAME_PROPERTIES = NAMES,
	NAME_SIZE,
	NAME_CHUNKS,
	NAME_OFFSETS,
	NAME_SIZES,
	NAME_FQN,
	NAME_INDEX,
	NAME_OFFSET,
	NAME_PATH,
	NAME_LENGTH,
	NAMES_END,
	KEYS = 256, /* + entry; then files: + rank */
};

/* Items of a dict or list that are added by one opcode, as Python does. */
enum { BATCH = 1000 };

/* The state of printing. */
struct printing {
	const struct ck_dcp_layout *l;
	const struct ck_dcp_plan *plan;
	struct ck_pickler p;
	struct ck_dcp_lens *lens;
	uint64_t *ends;	  /* bytes so far in the file of each rank */
	uint64_t *shared; /* offsets of items that later tensors have */
	size_t nshared, shared_cap;
	size_t *first; /* of each entry with is_shared: index in `shared` */
	uint32_t batch;
	uint64_t most;
};

/* --- parts ------------------------------------------------------------------------ */

/* Puts classes, values and names into the memo. */
static void memo_fill(struct ck_pickler *p)
{
	static const char *const classes[CLASSES][2] = {
		[TENSOR] = { METADATA, "TensorStorageMetadata" },
		[BYTES] = { METADATA, "BytesStorageMetadata" },
		[CHUNK] = { METADATA, "ChunkStorageMetadata" },
		[INDEX] = { METADATA, "MetadataIndex" },
		[INFO] = { STORAGE, "_StorageInfo" },
		[PROPERTIES] = { SHARDED, "TensorProperties" },
		[SIZE] = { "torch", "Size" },
	};
	static const char *const names[NAMES_END - NAMES] = {
		"properties", "size",  "chunks", "offsets",	  "sizes",
		"fqn",	      "index", "offset", "relative_path", "length",
	};
	static const uint64_t contiguous = 0;
	uint32_t memo;

	for (memo = 0; memo < NAMES_END; memo++) {
		if (memo < CLASSES) {
			ck_pickler_global(p, classes[memo][0],
					  classes[memo][1]);
		} else if (memo == LAYOUT) {
			ck_pickler_global(p, "torch.serialization",
					  "_get_layout");
			ck_pickler_mark(p);
			ck_pickler_text(p, CK_STR("torch.strided"));
			ck_pickler_tuple(p);
			ck_pickler_reduce(p);
		} else if (memo == FORMAT) {
			ck_pickler_global(p, SHARDED, "MEM_FORMAT_ENCODING");
			ck_pickler_ints(p, 1, &contiguous);
			ck_pickler_reduce(p);
		} else {
			ck_pickler_text(p, ck_str_from(names[memo - NAMES]));
		}
		ck_pickler_put(p, memo);
		ck_pickler_pop(p);
	}
}

/* Begins an object with attributes: the caller adds names and values. */
static void object_begin(struct ck_pickler *p, enum memo class)
{
	ck_pickler_get(p, class);
	ck_pickler_object(p);
	ck_pickler_dict(p);
	ck_pickler_mark(p);
}

static void object_end(struct ck_pickler *p)
{
	ck_pickler_set_items(p);
	ck_pickler_build(p);
}

static void size_print(struct ck_pickler *p, enum memo name, uint32_t ndim,
		       const int64_t *sizes)
{
	ck_pickler_get(p, name);
	ck_pickler_size(p, SIZE, ndim, (const uint64_t *)sizes);
}

static void batch_begin(struct printing *s)
{
	s->batch = 0;
	ck_pickler_mark(&s->p);
}

/* Before each item of a dict or list. */
static void batch_next(struct printing *s, void (*add)(struct ck_pickler *p))
{
	if (s->batch++ < BATCH)
		return;
	add(&s->p);
	ck_pickler_mark(&s->p);
	s->batch = 1;
}

static void key_get(struct printing *s, uint32_t entry)
{
	ck_pickler_get(&s->p, KEYS + entry);
}

/* --- state_dict_metadata --------------------------------------------------------- */

static void properties_print(struct ck_pickler *p, uint8_t dtype)
{
	ck_pickler_get(p, NAME_PROPERTIES);
	ck_pickler_get(p, PROPERTIES);
	ck_pickler_object(p);
	ck_pickler_mark(p);
	ck_pickler_global(p, "torch", ck_dtype_at(dtype)->name);
	ck_pickler_get(p, LAYOUT);
	ck_pickler_bool(p, false); /* requires_grad */
	ck_pickler_get(p, FORMAT);
	ck_pickler_bool(p, false); /* pin_memory */
	ck_pickler_tuple(p);
	ck_pickler_build(p);
}

static int chunks_print(struct printing *s, uint32_t entry, uint32_t ndim)
{
	struct ck_dcp_boxes b;
	int rc = ck_dcp_boxes_begin(s->l, entry, &b);

	ck_pickler_get(&s->p, NAME_CHUNKS);
	ck_pickler_list(&s->p);
	batch_begin(s);
	while (rc == 0 && ck_dcp_boxes_next(&b)) {
		batch_next(s, ck_pickler_append_items);
		object_begin(&s->p, CHUNK);
		size_print(&s->p, NAME_OFFSETS, ndim, b.box);
		size_print(&s->p, NAME_SIZES, ndim, b.box + ndim);
		object_end(&s->p);
	}
	ck_pickler_append_items(&s->p);
	return rc;
}

static int entry_print(struct printing *s, uint32_t entry)
{
	const struct ck_dcp_shown *e = &s->plan->entries[entry];
	const struct ck_tensor *t;
	int rc;

	ck_pickler_text(&s->p, ck_dcp_key(s->plan, entry));
	ck_pickler_put(&s->p, KEYS + entry);
	if (e->is_object) {
		ck_pickler_get(&s->p, BYTES);
		ck_pickler_object(&s->p);
		return 0;
	}
	t = ck_catalog_tensor(s->plan->base.c, e->i);
	object_begin(&s->p, TENSOR);
	properties_print(&s->p, t->dtype);
	size_print(&s->p, NAME_SIZE, t->ndim, t->shape);
	rc = chunks_print(s, entry, t->ndim);
	object_end(&s->p);
	return rc;
}

/* --- planner_data -------------------------------------------------------------------- */

/* True if the key is the parts of the path, joined by dots, and "~" and a number: another
 * entry has equal parts. */
static bool is_numbered(const struct ck_entry *e)
{
	size_t at = 0;

	for (uint32_t i = 0; i < e->nparts; i++) {
		struct ck_path_part part = ck_entry_part(e, i);

		if ((i && (at >= e->key.len || e->key.p[at++] != '.')) ||
		    part.len > e->key.len - at ||
		    memcmp(e->key.p + at, part.p, part.len) != 0)
			return false;
		at += part.len;
	}
	return at < e->key.len && e->key.p[at] == '~';
}

static void part_print(struct ck_pickler *p, const struct ck_path_part *part)
{
	const struct ck_str text = ck_part_text(part);
	bool is_index = part->type == CK_PATH_INDEX;
	uint64_t index = 0;

	for (size_t i = 0; i < text.len && is_index; i++)
		is_index = ck_mul(&index, index, 10) &&
			   ck_add(&index, index, (uint64_t)(text.p[i] - '0'));
	if (is_index && index <= INT64_MAX)
		ck_pickler_int(p, index);
	else
		ck_pickler_text(p, text);
}

static void path_print(struct printing *s, uint32_t entry)
{
	const struct ck_dcp_shown *shown = &s->plan->entries[entry];
	const struct ck_entry *e = ck_catalog_entry(
		s->plan->base.c,
		(struct ck_entry_id){ shown->i, shown->is_object });

	key_get(s, entry);
	ck_pickler_mark(&s->p);
	if (!e->path || is_numbered(e))
		key_get(s, entry);
	else
		for (uint32_t i = 0; i < e->nparts; i++)
			part_print(&s->p, &e->path[i]);
	ck_pickler_tuple(&s->p);
}

static void planner_print(struct printing *s)
{
	if (!s->plan->has_paths) {
		ck_pickler_none(&s->p);
		return;
	}
	ck_pickler_dict(&s->p);
	batch_begin(s);
	for (uint32_t i = 0; i < s->plan->n; i++) {
		batch_next(s, ck_pickler_set_items);
		path_print(s, i);
	}
	ck_pickler_set_items(&s->p);
}

/* --- storage_data ---------------------------------------------------------------------- */

/* The name of the file of a rank is in the memo from the first item on. */
static void file_print(struct printing *s, uint32_t rank)
{
	uint32_t memo = KEYS + s->plan->n + rank;
	char name[32];

	ck_pickler_get(&s->p, NAME_PATH);
	if (s->ends[rank]) {
		ck_pickler_get(&s->p, memo);
		return;
	}
	(void)snprintf(name, sizeof(name), "__%" PRIu32 "_0.distcp", rank);
	ck_pickler_text(&s->p, ck_str_from(name));
	ck_pickler_put(&s->p, memo);
}

static void place_print(struct printing *s, uint32_t rank, uint64_t offset,
			uint64_t length)
{
	object_begin(&s->p, INFO);
	file_print(s, rank);
	ck_pickler_get(&s->p, NAME_OFFSET);
	ck_pickler_int(&s->p, offset);
	ck_pickler_get(&s->p, NAME_LENGTH);
	ck_pickler_int(&s->p, length);
	object_end(&s->p);
}

static void object_place_print(struct printing *s, uint32_t entry)
{
	uint64_t len = ck_dcp_object_len(s->plan, entry);

	batch_next(s, ck_pickler_set_items);
	object_begin(&s->p, INDEX);
	ck_pickler_get(&s->p, NAME_FQN);
	key_get(s, entry);
	ck_pickler_get(&s->p, NAME_INDEX);
	ck_pickler_none(&s->p);
	object_end(&s->p);
	place_print(s, 0, s->ends[0], len);
	s->ends[0] += len;
}

static void box_index_print(struct printing *s, uint32_t entry, uint32_t index,
			    const struct ck_dcp_boxes *b, uint32_t ndim)
{
	batch_next(s, ck_pickler_set_items);
	object_begin(&s->p, INDEX);
	ck_pickler_get(&s->p, NAME_FQN);
	key_get(s, entry);
	ck_pickler_get(&s->p, NAME_INDEX);
	ck_pickler_int(&s->p, index);
	size_print(&s->p, NAME_OFFSET, ndim, b->box);
	object_end(&s->p);
}

/* Records the offset of an item that later tensors have. */
static int shared_add(struct printing *s, uint32_t entry, uint32_t index,
		      uint64_t offset)
{
	uint64_t *all = ck_grow(s->shared, &s->shared_cap, s->nshared, 1,
				sizeof(*all));

	if (!all)
		return -ENOMEM;
	s->shared = all;
	if (index == 0)
		s->first[entry] = s->nshared;
	all[s->nshared++] = offset;
	return 0;
}

static int boxes_place_print(struct printing *s, uint32_t entry)
{
	const struct ck_dcp_shown *e = &s->plan->entries[entry];
	const struct ck_tensor *t = ck_catalog_tensor(s->plan->base.c, e->i);
	struct ck_dcp_boxes b;
	int rc = ck_dcp_boxes_begin(s->l, entry, &b);

	for (uint32_t i = 0; rc == 0 && ck_dcp_boxes_next(&b); i++) {
		bool is_own = e->other == CK_DCP_OWN;
		struct ck_dcp_len len;
		uint64_t offset = is_own ? s->ends[b.rank]
					 : s->shared[s->first[e->other] + i];

		rc = ck_dcp_len_of(s->lens, t->dtype, t->ndim, b.box + t->ndim,
				   &len);
		if (rc == 0 && e->is_shared)
			rc = shared_add(s, entry, i, offset);
		if (rc)
			break;
		box_index_print(s, entry, i, &b, t->ndim);
		place_print(s, b.rank, offset, ck_dcp_len_sum(&len));
		if (is_own)
			s->ends[b.rank] += ck_dcp_len_sum(&len);
	}
	return rc;
}

/* --- the whole ------------------------------------------------------------------------- */

static int check(const struct printing *s)
{
	if (s->p.out->len > s->most)
		return -EFBIG;
	return s->p.out->err;
}

static int entries_print(struct printing *s)
{
	int rc = 0;

	ck_pickler_dict(&s->p);
	batch_begin(s);
	for (uint32_t i = 0; i < s->plan->n && rc == 0; i++) {
		uint32_t batch;

		batch_next(s, ck_pickler_set_items);
		batch = s->batch;
		rc = entry_print(s, i);
		s->batch = batch;
		rc = rc ? rc : check(s);
	}
	ck_pickler_set_items(&s->p);
	return rc;
}

/* In the order of the files: objects, then boxes. */
static int places_print(struct printing *s)
{
	const struct ck_dcp_plan *p = s->plan;
	int rc = 0;

	ck_pickler_dict(&s->p);
	batch_begin(s);
	for (uint32_t i = 0; i < p->n; i++)
		if (p->entries[i].is_object)
			object_place_print(s, i);
	for (uint32_t i = 0; i < p->n && rc == 0; i++) {
		if (!p->entries[i].is_object)
			rc = boxes_place_print(s, i);
		rc = rc ? rc : check(s);
	}
	ck_pickler_set_items(&s->p);
	return rc;
}

static int metadata_print(struct printing *s)
{
	struct ck_pickler *p = &s->p;
	int rc;

	ck_pickler_begin(p);
	memo_fill(p);
	ck_pickler_global(p, METADATA, "Metadata");
	ck_pickler_object(p);
	ck_pickler_dict(p);
	ck_pickler_mark(p);
	ck_pickler_text(p, CK_STR("state_dict_metadata"));
	rc = entries_print(s);
	if (rc)
		return rc;
	ck_pickler_text(p, CK_STR("planner_data"));
	planner_print(s);
	ck_pickler_text(p, CK_STR("storage_data"));
	rc = places_print(s);
	object_end(p);
	ck_pickler_end(p);
	return rc ? rc : check(s);
}

int ck_dcp_metadata_print(const struct ck_dcp_layout *l, uint64_t most,
			  struct ck_buf *out)
{
	struct printing s = {
		.l = l,
		.plan = l->plan,
		.most = most,
		.p = { .out = out },
		.lens = ck_dcp_lens_make(),
		.ends = calloc(l->spec.ranks, sizeof(*s.ends)),
		.first = calloc(l->plan->n + 1UL, sizeof(*s.first)),
	};
	int rc = s.lens && s.ends && s.first ? metadata_print(&s) : -ENOMEM;

	free(s.lens);
	free(s.ends);
	free(s.first);
	free(s.shared);
	return rc;
}
