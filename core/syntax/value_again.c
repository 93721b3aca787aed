/* SPDX-License-Identifier: MIT */
/*
 * value_again: values with more than one reference.
 *
 * A pickle refers to a memoized value again in two bytes. Each such value has a
 * record with the position of its text in the output. At a second occurrence, a
 * text of up to 4,096 bytes is copied. A longer one is printed as a reference
 * to the first occurrence, and so is a value that is still open, because it
 * contains itself. So 64 nested doublings of a value add 64 references, not
 * 2^64 copies. The total of copied short texts is bounded by the size of the
 * pickle; a larger total is malformed.
 *
 * A reference is a JSON Pointer. The path of a value is stored only if its text
 * is too long to copy; the paths of open values are on the stack of frames. The
 * state is that of the printer.
 */
#include "ckptfs/json.h"
#include "value_internal.h"

#include <errno.h>

static const char *const part_names[] = { "$class", "args",  "kwargs",
					  "list",   "items", "state" };

/* --- places ------------------------------------------------------------------ */

/* The path component of the child that the frame prints now. */
static struct ck_json_node child_place(const struct ck_json_frame *f)
{
	struct ck_json_node n = { .prefix = f->prefix, .index = f->i - 1 };

	switch (f->kind) {
	case CK_FRAME_ARRAY: break;
	case CK_FRAME_PAIRS:
		n.side = n.index % 2 ? '1' : '0';
		n.index /= 2;
		break;
	case CK_FRAME_DICT: n.key = &f->items[n.index - 1]; break;
	case CK_FRAME_CALL:
		n.prefix = part_names[n.index];
		n.index = UINT32_MAX;
		break;
	}
	return n;
}

static int node_add(struct ck_json *j, struct ck_json_node node, uint32_t *out)
{
	size_t cap = j->nodes_cap;
	struct ck_json_node *nodes = ck_grow(j->nodes, &j->nodes_cap, j->nnodes,
					     1, sizeof(*nodes));

	if (!nodes)
		return ck_json_no_memory(j);
	j->tables += (j->nodes_cap - cap) * sizeof(*nodes);
	j->nodes = nodes;
	*out = (uint32_t)j->nnodes;
	nodes[j->nnodes++] = node;
	return 0;
}

/* The path node of the value that a frame prints; frames below get theirs
 * first. */
static int frame_place(struct ck_json *j, uint32_t frame, uint32_t *out)
{
	uint32_t first = frame;
	int rc;

	while (first && j->frames[first].node == CK_JSON_NO_NODE)
		first--;
	if (first == 0)
		j->frames[0].node = CK_JSON_ROOT;
	for (uint32_t i = first + 1; i <= frame; i++) {
		struct ck_json_node n = child_place(&j->frames[i - 1]);

		n.parent = j->frames[i - 1].node;
		j->frames[i].node = n.parent;
		rc = j->frames[i].is_part ? 0
					  : node_add(j, n, &j->frames[i].node);
		if (rc)
			return rc;
	}
	*out = j->frames[frame].node;
	return 0;
}

/* The path node of the value that is printed now and has no frame. */
static int value_place(struct ck_json *j, uint32_t *out)
{
	struct ck_json_node n;
	int rc;

	*out = CK_JSON_ROOT;
	if (j->nframes == 0)
		return 0;
	n = child_place(&j->frames[j->nframes - 1]);
	rc = frame_place(j, j->nframes - 1, &n.parent);
	return rc ? rc : node_add(j, n, out);
}

static void pointer_key(struct ck_buf *b, const struct ck_pv *key)
{
	ck_buf_text(b, "/");
	for (uint32_t i = 0; i < key->len; i++) {
		if (key->bytes[i] == '~')
			ck_buf_text(b, "~0");
		else if (key->bytes[i] == '/')
			ck_buf_text(b, "~1");
		else
			ck_buf_add(b, &key->bytes[i], 1);
	}
}

static void pointer_print(struct ck_buf *b, const struct ck_json_node *n)
{
	if (n->key) {
		pointer_key(b, n->key);
		return;
	}
	if (n->prefix)
		ck_buf_printf(b, "/%s", n->prefix);
	if (n->index != UINT32_MAX)
		ck_buf_printf(b, "/%u", n->index);
	if (n->side)
		ck_buf_printf(b, "/%c", n->side);
}

static int reference_print(struct ck_json *j, uint32_t node)
{
	uint32_t path[CK_JSON_LEVELS + 1], n = 0;
	struct ck_buf *b = &j->scratch;
	int rc = ck_json_levels(j, 1);

	if (rc)
		return rc;
	for (; node != CK_JSON_ROOT; node = j->nodes[node].parent)
		path[n++] = node;
	b->len = 0;
	while (n > 0)
		pointer_print(b, &j->nodes[path[--n]]);
	ck_buf_text(j->out, "{\"$ref\":");
	ck_buf_json_str(j->out, (struct ck_str){ b->data, b->len });
	ck_buf_text(j->out, "}");
	return b->err ? ck_json_no_memory(j) : 0;
}

