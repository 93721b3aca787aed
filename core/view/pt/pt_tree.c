/* SPDX-License-Identifier: MIT */
/*
 * pt_tree: the entries of torch/checkpoint.pt as a tree. Paths of the checkpoint are the
 * keys of nested dicts, and positions of lists. Entries are sorted so that those of one
 * dict or list are adjacent: a dict in the order in which its keys first occur, a list by
 * position. Then the file needs no other tree than this order. Each list ends with an entry
 * for its last position, which is a null if the entry there is left out. If the paths are not
 * those of a tree, the entries keep their order and get their whole keys.
 */
#include "pt.h"

#include <errno.h>

enum {
	NO_NODE = UINT32_MAX,
	NULLS_MOST = 1 << 20, /* unused positions in all lists together */
};

/* --- entries ------------------------------------------------------------------------- */

static int entry_add(struct ck_pt_tree *t, struct ck_pt_entry e)
{
	struct ck_pt_entry *all = ck_grow(t->entries, &t->entries_cap, t->n, 1,
					  sizeof(*all));

	if (!all)
		return -ENOMEM;
	t->entries = all;
	all[t->n++] = e;
	return 0;
}

static int choose(struct ck_pt_tree *t)
{
	const struct ck_listing *l = t->c->listing;
	int rc = 0;

	for (size_t i = 0; i < l->n && rc == 0; i++) {
		const char *why;

		if (!ck_pt_is_meant(t->c, t->root, l->entries[i]))
			continue;
		why = ck_pt_refused(t->c, l->entries[i]);
		rc = why ? ck_left_outs_add(
				   &t->left_out,
				   ck_catalog_names(t->c, l->entries[i]).name,
				   why)
			 : entry_add(t, (struct ck_pt_entry){
						.id = l->entries[i] });
	}
	return rc;
}

/* --- nodes -------------------------------------------------------------------------- */

/* A dict, a list or an entry while entries are sorted. */
struct node {
	uint32_t parent, first, last, next; /* NO_NODE: no node */
	uint32_t by;			    /* an entry whose path has it */
	uint32_t entry; /* the entry that it is; NO_NODE: a dict or list */
	uint16_t level; /* of its key in the path; the top has none */
	/* Of a list, the entry whose path has its last position, also of those that are
	 * left out. */
	struct ck_entry_id end;
	bool is_list;
	bool is_mixed; /* positions are not ascending */
};

struct building {
	struct ck_pt_tree *t;
	struct node *nodes; /* the first one is the top */
	uint32_t n;
	size_t cap;
	uint32_t *slots; /* number of a node; 0: free */
	size_t nslots;
	uint64_t seed;
	uint64_t nulls;
	bool is_tree;
};

static struct ck_path_part part_of(const struct building *b,
				   const struct node *node)
{
	return ck_pt_part(b->t, &b->t->entries[node->by], node->level);
}

/* Finds the slot of a child: its node, or a free one. */
static CK_WRAPS uint32_t *slot_of(const struct building *b, uint32_t parent,
				  const struct ck_path_part *part)
{
	uint64_t seed = b->seed + parent * UINT64_C(0x9e3779b97f4a7c15);
	size_t mask = b->nslots - 1;
	size_t i = ck_hash64_seeded(ck_part_text(part), seed) & mask;

	for (; b->slots[i]; i = (i + 1) & mask) {
		const struct node *node = &b->nodes[b->slots[i]];
		struct ck_path_part other;

		if (node->parent != parent)
			continue;
		other = part_of(b, node);
		if (ck_pt_is_same(&other, part))
			break;
	}
	return &b->slots[i];
}

static int slots_grow(struct building *b)
{
	size_t n = b->nslots ? 2 * b->nslots : 1024;
	uint32_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	free(b->slots);
	b->slots = slots;
	b->nslots = n;
	for (uint32_t i = 1; i < b->n; i++) {
		struct ck_path_part part = part_of(b, &b->nodes[i]);

		*slot_of(b, b->nodes[i].parent, &part) = i;
	}
	return 0;
}

