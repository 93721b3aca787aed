/* SPDX-License-Identifier: MIT */
/*
 * state_dict: prints the nested state dict that was saved, with the shown name
 * in place of each entry. The paths of all entries form a tree: nodes in one
 * array, children linked in the order of the checkpoint and found through a
 * hash table. A node whose children are positions is an array; positions
 * without an entry, which were empty mappings, are null.
 *
 * Paths come from a file and are untrusted. If they cannot belong to one state
 * dict (an entry inside another, positions beside names, an array of only
 * nulls), or are too deep for JSON, all paths are ignored. The tree is local to
 * one call; any thread.
 */
#include "ckptfs/json.h"
#include "ckptfs/report.h"

#include <errno.h>

enum { PARTS_MAX = 64 };

/* Limit of positions without an entry: a base, and more for each entry. */
static const uint64_t nulls_base = 1 << 20;

enum { NULLS_PER_ENTRY = 16 };

enum kind { KIND_OBJECT, KIND_DICT, KIND_ARRAY };

struct node {
	struct ck_path_part part; /* its key in the parent */
	uint32_t parent;
	uint32_t first, last, next; /* child, child, sibling; or 0 */
	uint32_t entry;		    /* number + 1, or 0 */
	uint32_t kids, positions;   /* children, those that are positions */
	uint64_t nulls;		    /* number of nulls before it, in an array */
	enum kind kind;
};

struct tree {
	const struct ck_catalog *c;
	struct node *nodes; /* the first is the root */
	size_t n, cap;
	uint32_t *slots; /* hash table of nodes: number, 0 empty */
	size_t mask;
	uint64_t seed;
	uint64_t nulls; /* number that may still be printed */
	struct ck_buf *out;
};

/* --- building ----------------------------------------------------------------- */

/* True for a position. Keys of JSON are texts for any type of the original
 * key. */
static bool is_index(const struct ck_path_part *part)
{
	return part->type == CK_PATH_INDEX;
}

static uint32_t *slot_of(const struct tree *t, uint32_t parent,
			 struct ck_path_part part)
{
	struct ck_str s = ck_part_text(&part);
	uint64_t hash = ck_hash64_seeded(s, t->seed + parent);

	for (size_t i = hash & t->mask;; i = (i + 1) & t->mask) {
		const struct node *n = &t->nodes[t->slots[i]];

		if (t->slots[i] == 0 ||
		    (n->parent == parent &&
		     is_index(&n->part) == is_index(&part) &&
		     ck_str_eq(ck_part_text(&n->part), s)))
			return &t->slots[i];
	}
}

/* Finds or creates the child with a key. Returns 0 when out of memory. */
static uint32_t child_of(struct tree *t, uint32_t parent,
			 struct ck_path_part part)
{
	uint32_t *slot = slot_of(t, parent, part), number;
	struct node *nodes;

	if (*slot)
		return *slot;
	nodes = ck_grow(t->nodes, &t->cap, t->n, 1, sizeof(*nodes));
	if (!nodes)
		return 0;
	t->nodes = nodes;
	number = (uint32_t)t->n++;
	nodes[number] = (struct node){ .part = part, .parent = parent };
	if (nodes[parent].last)
		nodes[nodes[parent].last].next = number;
	else
		nodes[parent].first = number;
	nodes[parent].last = number;
	nodes[parent].kids++;
	nodes[parent].positions += is_index(&part);
	*slot = number;
	return number;
}

/* Adds the path of an entry. Returns 0, -ENOMEM, or -EINVAL if paths contradict
 * each other. */
static int entry_add(struct tree *t, uint32_t entry,
		     const struct ck_path_part *parts, uint32_t n)
{
	uint32_t node = 0;

	if (n > PARTS_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		if (t->nodes[node].entry)
			return -EINVAL;
		node = child_of(t, node, parts[i]);
		if (node == 0)
			return -ENOMEM;
	}
	if (t->nodes[node].entry || t->nodes[node].first)
		return -EINVAL;
	t->nodes[node].entry = entry + 1;
	return 0;
}

static int tree_init(struct tree *t, size_t parts)
{
	size_t slots = 16;

	while (slots < 2 * parts)
		slots *= 2;
	t->mask = slots - 1;
	t->slots = calloc(slots, sizeof(*t->slots));
	t->nodes = ck_grow(NULL, &t->cap, 0, 1, sizeof(*t->nodes));
	if (!t->slots || !t->nodes)
		return -ENOMEM;
	t->nodes[0] = (struct node){ 0 };
	t->n = 1;
	t->seed = ck_hash_seed();
	t->nulls = nulls_base + NULLS_PER_ENTRY * (uint64_t)t->c->listing->n;
	return 0;
}

static void tree_fini(struct tree *t)
{
	free(t->slots);
	free(t->nodes);
}

/* Adds all entries; one without a path is at the top, under its key. */
static int entries_add(struct tree *t, bool nested)
{
	const struct ck_catalog *c = t->c;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < c->listing->n; i++) {
		const struct ck_entry *e =
			ck_catalog_entry(c, c->listing->entries[i]);
		struct ck_path_part whole = { .p = e->key.p,
					      .len = (uint32_t)e->key.len };

		rc = nested && e->nparts && e->path
			     ? entry_add(t, i, e->path, e->nparts)
			     : entry_add(t, i, &whole, 1);
	}
	return rc;
}