/* --- values that may come again ------------------------------------------------ */

/* Of scalars, only long texts are recognised. */
const void *ck_json_identity(const struct ck_json *j, const struct ck_pv *v)
{
	const struct ck_plist *list = ck_pv_list(v);
	const struct ck_pcall *call = ck_pv_any_call(v);

	if (list)
		return list->shared ? list : NULL;
	if (call)
		return call->shared ? call : NULL;
	switch (v->tag) {
	case CK_PV_INTS: return v->kept ? v->ints : NULL;
	case CK_PV_STR:
	case CK_PV_BYTES:
	case CK_PV_BYTEARRAY:
		return v->len >= CK_JSON_LONG_TEXT ? v->bytes : NULL;
	case CK_PV_BIGINT: return v->len > 32 ? v->bytes : NULL;
	case CK_PV_GLOBAL:
		return ck_pickle_global(j->p, v).len >= CK_JSON_LONG_TEXT
			       ? ck_pickle_global(j->p, v).p
			       : NULL;
	default: return NULL;
	}
}

static CK_WRAPS size_t slot_of(const struct ck_json *j, const struct ck_pv *v,
			       const void *at)
{
	uint64_t hash = ((uint64_t)(uintptr_t)at + v->tag * 3U + v->aux) *
			UINT64_C(0x9E3779B97F4A7C15);
	size_t mask = j->nslots - 1, i = (size_t)(hash >> 32) & mask;

	for (; j->slots[i]; i = (i + 1) & mask) {
		const struct ck_json_record *r = &j->records[j->slots[i] - 1];

		if (r->at == at && r->tag == v->tag && r->aux == v->aux)
			break;
	}
	return i;
}

const struct ck_json_record *ck_json_record_find(const struct ck_json *j,
						 const struct ck_pv *v,
						 const void *at)
{
	uint32_t number = j->nslots ? j->slots[slot_of(j, v, at)] : 0;

	return number ? &j->records[number - 1] : NULL;
}

static int slots_grow(struct ck_json *j)
{
	size_t n = j->nslots ? j->nslots * 2 : 256;
	uint32_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return ck_json_no_memory(j);
	j->tables += (n - j->nslots) * sizeof(*slots);
	free(j->slots);
	j->slots = slots;
	j->nslots = n;
	for (size_t i = 0; i < j->nrecords; i++) {
		const struct ck_json_record *r = &j->records[i];
		struct ck_pv v = { .tag = r->tag, .aux = r->aux };

		j->slots[slot_of(j, &v, r->at)] = (uint32_t)i + 1;
	}
	return 0;
}

int ck_json_record_open(struct ck_json *j, const struct ck_pv *v,
			const void *at, uint32_t *number)
{
	size_t cap = j->records_cap;
	struct ck_json_record *records;
	int rc = 2 * j->nrecords >= j->nslots ? slots_grow(j) : 0;

	if (rc)
		return rc;
	records = ck_grow(j->records, &j->records_cap, j->nrecords, 1,
			  sizeof(*records));
	if (!records)
		return ck_json_no_memory(j);
	j->tables += (j->records_cap - cap) * sizeof(*records);
	j->records = records;
	j->slots[slot_of(j, v, at)] = (uint32_t)j->nrecords + 1;
	records[j->nrecords++] = (struct ck_json_record){
		.at = at,
		.begin = j->out->len,
		.node = j->nframes,
		.tag = v->tag,
		.aux = v->aux,
		.open = true,
	};
	*number = (uint32_t)j->nrecords;
	return 0;
}

int ck_json_record_close(struct ck_json *j, uint32_t number)
{
	struct ck_json_record *r = &j->records[number - 1];

	r->open = false;
	r->len = j->out->len - r->begin;
	r->height = (uint8_t)(j->reach - j->level);
	return r->len > CK_JSON_REPEATED ? value_place(j, &r->node) : 0;
}

int ck_json_again(struct ck_json *j, const struct ck_json_record *r)
{
	uint32_t node = r->node;
	int rc;

	if (r->open || r->len > CK_JSON_REPEATED) {
		rc = r->open ? frame_place(j, r->node, &node) : 0;
		return rc ? rc : reference_print(j, node);
	}
	rc = ck_json_levels(j, r->height);
	if (rc)
		return rc;
	rc = ck_json_limit(j, r->len);
	if (rc)
		return rc;
	j->scratch.len = 0;
	ck_buf_add(&j->scratch, j->out->data + r->begin, r->len);
	ck_buf_add(j->out, j->scratch.data, j->scratch.len);
	return j->scratch.err ? ck_json_no_memory(j) : 0;
}
