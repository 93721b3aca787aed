/* SPDX-License-Identifier: MIT */
/*
 * Joins the rows of a `.metadata`: each box finds its item by (fqn, offset), as the
 * loader of torch does. fill.c then adds the entries to the catalog.
 *
 * storage_data has a row for each box, up to a million rows. A rank writes its tensors
 * in order, and ranks follow each other, so the rows of one tensor are in the order of
 * its boxes. Each entry records which box is expected next, so memory is read
 * sequentially. Rows out of this order are joined later, through a hash table. Two rows
 * of one key are an error: if the last one won, two readers could see different data.
 *
 * A box without elements needs no item. PyTorch 2.15 writes such a box at the offset of
 * a box with elements, and only one row for both. So boxes with elements are joined
 * first, and an empty box takes a row that is left.
 */
#include "dcp_internal.h"

#include <errno.h>
#include <inttypes.h>

/* Estimated bytes of an entry in the catalog without its boxes: names and a fault. */
enum { ENTRY_BYTES = 512 };

/* Number of malformed storage records that get a note each. */
enum { MALFORMED_NAMED = 16 };

static int table_make(struct ck_dcp_reader *r, struct ck_dcp_table *t,
		      uint32_t count)
{
	for (t->n = 16; t->n < 2UL * count;)
		t->n *= 2;
	t->slots = calloc(t->n, sizeof(*t->slots));
	return t->slots ? 0 : ck_dcp_no_memory(r);
}

/* --- entries by key ----------------------------------------------------------- */

/* Returns the slot of a key, or the empty slot where it belongs. */
static uint32_t *entry_slot(const struct ck_dcp_reader *r, struct ck_str key)
{
	size_t mask = r->by_key.n - 1;
	size_t i = ck_hash64_seeded(key, r->seed) & mask;
	uint32_t *slots = r->by_key.slots;

	while (slots[i] && !ck_str_eq(r->entries[slots[i] - 1].key, key))
		i = (i + 1) & mask;
	return &slots[i];
}

static struct ck_dcp_entry *entry_find(const struct ck_dcp_reader *r,
				       struct ck_str key)
{
	uint32_t slot = *entry_slot(r, key);

	return slot ? &r->entries[slot - 1] : NULL;
}

/* entry_find() that tries the entry behind `last` first, or the first entry if last is
 * NULL. */
static struct ck_dcp_entry *entry_find_next(const struct ck_dcp_reader *r,
					    struct ck_str key,
					    const struct ck_dcp_entry *last)
{
	size_t next = last ? (size_t)(last - r->entries) + 1 : 0;
	struct ck_dcp_entry *e = &r->entries[next < r->nentries ? next : 0];

	if (r->nentries && e->key.len == key.len &&
	    (e->key.p == key.p || ck_str_eq(e->key, key)))
		return e;
	return entry_find(r, key);
}

/* Charges the memory of an entry and its boxes, here and in the catalog: many keys may
 * share one value of the pickle. */
static int entry_spend(struct ck_dcp_reader *r,
		       const struct ck_dcp_tensor_row *t)
{
	uint64_t box = 2 * sizeof(struct ck_item) + sizeof(uint32_t);
	uint64_t dim = 2 * sizeof(int64_t);

	if (!t)
		return ck_dcp_spend(r, ENTRY_BYTES);
	/* The factors have 32 bits, and the rows were charged: no overflow. */
	return ck_dcp_spend(r, ENTRY_BYTES + t->ndim * dim +
				       t->nchunks * (box + t->ndim * dim));
}

static int entry_add(struct ck_dcp_reader *r, struct ck_str key,
		     const struct ck_pv *v)
{
	struct ck_dcp_entry *e = &r->entries[r->nentries];
	uint32_t *slot = entry_slot(r, key);
	struct ck_pv tensor;

	if (*slot) /* a path shows one entry; torch writes no key twice */
		return ck_fail(r->d, EBADMSG, "two entries of name %s",
			       ck_show(key));
	*e = (struct ck_dcp_entry){ .key = key, .first = r->nitems };
	if (ck_dcp_taken(v, CK_DCP_TENSOR, &tensor))
		e->tensor = &r->tensors[tensor.i];
	if (entry_spend(r, e->tensor))
		return -EBADMSG;
	e->known = v->tag == CK_PV_NEW &&
		   ck_dcp_kind(r, &v->call->callable) == CK_DCP_BYTES;
	e->count = e->tensor ? e->tensor->nchunks : 1;
	r->nitems += e->count;
	*slot = ++r->nentries;
	return 0;
}