/* --- arrays --------------------------------------------------------------------- */

struct position {
	uint64_t index;
	uint32_t node;
};

static int position_cmp(const void *a, const void *b)
{
	const struct position *x = a, *y = b;

	return (x->index > y->index) - (x->index < y->index);
}

static uint64_t index_of(const struct tree *t, uint32_t node)
{
	struct ck_str s = ck_part_text(&t->nodes[node].part);
	uint64_t index = 0;

	for (size_t i = 0; i < s.len; i++)
		index = index * 10 + (uint64_t)(s.p[i] - '0');
	return index;
}

/* Links the children of a node by position. */
static int array_sort(struct tree *t, struct node *array)
{
	ck_auto_free struct position *p = calloc(array->kids, sizeof(*p));
	uint32_t n = 0;
	uint64_t expected = 0;

	if (!p)
		return -ENOMEM;
	for (uint32_t i = array->first; i; i = t->nodes[i].next)
		p[n++] = (struct position){ index_of(t, i), i };
	qsort(p, n, sizeof(*p), position_cmp);
	for (uint32_t i = 0; i < n; i++) {
		struct node *kid = &t->nodes[p[i].node];

		kid->nulls = p[i].index - expected;
		if (kid->nulls > t->nulls)
			return -EINVAL;
		t->nulls -= kid->nulls;
		expected = p[i].index + 1;
		kid->next = i + 1 < n ? p[i + 1].node : 0;
	}
	array->first = p[0].node;
	return 0;
}

static bool name_is_plain(struct ck_str s)
{
	return (s.len == 0 || s.p[0] != '$') && ck_utf8_valid(s);
}

static int kinds_find(struct tree *t)
{
	int rc = 0;

	for (size_t i = 1; i < t->n; i++)
		if (!name_is_plain(ck_part_text(&t->nodes[i].part)))
			t->nodes[t->nodes[i].parent].kind = KIND_DICT;
	for (size_t i = 0; rc == 0 && i < t->n; i++) {
		struct node *node = &t->nodes[i];

		if (node->positions == 0)
			continue;
		node->kind = KIND_ARRAY;
		rc = node->positions == node->kids ? array_sort(t, node)
						   : -EINVAL;
	}
	return rc;
}

/* --- printing ------------------------------------------------------------------- */

/* Prints comma, nulls and key before a child. */
static void child_begin(const struct tree *t, uint32_t child)
{
	const struct node *n = &t->nodes[child], *in = &t->nodes[n->parent];

	if (in->first != child)
		ck_buf_text(t->out, ",");
	if (in->kind == KIND_ARRAY) {
		for (uint64_t i = 0; i < n->nulls; i++)
			ck_buf_text(t->out, "null,");
		return;
	}
	if (in->kind == KIND_DICT)
		ck_buf_text(t->out, "[");
	ck_buf_json_str(t->out, ck_part_text(&n->part));
	ck_buf_text(t->out, in->kind == KIND_DICT ? "," : ":");
}

static void child_end(const struct tree *t, uint32_t child)
{
	if (t->nodes[t->nodes[child].parent].kind == KIND_DICT)
		ck_buf_text(t->out, "]");
}

static void node_begin(const struct tree *t, const struct node *n)
{
	static const char *const open[] = { "{", "{\"$dict\":[", "[" };
	const struct ck_catalog *c = t->c;

	if (!n->entry) {
		ck_buf_text(t->out, open[n->kind]);
		return;
	}
	ck_buf_json_str(t->out, ck_entry_names(c, n->entry - 1).name);
}

static void node_end(const struct tree *t, const struct node *n)
{
	static const char *const close[] = { "}", "]}", "]" };

	if (!n->entry)
		ck_buf_text(t->out, close[n->kind]);
}

/* Prints the tree in order, without recursion: down to the first child, to the
 * next sibling, or up. */
static void tree_print(const struct tree *t)
{
	uint32_t i = 0;
	bool down = true;

	for (;;) {
		const struct node *n = &t->nodes[i];

		if (down) {
			if (i)
				child_begin(t, i);
			node_begin(t, n);
			if (n->first) {
				i = n->first;
				continue;
			}
		}
		node_end(t, n);
		if (i == 0)
			break;
		child_end(t, i);
		down = n->next != 0;
		i = n->next ? n->next : n->parent;
	}
	ck_buf_text(t->out, "\n");
}

/* The number of parts of all paths. */
static size_t parts_count(const struct ck_catalog *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->listing->n; i++)
		n += ck_catalog_entry(c, c->listing->entries[i])->nparts;
	return n;
}

static int try_print(const struct ck_catalog *c, bool nested,
		     struct ck_buf *out)
{
	struct tree t = { .c = c, .out = out };
	int rc = tree_init(&t, parts_count(c) + c->listing->n);

	if (rc == 0)
		rc = entries_add(&t, nested);
	if (rc == 0)
		rc = kinds_find(&t);
	if (rc == 0)
		tree_print(&t);
	tree_fini(&t);
	return rc;
}

void ck_report_state_dict(const struct ck_catalog *c, struct ck_buf *out)
{
	int rc = parts_count(c) ? try_print(c, true, out) : -EINVAL;

	if (rc == -EINVAL)
		rc = try_print(c, false, out);
	if (rc)
		out->err = rc;
}