static int node_add(struct building *b, struct node node)
{
	struct node *nodes = ck_grow(b->nodes, &b->cap, b->n, 1,
				     sizeof(*nodes));

	if (!nodes || b->n == NO_NODE)
		return -ENOMEM;
	node.first = node.last = node.next = node.entry = NO_NODE;
	b->nodes = nodes;
	nodes[b->n++] = node;
	return 0;
}

/* Appends node `child` to its parent, and notes whether the paths are a tree. */
static void child_link(struct building *b, uint32_t child)
{
	struct node *node = &b->nodes[child];
	struct node *parent = &b->nodes[node->parent];
	struct ck_path_part part = part_of(b, node), before;
	bool in_list = part.type == CK_PATH_INDEX;
	uint32_t i, last;

	b->is_tree &= parent->entry == NO_NODE &&
		      (parent->first == NO_NODE || parent->is_list == in_list);
	if (in_list && !ck_pt_index(&part, &i))
		b->is_tree = false;
	if (in_list && parent->is_list && b->is_tree) {
		before = part_of(b, &b->nodes[parent->last]);
		parent->is_mixed |= ck_pt_index(&before, &last) && last > i;
	}
	parent->is_list = in_list;
	if (parent->first == NO_NODE)
		parent->first = child;
	else
		b->nodes[parent->last].next = child;
	parent->last = child;
}

/* Finds or adds the child for a part of the path of entry `by`. */
static int child_get(struct building *b, uint32_t by, uint16_t level,
		     uint32_t *node)
{
	struct ck_path_part part = ck_pt_part(b->t, &b->t->entries[by], level);
	uint32_t *slot, parent = *node;
	int rc = 2 * (size_t)b->n >= b->nslots ? slots_grow(b) : 0;

	if (rc)
		return rc;
	slot = slot_of(b, parent, &part);
	if (*slot) {
		*node = *slot;
		return 0;
	}
	*node = b->n;
	rc = node_add(
		b, (struct node){ .parent = parent, .by = by, .level = level });
	if (rc)
		return rc;
	*slot = *node;
	child_link(b, *node);
	return 0;
}

/* Adds the nodes of an entry. */
static int path_add(struct building *b, uint32_t entry)
{
	uint32_t levels = ck_pt_levels(b->t, &b->t->entries[entry]), node = 0;
	int rc = 0;

	b->is_tree &= levels < UINT16_MAX;
	for (uint32_t i = 0; i < levels && rc == 0 && b->is_tree; i++) {
		b->is_tree &= b->nodes[node].entry == NO_NODE;
		rc = child_get(b, entry, (uint16_t)i, &node);
	}
	if (rc || !b->is_tree)
		return rc;
	b->is_tree &= b->nodes[node].first == NO_NODE &&
		      b->nodes[node].entry == NO_NODE;
	b->nodes[node].entry = entry;
	return 0;
}

/* --- lengths of lists ---------------------------------------------------------------- */

/* The last position of a list. */
static uint32_t end_of(const struct building *b, const struct node *list)
{
	const struct ck_pt_entry e = { .id = list->end };
	struct ck_path_part part =
		ck_pt_part(b->t, &e, list == b->nodes ? 0 : list->level + 1U);
	uint32_t last = 0;

	(void)ck_pt_index(&part, &last);
	return last;
}

/* Makes a list long enough for the entry at the end of it. */
static void list_extend(const struct building *b, struct node *list,
			struct ck_entry_id id)
{
	struct ck_entry_id before = list->end;
	uint32_t last = end_of(b, list);

	list->end = id;
	if (end_of(b, list) <= last)
		list->end = before;
}

/* Extends the lists in the path of an entry that is left out. */
static void left_extend(struct building *b, struct ck_entry_id id)
{
	const struct ck_pt_entry e = { .id = id };
	uint32_t levels = ck_pt_levels(b->t, &e), node = 0;

	for (uint32_t i = 0; i < levels; i++) {
		struct ck_path_part part = ck_pt_part(b->t, &e, i);
		uint32_t *slot, position;

		if (b->nodes[node].is_list && part.type == CK_PATH_INDEX &&
		    ck_pt_index(&part, &position))
			list_extend(b, &b->nodes[node], id);
		slot = slot_of(b, node, &part);
		if (!*slot)
			return;
		node = *slot;
	}
}