static int entries_make(struct ck_dcp_reader *r, const struct ck_plist *dict)
{
	int rc = table_make(r, &r->by_key, dict->count / 2);

	r->entries = malloc((dict->count / 2 + 1UL) * sizeof(*r->entries));
	if (rc == 0 && !r->entries)
		rc = ck_dcp_no_memory(r);
	for (uint32_t i = 0; rc == 0 && i < dict->count; i += 2) {
		struct ck_str key;

		rc = ck_dcp_str(r, &dict->items[i], &key)
			     ? entry_add(r, key, &dict->items[i + 1])
			     : ck_fail(r->d, EBADMSG,
				       "entry %u has a key that is no string, "
				       "but %s",
				       i / 2, ck_dcp_type(r, &dict->items[i]));
	}
	if (rc)
		return rc;
	r->of_item = calloc(r->nitems + 1, sizeof(*r->of_item));
	return r->of_item ? 0 : ck_dcp_no_memory(r);
}

/* Sets the path of each entry in the nested state dict, from planner_data. Some
 * planners omit it or store other values there. */
static int paths_join(struct ck_dcp_reader *r, const struct ck_pv *state)
{
	struct ck_pv paths;

	if (!ck_pv_get(state, "planner_data", &paths) ||
	    !ck_dcp_dict(r, &paths, &paths))
		return 0;
	for (uint32_t i = 0; i < paths.list->count; i += 2) {
		struct ck_str key = { 0 };
		struct ck_dcp_entry *e;

		if (!ck_dcp_str(r, &paths.list->items[i], &key))
			continue;
		e = entry_find(r, key);
		if (e && e->path)
			return ck_fail(
				r->d, EBADMSG,
				".metadata: planner_data has two paths of %s",
				ck_show(key));
		if (e)
			e->path = &paths.list->items[i + 1];
	}
	return 0;
}

/* --- rows of storage_data ---------------------------------------------------------- */

/* True if item i of an entry has no elements. The one item of an entry other than a
 * tensor is never empty. */
static bool is_empty(const struct ck_dcp_reader *r,
		     const struct ck_dcp_entry *e, uint32_t i)
{
	const struct ck_dcp_tensor_row *t = e->tensor;
	const int64_t *sizes = t && t->ndim ? ck_dcp_box(r, t, i) + t->ndim
					    : NULL;

	for (uint32_t d = 0; sizes && d < t->ndim; d++)
		if (sizes[d] == 0)
			return true;
	return false;
}

static bool is_offset(const struct ck_dcp_reader *r,
		      const struct ck_dcp_index_row *row, const int64_t *offset,
		      uint32_t ndim)
{
	if (row->ndim != ndim)
		return false;
	return ndim == 0 || ndim == CK_DCP_NO_OFFSET ||
	       memcmp(ck_dcp_ints(r, row->offset), offset,
		      ndim * sizeof(*offset)) == 0;
}

static bool is_item(const struct ck_dcp_reader *r, const struct ck_dcp_entry *e,
		    uint32_t i, const struct ck_dcp_index_row *row)
{
	if (!e->tensor)
		return row->ndim == CK_DCP_NO_OFFSET;
	return is_offset(r, row, ck_dcp_box(r, e->tensor, i), e->tensor->ndim);
}

static struct ck_str row_fqn(const struct ck_dcp_index_row *row)
{
	return (struct ck_str){ row->fqn, row->fqn_len };
}

static const struct ck_dcp_index_row *row_at(const struct ck_dcp_reader *r,
					     uint32_t pair)
{
	struct ck_pv index;

	(void)ck_dcp_taken(&r->storage[2 * (size_t)pair], CK_DCP_INDEX, &index);
	return &r->indexes[index.i];
}

/* Sets the location of an item from a row. */
static void item_set(struct ck_dcp_reader *r, size_t item, uint32_t pair)
{
	struct ck_pv info;

	if (!ck_dcp_taken(&r->storage[2 * (size_t)pair + 1], CK_DCP_INFO,
			  &info))
		/* a malformed row still counts as the row of the item */
		return;
	r->of_item[item] = (uint32_t)info.i + 1;
	if (r->places)
		ck_dcp_place_item(r, (uint64_t)info.i);
}

/* Returns the fault of a malformed storage record, for messages. */
static const char *record_fault(struct ck_dcp_reader *r,
				const struct ck_pv *record)
{
	static const char *const fields[] = { "relative_path", "offset",
					      "length" };
	const struct ck_pcall *call = ck_pv_any_call(record);
	struct ck_pv state, v;
	struct ck_str text;
	int64_t number;

	if (!call || !call->has_state)
		return ck_shown("is %s", ck_dcp_type(r, record));
	state = ck_dcp_fields(&call->state);
	for (size_t i = 0; i < CK_ARRAY_SIZE(fields); i++) {
		if (!ck_pv_get(&state, fields[i], &v))
			return ck_shown("has no %s", fields[i]);
		if (i == 0 ? !ck_dcp_str(r, &v, &text)
			   : !ck_dcp_int(r, &v, &number))
			return ck_shown("has a %s of type %s", fields[i],
					ck_dcp_type(r, &v));
	}
	return ck_shown("is %s", ck_dcp_type(r, record));
}

