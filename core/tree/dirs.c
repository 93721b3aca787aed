/* SPDX-License-Identifier: MIT */
/* dirs: see dirs.h. */
#include "dirs.h"

#include <errno.h>

enum {
	UNUSED_MAX = 4096, /* that are remembered */
	SLOTS_MIN = 64,
};

struct ck_dir_node {
	struct ck_dir_row row; /* constant */
	/* Under ck_dirs.lock: */
	bool old;	   /* another one is in its place */
	bool unused;	   /* in the list of those that are not in use */
	uint64_t uses;	   /* of its own node, and of those in it */
	uint32_t children; /* directories whose parent it is */
	struct ck_dir_node *older, *newer;	  /* of the unused */
	struct ck_dir_node *by_number, *by_place; /* next of the chain */
};

/* --- tables ------------------------------------------------------------------ */

static CK_WRAPS size_t hash_of(uint64_t key)
{
	return (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 24);
}

static uint64_t place_of(uint32_t parent, uint32_t entry)
{
	return (uint64_t)parent << 32 | entry;
}

static struct ck_dir_node **number_slot(const struct ck_dirs *d,
					uint32_t number)
{
	return &d->by_number.slots[hash_of(number) & d->by_number.mask];
}

static struct ck_dir_node **place_slot(const struct ck_dirs *d, uint32_t parent,
				       uint32_t entry)
{
	return &d->by_place.slots[hash_of(place_of(parent, entry)) &
				  d->by_place.mask];
}

static struct ck_dir_node *find(const struct ck_dirs *d, uint32_t number)
{
	struct ck_dir_node *node = *number_slot(d, number);

	while (node && node->row.number != number)
		node = node->by_number;
	return node;
}

/* The one that is there now. */
static struct ck_dir_node *find_at(const struct ck_dirs *d, uint32_t parent,
				   uint32_t entry)
{
	struct ck_dir_node *node = *place_slot(d, parent, entry);

	while (node && (node->row.parent != parent || node->row.entry != entry))
		node = node->by_place;
	return node;
}

static void number_add(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node **slot = number_slot(d, node->row.number);

	node->by_number = *slot;
	*slot = node;
}

static void number_drop(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node **slot = number_slot(d, node->row.number);

	while (*slot != node)
		slot = &(*slot)->by_number;
	*slot = node->by_number;
}

static void place_add(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node **slot = place_slot(d, node->row.parent,
					       node->row.entry);

	node->by_place = *slot;
	*slot = node;
}

static void place_drop(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node **slot = place_slot(d, node->row.parent,
					       node->row.entry);

	while (*slot != node)
		slot = &(*slot)->by_place;
	*slot = node->by_place;
}

static int table_make(struct ck_dir_table *t, size_t slots)
{
	t->slots = calloc(slots, sizeof(struct ck_dir_node *));
	t->mask = slots - 1;
	return t->slots ? 0 : -ENOMEM;
}

/* As many slots as there are directories, at least. -ENOMEM: as they were. */
static int tables_grow(struct ck_dirs *d)
{
	struct ck_dirs old = *d;
	size_t slots = 2 * (old.by_number.mask + 1);

	if (d->n <= old.by_number.mask)
		return 0;
	if (table_make(&d->by_number, slots) ||
	    table_make(&d->by_place, slots)) {
		free(d->by_number.slots);
		d->by_number = old.by_number;
		d->by_place = old.by_place;
		return -ENOMEM;
	}
	for (size_t i = 0; i <= old.by_number.mask; i++)
		for (struct ck_dir_node *node = old.by_number.slots[i], *next;
		     node; node = next) {
			next = node->by_number;
			number_add(d, node);
			if (!node->old)
				place_add(d, node);
		}
	free(old.by_number.slots);
	free(old.by_place.slots);
	return 0;
}

/* --- in use or not ------------------------------------------------------------ */

static void unused_add(struct ck_dirs *d, struct ck_dir_node *node)
{
	node->unused = true;
	node->newer = NULL;
	node->older = d->newest;
	*(d->newest ? &d->newest->newer : &d->oldest) = node;
	d->newest = node;
	d->nunused++;
}

static void unused_drop(struct ck_dirs *d, struct ck_dir_node *node)
{
	if (!node->unused)
		return;
	node->unused = false;
	*(node->older ? &node->older->newer : &d->oldest) = node->newer;
	*(node->newer ? &node->newer->older : &d->newest) = node->older;
	d->nunused--;
}

static bool is_in_use(const struct ck_dir_node *node)
{
	return node->uses || node->children || node->row.number == 0;
}

/* Is gone; its parent, which may not be in use any more. */
static struct ck_dir_node *drop(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node *parent = find(d, node->row.parent);

	unused_drop(d, node);
	number_drop(d, node);
	if (!node->old)
		place_drop(d, node);
	free(node);
	d->n--;
	parent->children--;
	return parent;
}

/* After it lost a use. */
static void settle(struct ck_dirs *d, struct ck_dir_node *node)
{
	while (node && !node->unused && !is_in_use(node)) {
		if (node->old) {
			node = drop(d, node);
			continue;
		}
		unused_add(d, node);
		node = d->nunused > UNUSED_MAX ? drop(d, d->oldest) : NULL;
	}
}