/* Finds the ends of all lists. */
static void ends_find(struct building *b)
{
	const struct ck_listing *l = b->t->c->listing;

	for (uint32_t i = 0; i < b->n; i++)
		if (b->nodes[i].is_list)
			b->nodes[i].end =
				b->t->entries[b->nodes[b->nodes[i].last].by].id;
	for (size_t i = 0; i < l->n; i++)
		if (ck_pt_is_meant(b->t->c, b->t->root, l->entries[i]) &&
		    ck_pt_refused(b->t->c, l->entries[i]))
			left_extend(b, l->entries[i]);
}

/* --- order -------------------------------------------------------------------------- */

struct position {
	uint32_t index, node;
};

static int position_cmp(const void *a, const void *b)
{
	const struct position *x = a, *y = b;

	return (x->index > y->index) - (x->index < y->index);
}

/* Sorts the children of a list. */
static int list_sort(struct building *b, struct node *list)
{
	struct position *all = NULL;
	size_t n = 0, cap = 0;

	for (uint32_t i = list->first; i != NO_NODE; i = b->nodes[i].next) {
		struct ck_path_part part = part_of(b, &b->nodes[i]);
		struct position *more = ck_grow(all, &cap, n, 1, sizeof(*all));

		if (!more) {
			free(all);
			return -ENOMEM;
		}
		all = more;
		all[n].node = i;
		(void)ck_pt_index(&part, &all[n++].index);
	}
	if (n == 0)
		return 0;
	qsort(all, n, sizeof(*all), position_cmp);
	list->first = all[0].node;
	list->last = all[n - 1].node;
	for (size_t i = 0; i < n; i++)
		b->nodes[all[i].node].next = i + 1 < n ? all[i + 1].node
						       : NO_NODE;
	free(all);
	return 0;
}

/* Sorts all lists, and counts the positions that have no entry. */
static int lists_sort(struct building *b)
{
	int rc = 0;

	for (uint32_t i = 0; i < b->n && rc == 0 && b->is_tree; i++) {
		if (b->nodes[i].is_list && b->nodes[i].is_mixed)
			rc = list_sort(b, &b->nodes[i]);
	}
	if (rc || !b->is_tree)
		return rc;
	ends_find(b);
	for (uint32_t i = 0; i < b->n; i++)
		if (b->nodes[i].is_list)
			b->nulls += end_of(b, &b->nodes[i]);
	b->is_tree = b->nulls <= NULLS_MOST + (uint64_t)b->n;
	return 0;
}

/* Appends the null at the end of a list. It is dropped if an entry has that position. */
static int end_add(const struct node *list, bool is_top, struct ck_pt_tree *to)
{
	uint16_t levels = is_top ? 1 : (uint16_t)(list->level + 2);

	if (!list->is_list)
		return 0;
	return entry_add(to, (struct ck_pt_entry){ .id = list->end,
						   .empty = levels,
						   .is_null = true });
}

/* Sets *node to the next one in the order of the file, or to NO_NODE. Ends the lists before
 * it. */
static int node_next(const struct building *b, uint32_t *node,
		     struct ck_pt_tree *to)
{
	const struct node *all = b->nodes;
	uint32_t i = *node;
	int rc = 0;

	*node = all[i].first;
	if (*node != NO_NODE)
		return 0;
	while (i && all[i].next == NO_NODE && rc == 0) {
		i = all[i].parent;
		rc = end_add(&all[i], i == 0, to);
	}
	*node = i ? all[i].next : NO_NODE;
	return rc;
}

/* --- optimizers --------------------------------------------------------------------- */