/* Adds a note about a malformed storage record, for the first MALFORMED_NAMED of them.
 * Its box gets no item. */
static int record_malformed(struct ck_dcp_reader *r, uint32_t pair)
{
	const struct ck_dcp_index_row *row = row_at(r, pair);
	struct ck_buf line = { 0 };
	int rc;

	if (r->malformed++ >= MALFORMED_NAMED)
		return 0;
	ck_buf_printf(&line, "%s: the storage record of ",
		      ck_show(row_fqn(row)));
	if (row->ndim == CK_DCP_NO_OFFSET || row->ndim > CK_MAX_DIMS)
		ck_buf_text(&line, "an entry");
	else
		ck_buf_text(&line, "offset ");
	if (row->ndim <= CK_MAX_DIMS)
		ck_dims_print(&line, ck_dcp_ints(r, row->offset), row->ndim);
	ck_buf_printf(&line, " %s; its bytes are not found",
		      record_fault(r, &r->storage[2 * (size_t)pair + 1]));
	rc = line.err ? line.err : ck_catalog_doubt_add(r->c, line.data);
	ck_buf_fini(&line);
	return rc ? ck_dcp_no_memory(r) : 0;
}

/* Returns 1 if the pair is a row, 0 if its record is malformed, or -EBADMSG. */
static int check_pair(struct ck_dcp_reader *r, uint32_t pair)
{
	const struct ck_pv *kv = &r->storage[2 * (size_t)pair];
	struct ck_pv out;

	if (!ck_dcp_taken(&kv[0], CK_DCP_INDEX, &out))
		return ck_fail(r->d, EBADMSG,
			       "storage_data: the key of entry %u is not a "
			       "MetadataIndex, but %s",
			       pair, ck_dcp_type(r, &kv[0]));
	return ck_dcp_taken(&kv[1], CK_DCP_INFO, &out)
		       ? 1
		       : record_malformed(r, pair);
}

/* Joins the rows that are in order, and lists the numbers of all others in `left`. */
static int rows_in_order(struct ck_dcp_reader *r, uint32_t *left,
			 uint32_t *nleft)
{
	struct ck_dcp_entry *e = NULL;

	*nleft = 0;
	for (uint32_t i = 0; i < r->nstorage; i++) {
		const struct ck_dcp_index_row *row;
		int rc = check_pair(r, i);

		if (rc < 0)
			return rc;
		row = row_at(r, i);
		e = entry_find_next(r, row_fqn(row), e);
		while (e && e->next < e->count && is_empty(r, e, e->next))
			e->next++;
		if (e && e->next < e->count && is_item(r, e, e->next, row)) {
			item_set(r, e->first + e->next++, i);
			continue;
		}
		left[(*nleft)++] = i;
	}
	return 0;
}

/* --- rows out of order ------------------------------------------------------------ */

static uint32_t *left_slot(const struct ck_dcp_reader *r, struct ck_str fqn,
			   const int64_t *offset, uint32_t ndim)
{
	uint64_t seed = ck_hash64_seeded(fqn, r->seed);
	struct ck_str ints = { (const char *)offset, 0 };
	size_t mask = r->leftovers.n - 1;
	uint32_t *slots = r->leftovers.slots;
	size_t i;

	if (ndim != CK_DCP_NO_OFFSET)
		ints.len = ndim * sizeof(*offset);
	for (i = ck_hash64_seeded(ints, seed + ndim) & mask; slots[i];
	     i = (i + 1) & mask) {
		const struct ck_dcp_index_row *row = row_at(r, slots[i] - 1);

		if (is_offset(r, row, offset, ndim) &&
		    ck_str_eq(row_fqn(row), fqn))
			break;
	}
	return &slots[i];
}

static int duplicate(struct ck_dcp_reader *r, struct ck_str fqn)
{
	return ck_fail(r->d, EBADMSG,
		       "storage_data has two items of %s at one offset",
		       ck_show(fqn));
}