static void use(struct ck_dirs *d, struct ck_dir_node *node, uint64_t uses)
{
	node->uses += uses;
	if (is_in_use(node))
		unused_drop(d, node);
	else
		settle(d, node);
}

/* --- making -------------------------------------------------------------------- */

static int make(struct ck_dirs *d, const struct ck_dir_row *row,
		struct ck_dir_node **out)
{
	struct ck_dir_node *parent = find(d, row->parent), *node;

	if (!parent)
		return -ESTALE;
	if (d->next == CK_DIRS_MAX || row->entry >= CK_ENTRIES_MAX)
		return -ENFILE;
	if (tables_grow(d))
		return -ENOMEM;
	node = malloc(sizeof(*node));
	if (!node)
		return -ENOMEM;
	*node = (struct ck_dir_node){ .row = *row };
	node->row.number = d->next++;
	number_add(d, node);
	place_add(d, node);
	d->n++;
	parent->children++;
	unused_drop(d, parent);
	*out = node;
	return 0;
}

int ck_dirs_get(struct ck_dirs *d, uint32_t parent, uint32_t entry,
		const struct ck_dir *dir, uint64_t base, uint64_t uses,
		struct ck_dir_row *out)
{
	const struct ck_dir_row row = {
		.dir = *dir,
		.parent = parent,
		.entry = entry,
		.base = base,
	};
	struct ck_dir_node *node;
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	node = find_at(d, parent, entry);
	if (!node)
		rc = make(d, &row, &node);
	if (rc == 0) {
		*out = node->row;
		use(d, node, uses);
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}

static bool has_room(const struct ck_dir_node *node, uint64_t version)
{
	return version <= node->row.base ||
	       version - node->row.base < CK_VERSIONS_MAX;
}

/* Another one is in its place from now on. */
static int replace(struct ck_dirs *d, struct ck_dir_node *node, uint64_t base,
		   struct ck_dir_node **out)
{
	struct ck_dir_row row = node->row;
	int rc;

	if (row.number == 0)
		return -ENFILE; /* the root's number is fixed */
	row.base = base;
	rc = make(d, &row, out);
	if (rc)
		return rc;
	place_drop(d, node);
	node->old = true;
	unused_drop(d, node);
	settle(d, node);
	return 0;
}

static int renew(struct ck_dirs *d, uint32_t number, uint64_t version,
		 uint64_t base, struct ck_dir_node **out)
{
	struct ck_dir_node *node = find(d, number), *now;
	struct ck_dir_row row;

	if (!node)
		return -ESTALE;
	row = node->row;
	row.base = base;
	now = node->old ? find_at(d, row.parent, row.entry) : node;
	if (!now)
		return make(d, &row, out);
	*out = now;
	return has_room(now, version) ? 0 : replace(d, now, base, out);
}

int ck_dirs_renew(struct ck_dirs *d, uint32_t number, uint64_t version,
		  uint64_t base, uint64_t uses, struct ck_dir_row *out)
{
	struct ck_dir_node *node;
	int rc;

	pthread_mutex_lock(&d->lock);
	rc = renew(d, number, version, base, &node);
	if (rc == 0) {
		*out = node->row;
		use(d, node, uses);
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}

/* --- the rest -------------------------------------------------------------------- */

bool ck_dirs_find(struct ck_dirs *d, uint32_t number, struct ck_dir_row *out)
{
	const struct ck_dir_node *node;

	pthread_mutex_lock(&d->lock);
	node = find(d, number);
	if (node)
		*out = node->row;
	pthread_mutex_unlock(&d->lock);
	return node;
}

void ck_dirs_forget(struct ck_dirs *d, uint32_t number, uint64_t n)
{
	struct ck_dir_node *node;

	pthread_mutex_lock(&d->lock);
	node = find(d, number);
	if (node) {
		node->uses -= ck_min(node->uses, n);
		settle(d, node);
	}
	pthread_mutex_unlock(&d->lock);
}

int ck_dirs_init(struct ck_dirs *d, const struct ck_dir *root, uint64_t base)
{
	struct ck_dir_node *node = calloc(1, sizeof(*node));

	*d = (struct ck_dirs){ .next = 1, .n = 1 };
	if (!node || table_make(&d->by_number, SLOTS_MIN) ||
	    table_make(&d->by_place, SLOTS_MIN)) {
		free(d->by_number.slots);
		free(node);
		return -ENOMEM;
	}
	pthread_mutex_init(&d->lock, NULL);
	node->row = (struct ck_dir_row){
		.dir = *root,
		.entry = CK_ENTRIES_MAX, /* no other is there */
		.base = base,
	};
	number_add(d, node);
	place_add(d, node);
	return 0;
}

void ck_dirs_fini(struct ck_dirs *d)
{
	for (size_t i = 0; d->by_number.slots && i <= d->by_number.mask; i++)
		for (struct ck_dir_node *node = d->by_number.slots[i], *next;
		     node; node = next) {
			next = node->by_number;
			free(node);
		}
	free(d->by_number.slots);
	free(d->by_place.slots);
	pthread_mutex_destroy(&d->lock);
}