/* True for the top, and below the name of an optimizer or in a list of that name. */
static bool is_optimizer(const struct building *b, uint32_t node)
{
	struct ck_path_part part;

	if (node == 0)
		return true;
	part = part_of(b, &b->nodes[node]);
	if (part.type == CK_PATH_INDEX && b->nodes[node].parent) {
		node = b->nodes[node].parent;
		part = part_of(b, &b->nodes[node]);
	}
	return ck_view_is_optimizer(ck_part_text(&part));
}

static uint32_t child_named(const struct building *b, uint32_t node,
			    const char *name)
{
	struct ck_path_part part = { .p = name, .len = (uint32_t)strlen(name) };
	uint32_t *slot = slot_of(b, node, &part);

	return *slot ? *slot : NO_NODE;
}

/* Notes an optimizer, whose first entry will be the next one of `to`, and adds its `state`
 * if it has none. */
static int optimizer_add(const struct building *b, uint32_t node,
			 struct ck_pt_tree *to)
{
	uint32_t groups = child_named(b, node, "param_groups");
	uint32_t levels = node ? b->nodes[node].level + 1U : 0;
	struct ck_pt_optimizer *all;

	if (groups == NO_NODE || !is_optimizer(b, node))
		return 0;
	all = ck_grow(to->optimizers, &to->optimizers_cap, to->noptimizers, 1,
		      sizeof(*all));
	if (!all)
		return -ENOMEM;
	to->optimizers = all;
	all[to->noptimizers++] = (struct ck_pt_optimizer){ to->n, levels };
	if (child_named(b, node, "state") != NO_NODE)
		return 0;
	return entry_add(to,
			 (struct ck_pt_entry){
				 .id = b->t->entries[b->nodes[groups].by].id,
				 .empty = (uint16_t)(levels + 1) });
}

/* Appends the entries to `to` in the order of the file. DCP drops an empty `state`, and
 * makes texts of its keys, so its optimizers are noted. */
static int order(const struct building *b, struct ck_pt_tree *to)
{
	bool is_dcp = strcmp(to->c->kind, "dcp") == 0;
	uint32_t i = 0;
	int rc = 0;

	while (i != NO_NODE && rc == 0) {
		const struct node *node = &b->nodes[i];

		if (node->first != NO_NODE && !node->is_list && is_dcp)
			rc = optimizer_add(b, i, to);
		if (rc == 0 && node->entry != NO_NODE)
			rc = entry_add(to, b->t->entries[node->entry]);
		if (rc == 0)
			rc = node_next(b, &i, to);
	}
	return rc;
}

/* --- the tree ----------------------------------------------------------------------- */

static int nodes_make(struct building *b)
{
	int rc = node_add(b, (struct node){ .parent = NO_NODE });

	for (uint32_t i = 0; i < b->t->n && rc == 0 && b->is_tree; i++)
		rc = path_add(b, i);
	return rc ? rc : lists_sort(b);
}

/* Sorts the entries, or makes the tree flat. */
static int sort(struct ck_pt_tree *t)
{
	struct building b = { .t = t, .seed = ck_hash_seed(), .is_tree = true };
	struct ck_pt_entry *before = t->entries;
	int rc = nodes_make(&b);

	t->flat = !b.is_tree;
	if (rc == 0 && b.is_tree) {
		struct ck_pt_tree to = *t;

		to.entries = NULL;
		to.entries_cap = to.n = 0;
		rc = order(&b, &to);
		*t = to;
		free(before);
	}
	free(b.nodes);
	free(b.slots);
	return rc;
}

int ck_pt_tree_make(struct ck_pt_tree *t, const struct ck_catalog *c,
		    const struct ck_view_options *o)
{
	int rc;

	*t = (struct ck_pt_tree){
		.c = ck_catalog_hold(c),
		.root = strdup(o->root ? o->root : ""),
	};
	rc = t->root ? choose(t) : -ENOMEM;
	return rc || t->n == 0 ? rc : sort(t);
}

void ck_pt_tree_fini(struct ck_pt_tree *t)
{
	free(t->root);
	free(t->entries);
	free(t->optimizers);
	free(t->left_out.all);
	ck_catalog_put(t->c);
	*t = (struct ck_pt_tree){ 0 };
}