static int leftovers_make(struct ck_dcp_reader *r, const uint32_t *left,
			  uint32_t nleft)
{
	int rc = table_make(r, &r->leftovers, nleft);

	for (uint32_t i = 0; rc == 0 && i < nleft; i++) {
		const struct ck_dcp_index_row *row = row_at(r, left[i]);
		uint32_t *slot = left_slot(r, row_fqn(row),
					   ck_dcp_ints(r, row->offset),
					   row->ndim);

		if (*slot)
			return duplicate(r, row_fqn(row));
		*slot = left[i] + 1;
	}
	return rc;
}

/* Returns the slot of the row of item i of an entry. */
static uint32_t item_slot(const struct ck_dcp_reader *r,
			  const struct ck_dcp_entry *e, uint32_t i)
{
	const struct ck_dcp_tensor_row *t = e->tensor;

	return *left_slot(r, e->key, t ? ck_dcp_box(r, t, i) : NULL,
			  t ? t->ndim : CK_DCP_NO_OFFSET);
}

/* Joins the items of an entry that got no row in order. An item that has a row must not
 * have a second one. Items with elements come first; `taken` has a bit for each row
 * that they use. */
static int entry_leftovers(struct ck_dcp_reader *r, struct ck_dcp_entry *e,
			   uint8_t *taken)
{
	for (uint32_t i = 0; i < e->count; i++) {
		uint32_t slot = is_empty(r, e, i) ? 0 : item_slot(r, e, i);

		if (slot && i < e->next)
			return duplicate(r, e->key);
		if (!slot)
			continue;
		item_set(r, e->first + i, slot - 1);
		taken[(slot - 1) / 8] |= (uint8_t)(1U << (slot - 1) % 8);
	}
	for (uint32_t i = 0; i < e->count; i++) {
		uint32_t slot = is_empty(r, e, i) ? item_slot(r, e, i) : 0;

		if (slot && !(taken[(slot - 1) / 8] >> (slot - 1) % 8 & 1))
			item_set(r, e->first + i, slot - 1);
	}
	return 0;
}

static int rows_join(struct ck_dcp_reader *r)
{
	ck_auto_free uint32_t *left =
		malloc((r->nstorage + 1UL) * sizeof(*left));
	ck_auto_free uint8_t *taken = NULL;
	uint32_t nleft;
	int rc;

	if (!left)
		return ck_dcp_no_memory(r);
	rc = rows_in_order(r, left, &nleft);
	if (rc || nleft == 0)
		return rc;
	taken = calloc(r->nstorage / 8 + 1UL, 1);
	if (!taken)
		return ck_dcp_no_memory(r);
	rc = leftovers_make(r, left, nleft);
	for (uint32_t i = 0; rc == 0 && i < r->nentries; i++)
		rc = entry_leftovers(r, &r->entries[i], taken);
	return rc;
}

static bool is_metadata(struct ck_dcp_reader *r, const struct ck_pcall *object)
{
	enum ck_dcp_kind kind = ck_dcp_kind(r, &object->callable);
	struct ck_pv state = ck_dcp_fields(&object->state);

	if (kind == CK_DCP_UNKNOWN)
		kind = ck_dcp_form(r, &state);
	return kind == CK_DCP_METADATA;
}

/* Sets *out to a field of the Metadata object that must be a dict. */
static int field_dict(struct ck_dcp_reader *r, const struct ck_pv *state,
		      const char *field, struct ck_pv *out)
{
	if (!ck_pv_get(state, field, out))
		return ck_fail(r->d, EBADMSG, "no %s", field);
	if (!ck_dcp_dict(r, out, out))
		return ck_fail(r->d, EBADMSG, "%s is not a dict, but %s", field,
			       ck_dcp_type(r, out));
	return 0;
}

int ck_dcp_join(struct ck_dcp_reader *r, const struct ck_pickle *p)
{
	const struct ck_pcall *root = p->root.call;
	struct ck_pv state, entries, storage;
	int rc;

	if (p->root.tag != CK_PV_NEW || !root->has_state ||
	    !is_metadata(r, root))
		return ck_fail(r->d, EBADMSG, "holds no Metadata object");
	state = ck_dcp_fields(&root->state);
	rc = field_dict(r, &state, "state_dict_metadata", &entries);
	if (rc == 0)
		rc = field_dict(r, &state, "storage_data", &storage);
	if (rc)
		return rc;
	r->storage = storage.list->items;
	r->nstorage = storage.list->count / 2;
	rc = entries_make(r, entries.list);
	if (rc == 0)
		rc = paths_join(r, &state);
	if (rc == 0)
		rc = rows_join(r);
	/* fill.c does not need them. */
	free(r->indexes);
	r->indexes = NULL;
	if (rc == 0 && r->places)
		rc = ck_dcp_place_chunks(r);
	return rc ? rc : ck_dcp_fill(r);
}
